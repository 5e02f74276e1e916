//! The tables, and how an older file becomes a newer one. `docs/format/log.md` draws what is here.
//!
//! A migration that was released is never edited: the next change is the next entry.

use rusqlite::Connection;

use super::fault::{Database, Fault};
use super::{asking, checksum, conversations};
use crate::log::LogError;

/// `Annl`, in the header of every file of ours.
const APPLICATION_ID: i64 = 0x416e_6e6c;

/// Bytes of a page. Four or five blocks of a kilobyte fill one well, and a commit writes whole pages.
const PAGE_BYTES: u32 = 8192;

/// One step: statements, then what SQL cannot compute.
struct Migration {
    statements: &'static str,
    then: fn(&Connection) -> rusqlite::Result<()>,
}

const fn statements(statements: &'static str) -> Migration {
    Migration {
        statements,
        then: |_| Ok(()),
    }
}

/// Entry `n` turns schema `n` into schema `n + 1`.
const MIGRATIONS: &[Migration] = &[
    statements("
CREATE TABLE conversation (
    key     INTEGER PRIMARY KEY AUTOINCREMENT,
    id      TEXT UNIQUE,
    scope   TEXT NOT NULL,
    title   TEXT,
    created INTEGER NOT NULL,
    lineage TEXT,
    base    INTEGER REFERENCES conversation (key),
    cut     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX conversation_scope ON conversation (scope, key);
CREATE INDEX conversation_base ON conversation (base) WHERE base IS NOT NULL;

CREATE TABLE lease (
    conversation INTEGER PRIMARY KEY REFERENCES conversation (key),
    token        INTEGER NOT NULL,
    holder       TEXT,
    process      TEXT,
    until        INTEGER
) STRICT;

CREATE TABLE word (
    key  INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE block (
    key          INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    seq          INTEGER NOT NULL,
    kind         INTEGER NOT NULL REFERENCES word (key),
    author       INTEGER NOT NULL REFERENCES word (key),
    turn         INTEGER NOT NULL REFERENCES word (key),
    mime         INTEGER NOT NULL REFERENCES word (key),
    ts           INTEGER NOT NULL,
    tokens       INTEGER NOT NULL,
    step         INTEGER,
    path         TEXT,
    call         TEXT,
    meta         TEXT,
    body         ANY,
    sum          INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX block_place ON block (conversation, seq);

CREATE TABLE named (
    digest       BLOB NOT NULL,
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    PRIMARY KEY (digest, conversation)
) STRICT, WITHOUT ROWID;
"),
    statements("
CREATE TABLE recall_state (
    epoch    INTEGER NOT NULL,
    block    INTEGER NOT NULL,
    embedder TEXT
) STRICT;
INSERT INTO recall_state (epoch, block) VALUES (1, 0);

CREATE TABLE recall_scope (
    key    INTEGER PRIMARY KEY,
    scope  TEXT NOT NULL UNIQUE,
    places INTEGER NOT NULL
) STRICT;

CREATE TABLE recall_source (
    conversation INTEGER PRIMARY KEY REFERENCES conversation (key),
    first        INTEGER UNIQUE,
    next         INTEGER NOT NULL,
    upto         INTEGER NOT NULL
) STRICT;

CREATE TABLE recall_passage (
    doc    INTEGER PRIMARY KEY,
    seq    INTEGER NOT NULL,
    start  INTEGER NOT NULL,
    length INTEGER NOT NULL,
    ts     INTEGER NOT NULL,
    target INTEGER NOT NULL,
    vector BLOB
) STRICT;
CREATE INDEX recall_pending ON recall_passage (doc) WHERE vector IS NULL;

CREATE TABLE recall_file (
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    digest       INTEGER NOT NULL,
    PRIMARY KEY (conversation, digest)
) STRICT, WITHOUT ROWID;

CREATE VIRTUAL TABLE recall_text USING fts5 (
    terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
-- Written far more often than searched: segments are merged later than usual, which halves the work of merging.
INSERT INTO recall_text (recall_text, rank) VALUES ('automerge', 16);
CREATE VIRTUAL TABLE recall_vocabulary USING fts5vocab (recall_text, row);
"),
    Migration {
        statements: "
CREATE TABLE scope (
    key  INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;
INSERT INTO scope (text) SELECT scope FROM conversation GROUP BY scope ORDER BY min(key);

CREATE TABLE conversation_3 (
    key       INTEGER PRIMARY KEY AUTOINCREMENT,
    scope_key INTEGER NOT NULL REFERENCES scope (key),
    id        TEXT,
    title     TEXT,
    created   INTEGER NOT NULL,
    lineage   TEXT,
    base      INTEGER REFERENCES conversation (key),
    cut       INTEGER NOT NULL DEFAULT 0,
    sum       INTEGER NOT NULL,
    UNIQUE (scope_key, id)
) STRICT;
INSERT INTO conversation_3 (key, scope_key, id, title, created, lineage, base, cut, sum)
    SELECT c.key, s.key, c.id, c.title, c.created, c.lineage, c.base, c.cut, 0
    FROM conversation c JOIN scope s ON s.text = c.scope ORDER BY c.key;
-- A key is never used again, also not one whose conversation was the last to be made and is deleted.
DELETE FROM sqlite_sequence WHERE name = 'conversation_3';
INSERT INTO sqlite_sequence (name, seq) SELECT 'conversation_3', seq FROM sqlite_sequence WHERE name = 'conversation';
DROP TABLE conversation;
ALTER TABLE conversation_3 RENAME TO conversation;
CREATE INDEX conversation_scope ON conversation (scope_key, key);
CREATE INDEX conversation_base ON conversation (base) WHERE base IS NOT NULL;

CREATE TABLE head (
    conversation INTEGER PRIMARY KEY REFERENCES conversation (key),
    token        INTEGER NOT NULL,
    node         TEXT,
    epoch        INTEGER,
    process      TEXT,
    until        INTEGER,
    batch        INTEGER,
    posted       INTEGER,
    due          INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX head_due ON head (due) WHERE due IS NOT NULL;
-- Whoever held a lease before this step is fenced by it.
INSERT INTO head (conversation, token) SELECT conversation, token + 1 FROM lease;
DROP TABLE lease;

ALTER TABLE block ADD COLUMN batch INTEGER;
ALTER TABLE word ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;

CREATE TABLE inbox (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversation (key),
    client_key   TEXT NOT NULL,
    kind         TEXT NOT NULL,
    body         BLOB,
    digest       BLOB NOT NULL,
    posted       INTEGER NOT NULL,
    sum          INTEGER NOT NULL,
    UNIQUE (conversation, client_key)
) STRICT;
CREATE INDEX inbox_pending ON inbox (conversation, id) WHERE body IS NOT NULL;
CREATE INDEX inbox_consumed ON inbox (posted) WHERE body IS NULL;

CREATE TABLE member (
    node    TEXT PRIMARY KEY,
    epoch   INTEGER NOT NULL,
    address TEXT,
    ttl     INTEGER NOT NULL,
    until   INTEGER NOT NULL,
    process TEXT NOT NULL
) STRICT, WITHOUT ROWID;
",
        then: checksum_what_is_there,
    },
    Migration {
        statements: "
CREATE TABLE answer (
    scope  TEXT NOT NULL,
    route  TEXT NOT NULL,
    key    TEXT NOT NULL,
    digest BLOB NOT NULL,
    status INTEGER NOT NULL,
    body   BLOB NOT NULL,
    kept   INTEGER NOT NULL,
    sum    INTEGER NOT NULL,
    PRIMARY KEY (scope, route, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_kept ON answer (kept);

CREATE TABLE token (
    name    TEXT PRIMARY KEY,
    hash    BLOB NOT NULL UNIQUE,
    scope   TEXT NOT NULL,
    roles   INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    sum     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE server_key (
    name TEXT PRIMARY KEY,
    key  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE head ADD COLUMN asks_from INTEGER;
CREATE INDEX head_asks ON head (conversation) WHERE asks_from IS NOT NULL;
",
        then: note_what_asks,
    },
];

/// Schema 3 knows the checksums of conversations and words.
fn checksum_what_is_there(tx: &Connection) -> rusqlite::Result<()> {
    let mut words = tx.prepare("SELECT key, text FROM word")?;
    let mut rows = words.query([])?;
    while let Some(row) = rows.next()? {
        let (key, text): (i64, String) = (row.get(0)?, row.get(1)?);
        tx.prepare_cached("UPDATE word SET sum = ?2 WHERE key = ?1")?
            .execute([key, checksum::of_word(key, &text)])?;
    }
    let keys: Vec<i64> = tx
        .prepare("SELECT key FROM conversation")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    keys.into_iter().try_for_each(|key| conversations::seal(tx, key))
}

/// Schema 4 knows which conversations ask for something.
fn note_what_asks(tx: &Connection) -> rusqlite::Result<()> {
    let keys: Vec<i64> = tx
        .prepare("SELECT key FROM conversation WHERE id IS NOT NULL")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for key in keys {
        // What is damaged is said when it is read; it asks for nothing.
        if let Ok(place) = conversations::by_key(tx, key)
            && let Err(Fault::Storage(error)) = asking::note(tx, place)
        {
            return Err(error);
        }
    }
    Ok(())
}

/// The newest schema this program knows.
pub(super) const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Makes the file one of ours, of the newest schema; refuses what is not ours or is newer.
pub(super) fn prepare(connection: &mut Connection, database: &Database) -> Result<(), LogError> {
    let fault = |error| database.error(error);
    let FileIdentity {
        version,
        application,
        objects,
    } = FileIdentity::read(connection).map_err(fault)?;
    if objects > 0 && application != APPLICATION_ID {
        return Err(LogError::Foreign {
            log: database.name().to_owned(),
        });
    }
    if version > KNOWN {
        return Err(LogError::NewerSchema {
            log: database.name().to_owned(),
            found: version,
            known: KNOWN,
        });
    }
    if objects == 0 {
        connection
            .pragma_update(None, "page_size", PAGE_BYTES)
            .map_err(fault)?;
    }
    let mode = write_ahead(connection).map_err(fault)?;
    if mode != "wal" {
        let detail = format!("its file system does not allow a write-ahead log (journal mode `{mode}`)");
        return Err(LogError::Storage {
            log: database.name().to_owned(),
            detail,
        });
    }
    migrate(connection).map_err(|fault| fault.into_log(database))
}

/// What a file says of itself.
struct FileIdentity {
    version: i64,
    application: i64,
    objects: i64,
}

impl FileIdentity {
    /// Read in one transaction: another process may be making the file this moment, and half of its answer would look
    /// like somebody else's database.
    fn read(connection: &mut Connection) -> rusqlite::Result<Self> {
        let tx = connection.transaction()?;
        let number = |name: &str| tx.pragma_query_value(None, name, |row| row.get(0));
        Ok(FileIdentity {
            objects: tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
            version: number("user_version")?,
            application: number("application_id")?,
        })
    }
}

/// Asks for a write-ahead log and gives the mode there is. SQLite does not wait for others that are asking too, whatever
/// the busy timeout says, so the waiting is done here.
fn write_ahead(connection: &Connection) -> rusqlite::Result<String> {
    const TRIES: u32 = 500;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
    for _ in 1..TRIES {
        match connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)) {
            Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
                std::thread::sleep(PAUSE);
            }
            answer => return answer,
        }
    }
    connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
}

fn migrate(connection: &mut Connection) -> Result<(), Fault> {
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    // Asked again under the lock: another process may have done it meanwhile.
    let version: i64 = tx.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for migration in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        tx.execute_batch(migration.statements)?;
        (migration.then)(&tx)?;
    }
    if version != KNOWN {
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", KNOWN)?;
    }
    tx.commit()?;
    Ok(())
}
