//! Servers that refuse to run as root run as `postgres` there.

use std::path::Path;
use std::process::Command;

/// The account of database servers.
const USER: &str = "postgres";

/// A command as an account that database servers accept, which ends when the thread that started it does.
pub(crate) fn command(program: &Path) -> Command {
    as_account(&[], program)
}

/// The same for a program that starts others from folders that the account may not enter, as Python may lie in one.
pub(crate) fn command_that_reads_all(program: &Path) -> Command {
    let capability = "+dac_read_search";
    as_account(&["--inh-caps", capability, "--ambient-caps", capability], program)
}

fn as_account(capabilities: &[&str], program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if annals_requirements::is_root() {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        command.args(capabilities);
    }
    command.arg("--").arg(program);
    command
}

/// Gives a folder to that account.
pub(crate) fn own(folder: &Path) {
    if annals_requirements::is_root() {
        let (user, group) = ids();
        std::os::unix::fs::chown(folder, Some(user), Some(group)).expect("root gives its folders away");
    }
}

fn ids() -> (u32, u32) {
    let accounts = std::fs::read_to_string("/etc/passwd").expect("every system lists its accounts");
    let line = accounts
        .lines()
        .find(|line| line.split(':').next() == Some(USER))
        .expect("the Debian package makes the account");
    let number = |field: usize| line.split(':').nth(field)?.parse().ok();
    number(2).zip(number(3)).expect("an account has two numbers")
}
