//! Foreign text on a real terminal: everything hostile is shown, nothing of it is sent.

use std::process::Command;

use serde_json::{Value, json};

use super::annals::Annals;
use super::hostile_text::{Mechanism, mechanisms};
use super::pty::OnTerminal;

/// A text that names its mechanism, so that it can be found again.
fn attack(at: usize, (_, raw): Mechanism) -> String {
    format!("M{at:03}{raw}Z")
}

/// How an attack must look on the screen.
fn visible(attack: &str) -> String {
    let show = |c: char| match c {
        ' '..='~' => c.to_string(),
        other => other.escape_default().to_string(),
    };
    attack.chars().map(show).collect()
}

fn attacks() -> Vec<String> {
    let all = mechanisms();
    assert!(all.len() >= 150, "only {}", all.len());
    all.into_iter()
        .enumerate()
        .map(|(at, one)| attack(at, one))
        .collect()
}

/// A model that says everything hostile there is, and writes this many files of it, an attack each.
fn hostile_model(annals: &Annals, attacks: &[String], files: usize) -> String {
    let writes: Vec<Value> = attacks
        .iter()
        .take(files)
        .enumerate()
        .map(|(at, text)| {
            let params =
                json!({"path": format!("w{at}.md"), "channel": "canvas", "content": text, "kind": "file"});
            json!({"tool": "react.write", "params": params})
        })
        .collect();
    let mut steps: Vec<Value> = writes
        .chunks(60)
        .map(|calls| json!({"thinking": attacks.join(" "), "text": attacks.join("\n"), "tool_calls": calls}))
        .collect();
    steps.push(json!({"tool_calls": [{"tool": attacks[60], "params": {}}]}));
    steps.push(json!({"text": attacks.join("\n\n")}));
    annals.script(&json!({"steps": steps}))
}

#[track_caller]
fn assert_harmless(what: &str, screen: &str, attacks: &[String], is_whole: bool) {
    for attack in attacks {
        let body = &attack[4..];
        let is_plain_prefix = body.chars().next().is_some_and(|c| (' '..='~').contains(&c));
        // The marker stands before the attack, so what follows a marker is its own.
        let shown = visible(attack);
        assert!(!screen.contains(attack), "{what}: {shown} was sent");
        for place in screen.match_indices(&attack[..4]) {
            let after = &screen[place.0 + 4..];
            let first = after.chars().next().unwrap_or(' ');
            let is_ours = after.starts_with("\u{1b}[0m") || after.starts_with('\r') || is_plain_prefix;
            assert!(
                is_ours || (' '..='~').contains(&first) || first == '…',
                "{what}: {shown}: {first:?}"
            );
        }
        assert!(
            !is_whole || screen.contains(&shown),
            "{what}: {shown} is not shown"
        );
    }
}

#[test]
fn the_corpus_is_listed_and_its_mechanisms_are_distinct() {
    let lines = mechanisms()
        .into_iter()
        .map(|(name, raw)| format!("{name}: {}", visible(raw)));
    annals_requirements::assert_listed("terminal", 100, lines);
}

#[test]
fn the_attacks_are_real_where_nothing_stands_between() {
    let (annals, attacks) = (Annals::new(), attacks());
    let file = annals.file("raw.txt", attacks.join("\n"));
    let (screen, code) = OnTerminal::spawn(Command::new("cat").arg(&file)).finish();
    assert_eq!(code, 0);
    for attack in &attacks {
        assert!(
            screen.contains(attack.as_str()),
            "{} did not arrive",
            visible(attack)
        );
    }
}

#[test]
fn nothing_a_model_or_a_tool_says_steers_the_terminal() {
    let (annals, attacks) = (Annals::new(), attacks());
    let model = hostile_model(&annals, &attacks, attacks.len());
    let on_terminal = |args: &[&str]| OnTerminal::spawn(&mut annals.command(args)).finish();
    // No argument of a program can have a null in it.
    let prompt = attacks[1..].join(" ");
    let run = ["run", "--model", &model, "--conversation", "c", &prompt, "-v"];
    let (screen, code) = on_terminal(&run);
    assert_eq!(code, 0, "{screen}");
    assert_harmless("run", &screen, &attacks, true);
    // A conversation that nobody named has the beginning of its prompt for a title.
    let model = annals.script(&json!({"steps": [{"text": "Hello."}]}));
    annals
        .run(&["run", "--model", &model, &attacks[19..25].join(" ")])
        .good();
    let path = "ar:turn_1.assistant.completion";
    let turn = annals.run(&["timeline", "blocks", "c"]).good();
    let turn = turn.json_lines()[0]["turn_id"].as_str().unwrap().to_owned();
    let path = path.replace("turn_1", &turn);
    for (args, is_whole) in [
        (vec!["timeline", "render", "c"], true),
        (vec!["read", "c", &path], true),
        (vec!["timeline", "show", "c"], false),
        (
            vec!["memory", "search", "pwned M001 M080", "--top-k", "50"],
            false,
        ),
        (vec!["conversations"], false),
        (vec!["read", "c", &attacks[45]], false),
    ] {
        let (screen, _) = on_terminal(&args);
        assert!(
            screen.contains("M0") || screen.contains("M1"),
            "{args:?} showed nothing:\n{screen}"
        );
        assert_harmless(&args.join(" "), &screen, &attacks, is_whole);
    }
    for args in [
        vec!["timeline", "blocks", "c"],
        vec!["timeline", "render", "c", "--json"],
        vec!["memory", "search", "pwned", "--json"],
    ] {
        let (screen, _) = on_terminal(&args);
        assert!(
            screen.contains("M0") || screen.contains("M1"),
            "{args:?} showed nothing:\n{screen}"
        );
        assert_harmless(&args.join(" "), &screen, &attacks, false);
        let piped = annals.run(&args).good();
        let parse = |text: &str| -> Vec<Value> {
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        };
        assert_eq!(
            parse(&screen),
            parse(&piped.stdout),
            "{args:?} means something else on a terminal"
        );
    }
    // A pipe gets every byte.
    let piped = annals.run(&["read", "c", &path]).good();
    assert_eq!(piped.stdout, attacks.join("\n\n"));
}

#[test]
fn a_chat_shows_hostile_answers_errors_and_titles() {
    let (annals, attacks) = (Annals::new(), attacks());
    let model = hostile_model(&annals, &attacks, 3);
    let lines = annals.file("lines.txt", "go\n/timeline\n/files\n/quit\n");
    let mut chat = annals.command(&["chat", "--model", &model, "--conversation", "c"]);
    let (screen, code) = OnTerminal::spawn(chat.stdin(std::fs::File::open(lines).unwrap())).finish();
    assert_eq!(code, 0, "{screen}");
    assert_harmless("chat", &screen, &attacks, true);
}

#[test]
fn code_that_fails_cannot_reach_the_terminal_through_its_last_line() {
    let annals = Annals::new();
    let steal = "printf '\\033]52;c;cHduZWQ=\\007M000\\n' >&2; exit 3";
    let call = json!({"tool": "exec_tools.execute_code_bash", "params": {"code": steal, "contract": [], "timeout_s": 20}});
    let model = annals.script(&json!({"steps": [{"tool_calls": [call]}, {"text": "Done."}]}));
    std::fs::write(annals.in_home("policy.toml"), "default = \"allow-all\"\n").unwrap();
    let args = ["run", "--model", &model, "--sandbox", "trusted-host", "go"];
    let (screen, code) = OnTerminal::spawn(&mut annals.command(&args)).finish();
    assert_eq!(code, 0, "{screen}");
    assert!(!screen.contains("\u{1b}]52"), "{screen:?}");
    assert!(screen.contains("M000"), "the error line is not shown: {screen:?}");
}

#[test]
fn an_answer_cites_with_numbers_and_lists_its_sources() {
    let annals = Annals::new();
    let page = annals.file("page.md", "Tides follow the moon.\n");
    let model = annals.script(&json!({"steps": [
        {"text": "Tides follow the moon [[S:1]], always [[S:1,4]]. `[[S:1]]` is code."},
    ]}));
    let piped = annals
        .run(&[
            "run",
            "--model",
            &model,
            "--conversation",
            "c",
            "--attach",
            page.to_str().unwrap(),
            "Why?",
        ])
        .good();
    assert!(
        piped
            .stdout
            .starts_with("Tides follow the moon [1], always [1][2]. `[[S:1]]` is code.\n\nSources:\n[1] "),
        "{}",
        piped.stdout
    );
    assert!(
        piped
            .stdout
            .contains("[2] a source that is not in the conversation (4)"),
        "{}",
        piped.stdout
    );
    let shown = annals.run(&["timeline", "show", "c"]).good();
    assert!(
        shown.stdout.contains("Tides follow the moon [1], always [1][2]."),
        "{}",
        shown.stdout
    );
    let (screen, _) = OnTerminal::spawn(&mut annals.command(&["run", "--model", &model, "Why?"])).finish();
    assert!(screen.contains("always [1][2]"), "{screen:?}");
}

/// `read` gets a file in pieces: what their boundaries cut in two is one thing on the screen all the same.
#[test]
fn what_is_read_in_pieces_is_shown_whole_and_without_secrets() {
    let annals = Annals::new();
    let key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
    // Three bytes each: a boundary of any power of two lies within a character, and keys lie across all of them.
    let text: String = (0..1_200)
        .map(|_| format!("{} {key} ", "日".repeat(41)))
        .collect();
    let model = annals.script(&json!({"steps": [{"text": "Kept."}]}));
    let file = annals.file("long.txt", &text);
    let run = [
        "run",
        "Keep this",
        "--model",
        &model,
        "--conversation",
        "c",
        "--turn-id",
        "turn_1",
        "--attach",
    ];
    annals.run(&[&run[..], &[file.to_str().unwrap()]].concat()).good();
    let shown = annals.run(&["timeline", "blocks", "c"]).good();
    let path = shown
        .json_lines()
        .iter()
        .find_map(|block| {
            block["path"]
                .as_str()
                .filter(|path| path.ends_with("long.txt"))
                .map(str::to_owned)
        })
        .unwrap();
    let (screen, code) = OnTerminal::spawn(&mut annals.command(&["read", "c", &path])).finish();
    assert_eq!(code, 0);
    assert_eq!(screen.matches('日').count(), 1_200 * 41);
    assert!(!screen.contains('\u{fffd}'));
    assert!(!screen.contains("sk-ant"), "a key reached the screen");
}

#[test]
fn an_export_is_not_sent_to_a_terminal() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"text": "a\u{9b}2J\u{202e}b"}]}));
    annals
        .run(&["run", "Hi", "--model", &model, "--conversation", "c"])
        .good();
    let (screen, code) = OnTerminal::spawn(&mut annals.command(&["timeline", "export", "c"])).finish();
    assert_eq!(code, 2, "{screen}");
    assert!(screen.contains("not for a terminal"), "{screen}");
    assert!(!screen.contains('\u{9b}') && !screen.contains('\u{202e}'));
    let piped = annals.run(&["timeline", "export", "c"]).good();
    assert!(
        piped.stdout.contains("\u{202e}"),
        "every byte goes through a pipe"
    );
}

#[test]
fn a_title_does_not_show_or_keep_a_secret_of_its_prompt() {
    let annals = Annals::new();
    let key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
    let model = annals.script(&json!({"steps": [{"text": "Hi."}]}));
    // The title would end within the key.
    let prompt = format!("Please try the following key and say whether it works: {key}");
    annals.run(&["run", &prompt, "--model", &model]).good();
    let stored = annals.run(&["conversations", "--json"]).good();
    assert!(stored.stdout.contains("whether it works"), "{}", stored.stdout);
    assert!(!stored.stdout.contains("sk-ant"), "{}", stored.stdout);
}
