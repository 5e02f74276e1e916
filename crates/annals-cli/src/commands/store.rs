//! `annals store`: the tables of a PostgreSQL store, its archive, and the garbage of any, for operators.

mod archive;

use annals::core::block::BlobDigest;
use annals::core::redact::SafeUrl;
use annals::futures::TryStreamExt as _;
use annals::postgres::{self, Address, ArchiveStatus, IndexStatus, Migrated, Partitions, Status};
use annals::store::BlockLogExt as _;
use serde_json::json;

use crate::args::{JsonArgs, StoreCommand, StoreGcArgs};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BAD, DIM, styled};
use crate::screen_text::ScreenText;
use crate::{setup, shown};

pub(crate) async fn run(command: StoreCommand, config: Config) -> Result<Ended, Failure> {
    let url = &config.store.value;
    match command {
        StoreCommand::Gc(args) => collect(&args, &config).await,
        StoreCommand::Archive(args) => archive::run(&args, &config).await,
        StoreCommand::Init(args) => {
            let partitions = Partitions::try_new(args.partitions).map_err(Failure::usage)?;
            let address = address(url)?;
            tell(postgres::init(&address, partitions).await?, &address)
        }
        StoreCommand::Migrate => {
            let address = address(url)?;
            tell(postgres::migrate(&address).await?, &address)
        }
        StoreCommand::Status(args) => {
            let address = address(url)?;
            show(&postgres::status(&address).await?, &args, &address)
        }
    }
}

/// Only a PostgreSQL store has tables to look after; a SQLite file looks after itself.
fn address(url: &str) -> Result<Address, Failure> {
    match url.split_once(':') {
        Some(("postgres" | "postgresql", _)) => Address::parse(url).map_err(Failure::usage),
        _ => Err(Failure::usage(format!(
            "`{}` needs no tables to be made: this is for `--store postgres://…`",
            SafeUrl(url)
        ))),
    }
}

fn tell(migrated: Migrated, address: &Address) -> Result<Ended, Failure> {
    let Migrated { from, to } = migrated;
    let name = address.name();
    paint::print(match from {
        0 => format!("{name}: made, schema {to}\n"),
        from if from == to => format!("{name}: is up to date, schema {to}\n"),
        from => format!("{name}: brought from schema {from} to {to}\n"),
    })?;
    Ok(Ended::Well)
}

fn show(status: &Status, args: &JsonArgs, address: &Address) -> Result<Ended, Failure> {
    let (schema, known) = status.schema;
    if args.json {
        let json = json!({
            "store": address.name(), "server": status.server, "schema": schema, "known_schema": known,
            "partitions": status.partitions, "conversations": status.conversations, "blocks": status.blocks,
            "bytes": status.bytes, "nodes": status.nodes, "due": status.due, "waiting": status.waiting,
            "in_place_percent": status.in_place_percent, "dangers": status.dangers,
            "memory_search": status.index.as_ref().map(|index| json!({
                "embedder": index.embedder, "conversations_behind": index.conversations_behind,
                "blocks_behind": index.blocks_behind,
            })),
            "archived": status.archive.map(|archive| json!({
                "conversations": archive.conversations, "blocks": archive.blocks, "bytes": archive.bytes,
            })),
        });
        paint::print_json(&format!("{json}\n"))?;
        return Ok(Ended::Well);
    }
    let rows = [
        ("store", address.name().to_owned()),
        ("server", format!("PostgreSQL {}", status.server)),
        ("schema", format!("{schema}, this program knows {known}")),
        ("partitions", status.partitions.to_string()),
        (
            "conversations",
            format!("about {}", paint::number(status.conversations)),
        ),
        ("blocks", format!("about {}", paint::number(status.blocks))),
        ("size", paint::size(status.bytes)),
        ("nodes", status.nodes.join(", ")),
        ("due", paint::number(status.due)),
        ("waiting posts", paint::number(status.waiting)),
        (
            "heads in place",
            status
                .in_place_percent
                .map_or_else(|| "-".to_owned(), |percent| format!("{percent} %")),
        ),
        ("memory search", followed(status.index.as_ref())),
        ("archived", archived(status.archive)),
    ];
    let rows = rows
        .into_iter()
        .map(|(name, value)| shown!("{}  {}\n", styled(DIM, format!("{name:>14}")), value));
    paint::print(rows.collect::<ScreenText>())?;
    for danger in &status.dangers {
        let danger = styled(BAD, danger.clone());
        paint::print(shown!(
            "{}: what was acknowledged may be lost when the server dies\n",
            danger
        ))?;
    }
    Ok(Ended::Well)
}

/// Removes artifacts that no block names, or says how many there are.
async fn collect(args: &StoreGcArgs, config: &Config) -> Result<Ended, Failure> {
    let artifacts = setup::open_artifacts(&config.artifacts.value, &config.home.value)?;
    let embedder = setup::embedder(&config.embeddings)?;
    let opened = setup::open_log(&config.store.value, embedder, Some(&artifacts)).await?;
    let swept = match (&opened.ledger, args.dry_run) {
        (Some(ledger), true) => ledger.garbage(args.older_than).await?,
        (Some(ledger), false) => {
            let collected = artifacts.collect(&**ledger, args.older_than).await;
            collected.map_err(Failure::environment)?
        }
        // One machine: the ages of files decide, under the lock that every put holds.
        (None, dry_run) => {
            let live: Vec<BlobDigest> = opened.log.all_named_blobs().try_collect().await?;
            let age = i64::try_from(args.older_than.as_micros()).unwrap_or(i64::MAX);
            let before = annals::runtime::World::default().now().plus_micros(-age);
            let swept = match dry_run {
                true => artifacts.garbage(live, before).await,
                false => artifacts.gc(live, before).await,
            };
            swept.map_err(Failure::environment)?
        }
    };
    if args.json {
        let json = json!({
            "seen": swept.seen, "removed": swept.removed, "bytes": swept.freed_bytes, "dry_run": args.dry_run,
        });
        paint::print_json(&format!("{json}\n"))?;
        return Ok(Ended::Well);
    }
    let (seen, removed, bytes) = (
        paint::number(swept.seen),
        paint::number(swept.removed),
        paint::size(swept.freed_bytes),
    );
    paint::print(match args.dry_run {
        true => format!("{removed} of {seen} artifacts ({bytes}) would be removed\n"),
        false => format!("{removed} of {seen} artifacts ({bytes}) removed\n"),
    })?;
    Ok(Ended::Well)
}

/// What lies in the artifact store instead of the tables.
fn archived(archive: Option<ArchiveStatus>) -> String {
    match archive {
        None => "none: run `annals store migrate`".to_owned(),
        Some(archive) => format!(
            "{} conversations with {} blocks, {}",
            paint::number(archive.conversations),
            paint::number(archive.blocks),
            paint::size(archive.bytes)
        ),
    }
}

/// How far memory search is along the log.
fn followed(index: Option<&IndexStatus>) -> String {
    match index {
        None => "none: run `annals store migrate`".to_owned(),
        Some(index) if index.blocks_behind == 0 => "up to the log".to_owned(),
        Some(index) => format!(
            "{} blocks of {} conversations behind; a search adds what it needs, `annals memory reindex` all",
            paint::number(index.blocks_behind),
            paint::number(index.conversations_behind)
        ),
    }
}
