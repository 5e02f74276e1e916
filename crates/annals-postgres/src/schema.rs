//! The tables, and how an older database becomes a newer one.
//!
//! A migration that was released is never edited: the next change is the next entry. Migrations first **expand** (add
//! what older programs do not notice), then every node is deployed, then they **contract** (take away what only older
//! programs read). A contracting step names the oldest schema whose programs can do without what it takes away, and is
//! refused while a node of an older one lives; those of that schema and of later ones go on.

use annals_store::LogError;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use crate::address::Address;
use crate::fault::Fault;
use crate::link;

/// What a step does to programs of the schema before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// They go on.
    Expand,
    /// Programs of a schema before this one would fail: none of them may live. It is the one with which programs stopped using
    /// what the step takes away, so that nodes can be replaced one by one before and after it.
    Contract { oldest: i32 },
}

/// Makes the statements of a step.
type Statements = fn(Partitions) -> String;

/// What turns one schema into the next.
type Migration = (Step, Statements);

/// Entry `n` turns schema `n` into schema `n + 1`.
const MIGRATIONS: &[Migration] = &[
    (Step::Contract { oldest: 1 }, first),
    (Step::Expand, |_| include_str!("schema/recall.sql").to_owned()),
    (Step::Expand, |_| include_str!("schema/artifact.sql").to_owned()),
    (Step::Expand, |_| include_str!("schema/archive.sql").to_owned()),
];

/// The newest schema this program knows.
pub(crate) const KNOWN: i32 = MIGRATIONS.len() as i32;

/// Held while tables are made or changed, so that two operators do not do it at once.
const MIGRATION_LOCK: i64 = 0x416e_6e6c;

/// Into how many parts the table of blocks is divided, by a hash of the conversation. Parts are vacuumed, indexed and
/// dumped one by one; an append costs some percent more. It cannot be changed later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partitions(u16);

/// A number of parts that makes no sense.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0} partitions are not possible: choose 0 for one table, or 2 to 64")]
pub struct PartitionsError(u16);

impl Partitions {
    /// One table.
    pub const NONE: Partitions = Partitions(0);

    /// This many parts; 0 for one table.
    pub fn try_new(parts: u16) -> Result<Self, PartitionsError> {
        match parts {
            0 | 2..=64 => Ok(Partitions(parts)),
            parts => Err(PartitionsError(parts)),
        }
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }
}

fn first(partitions: Partitions) -> String {
    let (divided, parts) = match partitions.0 {
        0 => (" WITH (fillfactor = 100)", String::new()),
        count => {
            let part = |n: u16| {
                format!(
                    "CREATE TABLE annals.block_{n:02} PARTITION OF annals.block
                     FOR VALUES WITH (MODULUS {count}, REMAINDER {n}) WITH (fillfactor = 100);\n"
                )
            };
            (
                " PARTITION BY HASH (conversation)",
                (0..count).map(part).collect(),
            )
        }
    };
    include_str!("schema/first.sql")
        .replace("/* divided */", divided)
        .replace("/* parts */", &parts)
        .replace("/* count */", &partitions.0.to_string())
}

/// Which database this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster: String,
}

/// Reads which database this is, and refuses one whose tables this program cannot use.
pub(crate) async fn identify(client: &Client, log: &str) -> Result<Identity, Fault> {
    let row = match client
        .query_typed_one("SELECT cluster::text, schema, oldest FROM annals.meta", &[])
        .await
    {
        Ok(row) => row,
        Err(error) if is_missing(&error) => return Err(unprepared(log, "init")),
        Err(error) => return Err(error.into()),
    };
    let (schema, oldest): (i32, i32) = (row.get(1), row.get(2));
    match schema {
        schema if schema < KNOWN => Err(unprepared(log, "migrate")),
        schema if oldest > KNOWN => Err(newer(log, schema)),
        _ => Ok(Identity { cluster: row.get(0) }),
    }
}

/// How far a commit goes by what the operator has set for the server, the database or the role (`synchronous_commit`), whatever
/// somebody may have set for the session.
pub(crate) async fn flush(client: &Client) -> Result<String, Fault> {
    let row = client
        .query_typed_one(
            "SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'",
            &[],
        )
        .await?;
    let flush: String = row.try_get(0)?;
    // It goes into statements as it is.
    match flush.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
        true => Ok(flush),
        false => Err(Fault::Damaged(format!(
            "synchronous_commit is `{}`",
            flush.escape_default()
        ))),
    }
}

fn is_missing(error: &tokio_postgres::Error) -> bool {
    use tokio_postgres::error::SqlState;
    [
        Some(&SqlState::UNDEFINED_TABLE),
        Some(&SqlState::INVALID_SCHEMA_NAME),
    ]
    .contains(&error.code())
}

fn unprepared(log: &str, command: &'static str) -> Fault {
    LogError::Unprepared {
        log: log.to_owned(),
        command,
    }
    .into()
}

fn newer(log: &str, found: i32) -> Fault {
    LogError::NewerSchema {
        log: log.to_owned(),
        found: i64::from(found),
        known: i64::from(KNOWN),
    }
    .into()
}

/// What making or changing tables came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The schema before.
    pub from: i32,
    /// The schema now.
    pub to: i32,
}

/// Makes the tables of an empty database. Where they are already, they are brought to the newest schema.
pub async fn init(address: &Address, partitions: Partitions) -> Result<Migrated, LogError> {
    prepare(address, Some(partitions), MIGRATIONS)
        .await
        .map_err(|fault| fault.into_log(&address.name))
}

/// Brings the tables to the newest schema.
pub async fn migrate(address: &Address) -> Result<Migrated, LogError> {
    prepare(address, None, MIGRATIONS)
        .await
        .map_err(|fault| fault.into_log(&address.name))
}

/// Makes the tables as an older program would have: how tests begin an upgrade.
#[doc(hidden)]
pub async fn init_as(address: &Address, schema: i32) -> Result<Migrated, LogError> {
    let known = MIGRATIONS.iter().take(usize::try_from(schema).unwrap_or(0));
    let known: Vec<Migration> = known.copied().collect();
    prepare(address, Some(Partitions::NONE), &known)
        .await
        .map_err(|fault| fault.into_log(&address.name))
}

/// Brings tables to the last of these migrations.
async fn prepare(
    address: &Address,
    partitions: Option<Partitions>,
    migrations: &[Migration],
) -> Result<Migrated, Fault> {
    let to = migrations.len() as i32;
    let config = address.direct.as_ref().unwrap_or(&address.config);
    let (mut wire, _) = link::open(address, config).await?;
    let tx = wire.client.transaction().await?;
    tx.batch_execute("SET LOCAL lock_timeout = '5s'").await?;
    tx.query_typed(
        "SELECT pg_advisory_xact_lock($1)",
        &[(&MIGRATION_LOCK, Type::INT8)],
    )
    .await?;
    let found = found(&tx, &address.name).await?;
    let (from, partitions) = match (found, partitions) {
        (Some((from, partitions)), _) => (from, partitions),
        (None, Some(partitions)) => {
            tx.batch_execute("CREATE SCHEMA IF NOT EXISTS annals").await?;
            (0, partitions)
        }
        (None, None) => return Err(unprepared(&address.name, "init")),
    };
    if from > KNOWN.max(to) {
        return Err(newer(&address.name, from));
    }
    let steps = (0..to).zip(migrations).skip(usize::try_from(from).unwrap_or(0));
    for (number, (step, statements)) in steps {
        let oldest = match step {
            Step::Contract { oldest } => Some(*oldest),
            Step::Expand => None,
        };
        if let Some(oldest) = oldest.filter(|_| number > 0) {
            refuse_older_nodes(&tx, &address.name, oldest).await?;
        }
        tx.batch_execute(&statements(partitions)).await?;
        tx.query_typed(
            "UPDATE annals.meta SET schema = $1, oldest = coalesce($2, oldest)",
            &[(&(number + 1), Type::INT4), (&oldest, Type::INT4)],
        )
        .await?;
    }
    if from == 0 {
        tune(&tx).await?;
    }
    tx.commit().await?;
    Ok(Migrated {
        from,
        to: to.max(from),
    })
}

/// The schema and the parts that are there; none in a database without our tables.
async fn found(tx: &Transaction<'_>, log: &str) -> Result<Option<(i32, Partitions)>, Fault> {
    let row = tx
        .query_typed_one(
            "SELECT to_regclass('annals.meta') IS NOT NULL,
             EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('annals')::oid)",
            &[],
        )
        .await?;
    match (row.get(0), row.get(1)) {
        (true, _) => {
            let row = tx
                .query_typed_one("SELECT schema, partitions FROM annals.meta", &[])
                .await?;
            Ok(Some((
                row.get(0),
                Partitions(row.get::<_, i16>(1).unsigned_abs()),
            )))
        }
        (false, true) => Err(LogError::Foreign { log: log.to_owned() }.into()),
        (false, false) => Ok(None),
    }
}

async fn refuse_older_nodes(tx: &Transaction<'_>, log: &str, needed: i32) -> Result<(), Fault> {
    let older = tx
        .query_typed(
            "SELECT node FROM annals.member WHERE schema < $1
             AND until > (extract(epoch FROM clock_timestamp()) * 1000000)::int8 ORDER BY node",
            &[(&needed, Type::INT4)],
        )
        .await?;
    let names: Vec<String> = older.iter().map(|row| row.get(0)).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(LogError::Storage {
            log: log.to_owned(),
            detail: format!(
                "nodes of an older version live still (`{}`): replace or stop them first",
                names.join("`, `")
            ),
        }
        .into()),
    }
}

/// Keeps long texts in their row where they fit, compressed by lz4 where the server has it.
async fn tune(tx: &Transaction<'_>) -> Result<(), Fault> {
    let row = tx
        .query_typed_one(
            "SELECT coalesce(bool_or('lz4' = ANY (enumvals)), false) FROM pg_settings
             WHERE name = 'default_toast_compression'",
            &[],
        )
        .await?;
    let has_lz4: bool = row.get(0);
    for column in ["meta", "body"] {
        tx.batch_execute(&format!(
            "ALTER TABLE annals.block ALTER {column} SET STORAGE MAIN"
        ))
        .await?;
        if has_lz4 {
            tx.batch_execute(&format!(
                "ALTER TABLE annals.block ALTER {column} SET COMPRESSION lz4"
            ))
            .await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use annals_testbed::{Durability, Edition, PostgresServer};

    #[test]
    fn one_part_is_no_division() {
        assert_eq!(Partitions::try_new(16).map(Partitions::get), Ok(16));
        assert!(Partitions::try_new(1).is_err());
        assert!(!first(Partitions::NONE).contains("PARTITION"));
        assert_eq!(first(Partitions(16)).matches("PARTITION OF").count(), 16);
    }

    /// Two schemas after the present one: the first adds a column, the second takes one away that programs of the first do
    /// without.
    fn contracted() -> Vec<Migration> {
        let expand: Migration = (Step::Expand, |_| {
            "ALTER TABLE annals.answer ADD later int4".to_owned()
        });
        let contract: Migration = (Step::Contract { oldest: KNOWN + 1 }, |_| {
            "ALTER TABLE annals.answer DROP later".to_owned()
        });
        MIGRATIONS.iter().copied().chain([expand, contract]).collect()
    }

    async fn join(server: &PostgresServer, node: &str, schema: i32, until: &str) {
        let joined = format!(
            "INSERT INTO annals.member (node, epoch, ttl, until, schema) VALUES ('{node}', 1, 1000000,
             (extract(epoch FROM clock_timestamp() + interval '{until}') * 1000000)::int8, {schema})"
        );
        server.execute("a", &joined).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_step_that_takes_something_away_waits_for_nodes_that_need_it_and_names_them() {
        let Some(server) = PostgresServer::start(Edition::Debian, Durability::Volatile, &[]) else {
            return;
        };
        let address = Address::parse(&server.database("a", None).await).unwrap();
        init(&address, Partitions::NONE).await.unwrap();
        join(&server, "before", KNOWN, "1 hour").await;
        join(&server, "dead", KNOWN, "-1 second").await;
        join(&server, "between", KNOWN + 1, "1 hour").await;
        let migrated = async |steps: &[Migration]| {
            let migrated = prepare(&address, None, steps).await;
            migrated.map_err(|fault| fault.into_log(address.name()).to_string())
        };
        let all = contracted();
        let expanded = all.split_last().unwrap().1;
        assert_eq!(migrated(expanded).await.unwrap().to, KNOWN + 1, "nobody minds");
        let refused = migrated(&all).await.unwrap_err();
        assert!(refused.contains("`before`"), "{refused}");
        for other in ["dead", "between"] {
            assert!(!refused.contains(other), "{refused}");
        }
        let schema = || server.count("a", "SELECT schema::int8 FROM annals.meta");
        assert_eq!(schema().await, i64::from(KNOWN + 1), "nothing was changed");
        let leave = "UPDATE annals.member SET until = 0 WHERE node = 'before'";
        server.execute("a", leave).await;
        assert_eq!(migrated(&all).await.unwrap().to, KNOWN + 2);
        // Programs of the schema that began to do without go on; this one is older, and is refused.
        let oldest = server.count("a", "SELECT oldest::int8 FROM annals.meta").await;
        assert_eq!(oldest, i64::from(KNOWN + 1));
        let found = crate::status(&address).await.unwrap();
        assert_eq!(found.schema, (KNOWN + 2, KNOWN));
        let opened = crate::PostgresLog::open(address.clone(), crate::PostgresOptions::default()).await;
        assert!(matches!(opened, Err(LogError::NewerSchema { .. })), "{opened:?}");
    }
}
