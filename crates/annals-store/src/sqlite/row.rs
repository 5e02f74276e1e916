//! One block as one row: the only place that knows how a block's fields lie in columns.
//!
//! What most blocks have is a column of its own, so that reading a log parses no JSON; the rest of the metadata
//! is compact JSON.

use std::sync::Arc;

use annals_core::block::{Block, Body};
use annals_core::ids::{CallId, Seq};
use annals_core::time::Timestamp;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, params};

use super::checksum;
use super::fault::Fault;
use super::words::{WordKeys, Words};
use crate::columns::{self, BLOB_BYTES, meta_of, without_turn};
use crate::log::BatchId;

/// Columns in the order that [`RowReader::block`] reads them.
pub(super) const COLUMNS: &str =
    "seq, kind, author, turn, mime, ts, tokens, step, path, call, meta, body, sum, conversation";

/// Adds a block, and what it names, to a conversation. The last block of an append carries its batch.
pub(super) fn insert(
    tx: &Connection,
    words: &mut WordKeys,
    conversation: i64,
    block: &Block,
    batch: Option<BatchId>,
) -> rusqlite::Result<()> {
    let keys = [
        words.key(tx, block.kind.tag())?,
        words.key(tx, &block.author)?,
        words.key(tx, block.turn.as_str())?,
        words.key(tx, &block.mime)?,
    ];
    let path = block
        .path
        .as_ref()
        .map(|path| without_turn(path.as_str(), block.turn.as_str()));
    let call = block.meta().call.as_ref().map(CallId::as_str);
    let step = block.meta().step.map(i64::from);
    let meta = block.meta.as_deref().and_then(columns::further);
    let blob_body: [u8; BLOB_BYTES];
    let body = match &block.body {
        Body::Empty => ValueRef::Null,
        Body::Text(text) => ValueRef::Text(text.as_bytes()),
        Body::Blob(blob) => {
            blob_body = columns::blob_bytes(blob);
            ValueRef::Blob(&blob_body)
        }
    };
    let seq = block.seq.get() as i64;
    let (ts, tokens) = (block.ts.unix_micros(), i64::from(block.tokens));
    let sum = checksum::of_block(
        &[conversation, seq, ts, tokens, step.unwrap_or(-1)],
        &[
            Some(block.kind.tag().as_bytes()),
            Some(block.author.as_bytes()),
            Some(block.turn.as_str().as_bytes()),
            Some(block.mime.as_bytes()),
            text_bytes(path.as_deref()),
            text_bytes(call),
            text_bytes(meta.as_deref()),
            bytes_of(body),
        ],
    );
    tx.prepare_cached(
        "INSERT INTO block (conversation, seq, kind, author, turn, mime, ts, tokens, step, path, call, meta, body, sum, batch)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?
    .execute(params![
        conversation,
        seq,
        keys[0],
        keys[1],
        keys[2],
        keys[3],
        ts,
        tokens,
        step,
        path.as_deref(),
        call,
        meta.as_deref(),
        ToSqlOutput::Borrowed(body),
        sum,
        batch.map(|batch| batch.get() as i64)
    ])?;
    for digest in columns::named(block, meta.as_deref()) {
        tx.prepare_cached("INSERT OR IGNORE INTO named (digest, conversation) VALUES (?1, ?2)")?
            .execute(params![digest.0, conversation])?;
    }
    Ok(())
}

fn text_bytes(text: Option<&str>) -> Option<&[u8]> {
    text.map(str::as_bytes)
}

fn bytes_of(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        _ => None,
    }
}

/// Reads rows one after the other, sharing texts that repeat.
pub(super) struct RowReader<'c> {
    connection: &'c Connection,
    words: &'c mut Words,
    /// Blocks of one round follow each other and share their call.
    call: Option<CallId>,
    path: String,
}

impl<'c> RowReader<'c> {
    pub(super) fn new(connection: &'c Connection, words: &'c mut Words) -> Self {
        RowReader {
            connection,
            words,
            call: None,
            path: String::new(),
        }
    }

    /// The block of a row that selects [`COLUMNS`].
    pub(super) fn block(&mut self, row: &Row<'_>) -> Result<Block, Fault> {
        let number = |column: usize| row.get::<_, i64>(column);
        let (seq, ts, tokens, step) = (number(0)?, number(5)?, number(6)?, row.get::<_, Option<i64>>(7)?);
        let keys = [number(1)?, number(2)?, number(3)?, number(4)?];
        let (path, call, meta) = (row.get_ref(8)?, row.get_ref(9)?, row.get_ref(10)?);
        let body = row.get_ref(11)?;
        let kind = self.words.kind(self.connection, keys[0])?;
        let author = self.words.text(self.connection, keys[1])?;
        let turn_text = self.words.text(self.connection, keys[2])?;
        let mime = self.words.text(self.connection, keys[3])?;
        let long = [bytes_of(path), bytes_of(call), bytes_of(meta), bytes_of(body)];
        let (stored, step_number) = (number(12)?, step.unwrap_or(-1));
        let sum = match checksum::is_over_texts(stored) {
            true => checksum::of_block(
                &[number(13)?, seq, ts, tokens, step_number],
                &[
                    Some(kind.tag().as_bytes()),
                    Some(author.as_bytes()),
                    Some(turn_text.as_bytes()),
                    Some(mime.as_bytes()),
                    long[0],
                    long[1],
                    long[2],
                    long[3],
                ],
            ),
            false => checksum::of(
                &[seq, keys[0], keys[1], keys[2], keys[3], ts, tokens, step_number],
                &long,
            ),
        };
        if sum != stored {
            return Err(Fault::Damaged(format!("block {seq} does not match its checksum")));
        }
        // Past the checksum a malformed field can only come from a writer of another hand.
        let damaged = |what: &str| Fault::Damaged(format!("block {seq} has a malformed {what}"));
        let turn = self
            .words
            .turn(self.connection, keys[2])?
            .ok_or_else(|| damaged("turn"))?;
        let path = match text(path).map_err(|_| damaged("path"))? {
            None => None,
            Some(stored) => {
                Some(columns::with_turn(stored, &turn, &mut self.path).ok_or_else(|| damaged("path"))?)
            }
        };
        let call = match text(call).map_err(|_| damaged("call"))? {
            None => None,
            Some(stored) => Some(self.call(stored).ok_or_else(|| damaged("call"))?),
        };
        let step = step.map(u32::try_from).transpose().map_err(|_| damaged("step"))?;
        let meta = text(meta).ok().and_then(|json| meta_of(json, call, step));
        let meta = meta.ok_or_else(|| damaged("meta"))?;
        Ok(Block {
            seq: u64::try_from(seq)
                .ok()
                .and_then(|seq| Seq::try_new(seq).ok())
                .ok_or_else(|| damaged("seq"))?,
            kind,
            author,
            turn,
            ts: Timestamp::from_unix_micros(ts),
            mime,
            path,
            body: body_of(body).ok_or_else(|| damaged("body"))?,
            meta,
            tokens: u32::try_from(tokens).map_err(|_| damaged("token count"))?,
        })
    }

    fn call(&mut self, stored: &str) -> Option<CallId> {
        if self.call.as_ref().is_none_or(|call| call.as_str() != stored) {
            self.call = Some(CallId::parse(stored).ok()?);
        }
        self.call.clone()
    }
}

fn text(value: ValueRef<'_>) -> Result<Option<&str>, ()> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

fn body_of(value: ValueRef<'_>) -> Option<Body> {
    match value {
        ValueRef::Null => Some(Body::Empty),
        ValueRef::Text(bytes) => Some(Body::Text(Arc::from(std::str::from_utf8(bytes).ok()?))),
        ValueRef::Blob(bytes) => columns::blob_of(bytes).map(Body::from),
        ValueRef::Integer(_) | ValueRef::Real(_) => None,
    }
}
