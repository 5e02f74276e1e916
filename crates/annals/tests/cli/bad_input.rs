//! What cannot be done is said in one sentence, with the code that says whose turn it is.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;

use super::annals::{Annals, filters};

#[test]
fn what_was_typed_wrongly_ends_with_code_two_and_one_sentence() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": []}));
    annals.run(&["tool", "call", "c1", "react.plan", r#"{"mode": "new", "steps": ["a"]}"#, "--turn-id", "turn_1"]).good();
    let cases: &[&[&str]] = &[
        &["run", "Hi"],
        &["run", "Hi", "--model", "gpt"],
        &["run", "Hi", "--model", "script:absent.json"],
        &["run", "", "--model", &model],
        &["run", "Hi", "--model", &model, "--conversation", "not an id"],
        &["run", "Hi", "--model", &model, "--turn-id", "first"],
        &["run", "Hi", "--model", &model, "--conversation", "c1", "--turn-id", "turn_1"],
        &["run", "Hi", "--model", &model, "--attach", "absent.csv"],
        &["timeline", "show", "absent"],
        &["timeline", "show", "c1", "--turn", "turn_9"],
        &["timeline", "render", "c1", "--at", "999"],
        &["timeline", "fork", "c1", "--at", "999"],
        &["timeline", "import", "absent.jsonl"],
        &["read", "c1", "fi:turn_1.files/absent.md"],
        &["read", "c1", "/etc/passwd"],
        &["tool", "call", "c1", "react.nothing"],
        &["tool", "call", "c1", "react.plan", "{not json"],
        &["tool", "call", "c1", "react.plan", "[1]"],
        &["tool", "schema", "nothing"],
        &["feedback", "c1", "turn_9", "--reaction", "up"],
        &["conversations", "--scope", "me"],
        &["conversations", "--sandbox", "docker"],
        &["resume", "c1", "--model", &model],
    ];
    let mut shown = String::new();
    for case in cases {
        let ran = annals.run(case);
        assert_eq!(ran.code, 2, "{case:?}: {}", ran.shown());
        assert_eq!(ran.stderr.lines().count(), 1, "{case:?}: {}", ran.stderr);
        shown.push_str(&ran.stderr);
    }
    filters().bind(|| insta::assert_snapshot!("usage", shown));
}

#[test]
fn what_is_not_there_ends_with_code_three_and_one_sentence() {
    let annals = Annals::new();
    let sealed = annals.path().join("sealed");
    std::fs::write(&sealed, "a file where a folder should be").unwrap();
    std::fs::set_permissions(&sealed, std::fs::Permissions::from_mode(0o400)).unwrap();
    let sealed = sealed.to_str().unwrap();
    let cases: &[&[&str]] = &[
        &["conversations", "--home", sealed],
        &["conversations", "--store", "postgres://localhost/annals"],
        &["conversations", "--artifacts", "s3://bucket"],
        &["conversations", "--sandbox", "opensandbox"],
        &["run", "Hi", "--model", "openai:gpt-5"],
        &["run", "Hi", "--model", "anthropic:claude-sonnet-4-5"],
    ];
    let mut shown = String::new();
    for case in cases {
        let ran = annals.run(case);
        assert_eq!(ran.code, 3, "{case:?}: {}", ran.shown());
        assert_eq!(ran.stderr.lines().count(), 1, "{case:?}: {}", ran.stderr);
        shown.push_str(&ran.stderr);
    }
    filters().bind(|| insta::assert_snapshot!("environment", shown));
}

#[test]
fn unknown_flags_are_refused_by_the_parser_with_code_two() {
    assert_eq!(Annals::new().run(&["run", "--nonsense"]).code, 2);
    assert_eq!(Annals::new().run(&["fly"]).code, 2);
}

#[test]
fn a_misspelt_setting_is_refused_by_name() {
    let annals = Annals::new();
    let config = annals.file("config.toml", "max_iteration = 3");
    let ran = annals.run(&["doctor", "--config", config.to_str().unwrap()]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert!(ran.stderr.contains("max_iteration"), "{}", ran.stderr);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let annals = Annals::new();
    let mut child = annals.command(&["tool", "schema"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn colours_come_only_when_asked_for_or_on_a_terminal() {
    let annals = Annals::new();
    annals.run(&["tool", "call", "c1", "react.plan", r#"{"mode": "new", "steps": ["a"]}"#]).good();
    assert!(!annals.run(&["timeline", "show", "c1"]).good().stdout.contains('\u{1b}'));
    assert!(annals.run(&["timeline", "show", "c1", "--color", "always"]).good().stdout.contains('\u{1b}'));
}
