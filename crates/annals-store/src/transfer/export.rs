//! Writing an export file.

use std::collections::HashSet;

use annals_core::block::{Blob, BlobDigest, Block, BlockJson};
use annals_core::ids::{ConversationKey, Seq};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::TryStreamExt as _;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::ExportError;
use super::lines::{About, End, FORMAT, Header, PIECE_BYTES, Piece, Totals};
use crate::artifacts::{ArtifactError, ArtifactStore};
use crate::log::{BlockLog, BlockLogExt as _, named_by, needed_by};

/// Blocks are read from the log in pages of this size.
const PAGE_BLOCKS: usize = 1_000;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exported {
    /// How many blocks.
    pub blocks: u64,
    /// How many artifacts, each once.
    pub artifacts: u64,
    /// How many bytes.
    pub size_bytes: u64,
}

/// Writes a conversation as it is now, with every artifact that its blocks name.
pub async fn export_conversation(
    log: &dyn BlockLog,
    artifacts: &ArtifactStore,
    key: &ConversationKey,
    writer: &mut (dyn AsyncWrite + Unpin + Send),
) -> Result<Exported, ExportError> {
    let info = log.get(key).await?;
    let tail = info.tail.map_or(0, Seq::get);
    let about = About {
        id: info.key.id,
        scope: info.key.scope,
        title: info.title,
        created: info.created,
        lineage: info.lineage,
    };
    let mut export = Export {
        log,
        key,
        artifacts,
        writer,
        hash: Sha256::new(),
        size_bytes: 0,
        written: HashSet::new(),
    };
    export
        .line(&Header {
            annals_export: FORMAT,
            conversation: about,
            blocks: tail,
        })
        .await?;
    let mut next = Seq::FIRST;
    while next.get() <= tail {
        let page = usize::try_from(tail - next.get() + 1)
            .unwrap_or(PAGE_BLOCKS)
            .min(PAGE_BLOCKS);
        let blocks = log.read(key, next, page).await?;
        let Some(last) = blocks.last() else { break };
        next = last.seq.next();
        for block in &blocks {
            export.block(block).await?;
        }
    }
    let artifacts = export.written.len() as u64;
    let sha256 = BlobDigest(export.hash.clone().finalize().into());
    export
        .line(&End {
            end: Totals {
                blocks: tail,
                artifacts,
                sha256,
            },
        })
        .await?;
    export.writer.flush().await?;
    Ok(Exported {
        blocks: tail,
        artifacts,
        size_bytes: export.size_bytes,
    })
}

struct Export<'e> {
    log: &'e dyn BlockLog,
    key: &'e ConversationKey,
    artifacts: &'e ArtifactStore,
    writer: &'e mut (dyn AsyncWrite + Unpin + Send),
    hash: Sha256,
    size_bytes: u64,
    written: HashSet<BlobDigest>,
}

impl Export<'_> {
    async fn line(&mut self, line: &impl Serialize) -> Result<(), ExportError> {
        let mut bytes = serde_json::to_vec(line).map_err(std::io::Error::other)?;
        bytes.push(b'\n');
        self.hash.update(&bytes);
        self.size_bytes += bytes.len() as u64;
        Ok(self.writer.write_all(&bytes).await?)
    }

    /// A block, after the bytes that it is the first to name.
    async fn block(&mut self, block: &Block) -> Result<(), ExportError> {
        let inline = block
            .blob()
            .filter(|blob| blob.size_bytes <= PIECE_BYTES as u64)
            .copied();
        let inline = inline.filter(|blob| !self.written.contains(&blob.digest));
        let needed = needed_by(block);
        for digest in named_by(block) {
            if inline.is_some_and(|blob| blob.digest == digest) || self.written.contains(&digest) {
                continue;
            }
            if self.artifacts.contains(&digest).await? {
                self.artifact(digest).await?;
            } else if needed.iter().any(|named| named.digest == digest) {
                self.text(digest).await?;
            } else {
                // What only looks like a digest is no reason to fail.
                continue;
            }
            self.written.insert(digest);
        }
        let mut json = BlockJson::from(block);
        if let Some(Blob { digest, .. }) = inline {
            json = json.with_bytes(&self.artifacts.get(&digest).await?);
            self.written.insert(digest);
        }
        self.line(&json).await
    }

    /// The bytes of a digest that the store lacks: the first edition did not keep what a block showed whole.
    async fn text(&mut self, digest: BlobDigest) -> Result<(), ExportError> {
        let mut blocks = self.log.blocks(self.key, Seq::FIRST);
        while let Some(block) = blocks.try_next().await? {
            let named = block.meta().file.as_ref().and_then(|file| file.content_digest);
            if let Some(text) = block.text().filter(|_| named == Some(digest))
                && BlobDigest::of(text.as_bytes()) == digest
            {
                return self.pieces(digest, text.as_bytes()).await;
            }
        }
        Err(ArtifactError::Missing { digest }.into())
    }

    async fn pieces(&mut self, digest: BlobDigest, bytes: &[u8]) -> Result<(), ExportError> {
        let size_bytes = bytes.len() as u64;
        let mut offset = 0;
        for piece in bytes
            .chunks(PIECE_BYTES)
            .chain(bytes.is_empty().then_some(&[][..]))
        {
            let base64 = STANDARD.encode(piece);
            self.line(&Piece {
                artifact: digest,
                size_bytes,
                offset,
                base64,
            })
            .await?;
            offset += piece.len() as u64;
        }
        Ok(())
    }

    async fn artifact(&mut self, digest: BlobDigest) -> Result<(), ExportError> {
        let size_bytes = self
            .artifacts
            .size_bytes(&digest)
            .await?
            .ok_or(ArtifactError::Missing { digest })?;
        let mut hash = Sha256::new();
        let mut offset = 0;
        loop {
            let end = (offset + PIECE_BYTES as u64).min(size_bytes);
            let bytes = match end > offset {
                true => self.artifacts.range(&digest, offset..end).await?,
                false => bytes::Bytes::new(),
            };
            hash.update(&bytes);
            let base64 = STANDARD.encode(&bytes);
            self.line(&Piece {
                artifact: digest,
                size_bytes,
                offset,
                base64,
            })
            .await?;
            offset = end;
            if offset >= size_bytes {
                break;
            }
        }
        let actual = BlobDigest(hash.finalize().into());
        match actual == digest {
            true => Ok(()),
            false => Err(ArtifactError::Corrupt { digest, actual }.into()),
        }
    }
}
