//! `doctor`, `completions`, `man`.

use super::annals::{Annals, Ran};

#[test]
fn every_setting_is_shown_with_where_it_came_from() {
    let annals = Annals::new();
    let config = annals.file("config.toml", "max_iterations = 7\nlayout = 'timeline'\n");
    let mut command = annals.command(&[
        "doctor",
        "--json",
        "--config",
        config.to_str().unwrap(),
        "--scope",
        "a/b/c",
    ]);
    let output = command.env("ANNALS_MODEL", "ollama:qwen3").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let origin = |name: &str| {
        let settings = report["settings"].as_array().unwrap();
        let setting = settings.iter().find(|setting| setting["name"] == name).unwrap();
        format!("{} ({})", setting["value"], setting["origin"].as_str().unwrap())
    };
    let shown = ["model", "max_iterations", "layout", "scope", "sandbox"]
        .map(|name| format!("{name}: {}", origin(name)));
    insta::assert_snapshot!(shown.join("\n"), @r#"
    model: "ollama:qwen3" (env ANNALS_MODEL)
    max_iterations: 7 (config.toml `max_iterations`)
    layout: "timeline" (config.toml `layout`)
    scope: "a/b/c" (flag --scope)
    sandbox: "local" (default)
    "#);
    for section in ["isolation", "interpreters", "renderers", "model", "stores"] {
        assert!(!report[section].as_array().unwrap().is_empty(), "{section}");
    }
}

#[test]
fn limits_of_the_configuration_hold_in_the_sandbox_and_are_shown() {
    let annals = Annals::new();
    let config = "[sandbox.limits]\nopen_files = 64\nmemory_mib = 512\n";
    std::fs::write(annals.in_home("config.toml"), config).unwrap();
    let report = annals.run(&["doctor", "--json"]).good().json();
    let bounds = report["bounds"].as_array().unwrap();
    for bound in [
        serde_json::json!({"what": "memory", "most": "512 MiB"}),
        serde_json::json!({"what": "open files of a process", "most": "64"}),
    ] {
        assert!(bounds.contains(&bound), "{bound} in {bounds:?}");
    }
    let shown = annals.run(&["doctor"]).good().stdout;
    assert!(
        shown.contains("Bounds of the sandbox") && shown.contains("512 MiB"),
        "{shown}"
    );
    let call = r#"{"command": "ulimit -n"}"#;
    let ran = annals
        .run(&["tool", "call", "c", "run_shell_command", call])
        .good();
    let results = ran.json_lines();
    let result = results.iter().find(|block| block["type"] == "react.tool.result");
    let result: serde_json::Value = serde_json::from_str(result.unwrap()["text"].as_str().unwrap()).unwrap();
    assert_eq!(result["stdout"], "64\n", "{}", ran.stdout);
    std::fs::write(annals.in_home("config.toml"), "[sandbox.limits]\nmemory = 5\n").unwrap();
    let refused = annals.run(&["doctor"]);
    assert_eq!(refused.code, 2, "{}", refused.shown());
    assert!(refused.stderr.contains("memory_mib"), "{}", refused.stderr);
}

#[test]
fn a_key_is_never_printed() {
    let annals = Annals::new();
    let mut command = annals.command(&["doctor"]);
    let output = command
        .env("ANNALS_BRAVE_KEY", "very-secret")
        .env("OPENAI_API_KEY", "sk-secret")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("brave_key"), "{text}");
    assert!(
        !text.contains("very-secret") && !text.contains("sk-secret"),
        "{text}"
    );
}

#[test]
fn a_completion_script_and_a_manual_page_are_generated() {
    let annals = Annals::new();
    assert!(
        annals
            .run(&["completions", "bash"])
            .good()
            .stdout
            .contains("_annals")
    );
    assert!(annals.run(&["man"]).good().stdout.contains(".TH annals"));
}

#[test]
fn no_command_prints_a_password_of_an_address() {
    let annals = Annals::new();
    let address = "http://me:hunter2@127.0.0.1:1/v1?key=hunter2";
    annals.file(
        "config.toml",
        format!("searxng_url = '{address}'\nembeddings = 'openai:e'\nembeddings_url = '{address}'\n"),
    );
    let common = [
        "--config",
        "config.toml",
        "--base-url",
        address,
        "--model",
        "openai:m",
        "-vv",
    ];
    for command in [
        vec!["doctor"],
        vec!["doctor", "--json"],
        vec!["run", "Hi", "--max-iterations", "1"],
        vec!["memory", "search", "x"],
        vec!["--store", "mysql://me:hunter2@db/x", "conversations"],
        vec!["--store", "postgres://me:hunter2@db/x", "conversations"],
        vec!["--artifacts", "s3://me:hunter2@bucket/x", "conversations"],
    ] {
        let args: Vec<&str> = command.iter().chain(&common).copied().collect();
        let mut process = annals.command(&args);
        let ran = Ran::of(process.env("ANNALS_LOG", "trace").output().unwrap());
        assert!(!ran.shown().contains("hunter2"), "{command:?}: {}", ran.shown());
    }
}
