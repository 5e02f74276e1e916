//! Reading an export file.

use std::collections::HashSet;
use std::io::Write;
use std::time::Duration;

use annals_core::block::{BlobDigest, Block, BlockJson};
use annals_core::ids::{ConversationId, ConversationKey, Scope, Seq};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::ImportError;
use super::lines::{About, End, FORMAT, Header, LINE_MAX_BYTES, Piece, Totals};
use crate::artifacts::ArtifactStore;
use crate::log::{
    Ancestor, Append, BatchId, BlockLog, LogError, NewConversation, Operator, Owner, needed_by,
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
    let mut import = Import::new(artifacts, reader);
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
    begin(log, &new).await?;
    if !blocks.is_empty() {
        let lease = log.acquire(&key, &import_as.owner, LEASE_TTL).await?;
        log.append(&lease, Append::new(batch_of(&totals), None, blocks))
            .await?;
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

struct Import<'i> {
    artifacts: &'i ArtifactStore,
    reader: &'i mut (dyn AsyncBufRead + Unpin + Send),
    line: u64,
    hash: Sha256,
    /// An artifact whose pieces are still coming.
    open: Option<Open>,
    kept: HashSet<BlobDigest>,
}

struct Open {
    digest: BlobDigest,
    size_bytes: u64,
    received: u64,
    file: std::fs::File,
}

impl<'i> Import<'i> {
    fn new(artifacts: &'i ArtifactStore, reader: &'i mut (dyn AsyncBufRead + Unpin + Send)) -> Self {
        Import {
            artifacts,
            reader,
            line: 0,
            hash: Sha256::new(),
            open: None,
            kept: HashSet::new(),
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
        let mut limited = (&mut *self.reader).take(LINE_MAX_BYTES);
        limited.read_until(b'\n', &mut line).await?;
        if line.last() != Some(&b'\n') {
            return match line.len() as u64 {
                LINE_MAX_BYTES => Err(self.bad("the line is too long")),
                _ => Ok(None),
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
            self.kept.insert(self.artifacts.put(bytes).await?.blob.digest);
        }
        for digest in needed_by(&block) {
            if !self.kept.contains(&digest) {
                return Err(ImportError::MissingBytes {
                    line: self.line,
                    digest,
                });
            }
        }
        Ok(block)
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
        self.kept.insert(kept);
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
