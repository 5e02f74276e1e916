//! A conversation gone on with by another process: nothing is kept but the folder, and everything is there.

#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use annals::prelude::*;

fn agent_of(script: Script) -> AgentBuilder {
    Agent::builder()
        .model(ScriptModel::new("resume", script))
        .tools(annals::tools::react::all())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let data = tempfile::tempdir()?;
    let note = json!({"path": "note.md", "channel": "canvas", "content": "The key is under the mat.\n", "kind": "file"});
    let script = Script::of([
        ScriptStep::call("tc_1", "react.write", note),
        ScriptStep::text("Noted."),
    ]);
    let agent = agent_of(script).home(data.path()).build().await?;
    let request = TurnRequest::new("Note: the key is under the mat").turn_id(TurnId::parse("turn_1")?);
    let turn = agent.run(agent.session("conv_1").await?, request).await?;
    println!("{}", turn.answer());
    turn.into_session().close().await?;
    drop(agent);

    // OUT_DIR is a cache: what is lost with it comes back.
    std::fs::remove_dir_all(data.path().join("workspace"))?;

    let read = ScriptStep::call(
        "tc_2",
        "react.read",
        json!({"paths": ["fi:turn_1.files/note.md"]}),
    );
    let recall = ScriptStep {
        expect: vec!["under the mat".to_owned()],
        ..ScriptStep::text("Under the mat.")
    };
    let agent = agent_of(Script::of([read, recall]))
        .home(data.path())
        .build()
        .await?;
    let turn = agent
        .run(agent.session("conv_1").await?, "Where is the key?")
        .await?;
    println!("{}", turn.answer());
    Ok(turn.into_session().close().await?)
}
