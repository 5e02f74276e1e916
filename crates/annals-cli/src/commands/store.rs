//! `annals store`: the tables of a PostgreSQL store, for operators.

use annals::core::redact::SafeUrl;
use annals::postgres::{self, Address, Migrated, Partitions, Status};
use serde_json::json;

use crate::args::{JsonArgs, StoreCommand};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BAD, DIM, styled};
use crate::screen_text::ScreenText;
use crate::shown;

pub(crate) async fn run(command: StoreCommand, config: Config) -> Result<Ended, Failure> {
    let address = address(&config.store.value)?;
    match command {
        StoreCommand::Init(args) => {
            let partitions = Partitions::try_new(args.partitions).map_err(Failure::usage)?;
            tell(postgres::init(&address, partitions).await?, &address)
        }
        StoreCommand::Migrate => tell(postgres::migrate(&address).await?, &address),
        StoreCommand::Status(args) => show(&postgres::status(&address).await?, &args, &address),
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
