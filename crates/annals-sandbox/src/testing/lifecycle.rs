//! Lifecycle: opening, closing, and targets that open on first need.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use super::{Fixture, cases, expect_kind};
use crate::failure::FailureKind;
use crate::ops::{CommandRun, FilesExists, Op};
use crate::sandbox::{Backend, OpenError, Sandbox};
use crate::spec::SandboxSpec;
use crate::target::Target;

cases![
    a_workspace_that_is_missing_is_refused_by_name,
    after_close_every_operation_says_so,
    closing_ends_what_runs,
    files_stay_when_the_sandbox_is_gone,
    a_target_opens_once_for_all_who_need_it_at_once,
];

async fn a_workspace_that_is_missing_is_refused_by_name(backend: &dyn Backend) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let missing = directory.path().join("missing");
    match backend.open(SandboxSpec::new(&missing)).await {
        Err(error) => assert!(error.to_string().contains(&*missing.to_string_lossy()), "{error}"),
        Ok(_) => panic!("opened on a directory that does not exist"),
    }
}

async fn after_close_every_operation_says_so(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.sandbox.close().await;
    fixture.sandbox.close().await;
    for op in [
        Op::CommandRun(CommandRun::shell("true")),
        Op::FilesExists(FilesExists::new(".")),
    ] {
        expect_kind(fixture.dispatch(op).await, FailureKind::SandboxClosed);
    }
}

async fn closing_ends_what_runs(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let running = fixture.try_command(CommandRun::shell("touch running; sleep 300"));
    let (ended, ()) = tokio::join!(running, async {
        fixture.shell("while [ ! -e running ]; do sleep 0.01; done").await;
        fixture.sandbox.close().await;
    });
    expect_kind(ended, FailureKind::SandboxClosed);
}

async fn files_stay_when_the_sandbox_is_gone(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.shell("echo stays > file").await;
    fixture.sandbox.close().await;
    let again = backend
        .open(SandboxSpec::new(fixture.host()))
        .await
        .expect("it opens again");
    let op = Op::FilesExists(FilesExists::new("file"));
    let found = again
        .dispatch(op, &tokio_util::sync::CancellationToken::new())
        .await;
    assert_eq!(found, Ok(crate::ops::OpResult::Exists(true)));
}

async fn a_target_opens_once_for_all_who_need_it_at_once(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let opener = Counting {
        sandbox: Arc::clone(&fixture.sandbox),
        opened: AtomicUsize::new(0),
    };
    let opener = Arc::new(opener);
    let target = Target::new(
        Arc::clone(&opener) as Arc<dyn Backend>,
        SandboxSpec::new(fixture.host()),
    );
    assert!(target.opened().is_none());
    let opened = futures::future::join_all((0..10).map(|_| target.sandbox())).await;
    assert!(opened.iter().all(Result::is_ok));
    assert_eq!(opener.opened.load(Ordering::Relaxed), 1);
    target.close().await;
    expect_kind(
        fixture.dispatch(Op::CommandRun(CommandRun::shell("true"))).await,
        FailureKind::SandboxClosed,
    );
}

/// Hands out one sandbox, slowly, and counts how often it was asked.
struct Counting {
    sandbox: Arc<dyn Sandbox>,
    opened: AtomicUsize,
}

#[async_trait]
impl Backend for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    async fn open(&self, _spec: SandboxSpec) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        Ok(Arc::clone(&self.sandbox))
    }
}
