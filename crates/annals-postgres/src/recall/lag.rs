//! How far the index is behind what this node wrote: an append only counts, and the index follows in batches.
//!
//! What a node that died has left, or one without memory search wrote, is added when it is searched.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use annals_core::block::Block;
use annals_store::recall::passage;
use annals_store::recall::remembered::remembered;

use super::PostgresRecall;
use super::index::Locked;

/// The index is behind what a node wrote by about this many passages at most.
pub(crate) const LAG_MAX_PASSAGES: usize = 64;
/// Blocks without passages are passed over quickly, but not for nothing.
const LAG_MAX_BLOCKS: usize = 8 * LAG_MAX_PASSAGES;

/// About how much there is to index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About {
    blocks: usize,
    passages: usize,
}

impl About {
    pub(super) fn of(blocks: &[Block]) -> Self {
        let texts = blocks.iter().filter_map(remembered);
        About {
            blocks: blocks.len(),
            passages: texts.map(|found| passage::about(found.text)).sum(),
        }
    }
}

/// What this node wrote and has not indexed.
#[derive(Debug)]
pub(super) struct Lag {
    max_passages: usize,
    state: Mutex<Behind>,
}

#[derive(Debug, Default)]
struct Behind {
    conversations: HashSet<i64>,
    about: About,
    is_followed: bool,
}

impl Lag {
    pub(super) fn new(max_passages: usize) -> Self {
        Lag {
            max_passages,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Behind> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an append; whether somebody should begin to index.
    pub(super) fn note(&self, conversation: i64, about: About) -> bool {
        let mut behind = self.lock();
        behind.conversations.insert(conversation);
        behind.about.blocks += about.blocks;
        behind.about.passages += about.passages;
        let begins = self.is_much(&behind) && !behind.is_followed;
        behind.is_followed |= begins;
        begins
    }

    fn is_much(&self, behind: &Behind) -> bool {
        behind.about.passages >= self.max_passages || behind.about.blocks >= LAG_MAX_BLOCKS
    }

    /// What to index now; nothing when it is little, and then nobody indexes any more.
    fn take(&self) -> Vec<i64> {
        let mut behind = self.lock();
        if !self.is_much(&behind) {
            behind.is_followed = false;
            return Vec::new();
        }
        behind.about = About::default();
        let mut keys: Vec<i64> = behind.conversations.drain().collect();
        keys.sort_unstable();
        keys
    }
}

impl PostgresRecall {
    /// Indexes what this node wrote, without anybody waiting for it.
    pub(super) fn follow_in_background(&self) {
        let recall = self.clone();
        tokio::spawn(async move {
            loop {
                let mut keys = recall.lag.take();
                if keys.is_empty() {
                    return;
                }
                while !keys.is_empty() {
                    keys = match recall.step(&keys, Locked::Skip).await {
                        Ok(step) => step.left,
                        Err(error) => {
                            tracing::warn!("memory search is behind the log until it is used: {error}");
                            break;
                        }
                    };
                }
            }
        });
    }
}
