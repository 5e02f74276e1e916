use annals_core::turn::outcome::Output;
use annals_tools::DynamicTool;
use serde_json::json;
use std::sync::Arc;

use crate::stage::Stage;

#[tokio::test]
async fn a_cut_value_is_kept_whole_at_its_result_path() {
    let schema = json!({"type": "object", "properties": {}});
    let rows: Vec<_> = (0..10_000).map(|n| json!({"n": n})).collect();
    let value = json!(rows);
    let tool = {
        let value = value.clone();
        DynamicTool::new("rows", "Many rows", schema, move |_, _| {
            let value = value.clone();
            async move { Ok(value) }
        })
    };
    let mut stage = Stage::with(|_, _| {}, vec![Arc::new(tool.unwrap())]);
    let outcome = stage.call("rows", json!({})).await;
    let Output::Payload(payload) = &outcome.output else {
        panic!("{outcome:?}")
    };
    assert_eq!(payload.text.chars().take_while(|c| *c != '\n').count(), 48_000);
    assert!(
        payload
            .text
            .contains("more characters; the whole value is at tc:turn_1.c1.result")
    );
    let whole: serde_json::Value = serde_json::from_str(&stage.whole("tc:turn_1.c1.result").await).unwrap();
    assert_eq!(whole, value);
    let outcome = stage
        .call("react.read", json!({"paths": ["tc:turn_1.c1.result#L4-6"]}))
        .await;
    let annals_core::turn::outcome::Content::Text(text) = &outcome.artifacts[0].content else {
        panic!()
    };
    assert_eq!(&**text, "[lines 4-6 of 30002]\n  },\n  {\n    \"n\": 1\n");
}

#[tokio::test]
async fn the_running_turns_file_is_what_lies_on_disk_and_an_earlier_ones_what_its_block_says() {
    let mut stage = Stage::new();
    stage
        .call(
            "react.write",
            json!({"path": "a.md", "channel": "canvas", "content": "as it was written"}),
        )
        .await;
    stage.put_on_disk("turn_1/files/a.md", b"as code changed it");
    assert_eq!(stage.whole("fi:turn_1.files/a.md").await, "as code changed it");
    stage.begin("turn_2");
    assert_eq!(stage.whole("fi:turn_1.files/a.md").await, "as it was written");
}

#[tokio::test]
async fn the_result_of_a_write_is_its_metadata_and_notices_come_together() {
    let mut stage = Stage::new();
    let args = json!({"path": "turn_0/files/a.md", "channel": "canvas", "content": "", "kind": "file"});
    stage.call("react.write", args).await;
    let digest: serde_json::Value = serde_json::from_str(&stage.whole("tc:turn_1.c1.result").await).unwrap();
    assert_eq!(digest["artifact_path"], "fi:turn_1.files/a.md");
    let notices = stage.whole("tc:turn_1.c1.notice").await;
    assert_eq!(notices.lines().count(), 2, "{notices}");
}
