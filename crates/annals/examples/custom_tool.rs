//! A tool of one's own, called by a script in the model's place.
//!
//! Put `OpenAi::new("…")?` or `Anthropic::new("…")?` there for a real one.

#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use annals::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct AddOne {
    /// The number to add to.
    x: i64,
}

#[tool(name = "add_one", description = "Add 1 to x")]
async fn add_one(_cx: &ToolCx, args: AddOne) -> ToolResult {
    Ok(json!(args.x + 1))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let data = tempfile::tempdir()?;
    let script = Script::of([
        ScriptStep::call("tc_1", "add_one", json!({"x": 41})),
        ScriptStep {
            expect: vec!["42".to_owned()],
            ..ScriptStep::text("41 + 1 is 42.")
        },
    ]);
    let agent = Agent::builder()
        .model(ScriptModel::new("sum", script))
        .tool(add_one)
        .home(data.path())
        .build()
        .await?;
    let session = agent.session("conv_1").await?;
    let turn = agent.run(session, "What is 41 + 1?").await?;
    println!("{}", turn.answer());
    Ok(turn.into_session().close().await?)
}
