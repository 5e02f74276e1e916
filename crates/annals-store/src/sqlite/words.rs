//! Texts that occur in many blocks (types, authors, MIME types, turns), stored once and shared in memory.
//!
//! A word never changes and is never removed, so a number learnt once stays true, also when another process
//! added it.

use std::collections::HashMap;
use std::sync::Arc;

use annals_core::block::BlockKind;
use annals_core::ids::TurnId;
use rusqlite::{Connection, OptionalExtension};

use super::checksum;
use super::fault::Fault;

/// Texts to numbers, for the writer.
#[derive(Debug, Default)]
pub(super) struct WordKeys {
    keys: HashMap<Arc<str>, i64>,
}

impl WordKeys {
    /// The number of a text, given out now if it is new.
    pub(super) fn key(&mut self, tx: &Connection, text: &str) -> rusqlite::Result<i64> {
        if let Some(key) = self.keys.get(text) {
            return Ok(*key);
        }
        let known = tx
            .prepare_cached("SELECT key FROM word WHERE text = ?1")?
            .query_row([text], |row| row.get(0))
            .optional()?;
        let key = match known {
            Some(key) => key,
            None => {
                tx.prepare_cached("INSERT INTO word (text) VALUES (?1)")?
                    .execute([text])?;
                let key = tx.last_insert_rowid();
                tx.prepare_cached("UPDATE word SET sum = ?2 WHERE key = ?1")?
                    .execute([key, checksum::of_word(key, text)])?;
                key
            }
        };
        // Turns come and go; an old one is looked up again should it ever be needed.
        const KEPT_MAX_WORDS: usize = 20_000;
        if self.keys.len() >= KEPT_MAX_WORDS {
            self.keys.clear();
        }
        self.keys.insert(text.into(), key);
        Ok(key)
    }

    /// Forgets everything: some numbers may have been rolled back.
    pub(super) fn forget(&mut self) {
        self.keys.clear();
    }
}

/// Numbers to texts, for a reader.
#[derive(Debug, Default)]
pub(super) struct Words {
    words: HashMap<i64, Word>,
}

#[derive(Debug)]
struct Word {
    text: Arc<str>,
    kind: BlockKind,
    turn: Option<TurnId>,
}

impl Words {
    fn word(&mut self, connection: &Connection, key: i64) -> Result<&Word, Fault> {
        use std::collections::hash_map::Entry;
        match self.words.entry(key) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => {
                let (text, sum): (String, i64) = connection
                    .prepare_cached("SELECT text, sum FROM word WHERE key = ?1")?
                    .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
                    .optional()?
                    .ok_or_else(|| Fault::Damaged(format!("word {key} is missing")))?;
                if sum != checksum::of_word(key, &text) {
                    return Err(Fault::Damaged(format!("word {key} does not match its checksum")));
                }
                let kind = BlockKind::from_tag(&text);
                let turn = TurnId::parse(&text).ok();
                Ok(free.insert(Word {
                    text: text.into(),
                    kind,
                    turn,
                }))
            }
        }
    }

    /// A text, shared.
    pub(super) fn text(&mut self, connection: &Connection, key: i64) -> Result<Arc<str>, Fault> {
        Ok(Arc::clone(&self.word(connection, key)?.text))
    }

    /// A block type.
    pub(super) fn kind(&mut self, connection: &Connection, key: i64) -> Result<BlockKind, Fault> {
        Ok(self.word(connection, key)?.kind.clone())
    }

    /// A turn, shared; none if the word is no turn.
    pub(super) fn turn(&mut self, connection: &Connection, key: i64) -> Result<Option<TurnId>, Fault> {
        Ok(self.word(connection, key)?.turn.clone())
    }
}
