use std::sync::Arc;

use annals_core::settings::Settings;
use serde_json::{Value, json};

use crate::stage::{Stage, error_code, json as answer};

fn hide(path: &str) -> Value {
    json!({"path": path, "replacement": "a long log.\nNothing in it."})
}

async fn write(stage: &mut Stage, name: &str, words: usize) {
    let content = "word ".repeat(words);
    stage
        .call(
            "react.write",
            json!({"path": name, "channel": "canvas", "content": content}),
        )
        .await;
}

#[tokio::test]
async fn a_near_path_is_hidden_and_counted() {
    let mut stage = Stage::new();
    write(&mut stage, "log.txt", 300).await;
    let outcome = stage.call("react.hide", hide("fi:turn_1.files/log.txt")).await;
    let status = answer(&outcome);
    assert_eq!(
        (&status["path"], &status["status"]),
        (&json!("fi:turn_1.files/log.txt"), &json!("ok"))
    );
    assert_eq!(status["tail_limit"], 2_000);
    assert!(status["blocks_hidden"].as_u64().unwrap() >= 1);
    assert!(status["tokens_hidden"].as_u64().unwrap() >= 300);
    assert_eq!(outcome.hides[0].replacement, "a long log. Nothing in it");
    let timeline = stage.cx.timeline.read().unwrap();
    assert!(
        timeline
            .visible_content(&crate::stage::path("fi:turn_1.files/log.txt"))
            .is_none()
    );
}

#[tokio::test]
async fn a_path_far_from_the_tail_is_too_old() {
    let mut stage = Stage::new();
    // The first round ends at the cache point, so what is only far away must come after it.
    write(&mut stage, "first.txt", 10).await;
    write(&mut stage, "old.txt", 100).await;
    write(&mut stage, "big.txt", 4_000).await;
    let outcome = stage.call("react.hide", hide("fi:turn_1.files/old.txt")).await;
    assert_eq!(
        (answer(&outcome)["status"].clone(), error_code(&outcome)),
        (json!("too_old"), Some("hide_too_old"))
    );
    assert!(outcome.hides.is_empty());
}

#[tokio::test]
async fn a_path_before_the_cache_point_is_refused() {
    let settings = Settings::default();
    let mut stage = Stage::with(|cx, _| cx.settings = Arc::new(settings), vec![]);
    for n in 0..8 {
        write(&mut stage, &format!("f{n}.txt"), 10).await;
    }
    let outcome = stage.call("react.hide", hide("fi:turn_1.files/f0.txt")).await;
    assert_eq!(error_code(&outcome), Some("hide_before_cache"));
    assert_eq!(answer(&outcome)["error"]["code"], "hide_before_cache");
}

#[tokio::test]
async fn an_unknown_path_is_not_found_and_a_bad_one_refused() {
    let mut stage = Stage::new();
    let outcome = stage.call("react.hide", hide("fi:turn_1.files/none.txt")).await;
    assert_eq!(answer(&outcome)["status"], "not_found");
    let outcome = stage.call("react.hide", hide("the log")).await;
    assert_eq!(error_code(&outcome), Some("invalid_path"));
}

#[tokio::test]
async fn the_other_name_has_its_own_parameter() {
    let mut stage = Stage::new();
    write(&mut stage, "log.txt", 300).await;
    let args = json!({"path": "fi:turn_1.files/log.txt", "replacement_text": "gone"});
    let outcome = stage.call("react.memory_hide", args).await;
    assert_eq!(outcome.hides[0].replacement, "gone");
}
