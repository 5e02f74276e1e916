//! One conversation's own blocks as one object: JSON lines in a zstd frame (`docs/format/archive.md`).
//!
//! A line is a row of the table as it is, with its checksum, so that what comes back is the same row whatever program wrote it.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use annals_core::limits;
use annals_store::columns;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;

use crate::fault::Fault;

/// The newest format this program writes and reads.
const FORMAT: u32 = 1;

/// Blocks that are inserted together have about this many bytes.
const PAGE_BYTES: u64 = 8_000_000;

/// What zstd does by default: a quarter of the size of what people and models say, at some hundred megabytes a second.
const LEVEL: i32 = 3;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    annals_segment: u32,
    /// Scope and id, for people.
    pub(crate) conversation: String,
    /// The row of the conversation, which is part of each block's checksum.
    pub(crate) number: i64,
    /// The first block.
    pub(crate) first: i64,
    /// How many there are.
    pub(crate) blocks: i64,
}

impl Header {
    pub(crate) fn new(conversation: String, number: i64, first: i64, blocks: i64) -> Self {
        Header {
            annals_segment: FORMAT,
            conversation,
            number,
            first,
            blocks,
        }
    }
}

/// The last line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct End {
    end: Totals,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Totals {
    blocks: i64,
    /// All checksums, added up.
    sum: i64,
}

/// One block as its row has it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredBlock {
    pub(crate) seq: i64,
    pub(crate) ts: i64,
    pub(crate) tokens: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<i64>,
    pub(crate) sum: i64,
    kind: String,
    author: String,
    turn: String,
    mime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meta: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "base64_text")]
    blob: Option<Vec<u8>>,
}

impl StoredBlock {
    /// From a row that selects [`COLUMNS`](crate::row::COLUMNS).
    pub(crate) fn of(row: &Row) -> Result<Self, Fault> {
        let (number, seq): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let malformed = || Fault::Damaged(format!("block {seq} has a malformed text"));
        let text = |column: usize| {
            let bytes: Option<Vec<u8>> = row.try_get(column)?;
            bytes.map(String::from_utf8).transpose().map_err(|_| malformed())
        };
        let needed = |column: usize| text(column)?.ok_or_else(malformed);
        let block = StoredBlock {
            seq,
            ts: row.try_get(2)?,
            tokens: row.try_get(3)?,
            step: row.try_get(4)?,
            sum: row.try_get(5)?,
            kind: needed(6)?,
            author: needed(7)?,
            turn: needed(8)?,
            mime: needed(9)?,
            path: text(10)?,
            call: text(11)?,
            meta: text(12)?,
            body: text(13)?,
            blob: row.try_get(14)?,
        };
        match block.is_sound(number) {
            true => Ok(block),
            false => Err(Fault::Damaged(format!("block {seq} does not match its checksum"))),
        }
    }

    /// The texts in the order of the table's columns.
    pub(crate) fn texts(&self) -> [Option<&[u8]>; 9] {
        [
            Some(self.kind.as_bytes()),
            Some(self.author.as_bytes()),
            Some(self.turn.as_bytes()),
            Some(self.mime.as_bytes()),
            self.path.as_deref().map(str::as_bytes),
            self.call.as_deref().map(str::as_bytes),
            self.meta.as_deref().map(str::as_bytes),
            self.body.as_deref().map(str::as_bytes),
            self.blob.as_deref(),
        ]
    }

    fn is_sound(&self, number: i64) -> bool {
        let numbers = [number, self.seq, self.ts, self.tokens, self.step.unwrap_or(-1)];
        columns::checksum(&numbers, &self.texts()) == self.sum
    }
}

mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => to.serialize_str(&STANDARD.encode(bytes)),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| STANDARD.decode(text))
            .transpose()
            .map_err(D::Error::custom)
    }
}

/// Writes a segment, page by page.
pub(crate) struct Writer {
    header: Header,
    frame: zstd::Encoder<'static, Vec<u8>>,
    blocks: i64,
    sum: i64,
}

impl Writer {
    pub(crate) fn new(header: Header) -> io::Result<Self> {
        let mut frame = zstd::Encoder::new(Vec::new(), LEVEL)?;
        frame.include_checksum(true)?;
        let mut writer = Writer {
            frame,
            blocks: 0,
            sum: 0,
            header,
        };
        let header = writer.header.clone();
        writer.line(&header)?;
        Ok(writer)
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.frame, line)?;
        self.frame.write_all(b"\n")
    }

    pub(crate) fn add(&mut self, blocks: &[StoredBlock]) -> io::Result<()> {
        for block in blocks {
            self.line(block)?;
            self.blocks += 1;
            self.sum = self.sum.wrapping_add(block.sum);
        }
        Ok(())
    }

    /// The segment, and its checksums added up; none if it has not the blocks that its first line says.
    pub(crate) fn finish(mut self) -> io::Result<Option<(Bytes, i64)>> {
        if self.blocks != self.header.blocks {
            return Ok(None);
        }
        let (blocks, sum) = (self.blocks, self.sum);
        self.line(&End {
            end: Totals { blocks, sum },
        })?;
        Ok(Some((self.frame.finish()?.into(), sum)))
    }
}

/// A file from its beginning, whoever else reads it.
struct FromStart {
    file: Arc<File>,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// What reading a segment may cost in memory. A few packed bytes unpack to a line of any length.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    line_bytes: u64,
    /// A page that has this many is not added to.
    page_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            line_bytes: limits::COPY_LINE_MAX_BYTES,
            page_bytes: PAGE_BYTES,
        }
    }
}

/// Reads a segment, page by page.
pub(crate) struct Reader {
    lines: BufReader<Box<dyn Read + Send>>,
    bounds: Bounds,
    header: Header,
    blocks: i64,
    sum: i64,
    /// Bytes of all lines so far.
    bytes: u64,
}

impl Reader {
    /// Begins to read; the first line must be this one.
    pub(crate) fn new(file: Arc<File>, expected: &Header) -> Result<Self, String> {
        Self::bounded(file, expected, Bounds::default())
    }

    fn bounded(file: Arc<File>, expected: &Header, bounds: Bounds) -> Result<Self, String> {
        let frame = zstd::Decoder::new(FromStart { file, at: 0 }).map_err(|error| error.to_string())?;
        let mut reader = Reader {
            lines: BufReader::new(Box::new(frame)),
            bounds,
            bytes: 0,
            header: expected.clone(),
            blocks: 0,
            sum: 0,
        };
        let found: serde_json::Value = reader.line()?;
        match found["annals_segment"].as_u64() {
            Some(format) if format > u64::from(FORMAT) => {
                return Err(format!(
                    "it has format {format}, this program knows {FORMAT}: use a newer `annals`"
                ));
            }
            Some(_) => {}
            None => return Err("it is no archive of a conversation".to_owned()),
        }
        match serde_json::from_value::<Header>(found) {
            // The name may have been written by another hand; the number is what counts.
            Ok(found)
                if (found.number, found.first, found.blocks)
                    == (expected.number, expected.first, expected.blocks) =>
            {
                Ok(reader)
            }
            _ => Err("it is the archive of something else".to_owned()),
        }
    }

    fn line<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T, String> {
        let mut line = Vec::new();
        let most = self.bounds.line_bytes;
        let mut limited = (&mut self.lines).take(most);
        limited
            .read_until(b'\n', &mut line)
            .map_err(|error| error.to_string())?;
        self.bytes += line.len() as u64;
        if line.len() as u64 == most && line.last() != Some(&b'\n') {
            return Err(format!(
                "the line after block {} has more than {most} bytes",
                self.last()
            ));
        }
        serde_json::from_slice(&line)
            .map_err(|_| format!("the line after block {} is malformed", self.last()))
    }

    fn last(&self) -> i64 {
        self.header.first - 1 + self.blocks
    }

    /// The next blocks, at most `limit`, fewer where they are long; none at the end, which is checked.
    pub(crate) fn next(&mut self, limit: usize) -> Result<Vec<StoredBlock>, String> {
        let mut page = Vec::new();
        let until = self.bytes.saturating_add(self.bounds.page_bytes);
        while page.len() < limit && self.bytes < until && self.blocks < self.header.blocks {
            let block: StoredBlock = self.line()?;
            if block.seq != self.last() + 1 || !block.is_sound(self.header.number) {
                return Err(format!("block {} in it is damaged", self.last() + 1));
            }
            self.blocks += 1;
            self.sum = self.sum.wrapping_add(block.sum);
            page.push(block);
        }
        if page.is_empty() {
            let End { end } = self.line()?;
            let (blocks, sum) = (self.blocks, self.sum);
            if end != (Totals { blocks, sum }) {
                return Err("its last line does not fit its blocks".to_owned());
            }
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: i64 = 7;

    fn block(seq: i64, body: &str) -> StoredBlock {
        let mut block = StoredBlock {
            seq,
            ts: 1,
            tokens: 2,
            step: None,
            sum: 0,
            kind: "user.prompt".to_owned(),
            author: "user".to_owned(),
            turn: "turn_1".to_owned(),
            mime: "text/plain".to_owned(),
            path: None,
            call: None,
            meta: None,
            body: Some(body.to_owned()),
            blob: None,
        };
        block.sum = columns::checksum(&[NUMBER, seq, 1, 2, -1], &block.texts());
        block
    }

    /// A segment of blocks with bodies of this length, as a file.
    fn segment(blocks: i64, body_bytes: usize) -> (Arc<File>, Header) {
        let header = Header::new("a/b/c/d".to_owned(), NUMBER, 1, blocks);
        let mut writer = Writer::new(header.clone()).unwrap();
        let blocks: Vec<StoredBlock> = (1..=blocks)
            .map(|seq| block(seq, &"x".repeat(body_bytes)))
            .collect();
        writer.add(&blocks).unwrap();
        let (bytes, _) = writer.finish().unwrap().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        (Arc::new(file), header)
    }

    #[test]
    fn a_line_that_unpacks_to_more_than_it_may_is_refused_before_it_is_held() {
        let (file, header) = segment(2, 50_000);
        let bounds = Bounds {
            line_bytes: 10_000,
            ..Bounds::default()
        };
        let mut reader = Reader::bounded(Arc::clone(&file), &header, bounds).unwrap();
        assert_eq!(
            reader.next(9),
            Err("the line after block 0 has more than 10000 bytes".to_owned())
        );
        assert_eq!(Reader::new(file, &header).unwrap().next(9).unwrap().len(), 2);
    }

    #[test]
    fn a_page_of_long_blocks_has_fewer_and_every_block_comes() {
        let (file, header) = segment(9, 4_000);
        let bounds = Bounds {
            page_bytes: 10_000,
            ..Bounds::default()
        };
        let mut reader = Reader::bounded(file, &header, bounds).unwrap();
        let mut pages = Vec::new();
        loop {
            let page = reader.next(200).unwrap();
            if page.is_empty() {
                break;
            }
            pages.push(page.len());
        }
        assert_eq!(pages, [3, 3, 3]);
    }
}
