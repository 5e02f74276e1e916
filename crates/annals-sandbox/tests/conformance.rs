//! Every backend of this machine behaves as the suite says.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use annals_sandbox::{Backend, Local, OpenError, Opening, Sandbox, TrustedHost, testing};
use futures::FutureExt as _;

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

/// Says of the backend without isolation that it isolates.
struct Boastful;

#[async_trait::async_trait]
impl Backend for Boastful {
    fn name(&self) -> &str {
        "boastful"
    }

    fn isolates(&self) -> bool {
        true
    }

    async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        TrustedHost::new().open(opening).await
    }
}

#[tokio::test]
async fn a_backend_that_claims_isolation_it_lacks_does_not_conform() {
    let suite = testing::suite();
    let name = "what_isolates_shows_programs_no_file_of_this_machine";
    let case = suite.iter().find(|case| case.name == name).unwrap();
    let run = AssertUnwindSafe((case.run)(&Boastful)).catch_unwind().await;
    assert!(run.is_err());
}
