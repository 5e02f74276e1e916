//! What the clients beside this file saw of Annals, whichever way they reached it.

use serde_json::{Value, json};

/// A model that writes a report and says so.
pub(crate) fn report() -> Value {
    json!([
        {"tool_calls": [{"tool": "react.write", "params": {
            "path": "report.md", "channel": "canvas", "content": "# Report\n\nAll is well.", "kind": "file"}}]},
        {"text": "The report is written."},
    ])
}

fn check_answer(saw: &Value) {
    let told = &saw["told"];
    assert_eq!(
        (&told["state"], &told["outcome"], &told["answer"]),
        (
            &json!("ended"),
            &json!("complete"),
            &json!("The report is written.")
        ),
        "{saw}"
    );
    let path = told["files"][0]["path"].as_str().unwrap();
    assert!(path.ends_with(".files/report.md"), "{saw}");
    assert_eq!(saw["read"], "# Report\n\nAll is well.", "{saw}");
    let tools = saw["tools"].as_array().unwrap();
    for tool in [
        "annals_ask",
        "annals_wait",
        "annals_read",
        "annals_search_memory",
        "annals_timeline",
        "react__write",
    ] {
        assert!(tools.contains(&json!(tool)), "{tool} of {tools:?}");
    }
}

/// Of `mcp_client.py`.
pub(crate) fn check_python(saw: &Value) {
    check_answer(saw);
    assert_eq!(saw["again"]["answer"], "The report is written.", "{saw}");
    assert_eq!(
        saw["resource"],
        json!(["text/markdown", "# Report\n\nAll is well."]),
        "{saw}"
    );
    assert!(saw["timeline"].as_str().unwrap().contains("user.prompt"), "{saw}");
    assert!(!saw["found"]["passages"].as_array().unwrap().is_empty(), "{saw}");
    assert_eq!(saw["wrong"][0], true, "{saw}");
    assert_eq!(saw["used"], json!([false, ["text", "resource_link"]]), "{saw}");
    assert_eq!(saw["listed"], 2, "{saw}");
}

/// Of `mcp_client.mjs`.
pub(crate) fn check_typescript(saw: &Value) {
    check_answer(saw);
    assert_eq!(saw["resource"], "# Report\n\nAll is well.", "{saw}");
    assert!(saw["signs"].as_u64().unwrap() > 0, "{saw}");
}
