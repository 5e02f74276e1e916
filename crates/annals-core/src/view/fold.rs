//! The view's own fold: a timeline, and beside it which of its blocks the model is shown and what they cost.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use super::slots::Slots;
use crate::block::Block;
use crate::block::payload::PayloadError;
use crate::ids::Seq;
use crate::path::LogicalPath;
use crate::timeline::{FoldError, Timeline, ix_of};
use crate::tokens::MediaRule;

/// A timeline with what the model sees of it. Whatever a [`Timeline`] can be asked, a view can be asked too.
#[derive(Clone, Default)]
pub struct View {
    timeline: Timeline,
    slots: Slots,
    media: MediaRule,
}

impl Deref for View {
    type Target = Timeline;

    fn deref(&self) -> &Timeline {
        &self.timeline
    }
}

impl View {
    /// An empty view for models that count pictures and documents by this rule.
    pub fn new(media: MediaRule) -> Self {
        View {
            media,
            ..View::default()
        }
    }

    /// The view of these blocks.
    pub fn fold(blocks: impl IntoIterator<Item = Arc<Block>>) -> Result<Self, FoldError> {
        View::default().with(blocks)
    }

    /// With these blocks folded in.
    pub fn with(mut self, blocks: impl IntoIterator<Item = Arc<Block>>) -> Result<Self, FoldError> {
        for block in blocks {
            self.push(block)?;
        }
        Ok(self)
    }

    /// Folds one more block in.
    pub fn push(&mut self, block: Arc<Block>) -> Result<(), FoldError> {
        let ix = ix_of(block.seq);
        self.timeline.push(block)?;
        Slots::push(self, ix);
        Ok(())
    }

    /// The view as it was when this block was the last one.
    pub fn at(&self, seq: Seq) -> View {
        let end = (seq.get() as usize).min(self.blocks().len());
        View::new(self.media)
            .with(self.blocks()[..end].iter().cloned())
            .expect("a prefix of a timeline is a timeline")
    }

    /// The same blocks for models that count pictures and documents by this rule.
    pub fn counted_by(&self, media: MediaRule) -> Cow<'_, View> {
        if media == self.media {
            return Cow::Borrowed(self);
        }
        let again = View::new(media).with(self.blocks().iter().cloned());
        Cow::Owned(again.expect("what folded once folds again"))
    }

    /// Notes a block whose text the view could not read.
    pub(super) fn note_malformed(&mut self, error: PayloadError) {
        self.timeline.note_malformed(error);
    }

    /// The timeline alone.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Tokens of everything shown, templates included, without the tail.
    pub fn view_tokens(&self) -> u64 {
        self.slots.tokens()
    }

    /// Whether the model sees this block's content now: it is rendered, and neither hidden nor compacted away.
    pub fn is_visible(&self, block: &Block) -> bool {
        self.slots.is_shown(ix_of(block.seq))
    }

    /// The latest content block with this path that the model sees now.
    pub fn visible_content(&self, path: &LogicalPath) -> Option<&Block> {
        self.versions(path).find(|block| self.is_visible(block))
    }

    /// How pictures and documents are counted.
    pub fn media_rule(&self) -> MediaRule {
        self.media
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(crate) fn slots_mut(&mut self) -> &mut Slots {
        &mut self.slots
    }
}
