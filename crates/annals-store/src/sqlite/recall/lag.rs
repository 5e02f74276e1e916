//! How far the index is behind the log, and a step further along it.
//!
//! The index follows the log in its order and in batches: what `recall_state` names is the last row up to which everything
//! is in it. Single conversations may be ahead of that, each up to the block that its source names, so a step adds from
//! there on and never twice. Which texts a block gives is decided elsewhere.

use std::collections::HashMap;

use annals_core::block::BlockKind;
use rusqlite::{Connection, OptionalExtension, params};

use super::index::Indexer;
use super::source;
use super::{State, last_block};
use crate::recall::remembered::KINDS;
use crate::recall::source::Source;
use crate::sqlite::reader;
use crate::sqlite::words::Words;

/// A step looks at this many blocks.
const STEP_BLOCKS: usize = 256;
/// A step ends with the block that gives it this many passages: others want to write too.
const STEP_PASSAGES: usize = 512;

/// How far a step came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advance {
    /// Blocks that are now behind it.
    pub(super) blocks: u64,
    /// Passages that it wrote.
    pub(super) passages: usize,
    /// Everything up to this row of the log is in the index.
    pub(super) upto: i64,
    /// Nothing is left.
    pub(super) is_last: bool,
}

/// Rows of the log that follow each other.
#[derive(Default)]
struct Stretch {
    /// The last of them.
    last: Option<i64>,
    blocks: usize,
    /// The last block of each conversation among them.
    tails: HashMap<i64, i64>,
}

impl Stretch {
    fn after(tx: &Connection, row: i64, most: usize) -> rusqlite::Result<Self> {
        let mut statement = tx.prepare_cached(
            "SELECT key, conversation, seq FROM block WHERE key > ?1 ORDER BY key LIMIT ?2",
        )?;
        let mut rows = statement.query(params![row, most as i64])?;
        let mut stretch = Stretch::default();
        while let Some(row) = rows.next()? {
            stretch.last = Some(row.get(0)?);
            stretch.blocks += 1;
            stretch.tails.insert(row.get(1)?, row.get(2)?);
        }
        Ok(stretch)
    }
}

/// The conversations that have blocks after a row of the log, at most `most` of them, each with its last one.
pub(super) fn tails_after(tx: &Connection, row: i64, most: usize) -> rusqlite::Result<HashMap<i64, i64>> {
    Ok(Stretch::after(tx, row, most)?.tails)
}

/// Brings the index on, in the order of the log.
pub(super) fn advance(tx: &Connection, indexer: &mut Indexer) -> rusqlite::Result<Advance> {
    let state = State::read(tx)?;
    let stretch = Stretch::after(tx, state.block, STEP_BLOCKS)?;
    let Some(last) = stretch.last else {
        return Ok(Advance {
            blocks: 0,
            passages: 0,
            upto: state.block,
            is_last: true,
        });
    };
    let mut sources = Vec::with_capacity(stretch.tails.len());
    // In their own order: the first to come gets the lower number.
    let mut tails: Vec<(i64, i64)> = stretch.tails.into_iter().collect();
    tails.sort_unstable();
    for (conversation, to) in tails {
        sources.extend(source_of(tx, conversation)?.map(|source| (source, to)));
    }
    // FTS5 gathers passages as long as their numbers rise, and writes a segment each time one does not.
    sources.sort_by_key(|(source, _)| source.first);
    let mut stride = Stride::begin(tx, state)?;
    for (mut source, to) in sources {
        if !stride.bring_on(tx, indexer, &mut source, to)? {
            return Ok(Advance {
                blocks: 0,
                passages: stride.passages,
                upto: stride.state.block,
                is_last: false,
            });
        }
    }
    tx.prepare_cached("UPDATE recall_state SET block = ?1")?
        .execute([last])?;
    Ok(Advance {
        blocks: stretch.blocks as u64,
        passages: stride.passages,
        upto: last,
        is_last: stretch.blocks < STEP_BLOCKS,
    })
}

/// Brings one conversation on; false if there is more of it.
pub(super) fn advance_one(
    tx: &Connection,
    indexer: &mut Indexer,
    conversation: i64,
) -> rusqlite::Result<bool> {
    let tail: Option<i64> = tx
        .prepare_cached("SELECT max(seq) FROM block WHERE conversation = ?1")?
        .query_row([conversation], |row| row.get(0))?;
    match (tail, source_of(tx, conversation)?) {
        (Some(tail), Some(mut source)) => {
            Stride::begin(tx, State::read(tx)?)?.bring_on(tx, indexer, &mut source, tail)
        }
        _ => Ok(true),
    }
}

fn source_of(tx: &Connection, conversation: i64) -> rusqlite::Result<Option<Source>> {
    if let Some(source) = source::find(tx, conversation)? {
        return Ok(Some(source));
    }
    let found: Option<(String, i64)> = tx
        .prepare_cached(
            "SELECT s.text, c.cut FROM conversation c JOIN scope s ON s.key = c.scope_key WHERE c.key = ?1",
        )?
        .query_row([conversation], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((scope, cut)) => source::make(tx, conversation, &scope, cut).map(Some),
        None => Ok(None),
    }
}

/// What a step needs from its first block to its last.
struct Stride {
    state: State,
    words: Words,
    /// Which rows may have something to remember, as a condition.
    which: String,
    /// How many passages it has written.
    passages: usize,
}

impl Stride {
    fn begin(tx: &Connection, state: State) -> rusqlite::Result<Self> {
        Ok(Stride {
            state,
            // Not kept: a transaction that is rolled back may take words with it.
            words: Words::default(),
            which: which(tx)?,
            passages: 0,
        })
    }

    /// Adds the blocks of a conversation up to one of them; false if the step has to end before that.
    fn bring_on(
        &mut self,
        tx: &Connection,
        indexer: &mut Indexer,
        source: &mut Source,
        to: i64,
    ) -> rusqlite::Result<bool> {
        if source.upto >= to {
            return Ok(true);
        }
        let mut is_full = false;
        let between = (source.upto, to);
        let (state, passages) = (&self.state, &mut self.passages);
        let conversation = source.conversation;
        reader::own_blocks(&mut self.words, tx, conversation, between, &self.which, |block| {
            *passages += indexer.add(tx, state, source, &block)?;
            is_full = *passages >= STEP_PASSAGES;
            Ok(!is_full)
        })?;
        if !is_full {
            source.upto = to;
        }
        source::store(tx, source)?;
        Ok(source.upto == to)
    }
}

/// Long texts of which nothing is remembered, such as what a command printed, are not even read.
fn which(tx: &Connection) -> rusqlite::Result<String> {
    let mut statement = tx.prepare_cached("SELECT key FROM word WHERE text = ?1")?;
    let mut key = |kind: &BlockKind| -> rusqlite::Result<Option<i64>> {
        statement.query_row([kind.tag()], |row| row.get(0)).optional()
    };
    let mut kinds = Vec::with_capacity(KINDS.len());
    for kind in KINDS {
        kinds.extend(key(kind)?.map(|key| key.to_string()));
    }
    let result = key(&BlockKind::ToolResult)?.unwrap_or(0);
    let kinds = kinds.join(", ");
    Ok(format!(
        "kind IN ({kinds}) AND (kind <> {result} OR path GLOB 'fi:*')"
    ))
}

/// Rows of the log that are not in the index, at most; rows that were removed among them count.
pub(super) fn lag(tx: &Connection, state: &State) -> rusqlite::Result<u64> {
    Ok((last_block(tx)? - state.block).max(0).unsigned_abs())
}
