//! A conversation as one file: it comes back exactly, or not at all.

mod tampered;

use std::io::Cursor;
use std::time::Duration;

use annals_core::block::{Blob, Block, BlockKind, Body, CutParam, FileMeta, Meta};
use annals_core::ids::{ConversationKey, Scope, Seq};
use annals_store::testing::{after, at, conversation, new_conversation, owner, text_block, varied_blocks};
use annals_store::{
    ArtifactStore, BlockLog, BlockLogExt, ImportAs, ImportError, Imported, LogError, MemoryLog, Operator,
    export_conversation, import_conversation, named_by,
};
use proptest::prelude::*;

struct Side {
    log: MemoryLog,
    artifacts: ArtifactStore,
    _folder: tempfile::TempDir,
}

fn side() -> Side {
    let folder = tempfile::tempdir().unwrap();
    let artifacts = ArtifactStore::open(folder.path()).unwrap();
    Side {
        log: MemoryLog::default(),
        artifacts,
        _folder: folder,
    }
}

fn large() -> Vec<u8> {
    (0..1_100_000_u32).map(|n| (n / 7) as u8).collect()
}

/// A conversation with text, small and large binary content, and a file that only metadata name.
async fn full() -> (Side, Vec<Block>) {
    let side = side();
    side.artifacts.put(&b"\x89PNG"[..]).await.unwrap();
    side.artifacts.put(&b"whole"[..]).await.unwrap();
    side.artifacts.put(large()).await.unwrap();
    let mut blocks = varied_blocks();
    blocks.push(Block {
        body: Body::from(Blob::of(&large())),
        ..text_block(10, "")
    });
    blocks.push(Block {
        body: Body::from(Blob::of(b"\x89PNG")),
        ..text_block(11, "")
    });
    side.log
        .create(new_conversation("c").title("A title"))
        .await
        .unwrap();
    let lease = side
        .log
        .acquire(&conversation("c"), &owner("a"), Duration::from_secs(9))
        .await
        .unwrap();
    side.log
        .append(&lease, after(None, blocks.clone()))
        .await
        .unwrap();
    (side, blocks)
}

async fn exported(side: &Side) -> Vec<u8> {
    let mut file = Vec::new();
    let done = export_conversation(&side.log, &side.artifacts, &conversation("c"), &mut file)
        .await
        .unwrap();
    assert_eq!(
        (done.blocks, done.artifacts, done.size_bytes),
        (11, 3, file.len() as u64)
    );
    file
}

/// What the tests import to.
fn copy() -> ConversationKey {
    let scope = Scope::parse("new/owner/here").unwrap();
    ConversationKey::new(scope, conversation("copy").id)
}

async fn import(side: &Side, file: &[u8]) -> Result<Imported, ImportError> {
    let import_as = ImportAs {
        id: Some(copy().id),
        scope: copy().scope,
        owner: owner("import"),
    };
    import_conversation(&side.log, &side.artifacts, &mut Cursor::new(file), import_as).await
}

async fn is_untouched(side: &Side) -> bool {
    matches!(side.log.get(&copy()).await, Err(LogError::NotFound { .. }))
}

#[tokio::test]
async fn an_exported_conversation_comes_back_with_its_artifacts() {
    let (source, blocks) = full().await;
    let file = exported(&source).await;
    let target = side();
    let imported = import(&target, &file).await.unwrap();
    assert_eq!((imported.blocks, imported.artifacts), (11, 3));
    assert_eq!(target.log.read_all(&copy()).await.unwrap(), blocks);
    for digest in blocks.iter().flat_map(named_by) {
        assert!(target.artifacts.get(&digest).await.is_ok(), "{digest}");
    }
    let info = target.log.get(&copy()).await.unwrap();
    assert_eq!(
        (info.title.as_deref(), info.key.scope.user(), info.holding),
        (Some("A title"), "here", None)
    );
    let [ancestor] = &info.lineage[..] else {
        panic!("{:?}", info.lineage)
    };
    assert_eq!(
        (ancestor.operator, ancestor.at),
        (Operator::Import, Seq::try_new(11).ok())
    );
    assert!(matches!(
        import(&target, &file).await,
        Err(ImportError::Log(LogError::Exists { .. }))
    ));
}

#[tokio::test]
async fn every_line_is_json_and_says_what_it_is() {
    let (source, _) = full().await;
    let file = String::from_utf8(exported(&source).await).unwrap();
    let shape: Vec<String> = file
        .split_terminator('\n')
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
            match keys[0].as_str() {
                "seq" => format!(
                    "block {}{}",
                    value["seq"],
                    if value["base64"].is_null() {
                        ""
                    } else {
                        " with bytes"
                    }
                ),
                "artifact" => format!("artifact piece at {}", value["offset"]),
                other => other.to_owned(),
            }
        })
        .collect();
    insta::assert_snapshot!(shape.join("\n"), @r"
    annals_export
    block 1
    block 2
    block 3
    artifact piece at 0
    block 4 with bytes
    block 5
    block 6
    block 7
    block 8
    block 9
    artifact piece at 0
    artifact piece at 1048576
    block 10
    block 11
    end
    ");
}

#[tokio::test]
async fn a_damaged_export_adds_nothing() {
    let (source, _) = full().await;
    let file = exported(&source).await;
    for place in (0..file.len()).step_by(file.len() / 12).chain([file.len() - 3]) {
        let mut damaged = file.clone();
        damaged[place] ^= 1;
        let target = side();
        let outcome = import(&target, &damaged).await;
        assert!(outcome.is_err(), "a flipped bit at {place} went unnoticed");
        assert!(is_untouched(&target).await);
    }
}

#[tokio::test]
async fn a_truncated_export_adds_nothing() {
    let (source, _) = full().await;
    let file = exported(&source).await;
    for keep in [0, 10, file.len() / 3, file.len() - 1] {
        let target = side();
        assert!(import(&target, &file[..keep]).await.is_err());
        assert!(is_untouched(&target).await);
    }
    let error = import(&side(), &file[..file.len() - 1]).await.unwrap_err();
    insta::assert_snapshot!(error, @"the export ends after line 15 without its last line: copy it again, it was cut off");
}

#[tokio::test]
async fn other_files_are_told_apart_from_exports() {
    for other in [&b"PK\x03\x04"[..], b"{\"a\":1}\n", b"\n", b""] {
        assert!(matches!(
            import(&side(), other).await,
            Err(ImportError::NotAnExport)
        ));
    }
    let newer = b"{\"annals_export\":7,\"anything\":true}\n";
    assert!(matches!(
        import(&side(), newer).await,
        Err(ImportError::NewerFormat { found: 7, known: 1 })
    ));
}

/// A file written by another hand, with its last line made to fit.
fn sealed(lines: &[&str]) -> Vec<u8> {
    let mut file: Vec<u8> = lines
        .iter()
        .flat_map(|line| [line.as_bytes(), b"\n"].concat())
        .collect();
    let digest = Blob::of(&file).digest;
    let blocks = lines.len() - 1;
    let end = format!("{{\"end\":{{\"blocks\":{blocks},\"artifacts\":0,\"sha256\":\"{digest}\"}}}}\n");
    file.extend(end.into_bytes());
    file
}

const HEADER: &str = r#"{"annals_export":1,"conversation":{"id":"x","scope":"a/b/c","created":"2026-02-09T02:14:32.676425Z"},"blocks":1}"#;

fn block_line(text: &str) -> String {
    format!(
        r#"{{"seq":1,"type":"user.prompt","author":"user","turn_id":"turn_1","ts":"2026-02-09T02:14:32Z","mime":"text/plain","text":"{text}"}}"#
    )
}

#[tokio::test]
async fn odd_characters_of_the_source_survive_or_are_refused_by_line() {
    let target = side();
    import(
        &target,
        &sealed(&[
            HEADER,
            &block_line("nul \\u0000 line \u{2028} pair \\ud83d\\ude00"),
        ]),
    )
    .await
    .unwrap();
    let blocks = target.log.read_all(&copy()).await.unwrap();
    assert_eq!(blocks[0].text(), Some("nul \0 line \u{2028} pair 😀"));

    let target = side();
    let error = import(&target, &sealed(&[HEADER, &block_line("lone \\ud83d surrogate")]))
        .await
        .unwrap_err();
    assert!(matches!(error, ImportError::Line { line: 2, .. }), "{error}");
    assert!(is_untouched(&target).await);
}

#[tokio::test]
async fn blocks_out_of_place_and_bytes_that_are_missing_are_refused() {
    let target = side();
    let second = block_line("x").replace("\"seq\":1", "\"seq\":2");
    assert!(matches!(
        import(&target, &sealed(&[HEADER, &second])).await,
        Err(ImportError::Line { line: 2, .. })
    ));
    let digest = Blob::of(b"nowhere").digest;
    let naming = block_line("x").replace(
        "\"text\":\"x\"",
        &format!("\"blob\":{{\"digest\":\"{digest}\",\"size_bytes\":7}}"),
    );
    let error = import(&target, &sealed(&[HEADER, &naming])).await.unwrap_err();
    assert!(
        matches!(error, ImportError::MissingBytes { line: 2, .. }),
        "{error}"
    );
    assert!(is_untouched(&target).await);
}

#[tokio::test]
async fn an_import_that_died_after_its_first_step_can_be_done_again() {
    let (source, blocks) = full().await;
    let file = exported(&source).await;
    let target = side();
    let new = annals_store::NewConversation::new(copy(), at(0));
    let new = new.from_parent(conversation("c").id, Seq::try_new(11).ok(), Operator::Import);
    target.log.create(new).await.unwrap();
    import(&target, &file).await.unwrap();
    assert_eq!(target.log.read_all(&copy()).await.unwrap(), blocks);
}

/// What a conversation may hold: a block, and the bytes that it names.
fn any_block() -> impl Strategy<Value = (Block, Vec<Vec<u8>>)> {
    let kind = prop::sample::select(vec![
        BlockKind::UserPrompt,
        BlockKind::ToolCode,
        BlockKind::ToolResult,
        BlockKind::Notice,
        BlockKind::from_tag("x.acme.score"),
    ]);
    let bytes = || prop::collection::vec(any::<u8>(), 0..2_000);
    let body = prop_oneof![
        Just(None),
        any::<String>().prop_map(|text| Some(Err(text))),
        bytes().prop_map(|bytes| Some(Ok(bytes))),
    ];
    let file = prop::option::of(bytes());
    let cut = prop::option::of(bytes());
    let extra = prop::option::of(any::<String>());
    (
        kind,
        body,
        file,
        cut,
        extra,
        any::<u32>(),
        -1_000_000_i64..1_000_000,
    )
        .prop_map(|(kind, body, file, cut, extra, tokens, seconds)| {
            let mut named = Vec::new();
            let mut meta = Meta::EMPTY;
            if let Some(text) = extra {
                meta = meta.with("note", serde_json::Value::String(text));
            }
            let body = match body {
                None => Body::Empty,
                Some(Err(text)) => Body::Text(text.as_str().into()),
                Some(Ok(bytes)) => {
                    let blob = Blob::of(&bytes);
                    named.push(bytes);
                    blob.into()
                }
            };
            if let Some(bytes) = file {
                let digest = Blob::of(&bytes).digest;
                meta.file = Some(Box::new(FileMeta {
                    hosted_uri: Some(digest.uri()),
                    content_digest: Some(digest),
                    size_bytes: Some(bytes.len() as u64),
                    ..FileMeta::default()
                }));
                named.push(bytes);
            }
            if let Some(bytes) = cut {
                meta.cut.push(CutParam {
                    name: "content".to_owned(),
                    blob: Blob::of(&bytes).digest,
                    size_bytes: bytes.len() as u64,
                });
                named.push(bytes);
            }
            let meta = (!meta.is_empty()).then(|| Box::new(meta));
            let block = Block {
                kind,
                body,
                meta,
                tokens,
                ts: at(seconds),
                ..text_block(1, "")
            };
            (block, named)
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_import_of_an_export_is_the_conversation(
        title in prop::option::of(any::<String>()),
        parts in prop::collection::vec(any_block(), 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (source, target) = (side(), side());
            let mut new = new_conversation("c");
            new.title = title.clone();
            source.log.create(new).await.unwrap();
            let mut blocks = Vec::new();
            for (number, (block, named)) in parts.into_iter().enumerate() {
                for bytes in named {
                    source.artifacts.put(bytes).await.unwrap();
                }
                blocks.push(Block { seq: Seq::try_new(number as u64 + 1).unwrap(), ..block });
            }
            if !blocks.is_empty() {
                let ttl = Duration::from_secs(9);
                let lease = source.log.acquire(&conversation("c"), &owner("a"), ttl).await.unwrap();
                source.log.append(&lease, after(None, blocks.clone())).await.unwrap();
            }
            let mut file = Vec::new();
            export_conversation(&source.log, &source.artifacts, &conversation("c"), &mut file).await.unwrap();
            import(&target, &file).await.unwrap();
            assert_eq!(target.log.read_all(&copy()).await.unwrap(), blocks);
            assert_eq!(target.log.get(&copy()).await.unwrap().title, title);
            for digest in blocks.iter().flat_map(named_by) {
                let bytes = target.artifacts.get(&digest).await.unwrap();
                assert_eq!(bytes, source.artifacts.get(&digest).await.unwrap());
            }
        });
    }
}
