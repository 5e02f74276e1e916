//! Growth by other processes: SQLite tells nobody, so a thread asks while somebody follows.
//!
//! `PRAGMA data_version` changes with every commit of any other connection and costs one look at shared memory. Only
//! when it has changed are the followed conversations looked at. Appends of this process are told at once.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use annals_core::ids::ConversationKey;
use rusqlite::{Connection, OptionalExtension};

use super::fault::Fault;
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
    is_running: Arc<AtomicBool>,
}

impl Poll {
    pub(super) fn new(path: &Path, vfs: Option<String>, followers: Arc<Followers>) -> Self {
        Poll {
            path: path.to_owned(),
            vfs,
            followers,
            is_running: Arc::default(),
        }
    }

    /// Starts the thread unless it runs. Call it after the follower was added.
    pub(super) fn start(&self) {
        if self.is_running.swap(true, Ordering::SeqCst) {
            return;
        }
        let (path, vfs, is_running) = (self.path.clone(), self.vfs.clone(), Arc::clone(&self.is_running));
        let followers = Arc::downgrade(&self.followers);
        let thread = std::thread::Builder::new().name("annals-poll".to_owned());
        let begun = thread.spawn(move || watch(&path, vfs.as_deref(), &followers, &is_running));
        if begun.is_err() {
            // Followers still hear of this process's appends; the next one to come tries again.
            self.is_running.store(false, Ordering::SeqCst);
        }
    }
}

fn watch(path: &Path, vfs: Option<&str>, followers: &Weak<Followers>, is_running: &AtomicBool) {
    let mut connection = None;
    let mut seen: Option<i64> = None;
    while let Some(followers) = followers.upgrade() {
        let mut keys = followers.keys();
        if keys.is_empty() {
            is_running.store(false, Ordering::SeqCst);
            keys = followers.keys();
            // One that came before the store, and took the thread for running, is kept by going on.
            if keys.is_empty() || is_running.swap(true, Ordering::SeqCst) {
                return;
            }
        }
        // What fails is tried again at the next round: whoever reads the log is told why it fails.
        if connection.is_none() {
            connection = connect(path, vfs).ok();
        }
        if let Some(open) = &connection {
            match look(open, &followers, &keys, seen) {
                Ok(version) => seen = Some(version),
                Err(_) => connection = None,
            }
        }
        drop(followers);
        std::thread::sleep(INTERVAL);
    }
}

fn look(
    connection: &Connection,
    followers: &Followers,
    keys: &[ConversationKey],
    seen: Option<i64>,
) -> Result<i64, Fault> {
    let version = connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
    if seen == Some(version) {
        return Ok(version);
    }
    for key in keys {
        match mark(connection, key) {
            Ok(mark) => followers.advance(key, mark),
            Err(Fault::Refused(LogError::NotFound { .. })) => followers.end(key),
            Err(fault) => return Err(fault),
        }
    }
    Ok(version)
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
