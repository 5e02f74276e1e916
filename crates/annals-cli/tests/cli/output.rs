//! What happens when standard output or a file cannot take what is written.

use std::fs::OpenOptions;
use std::process::Stdio;

use serde_json::json;

use super::annals::{Annals, Ran};

/// Runs with standard output on a device that is always full.
fn into_a_full_disk(annals: &Annals, args: &[&str]) -> Ran {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = annals
        .command(args)
        .stdout(Stdio::from(full))
        .stderr(Stdio::piped())
        .spawn();
    Ran::of(child.unwrap().wait_with_output().unwrap())
}

#[test]
fn a_full_disk_is_an_error_of_every_command_that_prints() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"text": "An answer."}]}));
    let run = ["run", "--model", &model, "--conversation", "c", "go"];
    annals.run(&run).good();
    for args in [
        vec!["run", "--model", &model, "go"],
        vec!["run", "--json", "--model", &model, "go"],
        vec!["conversations"],
        vec!["conversations", "--json"],
        vec!["timeline", "show", "c"],
        vec!["timeline", "blocks", "c"],
        vec!["timeline", "render", "c"],
        vec!["timeline", "export", "c"],
        vec!["tool", "list"],
        vec!["tool", "call", "c", "react.memsearch", "{\"query\": \"answer\"}"],
        vec!["doctor"],
        vec!["completions", "bash"],
    ] {
        let ran = into_a_full_disk(&annals, &args);
        assert_eq!(ran.code, 3, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("No space left"), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_file_that_cannot_be_written_whole_is_not_left_in_part() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"text": "An answer."}]}));
    annals
        .run(&[
            "run",
            "--model",
            &model,
            "--conversation",
            "c",
            "--turn-id",
            "turn_1",
            "go",
        ])
        .good();
    let path = "ar:turn_1.assistant.completion";
    for args in [
        vec!["read", "c", path, "-o", "/dev/full"],
        vec!["timeline", "export", "c", "-o", "/dev/full"],
        vec!["read", "c", path, "-o", "/nowhere/answer"],
    ] {
        let ran = annals.run(&args);
        assert_eq!(ran.code, 3, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("cannot write"), "{args:?}: {}", ran.stderr);
    }
    let out = annals.file("answer", "what was there before");
    annals
        .run(&["read", "c", path, "-o", out.to_str().unwrap()])
        .good();
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "An answer.");
    let beside: Vec<_> = std::fs::read_dir(annals.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("answer") && name != "answer")
        .collect();
    assert!(beside.is_empty(), "{beside:?}");
}
