//! A conversation of rounds: notes, a call, its digest and the file it wrote, a kilobyte each.

use std::sync::Arc;

use annals_core::block::{
    ArtifactKind, BlobDigest, Block, BlockKind, Body, FileMeta, Meta, NewBlock, SafeDigest, Visibility,
};
use annals_core::ids::{CallId, Seq, TurnId};
use annals_core::path::{LogicalPath, RelPath};
use annals_core::time::Timestamp;
use annals_core::view::View;
use serde_json::json;

pub(crate) const BLOCK_BYTES: usize = 1_024;
const TURN_ROUNDS: u64 = 25;

/// Writes blocks as a turn would, with the token counts that a store would have kept.
pub(crate) struct Writer {
    pub(crate) turn: TurnId,
    rounds: u64,
    seq: u64,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Writer {
            turn: turn(0),
            rounds: 0,
            seq: 0,
        }
    }

    /// A timeline of at least this many blocks.
    pub(crate) fn timeline(&mut self, blocks: usize) -> View {
        let mut timeline = View::default();
        while timeline.blocks().len() < blocks {
            for block in self.round() {
                timeline.push(block).expect("in order");
            }
        }
        timeline
    }

    /// A header and a prompt at the beginning of a turn, then the four blocks of a round.
    pub(crate) fn round(&mut self) -> Vec<Arc<Block>> {
        let mut blocks = Vec::new();
        if self.rounds.is_multiple_of(TURN_ROUNDS) {
            self.turn = turn(self.rounds);
            let (t, header, prompt) = (
                &self.turn,
                LogicalPath::turn_header(&self.turn),
                LogicalPath::user_prompt(&self.turn),
            );
            blocks.push(NewBlock::new(BlockKind::TurnHeader, t, header));
            blocks.push(NewBlock::new(BlockKind::UserPrompt, t, prompt).text("text/markdown", "go on"));
        }
        self.rounds += 1;
        blocks.extend(self.round_blocks());
        blocks.into_iter().map(|block| self.seal(block)).collect()
    }

    fn round_blocks(&self) -> [NewBlock; 4] {
        let (t, call) = (&self.turn, CallId::made(self.rounds));
        let step = Some((self.rounds % TURN_ROUNDS) as u32 + 1);
        let name = RelPath::parse(&format!("report-{}.md", self.rounds)).expect("a safe name");
        let file = LogicalPath::file(t, &name);
        let content = words(BLOCK_BYTES);
        let mut digest = SafeDigest::new(
            file.clone(),
            "text/markdown",
            ArtifactKind::Display,
            Visibility::External,
        );
        digest.tool_call_id = Some(call.clone());
        digest.size_bytes = Some(BLOCK_BYTES as u64);
        let mut carried = Meta::of_call(&call);
        carried.file = Some(Box::new(FileMeta {
            physical_path: digest.physical_path.clone(),
            content_digest: Some(BlobDigest([7; 32])),
            digest: Some(digest.clone()),
            ..FileMeta::default()
        }));
        let status = Meta {
            result_count: Some(2),
            is_digest: true,
            ..Meta::of_call(&call)
        };
        let params = json!({
            "tool_id": "react.write", "tool_call_id": call, "ts": "2026-02-09T02:14:32.676425Z",
            "params": {"path": file, "channel": "canvas", "content": words(BLOCK_BYTES - 260), "kind": "display"},
        });
        let called = Meta {
            call: Some(call.clone()),
            step,
            ..Meta::EMPTY
        };
        [
            NewBlock::new(BlockKind::Notes, t, LogicalPath::notes(t, &call))
                .text("text/markdown", content.clone())
                .meta(Meta { step, ..Meta::EMPTY }),
            NewBlock::new(BlockKind::ToolCall, t, LogicalPath::call(t, &call))
                .json(&params)
                .meta(called),
            NewBlock::new(BlockKind::ToolResult, t, LogicalPath::result(t, &call))
                .json(&digest)
                .meta(status),
            NewBlock::new(BlockKind::ToolResult, t, file)
                .text("text/markdown", content)
                .meta(carried),
        ]
    }

    /// Gives a block its place.
    pub(crate) fn seal(&mut self, block: NewBlock) -> Arc<Block> {
        self.seq += 1;
        let body = block.body.clone();
        let tokens = match &body {
            Body::Text(text) => text.len() as u32 / 4,
            Body::Empty | Body::Blob(_) => 0,
        };
        let seq = Seq::try_new(self.seq).expect("from 1");
        let ts = Timestamp::from_unix_micros(1_770_603_272_676_425 + self.seq as i64 * 1_000);
        let sealed = NewBlock {
            body: Body::Empty,
            ..block
        }
        .seal(seq, ts);
        Arc::new(Block {
            body,
            tokens,
            ..sealed
        })
    }
}

/// Text of this many bytes.
pub(crate) fn words(bytes: usize) -> String {
    let mut text = "words and more of them ".repeat(bytes / 20);
    text.truncate(bytes);
    text
}

fn turn(number: u64) -> TurnId {
    TurnId::made(1_770_603_271_112 + number as i64, [1, 2, 3, 4, 5, 6])
}
