//! What cannot be done is said in one sentence, with the code that says whose turn it is.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;

use super::annals::{Annals, Ran};

#[test]
#[allow(clippy::too_many_lines, reason = "one list of cases")]
fn what_was_typed_wrongly_ends_with_code_two_and_one_sentence() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": []}));
    annals
        .run(&[
            "tool",
            "call",
            "c1",
            "react.plan",
            r#"{"mode": "new", "steps": ["a"]}"#,
            "--turn-id",
            "turn_1",
        ])
        .good();
    let cases: &[(&[&str], &str)] = &[
        (&["run", "Hi"], "`--model`"),
        (&["run", "Hi", "--model", "gpt"], "`gpt` names no model"),
        (&["run", "Hi", "--model", "script:absent.json"], "absent.json"),
        (&["run", "", "--model", &model], "the prompt is empty"),
        (
            &["run", "Hi", "--model", &model, "--conversation", "not an id"],
            "`not an id`",
        ),
        (&["run", "Hi", "--model", &model, "--turn-id", "first"], "`first`"),
        (
            &[
                "run",
                "Hi",
                "--model",
                &model,
                "--conversation",
                "c1",
                "--turn-id",
                "turn_1",
            ],
            "turn `turn_1` exists already",
        ),
        (
            &["run", "Hi", "--model", &model, "--attach", "absent.csv"],
            "`absent.csv`",
        ),
        (
            &["timeline", "show", "absent"],
            "conversation `absent` does not exist",
        ),
        (
            &["timeline", "show", "c1", "--turn", "turn_9"],
            "no turn `turn_9`",
        ),
        (&["timeline", "render", "c1", "--at", "999"], "no block 999"),
        (&["timeline", "fork", "c1", "--at", "999"], "no block 999"),
        (&["timeline", "import", "absent.jsonl"], "`absent.jsonl`"),
        (
            &["read", "c1", "fi:turn_1.files/absent.md"],
            "`fi:turn_1.files/absent.md`",
        ),
        (&["read", "c1", "/etc/passwd"], "/etc/passwd"),
        (
            &["tool", "call", "c1", "react.nothing"],
            "no tool `react.nothing`",
        ),
        (&["tool", "call", "c1", "react.plan", "{not json"], "not JSON"),
        (&["tool", "call", "c1", "react.plan", "[1]"], "not a JSON object"),
        (&["tool", "schema", "nothing"], "no tool `nothing`"),
        (
            &["feedback", "c1", "turn_9", "--reaction", "up"],
            "no turn `turn_9`",
        ),
        (&["conversations", "--scope", "me"], "`me`"),
        (&["conversations", "--sandbox", "docker"], "`docker`"),
        (&["resume", "c1", "--model", &model], "no unfinished turn"),
    ];
    refused(&annals, 2, cases);
}

/// Each command ends with this code and one sentence that has this text in it.
#[track_caller]
fn refused(annals: &Annals, code: i32, cases: &[(&[&str], &str)]) {
    for (case, text) in cases {
        let ran = annals.run(case);
        assert_eq!(ran.code, code, "{case:?}: {}", ran.shown());
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.lines().count()),
            ("", 1),
            "{case:?}: {}",
            ran.shown()
        );
        assert!(
            ran.stderr.starts_with("error: ") && ran.stderr.contains(text),
            "{case:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn what_is_not_there_ends_with_code_three_and_one_sentence() {
    let annals = Annals::new();
    let sealed = annals.path().join("sealed");
    std::fs::write(&sealed, "a file where a folder should be").unwrap();
    std::fs::set_permissions(&sealed, std::fs::Permissions::from_mode(0o400)).unwrap();
    let sealed = sealed.to_str().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["conversations", "--home", sealed], "sealed"),
        (
            &["conversations", "--store", "postgres://127.0.0.1:1/annals"],
            "postgres://127.0.0.1/annals",
        ),
        (&["run", "Hi", "--model", "openai:gpt-5"], "`OPENAI_API_KEY`"),
        (
            &["run", "Hi", "--model", "anthropic:claude-sonnet-4-5"],
            "`ANTHROPIC_API_KEY`",
        ),
    ];
    refused(&annals, 3, cases);
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
    let mut child = annals
        .command(&["tool", "schema"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn colours_come_only_when_asked_for_or_on_a_terminal() {
    let annals = Annals::new();
    annals
        .run(&[
            "tool",
            "call",
            "c1",
            "react.plan",
            r#"{"mode": "new", "steps": ["a"]}"#,
        ])
        .good();
    assert!(
        !annals
            .run(&["timeline", "show", "c1"])
            .good()
            .stdout
            .contains('\u{1b}')
    );
    assert!(
        annals
            .run(&["timeline", "show", "c1", "--color", "always"])
            .good()
            .stdout
            .contains('\u{1b}')
    );
}

#[test]
fn what_is_no_regular_file_is_refused_at_once_and_leaves_no_conversation() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"text": "Hi."}]}));
    let pipe = annals.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let socket = annals.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let sparse = annals.file("sparse.bin", "");
    std::fs::File::options()
        .write(true)
        .open(&sparse)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let broken = annals.file("broken.docx", "PK\u{3}\u{4} no archive");
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    for (path, why) in [
        ("/dev/zero".to_owned(), "a device"),
        ("/dev/tty".to_owned(), "attach"),
        (text(&pipe), "a pipe"),
        (text(&socket), "a socket"),
        (text(annals.path()), "a folder"),
        (text(&sparse), "at most 50000000 are accepted"),
        (text(&broken), "broken.docx"),
    ] {
        let ran = annals.run(&["run", "Hi", "--model", &model, "--attach", &path]);
        assert_eq!(ran.code, 2, "{path}: {}", ran.shown());
        assert!(ran.stderr.contains(why), "{path}: {}", ran.stderr);
    }
    let chat = format!("/attach /dev/zero\n/attach {}\n/quit\n", pipe.display());
    let ran = annals
        .run_with(&["chat", "--model", &model, "--conversation", "c"], &chat)
        .good();
    assert!(
        ran.stderr.contains("a device") && ran.stderr.contains("a pipe"),
        "{}",
        ran.stderr
    );
    let listed = annals.run(&["conversations"]).good();
    assert!(!listed.stdout.contains("Hi"), "{}", listed.stdout);
}

/// What a command reads by name or from standard input has an end, whatever lies there.
#[test]
fn no_command_waits_for_a_pipe_or_reads_a_device_without_end() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"text": "Hi."}]}));
    let pipe = annals.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let pipe = pipe.to_str().unwrap();
    refused(
        &annals,
        2,
        &[
            (
                &["run", "Hi", "--model", &model, "--schema", "/dev/zero"],
                "it is a device, not a file",
            ),
            (
                &["run", "Hi", "--model", &model, "--schema", pipe],
                "it is a pipe, not a file",
            ),
            (&["policy", "set", "/dev/zero"], "it is a device, not a file"),
            (&["policy", "set", pipe], "it is a pipe, not a file"),
            (&["timeline", "import", "/dev/zero"], "it is a device, not a file"),
            (&["timeline", "import", pipe], "it is a pipe, not a file"),
        ],
    );
    for args in [
        &["run", "-", "--model", &model][..],
        &["tool", "call", "c", "react.read", "-"],
        &["policy", "set", "-"],
        &["policy", "check", "-"],
    ] {
        let mut command = annals.command(args);
        let endless = std::fs::File::open("/dev/zero").unwrap();
        let ran = Ran::of(command.stdin(endless).output().unwrap());
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.shown());
        assert!(
            ran.stderr.contains("it has more than"),
            "{args:?}: {}",
            ran.stderr
        );
    }
    let skill = annals.in_home("skills/odd");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: odd\ndescription: Odd\n---\nText\n",
    )
    .unwrap();
    let sources = skill.join("sources.yaml");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&sources)
            .status()
            .unwrap()
            .success()
    );
    let ran = annals.run(&["skill", "check"]);
    assert!(
        ran.shown().contains("it is a pipe, not a file"),
        "{}",
        ran.shown()
    );
}
