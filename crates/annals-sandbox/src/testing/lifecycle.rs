//! Lifecycle: opening, closing, and targets that open on first need.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Fixture, cases, expect_kind};
use crate::failure::FailureKind;
use crate::lazy_sandbox::LazySandbox;
use crate::ops::{CommandRun, FilesExists, Op};
use crate::sandbox::{Backend, OpenError, Opening, Sandbox};

cases![
    after_close_every_operation_says_so,
    closing_ends_what_runs,
    a_later_owner_ends_the_sandboxes_of_earlier_ones,
    a_target_opens_once_for_all_who_need_it_at_once,
    what_isolates_shows_programs_no_file_of_this_machine,
];

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

async fn a_later_owner_ends_the_sandboxes_of_earlier_ones(backend: &dyn Backend) {
    let first = Fixture::open(backend).await;
    let beside = backend.open(Opening::new(first.spec.clone())).await;
    let beside = beside.expect("one owner may open several");
    let mut later = first.spec.clone();
    later.name.token += 1;
    let later = backend
        .open(Opening::new(later))
        .await
        .expect("a later owner opens");
    for earlier in [&first.sandbox, &beside] {
        let op = Op::CommandRun(CommandRun::shell("true"));
        expect_kind(
            earlier.dispatch(op, &CancellationToken::new()).await,
            FailureKind::SandboxClosed,
        );
    }
    match backend.open(Opening::new(first.spec.clone())).await {
        Err(OpenError::Fenced { newer, .. }) => assert_eq!(newer, first.spec.name.token + 1),
        Err(error) => panic!("refused for another reason: {error}"),
        Ok(_) => panic!("an earlier owner opened a sandbox"),
    }
    later.close().await;
}

async fn a_target_opens_once_for_all_who_need_it_at_once(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let opener = Counting {
        sandbox: Arc::clone(&fixture.sandbox),
        opened: AtomicUsize::new(0),
    };
    let opener = Arc::new(opener);
    let target = LazySandbox::new(Arc::clone(&opener) as Arc<dyn Backend>, fixture.spec.clone());
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

async fn what_isolates_shows_programs_no_file_of_this_machine(backend: &dyn Backend) {
    if !backend.isolates() {
        return;
    }
    let mut file = tempfile::NamedTempFile::new().expect("a file of this machine");
    file.write_all(b"of this machine")
        .expect("a file of this machine");
    let fixture = Fixture::open(backend).await;
    let reading = CommandRun::argv(["cat".to_owned(), file.path().display().to_string()]);
    let read = fixture.command(reading).await;
    assert!(!read.stdout.text().contains("of this machine"), "{read:?}");
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

    fn isolates(&self) -> bool {
        false
    }

    async fn open(&self, _opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        Ok(Arc::clone(&self.sandbox))
    }
}
