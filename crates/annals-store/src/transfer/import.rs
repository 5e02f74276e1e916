//! Reading an export file.

use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use annals_core::block::{Blob, BlobDigest, Block, BlockJson};
use annals_core::ids::{ConversationId, ConversationKey, Scope, Seq};
use annals_core::limits;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::ImportError;
use super::lines::{About, End, FORMAT, Header, Piece, Totals};
use crate::artifacts::ArtifactStore;
use crate::log::{
    Ancestor, Append, BatchId, BlockLog, LogError, Named, NewConversation, Operator, Owner, StoredAnswer,
    needed_by,
};

/// How long the import may hold the new conversation.
const LEASE_TTL: Duration = Duration::from_secs(60);

/// What the imported conversation becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportAs {
    /// Its id here; none keeps the id it had.
    pub id: Option<ConversationId>,
    /// Who owns it here: never the file's word.
    pub scope: Scope,
    /// Who writes it.
    pub owner: Owner,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The new conversation.
    pub id: ConversationId,
    /// How many blocks.
    pub blocks: u64,
    /// How many artifacts.
    pub artifacts: u64,
}

/// Reads a conversation into the log, its bytes into the store. Blocks appear all at once or not at all.
pub async fn import_conversation(
    log: &dyn BlockLog,
    artifacts: &ArtifactStore,
    reader: &mut (dyn AsyncBufRead + Unpin + Send),
    import_as: ImportAs,
) -> Result<Imported, ImportError> {
    import_answering(log, artifacts, reader, import_as, |_| None).await
}

/// The same, with what the request for it is answered once its id is known, kept in the commit of the import.
pub async fn import_answering(
    log: &dyn BlockLog,
    artifacts: &ArtifactStore,
    reader: &mut (dyn AsyncBufRead + Unpin + Send),
    import_as: ImportAs,
    answer: impl FnOnce(&ConversationId) -> Option<StoredAnswer> + Send,
) -> Result<Imported, ImportError> {
    let mut import = Import::new(artifacts, reader, Bounds::default());
    let (about, blocks, totals) = import.read().await?;
    let id = import_as.id.clone().unwrap_or_else(|| about.id.clone());
    let key = ConversationKey::new(import_as.scope, id);
    let new = NewConversation {
        key: key.clone(),
        title: about.title,
        created: about.created,
        lineage: vec![Ancestor {
            parent: about.id,
            at: Seq::try_new(totals.blocks).ok(),
            operator: Operator::Import,
        }],
        answer: None,
    };
    // The commit that completes it has the answer: the blocks, or the conversation where there are none.
    let answer = answer(&key.id);
    if blocks.is_empty() {
        begin(log, &new.answering(answer)).await?;
    } else {
        begin(log, &new).await?;
        let lease = log.acquire(&key, &import_as.owner, LEASE_TTL).await?;
        let append = Append::new(batch_of(&totals), None, blocks).answering(answer);
        log.append(&lease, append).await?;
        log.release(&lease).await?;
    }
    Ok(Imported {
        id: key.id,
        blocks: totals.blocks,
        artifacts: totals.artifacts,
    })
}

/// The same file is the same batch.
fn batch_of(totals: &Totals) -> BatchId {
    let (first, _) = totals
        .sha256
        .0
        .split_first_chunk()
        .expect("a digest has 32 bytes");
    BatchId::new(u64::from_le_bytes(*first))
}

/// Makes the conversation, or goes on with one that an import which died had just made.
async fn begin(log: &dyn BlockLog, new: &NewConversation) -> Result<(), LogError> {
    match log.create(new.clone()).await {
        Err(LogError::Exists { id }) => {
            let there = log.get(&new.key).await?;
            match there.lineage == new.lineage && there.tail.is_none() {
                true => Ok(()),
                false => Err(LogError::Exists { id }),
            }
        }
        made => made,
    }
}

/// What one file may cost in memory.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    line_bytes: u64,
    blocks_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            line_bytes: limits::COPY_LINE_MAX_BYTES,
            blocks_bytes: limits::IMPORT_BLOCKS_MAX_BYTES,
        }
    }
}

struct Import<'i> {
    bounds: Bounds,
    /// Bytes of the lines of blocks so far.
    blocks_bytes: u64,
    artifacts: &'i ArtifactStore,
    reader: &'i mut (dyn AsyncBufRead + Unpin + Send),
    line: u64,
    hash: Sha256,
    /// An artifact whose pieces are still coming.
    open: Option<Open>,
    /// What has come, and how many bytes it has.
    kept: HashMap<BlobDigest, u64>,
}

struct Open {
    digest: BlobDigest,
    size_bytes: u64,
    received: u64,
    file: std::fs::File,
}

impl<'i> Import<'i> {
    fn new(
        artifacts: &'i ArtifactStore,
        reader: &'i mut (dyn AsyncBufRead + Unpin + Send),
        bounds: Bounds,
    ) -> Self {
        Import {
            bounds,
            blocks_bytes: 0,
            artifacts,
            reader,
            line: 0,
            hash: Sha256::new(),
            open: None,
            kept: HashMap::new(),
        }
    }

    fn bad(&self, reason: impl Into<String>) -> ImportError {
        ImportError::Line {
            line: self.line,
            reason: reason.into(),
        }
    }

    /// The next line without its end; none at the end of the file. A line without end counts as cut off.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, ImportError> {
        let mut line = Vec::new();
        let mut limited = (&mut *self.reader).take(self.bounds.line_bytes);
        limited.read_until(b'\n', &mut line).await?;
        if line.last() != Some(&b'\n') {
            return match line.len() as u64 == self.bounds.line_bytes {
                true => Err(self.bad("the line after it is too long")),
                false => Ok(None),
            };
        }
        self.line += 1;
        Ok(Some(line))
    }

    async fn read(&mut self) -> Result<(About, Vec<Block>, Totals), ImportError> {
        let first = self.next().await?.ok_or(ImportError::NotAnExport)?;
        let header = read_header(&first)?;
        self.hash.update(&first);
        let mut blocks: Vec<Block> = Vec::new();
        while let Some(line) = self.next().await? {
            if line.starts_with(b"{\"end\":") {
                let End { end } = serde_json::from_slice(&line).map_err(|e| self.bad(e.to_string()))?;
                self.check_end(&header, blocks.len() as u64, end)?;
                return Ok((header.conversation, blocks, end));
            }
            self.hash.update(&line);
            if line.starts_with(b"{\"artifact\":") {
                let piece = serde_json::from_slice(&line).map_err(|e| self.bad(e.to_string()))?;
                self.piece(piece).await?;
            } else {
                self.blocks_bytes += line.len() as u64;
                if self.blocks_bytes > self.bounds.blocks_bytes {
                    let most = self.bounds.blocks_bytes;
                    return Err(self.bad(format!("the blocks have more than {most} bytes")));
                }
                let block = self.block(&line, blocks.len() as u64 + 1).await?;
                blocks.push(block);
            }
        }
        Err(ImportError::Truncated { line: self.line })
    }

    fn check_end(&self, header: &Header, blocks: u64, end: Totals) -> Result<(), ImportError> {
        let actual = BlobDigest(self.hash.clone().finalize().into());
        if actual != end.sha256 {
            return Err(ImportError::Damaged {
                expected: end.sha256,
                actual,
            });
        }
        let counts = (blocks, blocks, self.kept.len() as u64);
        if counts != (header.blocks, end.blocks, end.artifacts) || self.open.is_some() {
            return Err(self.bad("it counts other blocks or artifacts than the file has"));
        }
        Ok(())
    }

    async fn block(&mut self, line: &[u8], expected: u64) -> Result<Block, ImportError> {
        let json: BlockJson = serde_json::from_slice(line).map_err(|e| self.bad(e.to_string()))?;
        let (block, bytes) = json.into_block().map_err(|e| self.bad(e.to_string()))?;
        if block.seq.get() != expected {
            return Err(self.bad(format!(
                "block {} stands where block {expected} must be",
                block.seq
            )));
        }
        if let Some(bytes) = bytes {
            let blob = self.artifacts.put(bytes).await?.blob;
            self.kept.insert(blob.digest, blob.size_bytes);
        }
        for named in needed_by(&block) {
            self.check_named(named)?;
        }
        self.check_place(&block)?;
        Ok(block)
    }

    /// Bytes that a block names have come, and are as many as it says.
    fn check_named(&self, named: Named) -> Result<(), ImportError> {
        let Named { digest, size_bytes } = named;
        let Some(kept_bytes) = self.kept.get(&digest) else {
            return Err(ImportError::MissingBytes {
                line: self.line,
                digest,
            });
        };
        match size_bytes.is_none_or(|size_bytes| size_bytes == *kept_bytes) {
            true => Ok(()),
            false => Err(self.bad(format!(
                "`{digest}` has {kept_bytes} bytes, but the block says otherwise"
            ))),
        }
    }

    /// A file is where its digest says, and nowhere that a stranger chose.
    fn check_place(&self, block: &Block) -> Result<(), ImportError> {
        let Some(file) = &block.meta().file else {
            return Ok(());
        };
        let place = file.content_digest.map(|digest| {
            let size_bytes = file.size_bytes.unwrap_or_default();
            self.artifacts.locate(Blob { digest, size_bytes })
        });
        let fits = |said: &Option<String>, is: Option<&String>| said.is_none() || said.as_ref() == is;
        let (uri, key) = (place.as_ref().map(|at| &at.uri), place.as_ref().map(|at| &at.key));
        match fits(&file.hosted_uri, uri) && fits(&file.key, key) {
            true => Ok(()),
            false => Err(self.bad("a file is said to be kept elsewhere than its digest says")),
        }
    }

    async fn piece(&mut self, piece: Piece) -> Result<(), ImportError> {
        let bytes = STANDARD
            .decode(&piece.base64)
            .map_err(|e| self.bad(e.to_string()))?;
        let mut open = match self.open.take() {
            None if piece.offset == 0 => Open {
                digest: piece.artifact,
                size_bytes: piece.size_bytes,
                received: 0,
                file: tempfile::tempfile()?,
            },
            Some(open)
                if (open.digest, open.size_bytes, open.received)
                    == (piece.artifact, piece.size_bytes, piece.offset) =>
            {
                open
            }
            _ => return Err(self.bad("a piece of an artifact is out of place")),
        };
        open.received += bytes.len() as u64;
        if open.received > open.size_bytes || (bytes.is_empty() && open.size_bytes > 0) {
            return Err(self.bad("an artifact has other bytes than it says"));
        }
        open.file.write_all(&bytes)?;
        if open.received < open.size_bytes {
            self.open = Some(open);
            return Ok(());
        }
        let kept = self.artifacts.put_open_file(open.file).await?.blob.digest;
        if kept != open.digest {
            let reason = format!("the bytes hash to `{kept}`, but the line names `{}`", open.digest);
            return Err(self.bad(reason));
        }
        self.kept.insert(kept, open.size_bytes);
        Ok(())
    }
}

fn read_header(line: &[u8]) -> Result<Header, ImportError> {
    #[derive(serde::Deserialize)]
    struct Format {
        annals_export: u32,
    }
    let format: Format = serde_json::from_slice(line).map_err(|_| ImportError::NotAnExport)?;
    if format.annals_export > FORMAT {
        return Err(ImportError::NewerFormat {
            found: format.annals_export,
            known: FORMAT,
        });
    }
    serde_json::from_slice(line).map_err(|e| ImportError::Line {
        line: 1,
        reason: e.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = concat!(
        r#"{"annals_export":1,"conversation":{"id":"x","scope":"a/b/c","created":"2026-02-09T02:14:32Z"},"blocks":9}"#,
        "\n"
    );

    /// Blocks without end, as a stranger's file may have them.
    async fn refused(bounds: Bounds, text_bytes: usize) -> String {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = ArtifactStore::open(folder.path()).unwrap();
        let mut file = HEADER.to_owned();
        for seq in 1..=9 {
            let text = "x".repeat(text_bytes);
            file.push_str(&format!(
                "{{\"seq\":{seq},\"type\":\"user.prompt\",\"author\":\"user\",\"turn_id\":\"turn_1\",\
                 \"ts\":\"2026-02-09T02:14:32Z\",\"mime\":\"text/plain\",\"text\":\"{text}\"}}\n"
            ));
        }
        let mut reader = file.as_bytes();
        Import::new(&artifacts, &mut reader, bounds)
            .read()
            .await
            .unwrap_err()
            .to_string()
    }

    #[tokio::test]
    async fn a_line_and_all_blocks_together_are_bounded() {
        let bounds = Bounds {
            line_bytes: 4_000,
            blocks_bytes: 5_000,
        };
        assert!(
            refused(bounds, 5_000)
                .await
                .contains("the line after it is too long")
        );
        assert!(
            refused(bounds, 1_000)
                .await
                .contains("the blocks have more than 5000 bytes")
        );
        assert!(
            refused(Bounds::default(), 1_000)
                .await
                .contains("without its last line")
        );
    }
}
