//! The index by path: for each path its latest content, its latest metadata, and a chain through all its blocks.
//!
//! Paths are not copied: the table holds entry numbers and compares against the blocks' own paths.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{Ix, NONE};
use crate::block::{Block, BlockKind};
use crate::path::LogicalPath;

/// What is known of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathEntry {
    /// A block that carries the path (or, for metadata alone, whose digest names it).
    witness: Ix,
    /// Latest content block.
    pub(crate) content: Ix,
    /// Latest block whose text is a digest of this path's artifact.
    pub(crate) digest: Ix,
    /// Latest block of any kind with this path.
    pub(crate) last: Ix,
}

#[derive(Clone, Default)]
pub(crate) struct Paths {
    hasher: DefaultHashBuilder,
    table: HashTable<u32>,
    entries: Vec<PathEntry>,
    /// For digests whose artifact has no block of its own path, the path itself.
    orphans: Vec<(u32, LogicalPath)>,
    /// For each block, the block before it with the same path.
    previous: Vec<Ix>,
}

impl Paths {
    pub(crate) fn push(&mut self, blocks: &[Arc<Block>], ix: Ix) {
        let block = &blocks[ix as usize];
        self.previous.push(NONE);
        if is_digest(block)
            && let Some(path) = block.text().and_then(digest_path)
        {
            let entry = self.entry(blocks, &path, ix);
            self.entries[entry].digest = ix;
        }
        let Some(path) = &block.path else { return };
        let entry = self.entry(blocks, path, ix);
        let entry = &mut self.entries[entry];
        self.previous[ix as usize] = entry.last;
        entry.last = ix;
        if is_content(block) {
            entry.content = ix;
        }
    }

    pub(crate) fn get(&self, blocks: &[Arc<Block>], path: &LogicalPath) -> Option<PathEntry> {
        let hash = self.hasher.hash_one(path.as_str());
        let found = self.table.find(hash, |&entry| self.names(blocks, entry, path))?;
        Some(self.entries[*found as usize])
    }

    /// Blocks with the same path as this one, latest first, starting at this one.
    pub(crate) fn chain(&self, from: Ix) -> impl Iterator<Item = Ix> + '_ {
        std::iter::successors(Some(from).filter(|&ix| ix != NONE), |&ix| {
            Some(self.previous[ix as usize]).filter(|&previous| previous != NONE)
        })
    }

    fn entry(&mut self, blocks: &[Arc<Block>], path: &LogicalPath, ix: Ix) -> usize {
        let hash = self.hasher.hash_one(path.as_str());
        if let Some(&found) = self.table.find(hash, |&entry| self.names(blocks, entry, path)) {
            return found as usize;
        }
        let entry = self.entries.len() as u32;
        self.entries.push(PathEntry { witness: ix, content: NONE, digest: NONE, last: NONE });
        if blocks[ix as usize].path.as_ref() != Some(path) {
            self.orphans.push((entry, path.clone()));
        }
        let (entries, orphans, hasher) = (&self.entries, &self.orphans, &self.hasher);
        self.table.insert_unique(hash, entry, |&entry| {
            hasher.hash_one(path_of(blocks, entries, orphans, entry).as_str())
        });
        entry as usize
    }

    fn names(&self, blocks: &[Arc<Block>], entry: u32, path: &LogicalPath) -> bool {
        path_of(blocks, &self.entries, &self.orphans, entry) == path
    }
}

fn path_of<'a>(
    blocks: &'a [Arc<Block>],
    entries: &'a [PathEntry],
    orphans: &'a [(u32, LogicalPath)],
    entry: u32,
) -> &'a LogicalPath {
    match orphans.binary_search_by_key(&entry, |(entry, _)| *entry) {
        Ok(at) => &orphans[at].1,
        Err(_) => {
            let witness = entries[entry as usize].witness;
            blocks[witness as usize].path.as_ref().expect("a witness carries its path")
        }
    }
}

/// Whether this block's text is a safe digest of an artifact.
pub(crate) fn is_digest(block: &Block) -> bool {
    block.kind == BlockKind::UserAttachmentMeta || (block.kind == BlockKind::ToolResult && block.meta().is_digest)
}

fn is_content(block: &Block) -> bool {
    !is_digest(block)
}

/// The artifact that a digest describes, without reading the rest of it.
fn digest_path(text: &str) -> Option<LogicalPath> {
    #[derive(serde::Deserialize)]
    struct Head {
        artifact_path: LogicalPath,
    }
    serde_json::from_str::<Head>(text).ok().map(|head| head.artifact_path)
}

