//! `chat`, with lines from a pipe.

use serde_json::json;

use super::annals::Annals;

#[test]
fn a_chat_answers_shows_what_happened_and_leaves_the_conversation() {
    let annals = Annals::new();
    let write =
        json!({"path": "note.md", "channel": "canvas", "content": "Remember the milk.\n", "kind": "file"});
    let model = annals.script(&json!({"steps": [
        {"text": "Noting it.", "tool_calls": [{"id": "tc_1", "tool": "react.write", "params": write}]},
        {"text": "Noted."},
        {"expect": ["Remember the milk."], "text": "The milk."},
    ]}));
    let lines = "Note: milk\n/files\n/plan\n/nonsense\nWhat was it?\n/timeline\n/quit\n";
    let ran = annals
        .run_with(&["chat", "--model", &model, "--conversation", "c1"], lines)
        .good();
    for text in [
        "Noted.",
        "The milk.",
        ".files/note.md",
        "there is no plan",
        "2 turns",
        "✓ react.write",
    ] {
        assert!(ran.stdout.contains(text), "`{text}` is not in:\n{}", ran.stdout);
    }
    assert!(
        ran.stderr.contains("there is no command `/nonsense`"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("annals chat --conversation c1"),
        "{}",
        ran.stderr
    );
}
