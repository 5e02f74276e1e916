//! The smallest program that runs an agent: a script in the model's place, one tool, a log in memory.

use annals::prelude::*;

#[arguments]
struct AddOne {
    /// The number to add to.
    x: i64,
}

/// Add 1 to x.
#[tool]
async fn add_one(_cx: &ToolCx, args: AddOne) -> ToolResult {
    let sum = args.x.checked_add(1).ok_or("the number is too large")?;
    Ok(json!(sum))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let script = Script::of([
        ScriptStep::call("tc_1", "add_one", json!({"x": 41})),
        ScriptStep::text("41 + 1 is 42."),
    ]);
    let builder = Agent::builder()
        .model(ScriptModel::new("minimal", script))
        .tool(add_one);
    let home = std::env::temp_dir().join(format!("annals-minimal-{}", std::process::id()));
    let builder = match cfg!(feature = "sqlite") {
        true => builder.home(&home),
        false => builder.in_memory(),
    };
    let agent = builder.build().await?;
    let turn = agent
        .run(agent.session("conv_1").await?, "What is 41 + 1?")
        .await?;
    println!("{} ({:?})", turn.answer(), turn.end());
    turn.into_session().close().await?;
    drop(agent);
    if home.exists() {
        std::fs::remove_dir_all(home)?;
    }
    Ok(())
}
