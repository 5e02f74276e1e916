//! Agents with the tools and stores of the workloads.

use std::path::Path;
use std::sync::Arc;

use annals::prelude::*;
use annals::store::{ArtifactStore, MemoryLog};

use crate::model::{ROUND, Scripted, TURN_ROUNDS, prompt};

/// The result of `report`: a kilobyte.
pub(crate) fn kilobyte() -> String {
    let mut text = "words and more of them ".repeat(44);
    text.push_str("and an end.");
    text.extend(std::iter::repeat_n('.', 1_024 - text.len()));
    text
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    x: i64,
}

#[tool(name = "add_one", description = "Add 1 to x")]
async fn add_one(_cx: &ToolCx, args: Number) -> ToolResult {
    Ok(json!(args.x + 1))
}

#[tool(name = "report", description = "A kilobyte of words")]
async fn report(_cx: &ToolCx, args: Number) -> ToolResult {
    let _ = args.x;
    Ok(json!(kilobyte()))
}

fn builder(model: Scripted) -> AgentBuilder {
    let settings = Settings {
        max_iterations: TURN_ROUNDS as u32 + 1,
        ..Settings::default()
    };
    Agent::builder()
        .model(model)
        .instructions("Use tools.")
        .tool(add_one)
        .tool(report)
        .settings(settings)
}

/// Keeps everything below the directory, durably.
pub(crate) async fn durable(model: Scripted, directory: &Path) -> anyhow::Result<Agent> {
    Ok(builder(model).home(directory).build().await?)
}

/// Keeps its log in memory.
pub(crate) async fn in_memory(model: Scripted, directory: &Path) -> anyhow::Result<Agent> {
    let built = builder(model)
        .log(Arc::new(MemoryLog::default()))
        .artifacts(ArtifactStore::open(directory.join("artifacts"))?)
        .workspaces(directory.join("workspace"))
        .build();
    Ok(built.await?)
}

/// With the system tools in the default sandbox, which isolates, and its log in memory.
pub(crate) async fn sandboxed(model: Scripted, directory: &Path) -> anyhow::Result<Agent> {
    let built = builder(model)
        .tools(annals::tools::system::all())
        .sandbox(annals::tools::default_sandbox())
        .log(Arc::new(MemoryLog::default()))
        .artifacts(ArtifactStore::open(directory.join("artifacts"))?)
        .workspaces(directory.join("workspace"))
        .build();
    Ok(built.await?)
}

/// One conversation of this many rounds, in as many turns as that takes.
pub(crate) async fn converse(agent: &Agent, name: &str, rounds: usize) -> anyhow::Result<Session> {
    let mut session = agent.session(name).await?;
    for done in (0..rounds.max(1)).step_by(TURN_ROUNDS) {
        session = agent.run(session, prompt(done)).await?.into_session();
    }
    anyhow::ensure!(
        session.answer() == "done",
        "the turn ended with `{}`",
        session.answer()
    );
    Ok(session)
}

/// Loads what a process loads once: the tokenizer's vocabulary, and pages of the program.
pub(crate) async fn warm_up(directory: &Path) -> anyhow::Result<()> {
    let model = Scripted::new(3, "add_one", json!({"x": ROUND}));
    let agent = in_memory(model, &directory.with_extension("warm-up")).await?;
    converse(&agent, "warm_up", 3).await?;
    Ok(())
}
