//! The official SDK from PyPI works against the double, which proves the double.

mod support;

use std::path::Path;

use annals_requirements::installed;
use support::{KEY, double};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_sdk_works_against_the_double() {
    let Some(sdk) = installed("opensandbox") else {
        return;
    };
    let double = double().await;
    let domain = double.url().trim_start_matches("http://").to_owned();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/client.py");
    let mut client = sdk.script(&script);
    client.args([&domain, KEY]);
    let ran = tokio::task::spawn_blocking(move || client.output())
        .await
        .expect("a thread");
    let ran = ran.expect("Python runs");
    let (told, wrong) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{told}\n{wrong}");
    assert_eq!(told.lines().count(), 19, "{told}");
    assert!(double.live().is_empty(), "the SDK deleted its sandbox");
}
