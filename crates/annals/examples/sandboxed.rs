//! A command in the sandbox: no network, no home, an identity of its own.
//!
//! Sandboxes are built by a helper process, which is this program started again: the first line of `main` is what makes
//! that possible.

#![allow(clippy::print_stdout, reason = "an example talks to its user")]

use annals::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let data = tempfile::tempdir()?;
    let script = Script::of([
        ScriptStep::call(
            "tc_1",
            "run_shell_command",
            json!({"command": "echo \"I am $(id -un) in $PWD\""}),
        ),
        ScriptStep {
            expect: vec!["I am sandbox in /workspace".to_owned()],
            ..ScriptStep::text("It ran as `sandbox`.")
        },
    ]);
    let agent = Agent::builder()
        .model(ScriptModel::new("shell", script))
        .tools(annals::tools::system::all())
        .sandbox(annals::tools::default_sandbox())
        .home(data.path())
        .build()
        .await?;
    let turn = agent.run(agent.session("conv_1").await?, "Who are you?").await?;
    println!("{}", turn.answer());
    Ok(turn.into_session().close().await?)
}
