//! The official SDKs from PyPI work against the doubles, which proves the doubles.

mod support;

use std::path::Path;
use std::process::Command;

use annals_opensandbox_double::{Double, Wire};
use annals_requirements::{Installed, installed};
use support::{KEY, double_of};

/// Runs a client to its good end; each of its lines is one thing that it checked.
async fn checked(sdk: &Installed, script: &str, prepare: impl FnOnce(&mut Command)) -> usize {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sdk")
        .join(script);
    let mut client = sdk.script(&script);
    prepare(&mut client);
    let ran = tokio::task::spawn_blocking(move || client.output())
        .await
        .expect("a thread");
    let ran = ran.expect("Python runs");
    let (told, wrong) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert!(ran.status.success(), "{told}\n{wrong}");
    told.lines().count()
}

fn all_deleted(double: &Double) {
    assert!(double.live().is_empty(), "the SDK deleted its sandbox");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sdk_of_opensandbox_works_against_the_double() {
    let Some(sdk) = installed("opensandbox") else {
        return;
    };
    let double = double_of(Wire::OpenSandbox).await;
    let domain = double.url().trim_start_matches("http://").to_owned();
    let count = checked(&sdk, "client.py", |client| {
        client.args([&domain, KEY]);
    })
    .await;
    assert_eq!(count, 19);
    all_deleted(&double);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sdk_of_e2b_works_against_the_double() {
    let Some(sdk) = installed("e2b") else {
        return;
    };
    let double = double_of(Wire::E2b).await;
    let count = checked(&sdk, "e2b_client.py", |client| {
        client
            .env("E2B_API_URL", double.url())
            .env("E2B_SANDBOX_URL", double.sandbox_url())
            .env("E2B_API_KEY", KEY)
            .env("E2B_HTTP_VERSION", "1.1");
    });
    assert_eq!(count.await, 17);
    all_deleted(&double);
}
