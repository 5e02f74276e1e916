//! Timeline shapes of whole turns, from real runs: a script plays the model, and everything else is real (the driver,
//! the gate, the tools, the sandbox, SQLite, files on disk; web servers on loopback). One module for each family of tools.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../annals-tools/src/web/tests/server.rs"]
#[allow(dead_code, reason = "not every kind of answer is needed here")]
mod server;

annals_sandbox::helpers_in_tests!(annals_content::init);

mod code;
mod documents;
mod memory;
mod own;
mod react;
mod reading;
mod web;

/// Every sequence once more with a model that cannot call tools: its calls are text, and the blocks are the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    let this = std::env::current_exe().unwrap();
    let ran = std::process::Command::new(this)
        .args(["--skip", "every_sequence_is_the_same", "--test-threads", "2"])
        .env(common::LAYOUT_VARIABLE, "timeline")
        .env("INSTA_UPDATE", "no")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{told}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(!told.contains(" 0 passed"), "{told}");
}
