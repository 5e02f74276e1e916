use serde_json::{Value, json};

use crate::stage::{Stage, error_code, json as answer};

fn paths(found: &Value) -> Vec<&str> {
    found["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["path"].as_str().unwrap())
        .collect()
}

async fn library() -> Stage {
    let mut stage = Stage::new();
    let write = |path: &str, content: &str| json!({"path": path, "channel": "canvas", "content": content, "kind": "file"});
    stage
        .call(
            "react.write",
            write("data/ants.csv", "name,count\nformica,4000\nlasius,12\n"),
        )
        .await;
    stage
        .call(
            "react.write",
            write("report.md", "# Ants\nFormica is a genus of ants.\n"),
        )
        .await;
    stage.begin("turn_2");
    stage.put_on_disk("turn_2/files/out.log", b"done\nformica counted\n");
    stage.put_on_disk("turn_2/attachments/scan.png", b"\x89PNG\r\n\x1a\nformica");
    stage
}

#[tokio::test]
async fn files_are_found_by_name_on_disk_and_in_the_store() {
    let mut stage = library().await;
    let all = [
        "fi:turn_1.files/data/ants.csv",
        "fi:turn_1.files/report.md",
        "fi:turn_2.files/out.log",
        "fi:turn_2.user.attachments/scan.png",
    ];
    let found = answer(&stage.call("react.search_files", json!({})).await);
    assert_eq!(paths(&found), all);
    stage.clear_disk();
    let found = answer(
        &stage
            .call("react.search_files", json!({"name_regex": r"\.(csv|md)$"}))
            .await,
    );
    assert_eq!(paths(&found), all[..2]);
}

#[tokio::test]
async fn lines_are_found_with_their_numbers() {
    let mut stage = library().await;
    let found = answer(
        &stage
            .call("react.search_files", json!({"content_regex": "(?i)formica"}))
            .await,
    );
    insta::assert_snapshot!(serde_json::to_string_pretty(&found).unwrap());
    let both = json!({"name_regex": "csv", "content_regex": "lasius"});
    let found = answer(&stage.call("react.search_files", both).await);
    assert_eq!(
        found["hits"],
        json!([{"path": "fi:turn_1.files/data/ants.csv", "line": 3, "text": "lasius,12"}])
    );
}

#[tokio::test]
async fn limits_hold_and_say_so() {
    let mut stage = library().await;
    let lines = "formica\n".repeat(1_000);
    stage.put_on_disk("turn_2/files/big.txt", lines.as_bytes());
    let found = answer(
        &stage
            .call(
                "react.search_files",
                json!({"content_regex": "formica", "max_hits": 3}),
            )
            .await,
    );
    assert_eq!((paths(&found).len(), &found["truncated"]), (3, &json!(true)));
    let found = answer(
        &stage
            .call("react.search_files", json!({"content_regex": "^formica$"}))
            .await,
    );
    assert_eq!((paths(&found).len(), &found["truncated"]), (50, &json!(true)));
}

#[tokio::test]
async fn a_bad_expression_says_what_is_wrong() {
    let mut stage = library().await;
    for bad in [
        json!({"name_regex": "("}),
        json!({"content_regex": "a{1,100000}{1,1000}"}),
    ] {
        let outcome = stage.call("react.search_files", bad).await;
        assert_eq!(error_code(&outcome), Some("invalid_regex"));
    }
}

#[tokio::test]
async fn no_hit_names_the_host() {
    let mut stage = library().await;
    let found = stage
        .call("react.search_files", json!({"content_regex": "."}))
        .await;
    let text = answer(&found).to_string();
    assert!(!text.contains(stage.dir.path().to_str().unwrap()), "{text}");
}
