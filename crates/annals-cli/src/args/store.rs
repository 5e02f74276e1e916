//! What was typed behind `annals store`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::JsonArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Make the tables. Where they are already, bring them to this program's schema.
    Init(StoreInitArgs),
    /// Bring the tables to this program's schema, before or while newer nodes are deployed.
    Migrate,
    /// Show schema, size, nodes, waiting work, and settings that endanger what was acknowledged.
    Status(JsonArgs),
    /// Remove artifacts that no block names.
    Gc(StoreGcArgs),
    /// Move the blocks of idle conversations to the artifact store. They come back by themselves when somebody needs them.
    Archive(StoreArchiveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StoreArchiveArgs {
    /// Take what nobody has written to for this long: a number with `m`, `h` or `d`; at least an hour.
    #[arg(long, value_name = "AGE", default_value = "30d", value_parser = idle)]
    pub(crate) idle: Duration,
    /// Take at most this many conversations, the oldest first.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Only say what would be moved.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreGcArgs {
    /// Leave what was kept within this time: a number with `m`, `h` or `d`; at least an hour.
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = age)]
    pub(crate) older_than: Duration,
    /// Only say what would be removed.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

const HOUR_SECONDS: u64 = 3_600;

/// How old what is removed has to be.
fn age(text: &str) -> Result<Duration, String> {
    at_least_an_hour(text, "what is younger than an hour may be about to be named")
}

/// How long what is archived has to have been idle.
fn idle(text: &str) -> Result<Duration, String> {
    at_least_an_hour(text, "what was used within the hour would come back at once")
}

/// `90m`, `24h`, `7d`; what is less is refused with a reason.
fn at_least_an_hour(text: &str, why: &str) -> Result<Duration, String> {
    let units = [("m", 60), ("h", HOUR_SECONDS), ("d", 24 * HOUR_SECONDS)];
    let seconds = units.into_iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(seconds)
    });
    match seconds {
        Some(seconds) if seconds >= HOUR_SECONDS => Ok(Duration::from_secs(seconds)),
        Some(_) => Err(format!("{why}: say `1h` or more")),
        None => Err("say a number with `m`, `h` or `d`, such as `24h`".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct StoreInitArgs {
    /// Number of hash partitions of the table of blocks, for databases of terabytes; it cannot be changed later [default: 0].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) partitions: u16,
}
