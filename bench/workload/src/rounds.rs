//! Rounds of a model call and an in-process tool, in memory and durable.

use std::path::Path;

use annals::prelude::*;

use crate::agent::{converse, durable as durable_agent, in_memory as memory_agent, kilobyte, warm_up};
use crate::meter::{Figures, Meter, disk_bytes};
use crate::model::{ROUND, Scripted};

fn arguments() -> Value {
    json!({"x": ROUND})
}

/// The log in memory.
pub(crate) async fn in_memory(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    warm_up(directory).await?;
    let agent = memory_agent(Scripted::new(n, "add_one", arguments()), directory).await?;
    let meter = Meter::start();
    converse(&agent, "rounds", n).await?;
    Ok(meter.stop())
}

/// Every block synced before anyone sees it.
pub(crate) async fn durable(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    warm_up(directory).await?;
    let agent = durable_agent(Scripted::new(n, "add_one", arguments()), directory).await?;
    let meter = Meter::start();
    converse(&agent, "rounds", n).await?.close().await?;
    Ok(meter.stop())
}

/// The same with results of a kilobyte, and what then lies on the disk.
pub(crate) async fn storage(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    warm_up(directory).await?;
    let agent = durable_agent(Scripted::new(n, "report", arguments()), directory).await?;
    let meter = Meter::start();
    converse(&agent, "rounds", n).await?.close().await?;
    let figures = meter.stop();
    drop(agent);
    Ok(Figures {
        disk_bytes: Some(disk_bytes(directory)),
        payload_bytes: Some((n * (kilobyte().len() + arguments().to_string().len())) as u64),
        ..figures
    })
}

/// The first durable round of a process that has done nothing yet.
pub(crate) async fn first(directory: &Path) -> anyhow::Result<Figures> {
    let meter = Meter::start();
    let agent = durable_agent(Scripted::new(1, "add_one", arguments()), directory).await?;
    converse(&agent, "rounds", 1).await?.close().await?;
    Ok(meter.stop())
}
