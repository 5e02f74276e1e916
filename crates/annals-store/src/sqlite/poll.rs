//! Growth by other processes: SQLite tells nobody, so a thread asks while somebody follows.
//!
//! `PRAGMA data_version` changes with every commit of any other connection and costs one look at shared memory. Only
//! when it has changed is the writer asked what its own connection says, for which the commits of this process are no
//! change; and only when that has changed are the followed conversations looked at, however many they are. Appends of this
//! process are told at once.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use annals_core::ids::ConversationKey;
use rusqlite::{Connection, OptionalExtension};

use super::fault::Fault;
use super::writer::Asker;
use super::{connect, conversations};
use crate::log::{Followers, InboxId, LogError, Mark};

/// How long another process's append may stay unnoticed.
const INTERVAL: Duration = Duration::from_millis(50);

/// The thread, which lives while somebody follows.
#[derive(Debug)]
pub(super) struct Poll {
    path: PathBuf,
    vfs: Option<String>,
    followers: Arc<Followers>,
    writer: Asker,
    is_running: Arc<AtomicBool>,
}

/// How the database looked to two connections; none before the first look.
#[derive(Clone, Copy, Debug, Default)]
struct Versions {
    /// To the poll's own: every commit is a change.
    any: Option<i64>,
    /// To the writer's: only commits of others are.
    others: Option<i64>,
}

impl Poll {
    pub(super) fn new(path: &Path, vfs: Option<String>, followers: Arc<Followers>, writer: Asker) -> Self {
        Poll {
            path: path.to_owned(),
            vfs,
            followers,
            writer,
            is_running: Arc::default(),
        }
    }

    /// Starts the thread unless it runs. Call it after the follower was added.
    pub(super) fn start(&self) {
        if self.is_running.swap(true, Ordering::SeqCst) {
            return;
        }
        let (path, vfs, is_running) = (self.path.clone(), self.vfs.clone(), Arc::clone(&self.is_running));
        let (followers, writer) = (Arc::downgrade(&self.followers), self.writer.clone());
        let thread = std::thread::Builder::new().name("annals-poll".to_owned());
        let begun = thread.spawn(move || watch(&path, vfs.as_deref(), (&followers, &writer), &is_running));
        if begun.is_err() {
            // Followers still hear of this process's appends; the next one to come tries again.
            self.is_running.store(false, Ordering::SeqCst);
        }
    }
}

fn watch(
    path: &Path,
    vfs: Option<&str>,
    (followers, writer): (&Weak<Followers>, &Asker),
    is_running: &AtomicBool,
) {
    let mut connection = None;
    let mut seen = Versions::default();
    while let Some(followers) = followers.upgrade() {
        if followers.is_empty() {
            is_running.store(false, Ordering::SeqCst);
            // One that came before the store, and took the thread for running, is kept by going on.
            if followers.is_empty() || is_running.swap(true, Ordering::SeqCst) {
                return;
            }
        }
        // What fails is tried again at the next round: whoever reads the log is told why it fails.
        if connection.is_none() {
            connection = connect(path, vfs).ok();
        }
        if let Some(open) = &connection {
            match look(open, writer, &followers, seen) {
                Ok(versions) => seen = versions,
                Err(_) => (connection, seen) = (None, Versions::default()),
            }
        }
        drop(followers);
        std::thread::sleep(INTERVAL);
    }
}

fn look(
    connection: &Connection,
    writer: &Asker,
    followers: &Followers,
    seen: Versions,
) -> Result<Versions, Fault> {
    let mut now = Versions {
        any: Some(data_version(connection)?),
        ..seen
    };
    if now.any == seen.any {
        return Ok(now);
    }
    // Asked after the first look, so that whatever commit that one saw, this one sees. A writer that cannot say is no
    // reason not to look.
    now.others = writer.ask(|work| Ok(data_version(work.tx)?)).ok();
    if now.others.is_some() && now.others == seen.others {
        return Ok(now);
    }
    for key in followers.keys() {
        match mark(connection, &key) {
            Ok(mark) => followers.advance(&key, mark),
            Err(Fault::Refused(LogError::NotFound { .. })) => followers.end(&key),
            Err(fault) => return Err(fault),
        }
    }
    Ok(now)
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}

/// How far a conversation has come.
pub(super) fn mark(tx: &Connection, key: &ConversationKey) -> Result<Mark, Fault> {
    let place = conversations::find(tx, key)?;
    let posted: Option<i64> = tx
        .prepare_cached("SELECT posted FROM head WHERE conversation = ?1")?
        .query_row([place.key], |row| row.get(0))
        .optional()?
        .flatten();
    Ok(Mark {
        tail: conversations::tail(tx, place)?,
        posted: posted.map(|id| InboxId::new(id.unsigned_abs())),
    })
}
