//! The index by path: for each path its latest content, its latest metadata, and a chain through all its blocks.
//!
//! Paths are not copied: the table holds entry numbers and compares against the blocks' own paths. Only a path that
//! metadata names before any block carries it is kept here, until one does.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{Ix, NONE, push_tightly};
use crate::block::payload::PayloadError;
use crate::block::{Block, BlockKind};
use crate::path::LogicalPath;

/// What is known of one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathEntry {
    /// A block that carries the path; `NONE` while it is an orphan.
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
    /// Paths that only metadata names so far.
    orphans: HashMap<u32, LogicalPath>,
    /// For each block, the block before it with the same path.
    previous: Vec<Ix>,
    /// Entries of paths that lie below OUT_DIR and have content, in the order they first had it.
    files: Vec<u32>,
}

impl Paths {
    pub(crate) fn push(&mut self, blocks: &[Arc<Block>], ix: Ix) -> Result<(), PayloadError> {
        let block = &blocks[ix as usize];
        push_tightly(&mut self.previous, NONE);
        let digest = match is_digest(block) {
            true => self.push_digest(blocks, ix),
            false => Ok(()),
        };
        self.push_path(blocks, ix);
        digest
    }

    fn push_digest(&mut self, blocks: &[Arc<Block>], ix: Ix) -> Result<(), PayloadError> {
        /// The artifact that a digest describes; the rest is not read.
        #[derive(serde::Deserialize)]
        struct Head {
            artifact_path: LogicalPath,
        }
        let Head { artifact_path } = blocks[ix as usize].payload()?;
        let number = self.number(blocks, &artifact_path);
        self.entries[number as usize].digest = ix;
        if self.entries[number as usize].witness == NONE {
            self.orphans.entry(number).or_insert(artifact_path);
        }
        Ok(())
    }

    fn push_path(&mut self, blocks: &[Arc<Block>], ix: Ix) {
        let block = &blocks[ix as usize];
        let Some(path) = &block.path else { return };
        let number = self.number(blocks, path);
        let entry = &mut self.entries[number as usize];
        if entry.witness == NONE {
            entry.witness = ix;
            self.orphans.remove(&number);
        }
        self.previous[ix as usize] = entry.last;
        entry.last = ix;
        if !is_digest(block) {
            if entry.content == NONE && path.is_file() {
                self.files.push(number);
            }
            entry.content = ix;
        }
    }

    /// The latest content block of every file and attachment, oldest first.
    pub(crate) fn files(&self) -> Vec<Ix> {
        let latest = self
            .files
            .iter()
            .map(|&number| self.entries[number as usize].content);
        let mut latest: Vec<Ix> = latest.collect();
        latest.sort_unstable();
        latest
    }

    pub(crate) fn get(&self, blocks: &[Arc<Block>], path: &LogicalPath) -> Option<PathEntry> {
        self.find(blocks, path, self.hash(path))
            .map(|number| self.entries[number as usize])
    }

    /// Blocks with the same path as this one, latest first, starting at this one.
    pub(crate) fn chain(&self, from: Ix) -> impl Iterator<Item = Ix> + '_ {
        std::iter::successors(Some(from).filter(|&ix| ix != NONE), |&ix| {
            Some(self.previous[ix as usize]).filter(|&previous| previous != NONE)
        })
    }

    /// The number of a path's entry, made when there is none. The caller gives a new entry its witness, or keeps the
    /// path as an orphan, before it looks for another.
    fn number(&mut self, blocks: &[Arc<Block>], path: &LogicalPath) -> u32 {
        let hash = self.hash(path);
        if let Some(found) = self.find(blocks, path, hash) {
            return found;
        }
        let number = self.entries.len() as u32;
        let (entries, orphans, hasher) = (&self.entries, &self.orphans, &self.hasher);
        let hash_of = |&number: &u32| hasher.hash_one(path_of(blocks, entries, orphans, number).as_str());
        self.table.insert_unique(hash, number, hash_of);
        let entry = PathEntry {
            witness: NONE,
            content: NONE,
            digest: NONE,
            last: NONE,
        };
        push_tightly(&mut self.entries, entry);
        number
    }

    fn find(&self, blocks: &[Arc<Block>], path: &LogicalPath, hash: u64) -> Option<u32> {
        let is_it = |&number: &u32| path_of(blocks, &self.entries, &self.orphans, number) == path;
        self.table.find(hash, is_it).copied()
    }

    fn hash(&self, path: &LogicalPath) -> u64 {
        self.hasher.hash_one(path.as_str())
    }
}

fn path_of<'a>(
    blocks: &'a [Arc<Block>],
    entries: &[PathEntry],
    orphans: &'a HashMap<u32, LogicalPath>,
    number: u32,
) -> &'a LogicalPath {
    match entries[number as usize].witness {
        NONE => &orphans[&number],
        witness => blocks[witness as usize]
            .path
            .as_ref()
            .expect("a witness carries its path"),
    }
}

/// Whether this block's text is a safe digest of an artifact.
pub(crate) fn is_digest(block: &Block) -> bool {
    block.kind == BlockKind::UserAttachmentMeta
        || (block.kind == BlockKind::ToolResult && block.meta().is_digest)
}
