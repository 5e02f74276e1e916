//! The remote backends behave as the suite says, against their doubles: OpenSandbox at a sandbox's own address and through
//! the server, and E2B.

mod support;

use annals_opensandbox_double::Wire;
use annals_sandbox::{Backend, testing};
use support::{backend, backend_on, double, double_of};

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

async fn conforms_on(wire: Wire) {
    conforms(&backend_on(&double_of(wire).await)).await;
}

on_both_wires!(conforms_on);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opensandbox_conforms_through_the_server() {
    let double = double().await;
    conforms(&backend(&double, |options| options.server_proxy = true)).await;
}
