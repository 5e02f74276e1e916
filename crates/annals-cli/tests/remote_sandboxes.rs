//! `--sandbox opensandbox:URL` and `--sandbox e2b:URL` as a person types them, against the doubles.

#[path = "cli/annals.rs"]
#[allow(dead_code, reason = "each test program uses some of it")]
mod annals_program;

use annals_opensandbox_double::{Double, DoubleOptions, Wire};
use annals_program::{Annals, Ran};
use serde_json::{Value, json};

fn roles() {
    annals::launcher::init();
    annals_opensandbox_double::play_in_tests();
}

annals::sandbox::helpers_in_tests!(roles);

const KEY: &str = "key-of-the-server";

/// A server, and a home that is configured for it.
struct Server {
    runtime: tokio::runtime::Runtime,
    double: Option<Double>,
    annals: Annals,
    sandbox: String,
    variable: &'static str,
}

impl Server {
    fn start(wire: Wire) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let options = DoubleOptions {
            wire,
            key: Some(KEY.to_owned()),
            ..DoubleOptions::default()
        };
        let double = runtime.block_on(Double::start(options)).unwrap();
        let annals = Annals::new();
        let config = format!(
            "[sandbox.opensandbox]\nworkspace = '/workspace/home'\n\
             [sandbox.e2b]\nworkspace = '/workspace/home'\nsandbox_url = '{}'\n",
            double.sandbox_url()
        );
        std::fs::write(annals.in_home("config.toml"), config).unwrap();
        let (kind, variable) = match wire {
            Wire::OpenSandbox => ("opensandbox", "OPEN_SANDBOX_API_KEY"),
            Wire::E2b => ("e2b", "E2B_API_KEY"),
        };
        Self {
            sandbox: format!("{kind}:{}", double.url()),
            variable,
            double: Some(double),
            runtime,
            annals,
        }
    }

    fn run(&self, key: Option<&str>, args: &[&str]) -> Ran {
        let args: Vec<&str> = args.iter().copied().chain(["--sandbox", &self.sandbox]).collect();
        let mut command = self.annals.command(&args);
        command.env_remove(self.variable);
        if let Some(key) = key {
            command.env(self.variable, key);
        }
        Ran::of(command.output().unwrap())
    }

    fn double(&self) -> &Double {
        self.double.as_ref().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _inside = self.runtime.enter();
        self.double.take();
    }
}

fn runs_commands_and_code(wire: Wire) {
    let server = Server::start(wire);
    let code =
        "import os\nopen(os.environ['FILES_DIR'] + '/made.txt', 'w').write(open('notes.txt').read() * 2)\n";
    let model = server.annals.script(&json!({"steps": [
        {"tool_calls": [{"id": "a", "tool": "run_shell_command", "params": {"command": "echo noted > notes.txt; cat notes.txt"}}]},
        {"tool_calls": [{"id": "b", "tool": "exec_tools.execute_code_python",
            "params": {"code": code, "contract": [{"filename": "made.txt", "description": "made"}]}}]},
        {"text": "Done"},
    ]}));
    let args = [
        "run",
        "Go",
        "--model",
        &model,
        "--conversation",
        "c",
        "--turn-id",
        "turn_1",
        "--json",
    ];
    let ran = server.run(Some(KEY), &args).good();
    let blocks = ran.json_lines();
    let text = |kind: &str| -> Vec<&str> {
        let of_kind = blocks.iter().filter(|block| block["type"] == kind);
        of_kind.filter_map(|block| block["text"].as_str()).collect()
    };
    let results = text("react.tool.result");
    let first: Value = serde_json::from_str(results[0]).unwrap();
    assert_eq!(first["stdout"], "noted\n", "{}", ran.shown());
    assert!(results.contains(&"noted\nnoted\n"), "{results:#?}");
    assert_eq!(text("assistant.completion"), ["Done"]);
    assert_eq!(
        server.double().created(),
        1,
        "all calls of a turn share a sandbox"
    );
    assert!(!ran.shown().contains(KEY));
}

#[test]
fn a_turn_runs_on_an_opensandbox_server() {
    runs_commands_and_code(Wire::OpenSandbox);
}

#[test]
fn a_turn_runs_on_an_e2b_server() {
    runs_commands_and_code(Wire::E2b);
}

/// The files beside a skill are where its text says, run, and are as the skill has them whatever a command made of them.
fn runs_scripts_of_skills(wire: Wire) {
    let server = Server::start(wire);
    let skill = server.annals.in_home("skills/charts");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nname: charts\ndescription: How to draw\n---\nDraw.\n",
    )
    .unwrap();
    std::fs::write(skill.join("scripts/draw.py"), "print('drawn by the skill')\n").unwrap();
    let script = "/workspace/home/.skills/charts/scripts/draw.py";
    let spoilt = format!("python3 {script}; echo 'raise SystemExit(7)' > {script}; touch own.txt");
    let model = server.annals.script(&json!({"steps": [
        {"tool_calls": [{"id": "a", "tool": "react.read", "params": {"paths": ["sk:charts"]}}]},
        {"tool_calls": [{"id": "b", "tool": "run_shell_command", "params": {"command": spoilt}}]},
        {"tool_calls": [{"id": "c", "tool": "run_shell_command", "params": {"command": format!("python3 {script}; ls")}}]},
        {"text": "Done"},
    ]}));
    let args = ["run", "Go", "--model", &model, "--conversation", "c", "--json"];
    let ran = server.run(Some(KEY), &args).good();
    let shown = ran.shown();
    assert!(
        shown.contains("`/workspace/home/.skills/charts`") && shown.contains("- scripts/draw.py"),
        "{shown}"
    );
    let blocks = ran.json_lines();
    let results = blocks.iter().filter(|block| block["type"] == "react.tool.result");
    let stdout: Vec<String> = results
        .filter_map(|block| serde_json::from_str::<Value>(block["text"].as_str()?).ok())
        .filter_map(|report| report["stdout"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(
        stdout,
        ["drawn by the skill\n", "drawn by the skill\nown.txt\n"],
        "{shown}"
    );
    assert!(
        !shown.contains("\".skills/"),
        "a skill's file is nobody's change: {shown}"
    );
}

#[test]
fn scripts_of_skills_run_on_an_opensandbox_server() {
    runs_scripts_of_skills(Wire::OpenSandbox);
}

#[test]
fn scripts_of_skills_run_on_an_e2b_server() {
    runs_scripts_of_skills(Wire::E2b);
}

fn found(ran: &Ran, name: &str) -> (String, String) {
    let report = ran.json();
    let findings = report["stores"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["name"] == name);
    let finding = finding.unwrap_or_else(|| panic!("no `{name}` in {report:#}"));
    let text = |field: &str| finding[field].as_str().unwrap().to_owned();
    (text("state"), text("detail"))
}

fn doctor_tells(wire: Wire, origin: &str) {
    let server = Server::start(wire);
    let ran = server.run(Some(KEY), &["doctor", "--json"]).good();
    let (state, detail) = found(&ran, "sandbox");
    assert_eq!(state, "ok", "{detail}");
    assert!(detail.contains("0 sandboxes of this installation"), "{detail}");
    let (state, detail) = found(&ran, "sandbox on trial");
    assert!(matches!(state.as_str(), "ok" | "missing"), "{state}: {detail}");
    assert!(detail.contains(origin) && detail.contains("bash"), "{detail}");
    assert_eq!(server.double().created(), 1);
    assert!(server.double().live().is_empty(), "what was on trial is deleted");

    let (state, detail) = found(
        &server.run(Some("wrong"), &["doctor", "--json"]).good(),
        "sandbox",
    );
    let variable = server.variable;
    assert_eq!(state, "broken");
    let hint = format!("check the address and the key in `{variable}`");
    assert!(detail.contains("401") && detail.contains(&hint), "{detail}");
    let (_, detail) = found(&server.run(None, &["doctor", "--json"]).good(), "sandbox");
    assert!(
        detail.contains(&format!("no key is set in `{variable}`")),
        "{detail}"
    );
}

#[test]
fn doctor_tells_what_an_opensandbox_server_offers_and_what_is_missing() {
    doctor_tells(Wire::OpenSandbox, "image `opensandbox/code-interpreter:latest`");
}

#[test]
fn doctor_tells_what_an_e2b_server_offers_and_what_is_missing() {
    doctor_tells(Wire::E2b, "template `base`");
}

#[test]
fn a_server_without_an_address_is_told_with_an_example() {
    for (name, example) in [
        ("opensandbox", "opensandbox:http://host:8080"),
        ("e2b", "e2b:https://api.e2b.app"),
    ] {
        let annals = Annals::new();
        let model = annals.script(&json!({"steps": [{"text": "never"}]}));
        let ran = annals.run(&["run", "Hi", "--model", &model, "--sandbox", name]);
        assert_eq!(ran.code, 2, "{}", ran.shown());
        assert!(ran.stderr.contains(example), "{}", ran.shown());
    }
}
