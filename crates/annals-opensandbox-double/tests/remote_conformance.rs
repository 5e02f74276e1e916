//! The remote backends behave as the suite says, against their doubles: OpenSandbox at a sandbox's own address and through
//! the server, and E2B.

mod support;

use annals_opensandbox_double::Wire;
use annals_sandbox::{Backend, testing};
use support::{backend, double, double_of, e2b};

async fn conforms(backend: &dyn Backend) {
    let failed = testing::run(backend).await;
    assert!(
        failed.is_empty(),
        "{} cases failed on {}:\n{}",
        failed.len(),
        backend.name(),
        failed.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opensandbox_conforms() {
    let double = double().await;
    conforms(&backend(&double, |_| {})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opensandbox_conforms_through_the_server() {
    let double = double().await;
    conforms(&backend(&double, |options| options.server_proxy = true)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2b_conforms() {
    let double = double_of(Wire::E2b).await;
    conforms(&e2b(&double)).await;
}
