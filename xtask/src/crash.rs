//! `cargo xtask crash`: the long form of the store's crash test. Its short form is among the store's tests.

use crate::flags::Flags;
use crate::repository::cargo;
use crate::stage;

/// Kills a writing store again and again; ends with an error when something acknowledged is gone.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    let kills = flags.number("--kills", 1_000)?.to_string();
    let seed = flags.number("--seed", 1)?.to_string();
    flags.done()?;
    println!("{kills} kills, seed {seed}");
    let mut command = cargo(&[
        "run",
        "--release",
        "-p",
        "annals-store",
        "--features",
        "failpoints",
        "--example",
    ]);
    command.args(["crash", "--", "--kills", &kills, "--seed", &seed]);
    stage::status(command)
}
