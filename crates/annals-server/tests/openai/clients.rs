//! Clients that people use, as they come from their registries, against a real server with the script model behind it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use annals_core::sources::SourceRow;
use annals_core::turn::outcome::{self, Outcome, Payload};
use annals_requirements::{Installed, installed};
use annals_tools::{Tool, ToolCx, ToolSpec};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::common::{Running, options};

/// What a client may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(120);

fn script_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(name)
}

/// Runs a client to its end, with where the server is.
async fn run(server: &Running, mut command: Command) -> Output {
    command
        .env("ANNALS_URL", &server.base)
        .env("ANNALS_TOKEN", &server.token)
        .env("NO_PROXY", "127.0.0.1")
        .env("no_proxy", "127.0.0.1")
        .stdin(std::process::Stdio::null());
    let mut command = tokio::process::Command::from(command);
    let ended = tokio::time::timeout(PATIENCE, command.kill_on_drop(true).output()).await;
    ended
        .expect("the client ends in time")
        .expect("the client can be started")
}

/// Runs a client's script, which checks everything itself.
async fn passes(set: &str, script: &str, steps: Value) {
    let Some(client) = installed(set) else { return };
    let server = Running::start(steps).await;
    let ended = run(&server, client.script(&script_file(script))).await;
    assert!(ended.status.success(), "{}", complaint(&ended));
}

fn complaint(ended: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{}\n{}\n{}",
        ended.status,
        text(&ended.stdout),
        text(&ended.stderr)
    )
}

fn says(text: &str) -> Value {
    json!({"text": text, "usage": {"input_tokens": 5, "output_tokens": 3}})
}

/// A step that calls the client's tool `add`.
fn calls_add() -> Value {
    json!({"tool_calls": [{"tool": "client.add", "params": {"a": 2, "b": 3}}], "usage": {"input_tokens": 5, "output_tokens": 3}})
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_python_talks_to_the_agent() {
    let steps = json!([
        {"text": "Drafting", "tool_calls": [{"id": "tc_a1", "tool": "react.write",
            "params": {"path": "report.md", "channel": "canvas", "content": "# Report", "kind": "display"}}],
         "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 4}},
        {"text": "Done", "usage": {"input_tokens": 20, "output_tokens": 2}},
        {"text": "You are welcome", "expect": ["Write a report"], "usage": {"input_tokens": 10, "output_tokens": 2}},
        says("Hello"),
        {"error": {"kind": "auth"}}, {"error": {"kind": "auth"}},
        {"text": "Noted", "expect": ["[USER INSTRUCTIONS]", "Be brief"], "usage": {"input_tokens": 5, "output_tokens": 1}},
        {"text": "Ada", "expect": ["My name is Ada"]},
        {"text": "A fork", "expect": ["My name is Ada"]},
        {"text": "Done later", "delay_ms": 300},
        {"text": "Plum and a dot", "expect": ["The secret word is plum", "notes.txt"]},
        {"text": "Pear", "expect": ["p.txt"]},
        calls_add(), {"text": "Five", "expect": ["the sum is 5"]},
        calls_add(), {"text": "Five, streamed", "expect": ["the sum is 5"]},
        calls_add(), {"text": "Five by responses", "expect": ["the sum is 5"]},
    ]);
    passes("openai-python", "openai_python.py", steps).await;
}

/// Finds a page.
struct Finds(ToolSpec);

#[async_trait]
impl Tool for Finds {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn run(&self, _cx: &ToolCx, _args: Value) -> Outcome {
        let moon = SourceRow::web(
            "https://moon.example/tides?of=the+sea",
            "Moon – tides",
            "It pulls.",
        );
        Outcome {
            output: outcome::Output::Payload(Payload::markdown("found")),
            sources: vec![moon],
            ..Outcome::default()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_python_reads_the_sources_of_an_answer() {
    let Some(client) = installed("openai-python") else {
        return;
    };
    let asked = [
        json!({"tool_calls": [{"tool": "finds", "params": {}}]}),
        json!({"text": "Der Mond – größer als gedacht – zieht [[S:1]]; [1] `[[S:1]]`, so ist es [[S:1]]."}),
    ];
    let steps: Vec<Value> = asked.iter().cycle().take(8).cloned().collect();
    let spec = ToolSpec::builder("finds")
        .description("finds pages")
        .build()
        .unwrap();
    let tool: Arc<dyn Tool> = Arc::new(Finds(spec));
    let server = Running::with(json!(steps), options(), |builder| builder.tools([tool])).await;
    let ended = run(&server, client.script(&script_file("openai_citations.py"))).await;
    assert!(ended.status.success(), "{}", complaint(&ended));
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_node_talks_to_the_agent() {
    let steps = json!([
        says("Hello"), says("Hello again"), says("Helped"), {"error": {"kind": "auth"}},
        says("Noted"), {"text": "Ada", "expect": ["My name is Ada"]},
    ]);
    passes("openai-node", "openai_node.mjs", steps).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn langchain_talks_to_the_agent() {
    let steps = json!([
        says("Hello"), {"text": "More of it", "expect": ["Hello"]}, says("In pieces"), says("By responses, too"),
        says("Streamed"),
        calls_add(), {"text": "Five", "expect": ["the sum is 5"]},
        calls_add(), {"text": "Five by responses", "expect": ["the sum is 5"]},
    ]);
    passes("langchain", "langchain.py", steps).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn litellm_talks_to_the_agent() {
    let steps = json!([says("Hello"), says("In pieces"), says("By responses")]);
    passes("litellm", "litellm_client.py", steps).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ai_sdk_talks_to_the_agent() {
    let mut thinking = says("In pieces");
    thinking["thinking"] = json!("Let me think");
    let steps = json!([
        says("Hello"),
        thinking,
        says("By responses, too"),
        says("Streamed"),
        calls_add(),
        {"text": "Five", "expect": ["the sum is 5"]},
        calls_add(),
        {"text": "Five by responses", "expect": ["the sum is 5"]},
    ]);
    passes("ai-sdk", "ai_sdk.mjs", steps).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn llm_talks_to_the_agent() {
    let Some(client) = installed("llm") else { return };
    let server = Running::start(json!([says("Hello from Annals"), says("Goodbye")])).await;
    let folder = tempfile::tempdir().unwrap();
    let models = format!(
        "- model_id: agent\n  model_name: annals\n  api_base: {}/v1\n  api_key_name: annals\n",
        server.base
    );
    std::fs::write(folder.path().join("extra-openai-models.yaml"), models).unwrap();
    std::fs::write(
        folder.path().join("keys.json"),
        json!({"annals": server.token}).to_string(),
    )
    .unwrap();
    let llm = |arguments: &[&str]| {
        let mut command = Command::new(client.program("python"));
        command
            .args(["-m", "llm"])
            .args(arguments)
            .env("LLM_USER_PATH", folder.path());
        command
    };
    let first = run(&server, llm(&["prompt", "-m", "agent", "Say hello"])).await;
    assert_eq!(
        String::from_utf8_lossy(&first.stdout).trim(),
        "Hello from Annals",
        "{}",
        complaint(&first)
    );
    let second = run(&server, llm(&["prompt", "-m", "agent", "-c", "Say goodbye"])).await;
    assert_eq!(
        String::from_utf8_lossy(&second.stdout).trim(),
        "Goodbye",
        "{}",
        complaint(&second)
    );
    assert_eq!(prompts(&server).await, [["Say hello", "Say goodbye"]]);
}

/// The prompts of every conversation that is listed, the oldest conversation first.
async fn prompts(server: &Running) -> Vec<Vec<String>> {
    let listed = server.get_json("/v1/conversations").await;
    let mut all = Vec::new();
    for conversation in listed["items"].as_array().unwrap().iter().rev() {
        let path = format!(
            "/v1/conversations/{}/blocks",
            conversation["id"].as_str().unwrap()
        );
        let blocks = server.get_json(&path).await;
        let prompts = blocks["items"].as_array().unwrap().iter();
        let prompts = prompts.filter(|block| block["type"] == "user.prompt");
        all.push(
            prompts
                .map(|block| block["text"].as_str().unwrap().to_owned())
                .collect(),
        );
    }
    all
}

/// opencode in a home of its own.
fn opencode(client: &Installed, home: &Path, server: &Running, arguments: &[&str]) -> Command {
    let config = json!({
        "provider": {"annals": {"npm": "@ai-sdk/openai-compatible", "name": "Annals",
            "options": {"baseURL": format!("{}/v1", server.base), "apiKey": server.token},
            "models": {"annals": {"name": "Annals"}}}},
        "model": "annals/annals", "autoupdate": false, "share": "disabled",
    });
    // A home is no project: the file would not be looked at there.
    let project = home.join("project");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("opencode.json"), config.to_string()).unwrap();
    // Its launcher wants a script run at the installation; the program itself does not.
    let mut command = Command::new(
        client
            .folder()
            .join("node_modules/opencode-linux-x64-baseline/bin/opencode"),
    );
    command
        .args(arguments)
        .env("PWD", &project)
        .current_dir(project)
        .env("HOME", home);
    for name in [
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "XDG_STATE_HOME",
    ] {
        command.env(name, home.join(name));
    }
    command
        .env("OPENCODE_DISABLE_MODELS_FETCH", "1")
        .env("OPENCODE_DISABLE_AUTOUPDATE", "1");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn opencode_makes_no_turn_of_its_title_and_continues_its_conversation() {
    let Some(client) = installed("opencode") else {
        return;
    };
    // The title and the first prompt are asked for at once, in any order.
    let server = Running::start(json!([
        says("Same for both"),
        says("Same for both"),
        says("The second")
    ]))
    .await;
    let home = tempfile::tempdir().unwrap();
    let first = run(
        &server,
        opencode(&client, home.path(), &server, &["run", "Say hello"]),
    )
    .await;
    assert!(
        String::from_utf8_lossy(&first.stdout).contains("Same for both"),
        "{}",
        complaint(&first)
    );
    let second = run(
        &server,
        opencode(&client, home.path(), &server, &["run", "-c", "And again"]),
    )
    .await;
    assert!(
        String::from_utf8_lossy(&second.stdout).contains("The second"),
        "{}",
        complaint(&second)
    );
    let prompts = prompts(&server).await;
    assert_eq!(
        prompts.len(),
        1,
        "one conversation, none for the title: {prompts:?}"
    );
    assert!(
        prompts[0][0].contains("Say hello") && prompts[0][1].contains("And again"),
        "{prompts:?}"
    );
    assert_eq!(prompts[0].len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn codex_gets_an_answer_although_it_offers_tools_of_its_own() {
    let Some(client) = installed("codex") else { return };
    let server = Running::start(json!([says("Hello from Annals"), says("The second")])).await;
    let home = tempfile::tempdir().unwrap();
    let config = format!(
        "model = \"annals\"\nmodel_provider = \"annals\"\n[model_providers.annals]\nname = \"Annals\"\n\
         base_url = \"{}/v1\"\nwire_api = \"responses\"\nenv_key = \"ANNALS_TOKEN\"\n",
        server.base
    );
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let codex = |arguments: &[&str]| {
        let mut command = Command::new(client.program("node"));
        command
            .arg(client.folder().join("node_modules/@openai/codex/bin/codex.js"))
            .args(["exec", "--skip-git-repo-check"])
            .args(arguments)
            .current_dir(home.path())
            .env("CODEX_HOME", home.path());
        command
    };
    let first = run(&server, codex(&["Say hello"])).await;
    assert!(
        String::from_utf8_lossy(&first.stdout).contains("Hello from Annals"),
        "{}",
        complaint(&first)
    );
    let second = run(&server, codex(&["resume", "--last", "And again"])).await;
    assert!(
        String::from_utf8_lossy(&second.stdout).contains("The second"),
        "{}",
        complaint(&second)
    );
    let prompts = prompts(&server).await;
    assert_eq!(prompts.len(), 1, "the second prompt continues: {prompts:?}");
}
