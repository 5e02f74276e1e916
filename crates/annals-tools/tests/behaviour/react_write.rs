use annals_core::block::{ArtifactKind, Visibility};
use annals_core::turn::outcome::Content;
use serde_json::json;

use crate::stage::{Stage, codes, error_code, path};

fn write(path: &str, content: &str, kind: &str) -> serde_json::Value {
    json!({"path": path, "channel": "canvas", "content": content, "kind": kind})
}

#[tokio::test]
async fn a_display_is_a_meta_block_and_its_content() {
    let mut stage = Stage::new();
    stage
        .call(
            "react.write",
            write("report.md", "# Report\n\nAll is well [[S:2,1]].\n", "display"),
        )
        .await;
    insta::assert_snapshot!(stage.shape());
    assert_eq!(
        stage.disk("turn_1/files/report.md").as_deref(),
        Some("# Report\n\nAll is well [[S:2,1]].\n")
    );
}

#[tokio::test]
async fn a_long_content_is_cut_in_the_call_and_whole_in_its_block() {
    let mut stage = Stage::new();
    let content = "x".repeat(5_000);
    stage
        .call("react.write", write("long.txt", &content, "display"))
        .await;
    let shape = stage.shape();
    assert!(shape.contains("... [see fi:turn_1.files/long.txt]"), "{shape}");
    assert_eq!(shape.matches(&content).count(), 1);
}

#[tokio::test]
async fn a_file_is_hosted_and_becomes_a_source() {
    let mut stage = Stage::new();
    let outcome = stage
        .call(
            "react.write",
            write("data.csv", "name,count\nants,4000\n", "file"),
        )
        .await;
    let file = &outcome.artifacts[0].file;
    assert_eq!(file.hosted_uri, file.content_digest.map(|digest| digest.uri()));
    assert_eq!(
        file.rn.as_deref(),
        Some("annals:local:default:me:c1:turn_1:artifact:data.csv")
    );
    let kept = stage
        .cx
        .artifacts
        .get(&file.content_digest.unwrap())
        .await
        .unwrap();
    assert_eq!(&kept[..], b"name,count\nants,4000\n");
    assert_eq!(outcome.sources.len(), 1);
    let timeline = stage.cx.timeline.read().unwrap();
    let row = timeline.pool().iter().next().unwrap();
    assert_eq!(
        row.artifact_path.as_ref().unwrap().as_str(),
        "fi:turn_1.files/data.csv"
    );
    // What the model reads never says where the bytes are kept.
    for block in timeline.blocks() {
        let text = block.text().unwrap_or_default();
        assert!(
            !text.contains("hosted_uri") && !text.contains(stage.dir.path().to_str().unwrap()),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_second_write_replaces_the_file_and_is_an_edit() {
    let mut stage = Stage::new();
    stage
        .call(
            "react.write",
            write("a.md", "a much longer first version", "display"),
        )
        .await;
    stage
        .call("react.write", write("a.md", "second, shorter one", "display"))
        .await;
    assert_eq!(
        stage.disk("turn_1/files/a.md").as_deref(),
        Some("second, shorter one")
    );
    let timeline = stage.cx.timeline.read().unwrap();
    let path = path("fi:turn_1.files/a.md");
    assert_eq!(timeline.versions(&path).count(), 2);
    assert!(timeline.latest_digest(&path).unwrap().edited);
}

#[tokio::test]
async fn every_form_of_a_path_means_a_file_of_this_turn() {
    let content = "some content that is long enough";
    for (given, notice) in [
        ("draft.md", None),
        ("files/draft.md", None),
        ("./draft.md", None),
        ("turn_1/files/draft.md", None),
        ("fi:turn_1.files/draft.md", None),
        ("turn_0/files/draft.md", Some("protocol_violation.path_rewritten")),
        (
            "fi:turn_999.files/draft.md",
            Some("protocol_violation.path_rewritten"),
        ),
    ] {
        let mut stage = Stage::new();
        let outcome = stage.call("react.write", write(given, content, "display")).await;
        assert_eq!(codes(&outcome), notice.into_iter().collect::<Vec<_>>(), "{given}");
        assert_eq!(
            stage.disk("turn_1/files/draft.md").as_deref(),
            Some(content),
            "{given}"
        );
        if let [notice] = &outcome.notices[..] {
            assert_eq!(notice.facts["to"], "fi:turn_1.files/draft.md");
        }
    }
}

#[tokio::test]
async fn an_unsafe_path_gives_a_result_and_no_file() {
    for given in [
        "../x.md",
        "/etc/passwd",
        "a//b",
        "a\\b",
        "",
        "fi:turn_1.files/../../x",
        "tc:turn_1.c1.result",
    ] {
        let mut stage = Stage::new();
        let outcome = stage.call("react.write", write(given, "content", "file")).await;
        let code = error_code(&outcome).unwrap();
        assert!(code == "unsafe_path" || code == "invalid_path", "{given}: {code}");
        assert_eq!(crate::stage::json(&outcome)["error"]["code"], code);
        assert!(stage.cx.workspace.list().unwrap().is_empty(), "{given}");
    }
}

#[tokio::test]
async fn an_empty_content_is_an_error_and_a_tiny_one_a_warning() {
    let mut stage = Stage::new();
    let empty = stage.call("react.write", write("a.md", "", "file")).await;
    assert_eq!(
        (codes(&empty), error_code(&empty)),
        (vec!["tool_result_error"], Some("file_empty"))
    );
    assert_eq!(
        empty.artifacts[0].digest.error.as_ref().unwrap().code,
        "file_empty"
    );
    let tiny = stage.call("react.write", write("b.md", "hm", "display")).await;
    assert_eq!(error_code(&tiny), None);
    assert!(
        tiny.artifacts[0]
            .digest
            .write_warning
            .as_ref()
            .unwrap()
            .contains("2 bytes")
    );
}

#[tokio::test]
async fn an_internal_write_is_a_note_that_is_not_hosted() {
    let mut stage = Stage::new();
    let args = json!({"path": "notes.md", "channel": "internal", "content": "[D] use blocks, not lines", "kind": "file"});
    let outcome = stage.call("react.write", args).await;
    assert_eq!(outcome.artifacts[0].digest.visibility, Visibility::Internal);
    assert_eq!(outcome.artifacts[0].file.hosted_uri, None);
    assert!(outcome.sources.is_empty());
    insta::assert_snapshot!(stage.shape());
}

#[tokio::test]
async fn other_names_are_the_same_tool() {
    let mut stage = Stage::new();
    let content = "a,b\n1,2\n3,4\n5,6\n";
    let outcome = stage
        .call("react.file", json!({"path": "t.csv", "content": content}))
        .await;
    assert_eq!(outcome.artifacts[0].digest.kind, ArtifactKind::File);
    assert!(outcome.artifacts[0].file.hosted_uri.is_some());
    let args = json!({"path": "t.md", "channel": "timeline_text", "content": content, "kind": "display"});
    let outcome = stage.call("react.stream", args).await;
    assert_eq!(outcome.artifacts[0].content, Content::Text(content.into()));
    let missing_kind = json!({"path": "t.md", "channel": "canvas", "content": content});
    let outcome = stage.call("react.stream", missing_kind).await;
    assert_eq!(codes(&outcome), ["protocol_violation.tool_signature_red"]);
}

#[tokio::test]
async fn a_store_that_fails_costs_a_notice_and_nothing_else() {
    let mut stage = Stage::new();
    std::fs::remove_dir_all(stage.dir.path().join("artifacts")).unwrap();
    std::fs::write(stage.dir.path().join("artifacts"), "not a folder").unwrap();
    let content = "kept on disk and in the block";
    let outcome = stage.call("react.write", write("a.md", content, "file")).await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["react.write.hosting_failed"], None)
    );
    assert!(
        !outcome.notices[0]
            .message
            .contains(stage.dir.path().to_str().unwrap())
    );
    assert_eq!(outcome.artifacts[0].content, Content::Text(content.into()));
    assert_eq!(outcome.artifacts[0].file.hosted_uri, None);
    assert_eq!(stage.disk("turn_1/files/a.md").as_deref(), Some(content));
}

#[tokio::test]
async fn a_symlink_that_leads_out_is_not_written_through() {
    let mut stage = Stage::new();
    let outside = stage.dir.path().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::create_dir_all(stage.cx.workspace.root().join("turn_1/files")).unwrap();
    std::os::unix::fs::symlink(&outside, stage.cx.workspace.root().join("turn_1/files/link")).unwrap();
    let content = "kept in the block, although there is no file";
    let outcome = stage
        .call("react.write", write("link/x.md", content, "display"))
        .await;
    assert_eq!(
        (codes(&outcome), error_code(&outcome)),
        (vec!["tool_result_error"], Some("write_failed"))
    );
    assert_eq!(outcome.artifacts[0].content, Content::Text(content.into()));
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn the_type_follows_the_name_and_the_content() {
    let mut stage = Stage::new();
    for (name, mime) in [
        ("a.html", "text/html"),
        ("a.json", "application/json"),
        ("a.png", "text/plain"),
    ] {
        let outcome = stage
            .call(
                "react.write",
                write(name, "<p>some text, no picture</p>", "display"),
            )
            .await;
        assert_eq!(*outcome.artifacts[0].digest.mime, *mime, "{name}");
    }
}
