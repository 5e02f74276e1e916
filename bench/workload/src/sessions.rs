//! Many sessions at once: how many a second, how much memory each holds, how many models may be waited for.

use std::path::Path;
use std::time::Duration;

use annals::prelude::*;
use tokio::task::JoinSet;

use crate::agent::{converse, durable as durable_agent, in_memory as memory_agent, warm_up};
use crate::meter::{Figures, Meter, rss_bytes};
use crate::model::{ROUND, Scripted};

const ROUNDS: usize = 10;
/// Sessions before the measured ones, so that what a process needs once is not charged to them.
const WARM_UP_SESSIONS: usize = 50;
const MODEL_DELAY: Duration = Duration::from_millis(100);

fn model() -> Scripted {
    Scripted::new(ROUNDS, "add_one", json!({"x": ROUND}))
}

/// Ten calls each, the log in memory.
pub(crate) async fn in_memory(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    warm_up(directory).await?;
    measure(memory_agent(model(), directory).await?, n).await
}

/// Ten calls each, every block synced.
pub(crate) async fn durable(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    warm_up(directory).await?;
    measure(durable_agent(model(), directory).await?, n).await
}

async fn measure(agent: Agent, n: usize) -> anyhow::Result<Figures> {
    let _warm = all(&agent, "w", WARM_UP_SESSIONS, ROUNDS).await?;
    let before = rss_bytes();
    let meter = Meter::start();
    let kept = all(&agent, "s", n, ROUNDS).await?;
    let figures = meter.stop();
    let rss_bytes = Some(rss_bytes().saturating_sub(before));
    drop(kept);
    Ok(Figures { rss_bytes, ..figures })
}

/// One model call each, answered after a while.
pub(crate) async fn in_flight(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    warm_up(directory).await?;
    let model = Scripted::new(0, "add_one", json!({"x": 1})).after(MODEL_DELAY);
    let agent = memory_agent(model.clone(), directory).await?;
    let meter = Meter::start();
    all(&agent, "s", n, 0).await?;
    Ok(Figures {
        in_flight: Some(model.most_waiting()),
        ..meter.stop()
    })
}

async fn all(agent: &Agent, name: &'static str, n: usize, rounds: usize) -> anyhow::Result<Vec<Session>> {
    let mut running = JoinSet::new();
    for number in 0..n {
        let agent = agent.clone();
        running.spawn(async move { converse(&agent, &format!("{name}{number}"), rounds).await });
    }
    let mut kept = Vec::with_capacity(n);
    while let Some(session) = running.join_next().await {
        kept.push(session??);
    }
    Ok(kept)
}
