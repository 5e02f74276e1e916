//! Servers that implement a part of E2B's protocol: what one lacks is done another way.

mod support;

use std::time::Duration;

use annals_opensandbox_double::faults::{Fault, Rule, Service};
use annals_opensandbox_double::{Double, Gap, Wire};
use annals_remote::{RemoteBackend, Timing};
use annals_sandbox::{Backend as _, FilesRead, FilesWrite, Op};
use support::{backend_on, backend_with, double_with, open, opening, printed};
use tokio_util::sync::CancellationToken;

async fn lacking(gaps: &'static [Gap]) -> Double {
    double_with(Wire::E2b, gaps).await
}

/// Takes everything a conversation needs: files, programs, an owner that comes back, one that takes over.
async fn is_usable(double: &Double) {
    let backend = backend_on(double);
    let sandbox = open(&backend, "subset").await;
    let cancel = CancellationToken::new();
    let write = Op::FilesWrite(FilesWrite::new("deep/file", "content"));
    sandbox.dispatch(write, &cancel).await.expect("a file is written");
    let read = Op::FilesRead(FilesRead::text("deep/file"));
    sandbox.dispatch(read, &cancel).await.expect("a file is read");
    assert_eq!(printed(&*sandbox, "cat deep/file").await, "content");
    let again = open(&backend_on(double), "subset").await;
    assert_eq!(printed(&*again, "cat deep/file").await, "content");
    assert_eq!(double.created(), 1, "the same owner keeps it");
    let later = backend_on(double);
    let taken = later.open(opening("subset", 2)).await.expect("a larger token");
    assert_eq!(printed(&*taken, "ls -A").await, "");
    assert_eq!(double.live().len(), 1, "the older sandbox is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_pages_is_asked_for_its_first_list() {
    is_usable(&lacking(&[Gap::PagedList]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_connect_is_asked_how_a_sandbox_is_reached() {
    is_usable(&lacking(&[Gap::Connect]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_envd_is_told_as_whom_things_run() {
    is_usable(&lacking(&[Gap::Account]).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_the_least_of_all_is_enough() {
    let least = [
        Gap::PagedList,
        Gap::Connect,
        Gap::Timeout,
        Gap::Filter,
        Gap::Account,
    ];
    is_usable(&lacking(Box::leak(Box::new(least))).await).await;
}

/// Whose list names everything must not make us end what is not ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_heeds_no_filter_costs_nobody_a_sandbox() {
    let double = lacking(&[Gap::Filter]).await;
    let named = |name: &str| backend_with(&double, |common| common.namespace = Some(name.to_owned()));
    let (ours, theirs) = (named("ours"), named("theirs"));
    let other = theirs.open(opening("c", 1)).await.expect("their conversation");
    let neighbour = ours.open(opening("d", 1)).await.expect("another of ours");
    let owner = ours.open(opening("c", 9)).await.expect("a larger token");
    for sandbox in [&other, &neighbour, &owner] {
        assert_eq!(printed(&**sandbox, "echo alive").await, "alive\n");
    }
    assert_eq!(double.live().len(), 3);
}

/// A life of a minute that is renewed every second.
fn renewing(double: &Double) -> RemoteBackend {
    backend_with(double, |common| {
        (common.timeout_seconds, common.linger) = (60, Duration::from_secs(600));
        common.timing = Timing {
            renewals: 60,
            ..Timing::default()
        };
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_set_a_life_renews_it_by_connecting() {
    let double = lacking(&[Gap::Timeout]).await;
    let backend = renewing(&double);
    let _sandbox = open(&backend, "renewed").await;
    let id = double.live().remove(0);
    let before = double.expires_at(&id).expect("it expires");
    for _ in 0..400 {
        if double.expires_at(&id) > Some(before) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("it was not renewed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_cannot_be_renewed_is_used_as_long_as_it_lives() {
    let double = lacking(&[Gap::Timeout, Gap::Connect]).await;
    let backend = renewing(&double);
    let sandbox = open(&backend, "left").await;
    printed(&*sandbox, "echo kept > file").await;
    let asked = double.faults().seen(Service::Control);
    while double.faults().seen(Service::Control) < asked + 6 {
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(printed(&*sandbox, "cat file").await, "kept\n");
    assert_eq!(double.created(), 1, "a renewal that is refused costs no sandbox");
}

/// A download goes on where it broke off, also from a server that knows no ranges.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_read_on_from_a_server_without_ranges() {
    let double = lacking(&[]).await;
    let backend = backend_on(&double);
    let sandbox = open(&backend, "ranges").await;
    let rule = |fault| Rule::new(Service::Daemon, "GET", "/files", fault);
    double.faults().add(rule(Fault::CutBody(70_000)));
    double.faults().add(rule(Fault::WholeFile));
    let whole: String = (1..=30_000).map(|n| format!("{n}\n")).collect();
    assert!(printed(&*sandbox, "seq 1 30000").await == whole);
    assert_eq!(double.faults().clear(), 2);
}
