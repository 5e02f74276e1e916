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
