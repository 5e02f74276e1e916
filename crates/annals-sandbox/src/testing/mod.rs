//! The conformance suite: what every backend must do, as one list of cases over [`Backend`].
//!
//! A backend's test calls [`run`] with itself. Cases look at a sandbox only through its operations, so they hold for
//! remote ones as well. A case panics when the backend does not behave; [`run`] names all that did.

mod code;
mod commands;
mod concurrency;
mod contexts;
mod files;
mod lifecycle;
mod streams;
mod trees;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, FailureKind};
use crate::ops::{CommandResult, CommandRun, FileData, FilesRead, FilesWrite, Op, OpResult};
use crate::sandbox::{Backend, Opening, Sandbox};
use crate::spec::{SandboxName, SandboxSpec};

/// One behaviour of every backend.
pub struct Case {
    /// The behaviour, as a sentence.
    pub name: &'static str,
    /// Panics if the backend behaves otherwise.
    pub run: for<'a> fn(&'a dyn Backend) -> BoxFuture<'a, ()>,
}

/// Makes the list of a module's cases from its functions, which are named like the behaviour.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(super) fn cases() -> Vec<$crate::testing::Case> {
            vec![$($crate::testing::Case {
                name: stringify!($name),
                run: |backend| Box::pin($name(backend)),
            }),*]
        }
    };
}
use cases;

/// All cases.
pub fn suite() -> Vec<Case> {
    [
        commands::cases(),
        files::cases(),
        code::cases(),
        lifecycle::cases(),
        concurrency::cases(),
        contexts::cases(),
        streams::cases(),
        trees::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How many cases run at once: some wait for a timeout, most for the processor.
const AT_ONCE: usize = 4;

/// Longest that a case may take before it counts as hanging. A thousand operations on a server are as many processes, and
/// the machine may have other work.
const CASE_TIMEOUT: Duration = Duration::from_secs(240);

/// Runs every case and returns the names and reasons of those that failed.
pub async fn run(backend: &dyn Backend) -> Vec<String> {
    let attempt = |case: Case| async move {
        let run = AssertUnwindSafe((case.run)(backend)).catch_unwind();
        match tokio::time::timeout(CASE_TIMEOUT, run).await {
            Ok(Ok(())) => None,
            Ok(Err(panic)) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Some(format!("{}: {}", case.name, text.unwrap_or_default()))
            }
            Err(_) => Some(format!("{}: hangs", case.name)),
        }
    };
    let failed = futures::stream::iter(suite())
        .map(attempt)
        .buffer_unordered(AT_ONCE);
    failed.filter_map(|failed| async { failed }).collect().await
}

/// A sandbox with an empty workspace of its own, under a name of its own.
struct Fixture {
    sandbox: Arc<dyn Sandbox>,
    spec: SandboxSpec,
}

impl Fixture {
    async fn open(backend: &dyn Backend) -> Self {
        Self::open_with(backend, |_| {}).await
    }

    async fn open_with(backend: &dyn Backend, change: impl FnOnce(&mut SandboxSpec)) -> Self {
        Self::open_as(backend, |opening| change(&mut opening.spec)).await
    }

    async fn open_as(backend: &dyn Backend, change: impl FnOnce(&mut Opening)) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = SandboxName::new(format!("case-{}-{number}", std::process::id()), 1);
        let mut opening = Opening::new(SandboxSpec::new(name));
        change(&mut opening);
        let spec = opening.spec.clone();
        let sandbox = backend.open(opening).await.expect("the sandbox opens");
        Self { sandbox, spec }
    }

    async fn dispatch(&self, op: Op) -> Result<OpResult, Failure> {
        self.sandbox.dispatch(op, &CancellationToken::new()).await
    }

    async fn try_command(&self, op: CommandRun) -> Result<CommandResult, Failure> {
        self.dispatch(Op::CommandRun(op))
            .await
            .map(|result| match result {
                OpResult::Command(result) => result,
                other => panic!("a command returned {other:?}"),
            })
    }

    async fn command(&self, op: CommandRun) -> CommandResult {
        self.try_command(op).await.expect("the command runs")
    }

    async fn shell(&self, line: &str) -> CommandResult {
        self.command(CommandRun::shell(line)).await
    }

    async fn write(&self, path: &str, data: &[u8]) {
        self.dispatch(Op::FilesWrite(FilesWrite::new(path, data)))
            .await
            .expect("the file is written");
    }

    async fn read(&self, path: &str) -> Vec<u8> {
        match self
            .dispatch(Op::FilesRead(FilesRead::bytes(path)))
            .await
            .expect("the file is read")
        {
            OpResult::File(content) => match content.data {
                FileData::Bytes(bytes) => bytes,
                FileData::Text(text) => panic!("asked for bytes, got the text {text:?}"),
            },
            other => panic!("a read returned {other:?}"),
        }
    }

    /// Whether a lock taken by a process of an earlier command is free: only when that process is dead.
    async fn is_lock_free(&self) -> bool {
        self.shell("flock -n lock true").await.exit_code == 0
    }
}

/// A shell line that leaves a detached process holding a lock, and goes on only when it does.
const LEAVE_LOCK_HOLDER: &str = "setsid flock lock -c 'touch held; sleep 300' >/dev/null 2>&1 </dev/null & \
                                 while [ ! -e held ]; do sleep 0.01; done; echo held;";

#[track_caller]
fn expect_kind<T: std::fmt::Debug>(result: Result<T, Failure>, kind: FailureKind) -> Failure {
    match result {
        Err(failure) if failure.kind == kind => failure,
        other => panic!("expected the failure {kind}, got {other:?}"),
    }
}
