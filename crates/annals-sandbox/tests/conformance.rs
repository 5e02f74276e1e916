//! Every backend of this machine behaves as the suite says.

use annals_sandbox::{Backend, Local, TrustedHost, testing};

annals_sandbox::helpers_in_tests!(annals_sandbox::launcher::init);

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
async fn local_conforms() {
    conforms(&Local::new()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trusted_host_conforms() {
    conforms(&TrustedHost::new()).await;
}
