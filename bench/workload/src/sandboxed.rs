//! Commands and files in the default sandbox, which isolates, through the loop and by themselves.

use std::path::Path;
use std::sync::Arc;

use annals::prelude::*;
use annals::sandbox::{
    CommandRun, FilesExists, FilesRead, FilesWrite, LocalTree, Op, Opening, Sandbox, SandboxExt as _,
    SandboxName, SandboxSpec,
};
use tokio_util::sync::CancellationToken;

use crate::agent::{converse, kilobyte, sandboxed};
use crate::meter::{Figures, Meter};
use crate::model::{ROUND, Scripted};

/// `true` through the loop: a model call, the gate, a shell, the result on the timeline.
pub(crate) async fn shell(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    let model = |rounds| {
        Scripted::new(
            rounds,
            "run_shell_command",
            json!({"command": format!("true # {ROUND}")}),
        )
    };
    let warm = sandboxed(model(3), directory).await?;
    converse(&warm, "warm", 3).await?;
    let agent = sandboxed(model(n), directory).await?;
    let meter = Meter::start();
    let session = converse(&agent, "shell", n).await?;
    let figures = meter.stop();
    session.close().await?;
    Ok(figures)
}

/// One answer with `n` calls that write different files.
pub(crate) async fn parallel_writes(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    let call = |at: usize| {
        let arguments = json!({"path": format!("{at}.txt"), "content": "x"});
        ("write_workspace_file", arguments)
    };
    let agent = sandboxed(Scripted::many(1, (0..n).map(call).collect()), directory).await?;
    let meter = Meter::start();
    let session = converse(&agent, "writes", 1).await?;
    let figures = meter.stop();
    session.close().await?;
    Ok(figures)
}

pub(crate) fn command() -> Op {
    Op::CommandRun(CommandRun::shell("true"))
}

pub(crate) fn read() -> Op {
    Op::FilesRead(FilesRead::text("there"))
}

pub(crate) fn write() -> Op {
    Op::FilesWrite(FilesWrite::new("there", kilobyte()))
}

/// One operation after the other, without a loop around them.
pub(crate) async fn operations(op: Op, n: usize, directory: &Path) -> anyhow::Result<Figures> {
    let sandbox = open(directory).await?;
    let cancel = CancellationToken::new();
    sandbox.dispatch(write(), &cancel).await?;
    sandbox.dispatch(op.clone(), &cancel).await?;
    let meter = Meter::start();
    for _ in 0..n {
        sandbox.dispatch(op.clone(), &cancel).await?;
    }
    let figures = meter.stop();
    sandbox.close().await;
    Ok(figures)
}

/// Operations submitted to streams, then all awaited.
pub(crate) async fn streams(streams: usize, n: usize, directory: &Path) -> anyhow::Result<Figures> {
    let sandbox = open(directory).await?;
    sandbox.dispatch(write(), &CancellationToken::new()).await?;
    let streams: Vec<_> = (0..streams).map(|_| sandbox.stream()).collect();
    let meter = Meter::start();
    let mut pending = Vec::with_capacity(n);
    for stream in &streams {
        for _ in 0..n / streams.len() {
            pending.push(stream.submit(Op::FilesExists(FilesExists::new("there")))?);
        }
    }
    for result in pending {
        result.await?;
    }
    let figures = meter.stop();
    sandbox.close().await;
    Ok(figures)
}

async fn open(directory: &Path) -> anyhow::Result<Arc<dyn Sandbox>> {
    let backend = annals::tools::default_sandbox();
    let spec = SandboxSpec::new(SandboxName::new("bench", 1));
    let opening = Opening::new(spec).local(LocalTree::at(directory));
    Ok(backend.open(opening).await?)
}
