//! Conversations and blocks for tests: a function of their numbers, so that any reader can tell what must be there.

use std::sync::atomic::{AtomicU64, Ordering};

use annals_core::block::{Blob, Block, BlockKind, Body, FileMeta, Meta};
use annals_core::ids::{CallId, ConversationId, ConversationKey, NodeId, Scope, Seq, TurnId};
use annals_core::path::{LogicalPath, PhysicalPath, RelPath};
use annals_core::time::Timestamp;

use crate::log::{Append, BatchId, NewConversation, Owner};

/// A time that many seconds after a fixed moment.
pub fn at(seconds: i64) -> Timestamp {
    const EPOCH_MICROS: i64 = 1_770_603_271_112_345;
    Timestamp::from_unix_micros(EPOCH_MICROS + seconds * 1_000_000)
}

/// A conversation of the default scope.
pub fn conversation(name: &str) -> ConversationKey {
    let id = ConversationId::parse(name).expect("test names are ids");
    ConversationKey::new(Scope::default(), id)
}

/// An empty conversation of the default scope.
pub fn new_conversation(name: &str) -> NewConversation {
    NewConversation::new(conversation(name), at(0))
}

/// An owner that never joined.
pub fn owner(name: &str) -> Owner {
    Owner::new(NodeId::parse(name).expect("test names are ids"), 1)
}

/// Blocks after this tail, as a batch of their own.
pub fn after(expected_tail: Option<Seq>, blocks: Vec<Block>) -> Append {
    static BATCHES: AtomicU64 = AtomicU64::new(1);
    let batch = BatchId::new(BATCHES.fetch_add(1, Ordering::Relaxed));
    Append::new(batch, expected_tail, blocks)
}

fn seq(number: u64) -> Seq {
    Seq::try_new(number).expect("test blocks count from 1")
}

/// A plain text block. Its token count is made up: what matters is that it comes back.
pub fn text_block(number: u64, text: &str) -> Block {
    let turn = TurnId::parse(&format!("turn_{}", number / 10 + 1)).expect("a turn");
    let call = CallId::made(number / 3);
    Block {
        seq: seq(number),
        kind: BlockKind::ToolResult,
        author: "tool".into(),
        ts: at(number as i64),
        mime: "text/plain".into(),
        path: Some(LogicalPath::result(&turn, &call)),
        turn,
        body: Body::Text(text.into()),
        meta: Some(Box::new(Meta {
            step: Some(2),
            ..Meta::of_call(&call)
        })),
        tokens: text.len() as u32 / 4,
    }
}

/// Blocks 1 to 9 that use every part of the form: no path, no body, binary, odd characters, unknown types, nested
/// metadata, times that go backwards.
pub fn varied_blocks() -> Vec<Block> {
    let turn = TurnId::parse("turn_1770603271112_abc123").expect("a turn");
    let other_turn = TurnId::parse("turn_other").expect("a turn");
    let rel = RelPath::parse("reports/résumé.md").expect("a path");
    let blob = Blob::of(b"\x89PNG");
    let plain = |number: u64, kind: BlockKind| Block {
        seq: seq(number),
        author: kind.default_author().into(),
        kind,
        turn: turn.clone(),
        ts: at(100 - number as i64),
        mime: "text/plain".into(),
        path: None,
        body: Body::Empty,
        meta: None,
        tokens: 0,
    };
    let file = FileMeta {
        hosted_uri: Some(Blob::of(b"whole").digest.uri()),
        physical_path: Some(PhysicalPath::file(&turn, &rel)),
        content_digest: Some(Blob::of(b"whole").digest),
        size_bytes: Some(5),
        ..FileMeta::default()
    };
    vec![
        plain(1, BlockKind::TurnHeader),
        Block {
            body: Body::Text("".into()),
            ..plain(2, BlockKind::UserPrompt)
        },
        Block {
            body: Body::Text("nul \0 line \u{2028} para \u{2029} bom \u{feff} emoji 🜚 crlf \r\n end".into()),
            tokens: u32::MAX,
            ..plain(3, BlockKind::UserPrompt)
        },
        Block {
            path: Some(LogicalPath::file(&turn, &rel)),
            mime: "image/png".into(),
            tokens: annals_core::limits::IMAGE_MAX_TOKENS,
            body: blob.into(),
            meta: Some(Box::new(Meta {
                file: Some(Box::new(file)),
                ..Meta::EMPTY
            })),
            ..plain(4, BlockKind::ToolResult)
        },
        Block {
            author: "a host's own \u{2028} word".into(),
            ..plain(5, BlockKind::from_tag("x.acme.score"))
        },
        Block {
            path: Some(LogicalPath::file(&other_turn, &rel)),
            ..plain(6, BlockKind::Notice)
        },
        Block {
            meta: Some(Box::new(
                Meta::EMPTY.with("nested", serde_json::json!({"a": [1, "\0", null], "z": 1.5})),
            )),
            ..plain(7, BlockKind::from_tag("a.newer.version"))
        },
        Block {
            body: Body::Text("[\"json\", \"text\"]".into()),
            tokens: 6,
            ..plain(8, BlockKind::Plan)
        },
        Block {
            ts: at(-1_000_000),
            ..plain(9, BlockKind::ReactCompletion)
        },
    ]
}
