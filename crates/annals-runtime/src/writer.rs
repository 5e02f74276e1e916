//! What only the one who writes a conversation may touch.

use std::sync::Arc;

use annals_core::view::ViewRenderer;

use crate::approval::{Grants, Imported};
use crate::error::RunError;
use crate::journal::Journal;
use crate::listen::Nobody;
use crate::media::Media;

/// What only the one who writes may touch.
pub(crate) struct Writer {
    pub(crate) journal: Journal,
    /// What was rendered so far; given up when the conversation rests.
    pub(crate) renderer: Option<ViewRenderer>,
    /// What the last prompt showed; given up too.
    pub(crate) media: Media,
    /// What people have allowed for the rest of the conversation.
    pub(crate) grants: Grants,
}

impl Writer {
    pub(crate) fn new(journal: Journal, imported: Imported) -> Self {
        Writer {
            journal,
            renderer: None,
            media: Media::default(),
            grants: Grants::new(imported),
        }
    }

    /// Has the right to write and knows all that was written. What was made from blocks that the log has lost is given up.
    pub(crate) async fn ready(&mut self) -> Result<(), RunError> {
        let ready = self.journal.ready().await;
        if let Err(RunError::BlocksLost { .. }) = &ready {
            self.renderer = None;
            self.media = Media::default();
            self.grants.forget();
        }
        ready
    }

    /// Between turns a conversation holds its timeline and nothing that can be made again from it.
    pub(crate) fn rest(&mut self) {
        self.journal.set_listener(Arc::new(Nobody));
        self.renderer = None;
        self.media = Media::default();
    }
}
