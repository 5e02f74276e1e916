//! The OpenSandbox backend behaves as the suite says, against the double: at a sandbox's own address, and through the
//! server.

mod support;

use annals_sandbox::{Backend as _, testing};
use support::{backend, double};

async fn conforms(server_proxy: bool) {
    let double = double().await;
    let backend = backend(&double, |options| options.server_proxy = server_proxy);
    let failed = testing::run(&backend).await;
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
    conforms(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opensandbox_conforms_through_the_server() {
    conforms(true).await;
}
