//! What the model writes, as it writes it. A listener may as well send each piece to a web socket.

#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::io::Write as _;

use annals::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    annals::launcher::init();
    let data = tempfile::tempdir()?;
    let script = Script {
        chunk_ms: 20,
        ..Script::of([ScriptStep::text("A block is durable before anyone is shown it.")])
    };
    let agent = Agent::builder()
        .model(ScriptModel::new("stream", script))
        .home(data.path())
        .build()
        .await?;
    let (sender, mut updates) = tokio::sync::mpsc::unbounded_channel();
    let show = tokio::spawn(async move {
        while let Some(update) = updates.recv().await {
            match update {
                Update::Delta(delta) => print!("{}", delta.text),
                Update::Block(block) if block.kind == BlockKind::AssistantCompletion => {
                    println!(" (durable as block {})", block.seq)
                }
                Update::TurnEnded { end, .. } => return println!("the turn ended: {}", end.as_str()),
                _ => {}
            }
            let _ = std::io::stdout().flush();
        }
    });
    let request = TurnRequest::new("What is a block?").listen(sender);
    let turn = agent.run(agent.session("conv_1").await?, request).await?;
    show.await?;
    Ok(turn.into_session().close().await?)
}
