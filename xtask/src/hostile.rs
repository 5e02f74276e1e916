//! `cargo xtask hostile`: the long form of the content helper's test. Its short form is among the tests of that crate.

use crate::flags::Flags;
use crate::repository::cargo;
use crate::stage;

/// A thousand hostile files in a row; ends with an error when they leave the process slower or larger.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    Flags::new(arguments).done()?;
    let report = std::env::temp_dir().join(format!("annals-hostile-{}", std::process::id()));
    let mut command = cargo(&["test", "-p", "annals-content", "--test", "hostile", "--"]);
    command.args(["--ignored", "a_thousand_files_leave_no_trace"]);
    command.env("ANNALS_HOSTILE_REPORT", &report);
    stage::status(command)?;
    print!("{}", std::fs::read_to_string(&report)?);
    Ok(std::fs::remove_file(report)?)
}
