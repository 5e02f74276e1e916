//! A writing process is killed at random and at every named point; nothing acknowledged is lost.
//!
//! The long form is `cargo run --release -p annals-store --features failpoints --example crash -- --kills 5000`.

#[path = "support/crash.rs"]
mod crash;

use std::process::Command;

const HOME: &str = "ANNALS_CRASH_HOME";
const SEED: &str = "ANNALS_CRASH_SEED";

#[test]
fn nothing_acknowledged_is_lost_when_the_writer_is_killed() {
    let kills = 3 * annals_store::failpoint::NAMES.len() as u64;
    let report = crash::run(kills, 1, |home, seed| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_writer_that_is_killed", "--nocapture"]);
        command.env(HOME, home).env(SEED, seed.to_string());
        command
    });
    assert!(
        report.acknowledged > kills,
        "the writers were killed before they could write: {report:?}"
    );
    for point in annals_store::failpoint::NAMES {
        assert!(
            report.points.contains_key(point),
            "no writer died at `{point}`: {report:?}"
        );
    }
}

/// Not a test of its own: the process that the test above starts and kills.
#[test]
fn the_writer_that_is_killed() {
    if let (Ok(home), Ok(seed)) = (std::env::var(HOME), std::env::var(SEED)) {
        crash::write(home.as_ref(), seed.parse().unwrap());
    }
}
