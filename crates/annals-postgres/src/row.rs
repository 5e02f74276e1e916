//! One block as one row: every text as bytes, since PostgreSQL's `text` has no U+0000.

use std::sync::Arc;

use annals_core::block::{Block, BlockKind, Body};
use annals_core::ids::{CallId, Seq, TurnId};
use annals_core::time::Timestamp;
use annals_store::columns::{self, BLOB_BYTES};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::fault::Fault;

/// Columns in the order that [`RowReader::block`] reads them.
pub(crate) const COLUMNS: &str =
    "conversation, seq, ts, tokens, step, sum, kind, author, turn, mime, path, call, meta, body, blob";

/// A value and its type, as a statement takes it.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A block with what its row has beside it.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) block: Block,
    pub(crate) path: Option<String>,
    pub(crate) meta: Option<String>,
    pub(crate) blob: Option<[u8; BLOB_BYTES]>,
    pub(crate) sum: i64,
}

impl Encoded {
    pub(crate) fn new(conversation: i64, block: Block) -> Self {
        let mut encoded = Encoded {
            path: block
                .path
                .as_ref()
                .map(|path| columns::without_turn(path.as_str(), block.turn.as_str()).into_owned()),
            meta: block.meta.as_deref().and_then(columns::further),
            blob: block.blob().map(columns::blob_bytes),
            sum: 0,
            block,
        };
        let numbers = [
            conversation,
            encoded.seq(),
            encoded.block.ts.unix_micros(),
            i64::from(encoded.block.tokens),
            encoded.step().unwrap_or(-1),
        ];
        encoded.sum = columns::checksum(&numbers, &encoded.texts());
        encoded
    }

    pub(crate) fn seq(&self) -> i64 {
        self.block.seq.get() as i64
    }

    pub(crate) fn step(&self) -> Option<i64> {
        self.block.meta().step.map(i64::from)
    }

    pub(crate) fn call(&self) -> Option<&[u8]> {
        self.block
            .meta()
            .call
            .as_ref()
            .map(|call| call.as_str().as_bytes())
    }

    pub(crate) fn body(&self) -> Option<&[u8]> {
        self.block.text().map(str::as_bytes)
    }

    fn texts(&self) -> [Option<&[u8]>; 9] {
        [
            Some(self.block.kind.tag().as_bytes()),
            Some(self.block.author.as_bytes()),
            Some(self.block.turn.as_str().as_bytes()),
            Some(self.block.mime.as_bytes()),
            self.path.as_deref().map(str::as_bytes),
            self.call(),
            self.meta.as_deref().map(str::as_bytes),
            self.body(),
            self.blob.as_ref().map(|blob| &blob[..]),
        ]
    }

    /// Adds its row to those of a statement.
    pub(crate) fn push_to<'a>(&'a self, columns: &mut Columns<'a>, conversation: i64) {
        let (ts, tokens) = (self.block.ts.unix_micros(), i64::from(self.block.tokens));
        columns.push(
            [conversation, self.seq(), ts, tokens, self.sum],
            self.step(),
            self.texts(),
        );
    }

    /// About how much of a statement it takes.
    pub(crate) fn bytes(&self) -> usize {
        const SMALL_COLUMNS_BYTES: usize = 200;
        SMALL_COLUMNS_BYTES + self.body().map_or(0, <[u8]>::len) + self.meta.as_ref().map_or(0, String::len)
    }
}

/// Rows of blocks, column by column, as a statement takes them.
#[derive(Default)]
pub(crate) struct Columns<'a> {
    numbers: [Vec<i64>; 4],
    step: Vec<Option<i64>>,
    sum: Vec<i64>,
    texts: [Vec<Option<&'a [u8]>>; 9],
}

impl<'a> Columns<'a> {
    /// Adds a row: conversation, seq, ts, tokens and sum; the step; the texts in the order of [`COLUMNS`].
    pub(crate) fn push(&mut self, numbers: [i64; 5], step: Option<i64>, texts: [Option<&'a [u8]>; 9]) {
        let [conversation, seq, ts, tokens, sum] = numbers;
        for (column, number) in self.numbers.iter_mut().zip([conversation, seq, ts, tokens]) {
            column.push(number);
        }
        self.step.push(step);
        self.sum.push(sum);
        for (column, text) in self.texts.iter_mut().zip(texts) {
            column.push(text);
        }
    }

    /// As arrays in the order of [`COLUMNS`].
    pub(crate) fn parameters(&self) -> Vec<Parameter<'_>> {
        let numbers = self.numbers.iter().map(|column| (column as _, Type::INT8_ARRAY));
        let mut parameters: Vec<Parameter<'_>> = numbers.collect();
        parameters.push((&self.step, Type::INT8_ARRAY));
        parameters.push((&self.sum, Type::INT8_ARRAY));
        parameters.extend(self.texts.iter().map(|column| (column as _, Type::BYTEA_ARRAY)));
        parameters
    }
}

/// Reads rows one after the other, sharing texts that repeat.
#[derive(Default)]
pub(crate) struct RowReader {
    kind: Option<(Vec<u8>, BlockKind)>,
    author: Option<Arc<str>>,
    mime: Option<Arc<str>>,
    turn: Option<TurnId>,
    call: Option<CallId>,
    path: String,
}

/// The last text if it is the same, or this one.
fn shared(last: &mut Option<Arc<str>>, bytes: &[u8]) -> Option<Arc<str>> {
    if let Some(text) = last
        && text.as_bytes() == bytes
    {
        return Some(Arc::clone(text));
    }
    let text: Arc<str> = Arc::from(std::str::from_utf8(bytes).ok()?);
    *last = Some(Arc::clone(&text));
    Some(text)
}

fn text(bytes: Option<&[u8]>) -> Result<Option<&str>, std::str::Utf8Error> {
    bytes.map(std::str::from_utf8).transpose()
}

impl RowReader {
    /// The block of a row that selects [`COLUMNS`].
    pub(crate) fn block(&mut self, row: &Row) -> Result<Block, Fault> {
        let number = |column: usize| row.try_get::<_, i64>(column);
        let bytes = |column: usize| row.try_get::<_, Option<&[u8]>>(column);
        let (seq, ts, tokens) = (number(1)?, number(2)?, number(3)?);
        let step: Option<i64> = row.try_get(4)?;
        let long = [
            bytes(6)?,
            bytes(7)?,
            bytes(8)?,
            bytes(9)?,
            bytes(10)?,
            bytes(11)?,
            bytes(12)?,
            bytes(13)?,
            bytes(14)?,
        ];
        let sum = columns::checksum(&[number(0)?, seq, ts, tokens, step.unwrap_or(-1)], &long);
        if sum != number(5)? {
            return Err(Fault::Damaged(format!("block {seq} does not match its checksum")));
        }
        let [kind, author, turn, mime, path, call, meta, body, blob] = long;
        // Past the checksum a malformed field can only come from a writer of another hand.
        let damaged = |what: &str| Fault::Damaged(format!("block {seq} has a malformed {what}"));
        let turn = self
            .turn(turn.unwrap_or_default())
            .ok_or_else(|| damaged("turn"))?;
        let path = match text(path).map_err(|_| damaged("path"))? {
            None => None,
            Some(stored) => {
                let path = columns::with_turn(stored, &turn, &mut self.path);
                Some(path.ok_or_else(|| damaged("path"))?)
            }
        };
        let call = match text(call).map_err(|_| damaged("call"))? {
            None => None,
            Some(stored) => Some(self.call(stored).ok_or_else(|| damaged("call"))?),
        };
        let step = step.map(u32::try_from).transpose().map_err(|_| damaged("step"))?;
        let meta = text(meta)
            .ok()
            .and_then(|json| columns::meta_of(json, call, step));
        let body = match (body, blob) {
            (None, None) => Some(Body::Empty),
            (Some(text), None) => std::str::from_utf8(text)
                .ok()
                .map(|text| Body::Text(Arc::from(text))),
            (None, Some(blob)) => columns::blob_of(blob).map(Body::from),
            (Some(_), Some(_)) => None,
        };
        let number = u64::try_from(seq).ok().and_then(|seq| Seq::try_new(seq).ok());
        Ok(Block {
            seq: number.ok_or_else(|| damaged("seq"))?,
            kind: self
                .kind(kind.unwrap_or_default())
                .ok_or_else(|| damaged("kind"))?,
            author: shared(&mut self.author, author.unwrap_or_default()).ok_or_else(|| damaged("author"))?,
            turn,
            ts: Timestamp::from_unix_micros(ts),
            mime: shared(&mut self.mime, mime.unwrap_or_default()).ok_or_else(|| damaged("mime"))?,
            path,
            body: body.ok_or_else(|| damaged("body"))?,
            meta: meta.ok_or_else(|| damaged("meta"))?,
            tokens: u32::try_from(tokens).map_err(|_| damaged("token count"))?,
        })
    }

    fn kind(&mut self, stored: &[u8]) -> Option<BlockKind> {
        match &self.kind {
            Some((tag, kind)) if tag == stored => Some(kind.clone()),
            _ => {
                let kind = BlockKind::from_tag(std::str::from_utf8(stored).ok()?);
                self.kind = Some((stored.to_vec(), kind.clone()));
                Some(kind)
            }
        }
    }

    fn turn(&mut self, stored: &[u8]) -> Option<TurnId> {
        if self
            .turn
            .as_ref()
            .is_none_or(|turn| turn.as_str().as_bytes() != stored)
        {
            self.turn = Some(TurnId::parse(std::str::from_utf8(stored).ok()?).ok()?);
        }
        self.turn.clone()
    }

    fn call(&mut self, stored: &str) -> Option<CallId> {
        if self.call.as_ref().is_none_or(|call| call.as_str() != stored) {
            self.call = Some(CallId::parse(stored).ok()?);
        }
        self.call.clone()
    }
}
