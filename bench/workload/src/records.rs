//! Records of a kilobyte written to a conversation and read back, without a model.

use std::path::Path;

use annals::core::ids::CallId;
use annals::prelude::*;

use crate::agent::{durable, kilobyte, warm_up};
use crate::meter::{Figures, Meter};
use crate::model::Scripted;

/// This many records are appended together, and synced together.
const APPEND_RECORDS: usize = 100;

/// Writes N records.
pub(crate) async fn write(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    warm_up(directory).await?;
    let agent = agent(directory).await?;
    let meter = Meter::start();
    append(&agent, n).await?;
    Ok(meter.stop())
}

/// Reads N records and folds them into a timeline, ready to be asked.
pub(crate) async fn load(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    append(&agent(directory).await?, n).await?;
    let agent = agent(directory).await?;
    let meter = Meter::start();
    let timeline = agent.timeline(&ConversationId::parse("records")?).await?;
    let figures = meter.stop();
    let blocks = timeline.blocks().len();
    anyhow::ensure!(blocks == n, "{blocks} of {n} blocks came back");
    Ok(figures)
}

async fn agent(directory: &Path) -> anyhow::Result<Agent> {
    durable(Scripted::new(0, "add_one", json!({})), directory).await
}

async fn append(agent: &Agent, n: usize) -> anyhow::Result<()> {
    let session = agent.session("records").await?;
    let turn = TurnId::parse("turn_1")?;
    for first in (0..n).step_by(APPEND_RECORDS) {
        let block = |number: usize| {
            let path = LogicalPath::notes(&turn, &CallId::made(number as u64));
            NewBlock::new(BlockKind::Notes, &turn, path).text("text/markdown", kilobyte())
        };
        let blocks = (first..n.min(first + APPEND_RECORDS)).map(block).collect();
        agent.append(&session, blocks).await?;
    }
    Ok(session.close().await?)
}
