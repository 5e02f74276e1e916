//! The index follows the log: what an append adds and a delete removes, inside the transaction that does it.

use std::sync::Arc;

use annals_core::block::Block;
use annals_core::ids::ConversationId;
use annals_embed::Embedder;
use rusqlite::{Connection, params};

use super::source::Source;
use super::{State, last_block};
use crate::recall::passage;
use crate::recall::remembered::{Remembered, remembered};
use crate::recall::terms::terms;
use crate::sqlite::LogObserver;

/// Writes passages.
pub(in crate::sqlite) struct Indexer {
    embedder: Arc<dyn Embedder>,
    /// The terms of one passage; kept for its memory.
    terms: String,
}

impl Indexer {
    pub(in crate::sqlite) fn new(embedder: Arc<dyn Embedder>) -> Self {
        Indexer {
            embedder,
            terms: String::new(),
        }
    }

    /// Adds a block that follows the last one of this source.
    pub(super) fn add(
        &mut self,
        tx: &Connection,
        state: &State,
        source: &mut Source,
        block: &Block,
    ) -> rusqlite::Result<()> {
        source.upto = block.seq.get() as i64;
        let Some(found) = remembered(block) else {
            return Ok(());
        };
        if !is_new(tx, source.conversation, &found)? {
            return Ok(());
        }
        let ours = state.embedder.as_deref() == Some(self.embedder.identity());
        for (at, range) in passage::cut(found.text).into_iter().enumerate() {
            let Some(doc) = source.number() else {
                return Ok(());
            };
            let text = &found.text[range.clone()];
            let name = found.name.filter(|_| at == 0);
            let vector = match ours {
                true => self.embedder.at_once(&embedded(name, text)),
                false => None,
            };
            tx.prepare_cached(
                "INSERT INTO recall_passage (doc, seq, start, length, ts, target, vector)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                doc,
                source.upto,
                range.start as i64,
                range.len() as i64,
                block.ts.unix_millis() / 1_000,
                found.target as i64,
                vector.map(|vector| vector.to_bytes()),
            ])?;
            self.terms.clear();
            let all = &mut self.terms;
            let mut push = |term: &str| {
                all.push_str(term);
                all.push(' ');
            };
            name.into_iter().for_each(|name| terms(name, &mut push));
            terms(text, &mut push);
            tx.prepare_cached("INSERT INTO recall_text (rowid, terms) VALUES (?1, ?2)")?
                .execute(params![doc, self.terms])?;
        }
        Ok(())
    }
}

/// What is embedded of a passage: a file's first one with the file's name.
pub(super) fn embedded<'t>(name: Option<&str>, text: &'t str) -> std::borrow::Cow<'t, str> {
    match name {
        Some(name) => format!("{name}: {text}").into(),
        None => text.into(),
    }
}

/// Whether a file's content is met for the first time in its conversation; what is merely said always is.
fn is_new(tx: &Connection, conversation: i64, found: &Remembered<'_>) -> rusqlite::Result<bool> {
    let Some(content) = &found.content else {
        return Ok(true);
    };
    // Eight bytes of a digest are enough to tell the files of one conversation apart.
    let (digest, _) = content.0.split_first_chunk::<8>().expect("a digest has 32 bytes");
    let added = tx
        .prepare_cached("INSERT OR IGNORE INTO recall_file (conversation, digest) VALUES (?1, ?2)")?
        .execute(params![conversation, i64::from_le_bytes(*digest)])?;
    Ok(added > 0)
}

impl LogObserver for Indexer {
    fn prepare(&mut self, tx: &Connection) -> rusqlite::Result<()> {
        // The first to come decides; a change of mind is a reindex.
        tx.execute(
            "UPDATE recall_state SET embedder = ?1 WHERE embedder IS NULL",
            [self.embedder.identity()],
        )?;
        Ok(())
    }

    fn appended(&mut self, tx: &Connection, id: &ConversationId, blocks: &[Block]) -> rusqlite::Result<()> {
        let (conversation, scope, cut): (i64, String, i64) = tx
            .prepare_cached("SELECT key, scope, cut FROM conversation WHERE id = ?1")?
            .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mut source = Source::open(tx, conversation, &scope, cut)?;
        let follows = blocks
            .first()
            .is_some_and(|block| block.seq.get() as i64 == source.upto + 1);
        if !follows {
            // Somebody wrote without the index. It catches up in order, when it is next asked.
            return Ok(());
        }
        let state = State::read(tx)?;
        for block in blocks {
            self.add(tx, &state, &mut source, block)?;
        }
        source.store(tx)?;
        let last = last_block(tx)?;
        if state.block + blocks.len() as i64 == last {
            tx.prepare_cached("UPDATE recall_state SET block = ?1")?
                .execute([last])?;
        }
        Ok(())
    }

    fn forked(&mut self, _: &Connection, _: &ConversationId, _: &ConversationId) -> rusqlite::Result<()> {
        // What is shared is found where it lies.
        Ok(())
    }

    fn deleted(&mut self, _: &Connection, _: &ConversationId) -> rusqlite::Result<()> {
        // The blocks that go with it are told one by one.
        Ok(())
    }

    fn removed(&mut self, tx: &Connection, conversation: i64, above: u64) -> rusqlite::Result<()> {
        forget(tx, conversation, above as i64)?;
        tx.execute(
            "UPDATE recall_state SET block = min(block, ?1)",
            [last_block(tx)?],
        )?;
        Ok(())
    }
}

/// Removes everything of a conversation's blocks above a place.
fn forget(tx: &Connection, conversation: i64, above: i64) -> rusqlite::Result<()> {
    let Some(mut source) = Source::find(tx, conversation)? else {
        return Ok(());
    };
    let numbers = source.numbers();
    let range = params![numbers.start, numbers.end, above];
    tx.execute(
        "DELETE FROM recall_text WHERE rowid IN
         (SELECT doc FROM recall_passage WHERE doc >= ?1 AND doc < ?2 AND seq > ?3)",
        range,
    )?;
    tx.execute(
        "DELETE FROM recall_passage WHERE doc >= ?1 AND doc < ?2 AND seq > ?3",
        range,
    )?;
    if above > 0 {
        source.upto = source.upto.min(above);
        return source.store(tx);
    }
    tx.execute("DELETE FROM recall_file WHERE conversation = ?1", [conversation])?;
    tx.execute(
        "DELETE FROM recall_source WHERE conversation = ?1",
        [conversation],
    )?;
    Ok(())
}
