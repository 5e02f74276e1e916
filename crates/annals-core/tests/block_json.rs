//! The JSON form: what is written is read back, and what another hand wrote is kept.

mod common;

use annals_core::block::{BlockJson, BlockJsonError, BlockKind, FileMeta, Meta};
use common::{Scene, hosted};
use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

fn read(value: &Value) -> annals_core::block::Block {
    serde_json::from_value::<BlockJson>(value.clone())
        .unwrap()
        .into_block()
        .unwrap()
        .0
}

fn written(block: &annals_core::block::Block) -> Value {
    serde_json::to_value(BlockJson::from(block)).unwrap()
}

#[test]
#[allow(clippy::too_many_lines, reason = "one list of cases")]
fn a_file_block_as_it_is_exported() {
    let mut scene = Scene::asked("write");
    scene.says("", vec![scene.write_call("abc", "report.md", "# Report")]);
    let mut outcome = scene.written("report.md", "# Report");
    outcome.artifacts[0] = hosted(outcome.artifacts[0].clone());
    scene.returns("abc", outcome);
    let lines = scene.timeline.blocks()[3..]
        .iter()
        .map(|block| serde_json::to_string_pretty(&BlockJson::from(&**block)).unwrap());
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r##"
    {
      "seq": 4,
      "type": "react.tool.call",
      "author": "assistant",
      "turn_id": "turn_1",
      "ts": "2026-02-09T02:14:35.676425Z",
      "mime": "application/json",
      "path": "tc:turn_1.abc.call",
      "call_id": "abc",
      "text": "{\"tool_id\":\"react.write\",\"tool_call_id\":\"abc\",\"params\":{\"path\":\"report.md\",\"channel\":\"canvas\",\"content\":\"# Report... [see fi:turn_1.files/report.md]\",\"kind\":\"display\"},\"ts\":\"2026-02-09T02:14:35.676425Z\"}",
      "meta": {
        "tool_call_id": "abc",
        "step": 1,
        "cut": [
          {
            "name": "content",
            "blob": "sha256:04e1d1467e73933d8841c0c22eca9710ee72d020f5d494b091d68d4d2efea89d",
            "size_bytes": 8
          }
        ]
      },
      "tokens": 65
    }
    {
      "seq": 5,
      "type": "react.tool.result",
      "author": "tool",
      "turn_id": "turn_1",
      "ts": "2026-02-09T02:14:36.676425Z",
      "mime": "application/json",
      "path": "tc:turn_1.abc.result",
      "call_id": "abc",
      "text": "{\"artifact_path\":\"fi:turn_1.files/report.md\",\"physical_path\":\"turn_1/files/report.md\",\"mime\":\"text/markdown\",\"kind\":\"display\",\"visibility\":\"external\",\"tool_call_id\":\"abc\",\"size_bytes\":8,\"tokens\":2}",
      "meta": {
        "tool_call_id": "abc",
        "result_count": 2,
        "digest_of_artifact": true
      },
      "tokens": 52
    }
    {
      "seq": 6,
      "type": "react.tool.result",
      "author": "tool",
      "turn_id": "turn_1",
      "ts": "2026-02-09T02:14:37.676425Z",
      "mime": "text/markdown",
      "path": "fi:turn_1.files/report.md",
      "call_id": "abc",
      "text": "# Report",
      "meta": {
        "tool_call_id": "abc",
        "hosted_uri": "annals-artifact:sha256/00",
        "rn": "annals:t:p:u:c:turn_1:artifact:x",
        "key": "ab/cd",
        "physical_path": "turn_1/files/report.md",
        "content_digest": "sha256:04e1d1467e73933d8841c0c22eca9710ee72d020f5d494b091d68d4d2efea89d",
        "digest": {
          "artifact_path": "fi:turn_1.files/report.md",
          "physical_path": "turn_1/files/report.md",
          "mime": "text/markdown",
          "kind": "display",
          "visibility": "external",
          "tool_call_id": "abc",
          "size_bytes": 8,
          "tokens": 2
        }
      },
      "tokens": 2
    }
    "##);
}

#[test]
fn a_type_nobody_knows_and_keys_nobody_knows_are_kept() {
    let foreign = json!({
        "seq": 1, "type": "x.acme.score", "author": "acme", "turn_id": "turn_1", "ts": "2026-02-09T02:14:32.676425Z",
        "mime": "text/plain", "text": "7", "meta": {"score": 7, "why": ["a", {"b": null}]}, "tokens": 1,
    });
    let block = read(&foreign);
    assert_eq!(block.kind, BlockKind::Other("x.acme.score".into()));
    assert_eq!(written(&block), foreign);
}

#[test]
fn known_keys_of_the_wrong_shape_are_kept_as_they_came() {
    let meta = json!({
        "tool_call_id": "not an id!", "step": "three", "result_count": -1, "digest_of_artifact": "yes",
        "error": "boom", "sources_used": "all", "sources": 5, "cut": {}, "size_bytes": "big",
        "physical_path": "turn_1/files/a.md", "covered_turn_ids": ["turn_1"],
    });
    let foreign = json!({
        "seq": 1, "type": "react.tool.result", "author": "tool", "turn_id": "turn_1",
        "ts": "2026-02-09T02:14:32.676425Z", "mime": "text/plain", "text": "x", "meta": meta, "tokens": 1,
    });
    let block = read(&foreign);
    assert_eq!(
        (block.meta().call.as_ref(), block.meta().file.as_ref()),
        (None, None)
    );
    assert_eq!(written(&block), foreign);
}

#[test]
fn a_summary_that_does_not_say_where_it_ends_is_kept_and_shown() {
    let foreign = json!({
        "seq": 1, "type": "conv.range.summary", "author": "system", "turn_id": "turn_1",
        "ts": "2026-02-09T02:14:32.676425Z", "mime": "text/markdown", "path": "su:turn_1.conv.range.summary",
        "text": "earlier", "meta": {"covered_turn_ids": ["turn_0"]}, "tokens": 1,
    });
    let block = read(&foreign);
    assert!(block.meta().summary.is_none());
    assert_eq!(written(&block), foreign);
}

#[test]
fn tokens_that_were_not_written_are_counted() {
    let foreign = json!({
        "seq": 1, "type": "user.prompt", "author": "user", "turn_id": "turn_1", "ts": "2026-02-09T02:14:32Z",
        "mime": "text/plain", "text": "hello world",
    });
    assert_eq!(read(&foreign).tokens, 2);
}

#[test]
fn empty_file_facts_are_no_facts() {
    let foreign = json!({
        "seq": 1, "type": "user.attachment", "author": "user", "turn_id": "turn_1", "ts": "2026-02-09T02:14:32Z",
        "mime": "text/plain", "meta": {"hosted_uri": null}, "tokens": 0,
    });
    let block = read(&foreign);
    assert_eq!(block.meta().file, None::<Box<FileMeta>>);
    assert_eq!(read(&written(&block)), block);
}

#[test]
fn inlined_bytes_are_checked_against_their_digest() {
    let blob = annals_core::block::Blob::of(b"bytes");
    let block = |base64: &str| {
        serde_json::from_value::<BlockJson>(json!({
            "seq": 7, "type": "user.attachment", "author": "user", "turn_id": "turn_1", "ts": "2026-02-09T02:14:32Z",
            "mime": "image/png", "base64": base64, "blob": blob, "tokens": 9,
        }))
        .unwrap()
        .into_block()
    };
    let (block_read, bytes) = block("Ynl0ZXM=").unwrap();
    assert_eq!(
        (block_read.blob(), bytes.as_deref()),
        (Some(&blob), Some(&b"bytes"[..]))
    );
    assert!(matches!(
        block("b3RoZXI="),
        Err(BlockJsonError::DigestMismatch { seq: 7, .. })
    ));
    assert!(matches!(block("?"), Err(BlockJsonError::Base64 { seq: 7, .. })));
    let back = BlockJson::from(&block_read).with_bytes(b"bytes");
    assert_eq!(back.base64.as_deref(), Some("Ynl0ZXM="));
}

/// Any JSON, with the format's own keys likely.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("turn_1".to_owned()),
        Just("react.tool.result".to_owned()),
        Just("conv.range.summary".to_owned()),
        Just("timeline.hide".to_owned()),
        Just("tc:turn_1.a.result".to_owned()),
        Just("2026-02-09T02:14:32Z".to_owned()),
        "[ -~é]{0,8}",
    ];
    let key = prop_oneof![
        Just("seq".to_owned()),
        Just("type".to_owned()),
        Just("author".to_owned()),
        Just("turn_id".to_owned()),
        Just("ts".to_owned()),
        Just("mime".to_owned()),
        Just("path".to_owned()),
        Just("text".to_owned()),
        Just("base64".to_owned()),
        Just("blob".to_owned()),
        Just("meta".to_owned()),
        Just("tool_call_id".to_owned()),
        Just("result_count".to_owned()),
        Just("first_kept_seq".to_owned()),
        Just("digest".to_owned()),
        "[a-z]{0,5}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0..4_u64).prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key.clone(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_json_panics(value in any_json()) {
        if let Ok(block) = serde_json::from_value::<BlockJson>(value) {
            let _ = block.into_block();
        }
    }

    /// A log of blocks that are well formed but mean nothing folds and renders.
    #[test]
    fn no_log_panics(blocks in prop::collection::vec((0..30_usize, any_json(), any_json(), 0..3_u8), 0..12)) {
        let mut timeline = annals_core::view::View::default();
        for (kind, meta, text, path) in blocks {
            let kind = BlockKind::KNOWN.get(kind).unwrap_or(&BlockKind::ToolResult).tag();
            let path = ["tc:turn_1.a.result", "fi:turn_1.files/a.md", "ar:turn_1.x"][usize::from(path)];
            let mut meta = meta.as_object().cloned().unwrap_or_default();
            meta.entry("tool_call_id").or_insert("a".into());
            let seq = timeline.next_seq();
            let block = read(&json!({
                "seq": seq, "type": kind, "author": "a", "turn_id": "turn_1", "ts": "2026-02-09T02:14:32Z",
                "mime": "text/plain", "path": path, "text": text.to_string(), "meta": meta, "tokens": 3,
            }));
            timeline.push(block.into()).unwrap();
        }
        let budget = annals_core::turn::Budget { window_tokens: 10, overhead_tokens: 0, max_iterations: 1 };
        let _ = annals_core::turn::next(&timeline, &budget);
        let _ = annals_core::view::compact::plan(&timeline, 10, annals_core::view::compact::Force::Refused);
        for layout in [annals_core::view::Layout::Chat, annals_core::view::Layout::Timeline] {
            let _ = common::prompt(&timeline, layout);
        }
    }
}

/// The first edition wrote where its machine kept the bytes.
#[test]
fn a_place_of_a_machine_is_read_as_the_digest_it_names() {
    let hex = "0123456789abcdef".repeat(4);
    let read = |uri: &str| {
        let meta = Meta::from_json(&serde_json::json!({ "hosted_uri": uri }).to_string()).unwrap();
        meta.file.unwrap().hosted_uri.unwrap()
    };
    let expected = format!("annals-artifact:sha256/{hex}");
    let (fan, rest) = hex.split_at(2);
    for old in [
        "file:///home/ann/.annals/artifacts",
        "s3://bucket/prefix",
        "memory:///",
    ] {
        assert_eq!(read(&format!("{old}/sha256/{fan}/{rest}")), expected);
    }
    assert_eq!(read(&expected), expected);
    assert_eq!(read("https://example.org/x"), "https://example.org/x");
}
