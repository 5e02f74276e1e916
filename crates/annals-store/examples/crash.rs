//! The long form of the crash test: `cargo run --release -p annals-store --features failpoints --example crash --
//! --kills 5000 --seed 1`. Kills a writing process again and again, and checks that nothing acknowledged is lost.

#![allow(clippy::print_stdout)]

#[path = "../tests/support/crash.rs"]
mod crash;

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, otherwise: u64| match value(name).map(|text| text.parse()) {
        None => Some(otherwise),
        Some(parsed) => parsed.ok(),
    };
    let (Some(kills), Some(seed)) = (number("--kills", 1_000), number("--seed", 1)) else {
        println!("usage: crash [--kills N] [--seed S]");
        return ExitCode::from(2);
    };
    if let Some(home) = value("--write") {
        crash::write(home.as_ref(), seed);
        return ExitCode::SUCCESS;
    }
    let report = crash::run(kills, seed, |home, seed| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .arg("--write")
            .arg(home)
            .args(["--seed", &seed.to_string()]);
        command
    });
    println!(
        "{} kills, {} acknowledged blocks, none lost, none torn",
        report.kills, report.acknowledged
    );
    let mut points: Vec<_> = report.points.into_iter().collect();
    points.sort();
    points
        .into_iter()
        .for_each(|(point, kills)| println!("  {kills:>6} at {point}"));
    ExitCode::SUCCESS
}
