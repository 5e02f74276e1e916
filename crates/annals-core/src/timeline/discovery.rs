//! Discovery: from a path to what it names, by index, hidden or not.

use super::paths::is_digest;
use super::{NONE, Timeline, ix_of};
use crate::block::{Block, SafeDigest};
use crate::ids::Seq;
use crate::path::LogicalPath;

impl Timeline {
    /// The latest content block with this path.
    pub fn latest(&self, path: &LogicalPath) -> Option<&Block> {
        let entry = self.paths.get(&self.blocks, path)?;
        (entry.content != NONE).then(|| self.at_ix(entry.content))
    }

    /// The latest metadata of this path's artifact.
    pub fn latest_digest(&self, path: &LogicalPath) -> Option<SafeDigest> {
        let entry = self.paths.get(&self.blocks, path)?;
        if entry.digest != NONE {
            return self.at_ix(entry.digest).folded_payload();
        }
        self.at_ix(Some(entry.content).filter(|&ix| ix != NONE)?)
            .meta()
            .file
            .as_ref()?
            .digest
            .clone()
    }

    /// All content blocks with this path, latest first.
    pub fn versions(&self, path: &LogicalPath) -> impl Iterator<Item = &Block> {
        let last = self
            .paths
            .get(&self.blocks, path)
            .map_or(NONE, |entry| entry.last);
        self.paths
            .chain(last)
            .map(|ix| self.at_ix(ix))
            .filter(|block| !is_digest(block))
    }

    /// Every file and attachment of the conversation, each with its latest content block, oldest first.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.paths.files().into_iter().map(|ix| self.at_ix(ix))
    }

    /// Like [`files`](Self::files), as far as they come before this block.
    pub(crate) fn files_before(
        &self,
        end: Seq,
    ) -> impl ExactSizeIterator<Item = &Block> + DoubleEndedIterator {
        let mut latest = self.paths.files();
        latest.truncate(latest.partition_point(|&ix| ix < ix_of(end)));
        latest.into_iter().map(|ix| self.at_ix(ix))
    }
}
