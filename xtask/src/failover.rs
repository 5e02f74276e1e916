//! `cargo xtask failover`: the leader of three PostgreSQL servers under Patroni is killed, with and without a quorum. Its short
//! form, with one standby, is among the tests of `annals-postgres`.

use crate::flags::Flags;
use crate::repository::cargo;
use crate::stage;

/// Runs both kinds of replication; ends with an error when something acknowledged is lost without a word.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    Flags::new(arguments).done()?;
    for replication in ["quorum", "asynchronous"] {
        let mut command = cargo(&[
            "run",
            "--release",
            "-p",
            "annals-postgres",
            "--example",
            "failover",
            "--",
        ]);
        command.arg(replication);
        stage::status(command)?;
    }
    Ok(())
}
