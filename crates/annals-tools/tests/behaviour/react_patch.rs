use annals_core::block::ArtifactKind;
use serde_json::{Value, json};

use crate::stage::{Stage, codes, error_code, json as answer};

const POEM: &str = "roses are red\nviolets are blue\nsugar is sweet\nand so are you\n";

fn patch(path: &str, patch: &str) -> Value {
    json!({"path": path, "channel": "canvas", "patch": patch})
}

async fn with_poem() -> Stage {
    let mut stage = Stage::new();
    stage
        .call(
            "react.write",
            json!({"path": "poem.md", "channel": "canvas", "content": POEM, "kind": "display"}),
        )
        .await;
    stage
}

#[tokio::test]
async fn a_diff_changes_the_file_and_shows_the_patch() {
    let mut stage = with_poem().await;
    stage
        .call(
            "react.patch",
            patch(
                "poem.md",
                "@@ -2,1 +2,1 @@\n-violets are blue\n+violets are violet\n",
            ),
        )
        .await;
    insta::assert_snapshot!(stage.shape());
    let patched = POEM.replace("blue", "violet");
    assert_eq!(stage.disk("turn_1/files/poem.md"), Some(patched.clone()));
    // The block shows the patch; the path still names the whole file, with or without the disk.
    stage.clear_disk();
    assert_eq!(stage.whole("fi:turn_1.files/poem.md").await, patched);
}

#[tokio::test]
async fn wrong_counts_and_moved_context_apply() {
    let mut stage = with_poem().await;
    let outcome = stage
        .call(
            "react.patch",
            patch(
                "poem.md",
                "--- a\n+++ b\n@@ -40,9 +1,1 @@\n sugar is sweet\n-and so are you\n+bye\n",
            ),
        )
        .await;
    assert_eq!(error_code(&outcome), None);
    assert_eq!(
        answer(&outcome)["hunks"],
        json!([{"line": 3, "moved_lines": -37}])
    );
    assert!(
        stage
            .disk("turn_1/files/poem.md")
            .unwrap()
            .ends_with("sugar is sweet\nbye\n")
    );
}

#[tokio::test]
async fn a_mismatch_leaves_the_file_and_says_what_was_expected() {
    let mut stage = with_poem().await;
    let outcome = stage
        .call(
            "react.patch",
            patch("poem.md", "@@ -2,1 +2,1 @@\n-violets are green\n+x\n"),
        )
        .await;
    insta::assert_snapshot!(serde_json::to_string_pretty(&answer(&outcome)).unwrap());
    assert_eq!(error_code(&outcome), Some("hunk_mismatch"));
    assert!(outcome.artifacts.is_empty());
    assert_eq!(stage.disk("turn_1/files/poem.md").as_deref(), Some(POEM));
}

#[tokio::test]
async fn one_bad_hunk_fails_the_whole_patch() {
    let mut stage = with_poem().await;
    let two = "@@ -1,1 +1,1 @@\n-roses are red\n+roses were red\n@@ -4,1 +4,1 @@\n-nothing like this\n+x\n";
    let outcome = stage.call("react.patch", patch("poem.md", two)).await;
    assert_eq!(error_code(&outcome), Some("hunk_mismatch"));
    assert_eq!(stage.disk("turn_1/files/poem.md").as_deref(), Some(POEM));
}

#[tokio::test]
async fn what_is_no_diff_has_its_own_code() {
    let mut stage = with_poem().await;
    for bad in ["@@ what @@\n x\n", "---\nfront: matter\n---\n"] {
        let outcome = stage.call("react.patch", patch("poem.md", bad)).await;
        assert_eq!(error_code(&outcome), Some("invalid_hunk_header"), "{bad:?}");
    }
    assert_eq!(stage.disk("turn_1/files/poem.md").as_deref(), Some(POEM));
}

#[tokio::test]
async fn anything_else_replaces_the_file() {
    let mut stage = with_poem().await;
    let outcome = stage
        .call("react.patch", patch("poem.md", "a new poem, all of it\n"))
        .await;
    assert_eq!(answer(&outcome)["mode"], "replace");
    assert_eq!(
        stage.disk("turn_1/files/poem.md").as_deref(),
        Some("a new poem, all of it\n")
    );
}

#[tokio::test]
async fn a_file_that_is_not_there_is_missing_and_the_message_helps() {
    let mut stage = with_poem().await;
    let diff = "@@ -1,1 +1,1 @@\n-roses are red\n+x\n";
    let outcome = stage.call("react.patch", patch("other.md", diff)).await;
    assert_eq!(error_code(&outcome), Some("patch_target_missing"));
    stage.begin("turn_2");
    let outcome = stage.call("react.patch", patch("poem.md", diff)).await;
    assert!(
        outcome
            .error
            .unwrap()
            .message
            .contains("did you mean `fi:turn_1.files/poem.md`?")
    );
}

#[tokio::test]
async fn a_file_of_an_earlier_turn_is_copied_first_and_patches_add_up() {
    let mut stage = with_poem().await;
    stage.begin("turn_2");
    let first = "@@ -1,1 +1,1 @@\n-roses are red\n+roses were red\n";
    let outcome = stage
        .call("react.patch", patch("fi:turn_1.files/poem.md", first))
        .await;
    assert_eq!(codes(&outcome), ["protocol_violation.path_rewritten"]);
    assert_eq!(outcome.notices[0].facts["to"], "fi:turn_2.files/poem.md");
    let second = "@@ -2,1 +2,1 @@\n-violets are blue\n+violets were blue\n";
    stage
        .call("react.patch", patch("turn_1/files/poem.md", second))
        .await;
    let both = "roses were red\nviolets were blue\nsugar is sweet\nand so are you\n";
    assert_eq!(stage.disk("turn_2/files/poem.md").as_deref(), Some(both));
    assert_eq!(
        stage.disk("turn_1/files/poem.md").as_deref(),
        Some(POEM),
        "the original stays"
    );
}

#[tokio::test]
async fn a_patched_file_can_be_hosted() {
    let mut stage = with_poem().await;
    let args = json!({"path": "poem.md", "channel": "canvas", "patch": "@@ -1 +1 @@\n-roses are red\n+r\n", "kind": "file"});
    let outcome = stage.call("react.patch", args).await;
    let artifact = &outcome.artifacts[0];
    assert_eq!(artifact.digest.kind, ArtifactKind::File);
    assert!(artifact.file.hosted_uri.is_some());
    let kept = stage
        .cx
        .artifacts
        .get(&artifact.file.content_digest.unwrap())
        .await
        .unwrap();
    assert!(kept.starts_with(b"r\nviolets"));
}

#[tokio::test]
async fn an_unsafe_path_is_refused() {
    let mut stage = with_poem().await;
    let outcome = stage.call("react.patch", patch("../poem.md", "x")).await;
    assert_eq!(error_code(&outcome), Some("unsafe_path"));
}

#[tokio::test]
async fn a_crlf_file_stays_one() {
    let mut stage = Stage::new();
    let content = POEM.replace('\n', "\r\n");
    stage
        .call(
            "react.write",
            json!({"path": "dos.txt", "channel": "canvas", "content": content}),
        )
        .await;
    stage
        .call(
            "react.patch",
            patch("dos.txt", "@@ -3,1 +3,1 @@\n-sugar is sweet\n+salt is salty\n"),
        )
        .await;
    let patched = content.replace("sugar is sweet", "salt is salty");
    assert_eq!(stage.disk("turn_1/files/dos.txt"), Some(patched));
}

#[tokio::test]
async fn a_person_sees_what_would_become_of_the_file_and_nothing_is_written() {
    use annals_tools::Proposal;
    let stage = with_poem().await;
    let proposed = async |tool: &str, args: Value| {
        let tool = stage.table.get(tool).unwrap();
        tool.proposes(&stage.tool_cx("c9"), &args).await
    };
    let path = "fi:turn_1.files/poem.md".to_owned();
    let diff = "@@ -2,1 +2,1 @@\n-violets are blue\n+violets are violet\n";
    assert_eq!(
        proposed("react.patch", patch("poem.md", diff)).await,
        Some(Proposal::Change {
            path: path.clone(),
            before: Some(POEM.to_owned()),
            after: POEM.replace("blue", "violet"),
        })
    );
    let write = json!({"path": "poem.md", "channel": "canvas", "content": "short\n"});
    assert_eq!(
        proposed("react.write", write).await,
        Some(Proposal::Change {
            path,
            before: Some(POEM.to_owned()),
            after: "short\n".to_owned(),
        })
    );
    let in_tree = json!({"path": "turn_1/files/poem.md", "content": "x"});
    assert!(matches!(
        proposed("write_workspace_file", in_tree).await,
        Some(Proposal::Change { before: Some(before), .. }) if before == POEM
    ));
    let new = json!({"path": "other/file.txt", "content": "x"});
    assert!(matches!(
        proposed("write_workspace_file", new).await,
        Some(Proposal::Change { before: None, .. })
    ));
    let wrong = "@@ -1,1 +1,1 @@\n-tulips are red\n+x\n";
    assert!(matches!(
        proposed("react.patch", patch("poem.md", wrong)).await,
        Some(Proposal::Fails(error)) if error.code == "hunk_mismatch"
    ));
    assert_eq!(proposed("react.read", json!({"paths": []})).await, None);
    assert_eq!(stage.disk("turn_1/files/poem.md").as_deref(), Some(POEM));
}
