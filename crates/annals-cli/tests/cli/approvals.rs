//! Rules and approvals: what is asked, who decides, from which process, and that it happens once.

use std::io::Write as _;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::annals::Annals;

const ASK_TOUCH: &str = "[[rule]]\nname = \"touching\"\ntool = \"run_shell_command\"\ncommand = [\"touch\"]\ndecide = \"ask\"\n\
                         why = \"files are counted\"\n";

fn with_policy(text: &str) -> Annals {
    let annals = Annals::new();
    std::fs::write(annals.in_home("policy.toml"), text).unwrap();
    annals
}

fn shell(command: &str) -> Value {
    json!({"tool_calls": [{"id": "t", "tool": "run_shell_command", "params": {"command": command}}]})
}

/// A turn in a process of its own that has come to a question.
fn waiting(annals: &Annals, script: &Value) -> Child {
    annals.run_until("Go", script, "approval.request")
}

fn pending(annals: &Annals) -> Vec<Value> {
    let listed = annals.run(&["approvals", "--json"]).good();
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    listed["items"].as_array().unwrap().clone()
}

fn blocks(annals: &Annals, kind: &str) -> Vec<Value> {
    let all = annals.run(&["timeline", "blocks", "c1"]).good();
    let blocks = all
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    blocks.filter(|block| block["type"] == kind).collect()
}

#[test]
fn a_pending_call_survives_a_kill_and_is_decided_once_from_another_process() {
    let annals = with_policy(ASK_TOUCH);
    let script = json!({"steps": [shell("touch made && echo done >> log"), {"text": "ok"}]});
    let mut child = waiting(&annals, &script);
    child.kill().unwrap();
    child.wait().unwrap();
    let waits = pending(&annals);
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert_eq!(
        (&waits[0]["conversation"], &waits[0]["request"]["rule"]),
        (&json!("c1"), &json!("touching"))
    );
    let id = waits[0]["request"]["approval_id"].as_str().unwrap().to_owned();
    let decided = annals.run(&["approve", "c1", &id]).good();
    assert!(decided.stderr.contains("annals resume c1"), "{}", decided.shown());
    let again = annals.run(&["approve", "c1", &id, "--deny"]);
    assert_eq!(again.code, 2, "the first decision holds: {}", again.shown());
    let rest = annals.script(&json!({"steps": [{"text": "ok"}]}));
    annals.run(&["resume", "c1", "--model", &rest]).good();
    assert!(pending(&annals).is_empty());
    assert_eq!(blocks(&annals, "approval.decision").len(), 1);
    let results = blocks(&annals, "react.tool.result");
    assert_eq!(results.len(), 1, "it ran once: {results:?}");
    assert!(
        results[0]["text"].as_str().unwrap().contains("\"exit_code\":0"),
        "{results:?}"
    );
    let nothing = annals.run(&["approve", "c1", &id]);
    assert_eq!(nothing.code, 2, "{}", nothing.shown());
}

#[test]
fn a_running_turn_hears_a_decision_of_another_process() {
    let annals = with_policy(ASK_TOUCH);
    let script =
        json!({"steps": [shell("touch made"), {"expect": ["denied_by_person", "not today"], "text": "ok"}]});
    let mut child = waiting(&annals, &script);
    let id = pending(&annals)[0]["request"]["approval_id"]
        .as_str()
        .unwrap()
        .to_owned();
    annals
        .run(&["approve", "c1", &id, "--deny", "--note", "not today"])
        .good();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn always_writes_the_narrow_rule_and_keeps_what_the_file_says() {
    let annals = with_policy(ASK_TOUCH);
    let config = "# mine\nmax_iterations = 7 # enough\n";
    std::fs::write(annals.in_home("config.toml"), config).unwrap();
    let mut child = waiting(&annals, &json!({"steps": [shell("touch made"), {"text": "ok"}]}));
    let id = pending(&annals)[0]["request"]["approval_id"]
        .as_str()
        .unwrap()
        .to_owned();
    annals.run(&["approve", "c1", &id, "--always"]).good();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let kept = std::fs::read_to_string(annals.in_home("config.toml")).unwrap();
    assert!(kept.starts_with(config), "{kept}");
    assert!(
        kept.contains("command = [\"touch\", \"made\"]") && kept.contains("answers = \"touching\""),
        "{kept}"
    );
    let check = |command: &str| {
        let call = json!({"tool": "run_shell_command", "params": {"command": command}}).to_string();
        let said = annals.run(&["policy", "check", &call, "--json"]).good();
        serde_json::from_str::<Value>(&said.stdout).unwrap()["decide"].clone()
    };
    assert_eq!(
        (check("touch made"), check("touch other")),
        (json!("allow"), json!("ask"))
    );
}

#[test]
fn an_unattended_run_is_told_no_instead_of_waiting() {
    let annals = with_policy(ASK_TOUCH);
    let script = json!({"steps": [
        shell("touch made"),
        {"expect": ["denied_by_policy", "nobody can be asked", "files are counted"], "text": "ok"},
    ]});
    let model = annals.script(&script);
    let ran = annals
        .run(&["run", "Go", "--model", &model, "--conversation", "c1"])
        .good();
    assert_eq!(ran.stdout.trim(), "ok");
    assert!(blocks(&annals, "approval.request").is_empty());
}

#[test]
fn chat_asks_in_place_with_the_command() {
    let annals = with_policy(ASK_TOUCH);
    let script = json!({"steps": [
        shell("touch made"), {"text": "one"},
        shell("touch made"), {"expect": ["\"exit_code\":0"], "text": "two"},
        shell("touch other"), {"expect": ["denied_by_person", "leave it"], "text": "three"},
    ]});
    let model = annals.script(&script);
    let mut chat = annals
        .command(&["chat", "--model", &model, "--conversation", "c1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let typed = "Go\nc\nAgain\nOnce more\nd leave it\n/quit\n";
    chat.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let ran = chat.wait_with_output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{out}\n{err}");
    assert!(
        out.contains("one") && out.contains("two") && out.contains("three"),
        "{out}\n{err}"
    );
    assert!(
        err.contains("touch made") && err.contains("files are counted"),
        "{err}"
    );
    assert_eq!(
        blocks(&annals, "approval.request").len(),
        2,
        "the second was covered by the first"
    );
}

#[test]
fn a_rule_is_explained_and_a_broken_file_is_named_with_its_line() {
    let annals = with_policy(ASK_TOUCH);
    let call = json!({"tool": "run_shell_command", "params": {"command": "ls && sudo touch x"}}).to_string();
    let said = annals.run(&["policy", "check", &call]).good();
    assert!(
        said.stdout.starts_with("ask\n") && said.stdout.contains("policy.toml:1"),
        "{}",
        said.shown()
    );
    std::fs::write(
        annals.in_home("policy.toml"),
        "\n[[rule]]\ntool = \"run_shel_command\"\ndecide = \"deny\"\n",
    )
    .unwrap();
    let model = annals.script(&json!({"steps": [{"text": "never"}]}));
    for args in [&["policy", "check", &call][..], &["run", "Go", "--model", &model]] {
        let refused = annals.run(args);
        assert_eq!(refused.code, 2, "{}", refused.shown());
        let names =
            refused.stderr.contains("line 2") && refused.stderr.contains("did you mean `run_shell_command`?");
        assert!(names, "{}", refused.shown());
    }
}

#[test]
fn what_runs_on_the_host_itself_is_asked_about() {
    let annals = Annals::new();
    let call = json!({"tool": "run_shell_command", "params": {"command": "ls"}}).to_string();
    let sandboxed = annals.run(&["policy", "check", &call]).good();
    let on_host = annals
        .run(&["policy", "check", &call, "--sandbox", "trusted-host"])
        .good();
    assert!(sandboxed.stdout.starts_with("allow"), "{}", sandboxed.shown());
    assert!(on_host.stdout.starts_with("ask"), "{}", on_host.shown());
}

#[test]
fn a_scope_has_rules_and_a_budget_of_its_own() {
    let annals = Annals::new();
    let row = annals.in_home("bob.toml");
    let text = "[budget.scope]\nmodel_calls = 1\n\n[[rule]]\nname = \"still\"\ntool = \"run_shell_command\"\ndecide = \"deny\"\n";
    std::fs::write(&row, text).unwrap();
    let row = row.to_str().unwrap();
    let bob = ["--scope", "acme/web/bob"];
    let of_bob = |args: &[&str]| annals.run(&[args, &bob].concat());
    of_bob(&["policy", "set", row]).good();
    assert_eq!(of_bob(&["policy", "show"]).good().stdout, text);
    assert_eq!(annals.run(&["policy", "show"]).good().stdout, "");
    let call = json!({"tool": "run_shell_command", "params": {"command": "true"}}).to_string();
    let said = of_bob(&["policy", "check", &call]).good();
    assert!(
        said.stdout.starts_with("deny\n") && said.stdout.contains("still scope:"),
        "{}",
        said.shown()
    );
    assert!(
        annals
            .run(&["policy", "check", &call])
            .good()
            .stdout
            .starts_with("allow\n")
    );
    std::fs::write(row, "[budget.scop]\nmodel_calls = 1\n").unwrap();
    let wrong = of_bob(&["policy", "set", row]);
    assert!(
        wrong.code == 2 && wrong.stderr.contains("scop"),
        "{}",
        wrong.shown()
    );
    let model = annals.script(&json!({"steps": [{"text": "ok"}]}));
    of_bob(&["run", "Go", "--model", &model]).good();
    let over = of_bob(&["run", "Go", "--model", &model]);
    assert_eq!(over.code, 1, "another process, the same book: {}", over.shown());
    assert!(
        over.stderr.contains("budget.scope.model_calls"),
        "{}",
        over.shown()
    );
    annals.run(&["run", "Go", "--model", &model]).good();
}

#[test]
fn rules_that_cannot_be_read_are_told_at_the_start() {
    let annals = Annals::new();
    std::fs::write(
        annals.in_home("policy.toml"),
        "[[rule]]\ntool = \"*\"\nthen = \"ask\"\n",
    )
    .unwrap();
    let model = annals.script(&json!({"steps": [{"text": "x"}]}));
    let refused = annals.run(&["serve", "--listen", "127.0.0.1:0", "--model", &model]);
    assert_eq!(refused.code, 2, "{}", refused.shown());
    assert!(
        refused.stderr.contains("line 3: unknown field `then`"),
        "{}",
        refused.shown()
    );
}
