//! Tests of a program once more, under other circumstances.

use std::process::Command;

/// What the names of tests that run others begin with; they do not run themselves.
const RUNS_OTHERS: &str = "every_sequence_";

/// Names the layout that agents of tests use; `chat` unless set.
pub const LAYOUT_VARIABLE: &str = "ANNALS_TEST_LAYOUT";

/// Runs the tests of this program that the filters choose once more, with a variable set. Snapshots must be the same.
///
/// # Panics
/// When one fails, or none is chosen.
pub fn again(variable: &str, value: &str, filters: &[&str]) {
    let this = std::env::current_exe().expect("a test is a program");
    let ran = Command::new(this)
        .args(filters)
        .args(["--skip", RUNS_OTHERS, "--test-threads", "2"])
        .env(variable, value)
        .env("INSTA_UPDATE", "no")
        .output()
        .expect("a program can be started again");
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{told}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(!told.contains(" 0 passed"), "{told}");
}

/// Runs them with agents whose models cannot call tools: their calls are text, and all else is the same.
pub fn again_in_the_timeline_layout(filters: &[&str]) {
    again(LAYOUT_VARIABLE, "timeline", filters);
}
