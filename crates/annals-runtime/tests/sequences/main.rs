//! Timeline shapes of whole turns, from real runs: a script plays the model, and everything else is real (the driver,
//! the gate, the tools, the sandbox, SQLite, files on disk; web servers on loopback). One module for each family of tools.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../annals-tools/src/web/tests/server.rs"]
#[allow(dead_code, reason = "not every kind of answer is needed here")]
mod server;

fn roles() {
    annals_content::init();
    annals_opensandbox_double::play_in_tests();
}

annals_sandbox::helpers_in_tests!(roles);

use annals_requirements::again;

mod code;
mod documents;
mod lost;
mod memory;
mod own;
mod place;
mod react;
mod reading;
mod web;

/// Every sequence once more with a model that cannot call tools: its calls are text, and the blocks are the same.
#[test]
fn every_sequence_is_the_same_in_the_timeline_layout() {
    annals_requirements::again_in_the_timeline_layout(&["--skip", "lost::"]);
}

#[test]
fn every_sequence_of_code_is_the_same_without_isolation() {
    again(place::VARIABLE, "trusted-host", &["code::"]);
}

#[test]
fn every_sequence_of_code_is_the_same_on_opensandbox() {
    again(place::VARIABLE, "opensandbox", &["code::"]);
}

#[test]
fn every_sequence_of_code_is_the_same_on_e2b() {
    again(place::VARIABLE, "e2b", &["code::"]);
}
