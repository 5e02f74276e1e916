//! What an operator wants to know of a database at a glance.

use annals_store::LogError;

use crate::address::Address;
use crate::fault::Fault;
use crate::{archive, link, schema};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The server's version.
    pub server: String,
    /// The schema there is, and the one this program knows.
    pub schema: (i32, i32),
    /// Into how many parts blocks are divided; 0 for one table.
    pub partitions: u16,
    /// About how many conversations there are.
    pub conversations: u64,
    /// About how many blocks there are.
    pub blocks: u64,
    /// What all tables and indexes take.
    pub bytes: u64,
    /// Nodes that live.
    pub nodes: Vec<String>,
    /// Conversations with work that is due.
    pub due: u64,
    /// Posts that wait.
    pub waiting: u64,
    /// In a hundred updates of heads, how many found room on their page and touched no index.
    pub in_place_percent: Option<u64>,
    /// The index of memory search; none before the schema that has it.
    pub index: Option<IndexStatus>,
    /// What is archived; none before the schema that has it.
    pub archive: Option<ArchiveStatus>,
    /// Settings with which acknowledged appends may be lost.
    pub dangers: Vec<String>,
}

/// How far the index of memory search is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexStatus {
    /// Whose vectors it has; none before the first.
    pub embedder: Option<String>,
    /// Conversations that it has not come to the end of.
    pub conversations_behind: u64,
    /// Blocks of them that it has not come to.
    pub blocks_behind: u64,
}

/// Conversations whose blocks lie in the artifact store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveStatus {
    /// How many.
    pub conversations: u64,
    /// Their blocks.
    pub blocks: u64,
    /// What their objects take.
    pub bytes: u64,
}

/// The schema from which on there is an index.
const INDEX_SCHEMA: i32 = 2;

const INDEX: &str = "
SELECT r.embedder, b.conversations, b.blocks FROM annals.recall_state r,
LATERAL (SELECT count(*) AS conversations, coalesce(sum(h.tail - coalesce(s.upto, c.cut)), 0)::int8 AS blocks
    FROM annals.head h JOIN annals.conversation c ON c.key = h.conversation
    LEFT JOIN annals.recall_source s ON s.conversation = h.conversation AND s.epoch = r.epoch
    WHERE h.tail > coalesce(s.upto, c.cut)) b";

const STATEMENT: &str = "
WITH size AS (SELECT c.relname, c.reltuples, pg_total_relation_size(c.oid) AS bytes FROM pg_class c
    WHERE c.relnamespace = 'annals'::regnamespace AND c.relkind = 'r'),
now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS now)
SELECT current_setting('server_version'), m.schema, m.partitions,
    (SELECT greatest(sum(reltuples), 0)::int8 FROM size WHERE relname = 'conversation'),
    (SELECT greatest(sum(greatest(reltuples, 0)), 0)::int8 FROM size WHERE relname LIKE 'block%'),
    (SELECT sum(bytes)::int8 FROM size),
    ARRAY(SELECT n.node || coalesce(' at ' || n.address, '') FROM annals.member n, now
        WHERE n.until > now.now ORDER BY n.node),
    (SELECT count(*) FROM annals.head h, now WHERE h.due <= now.now),
    (SELECT count(*) FROM annals.inbox WHERE body IS NOT NULL),
    (SELECT 100 * n_tup_hot_upd / nullif(n_tup_upd, 0) FROM pg_stat_user_tables
        WHERE schemaname = 'annals' AND relname = 'head'),
    ARRAY(SELECT name || '=' || setting FROM pg_settings
        WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off')
FROM annals.meta m";

const ARCHIVE: &str =
    "SELECT count(*), coalesce(sum(blocks), 0)::int8, coalesce(sum(size), 0)::int8 FROM annals.archive
    WHERE digest IS NOT NULL";

/// Looks at a database whose tables are there, whatever their schema.
pub async fn status(address: &Address) -> Result<Status, LogError> {
    look(address)
        .await
        .map_err(|fault| fault.into_log(address.name()))
}

async fn look(address: &Address) -> Result<Status, Fault> {
    let (wire, _) = link::open(address, &address.config).await?;
    let client = wire.client;
    match schema::identify(&client, address.name()).await {
        // An older or newer schema is part of the answer.
        Ok(_)
        | Err(Fault::Refused(
            LogError::NewerSchema { .. }
            | LogError::Unprepared {
                command: "migrate", ..
            },
        )) => {}
        Err(fault) => return Err(fault),
    }
    let row = client.query_typed_one(STATEMENT, &[]).await?;
    let found: i32 = row.get(1);
    let index = match found >= INDEX_SCHEMA {
        true => Some(client.query_typed_one(INDEX, &[]).await?),
        false => None,
    };
    let archive = match found >= archive::SCHEMA {
        true => Some(client.query_typed_one(ARCHIVE, &[]).await?),
        false => None,
    };
    let count = |column: usize| row.get::<_, Option<i64>>(column).unwrap_or(0).unsigned_abs();
    Ok(Status {
        server: row.get(0),
        schema: (found, schema::KNOWN),
        partitions: row.get::<_, i16>(2).unsigned_abs(),
        conversations: count(3),
        blocks: count(4),
        bytes: count(5),
        nodes: row.get(6),
        due: count(7),
        waiting: count(8),
        in_place_percent: row.get::<_, Option<i64>>(9).map(i64::unsigned_abs),
        index: index.map(|row| IndexStatus {
            embedder: row.get(0),
            conversations_behind: row.get::<_, i64>(1).unsigned_abs(),
            blocks_behind: row.get::<_, i64>(2).unsigned_abs(),
        }),
        archive: archive.map(|row| {
            let number = |column: usize| row.get::<_, i64>(column).unsigned_abs();
            ArchiveStatus {
                conversations: number(0),
                blocks: number(1),
                bytes: number(2),
            }
        }),
        dangers: row.get(10),
    })
}
