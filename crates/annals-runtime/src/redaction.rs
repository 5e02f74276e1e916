//! Secrets leave what is said before it is written down or shown: blocks whole, deltas as they come.

use std::sync::{Arc, Mutex, PoisonError};

use annals_core::block::NewBlock;
use annals_core::redact::{RedactedStream, Redactor};

use crate::listen::{Delta, Update};

/// Takes secrets out of everything that passes one journal.
pub(crate) struct Redaction {
    redactor: Arc<Redactor>,
    /// The text whose deltas are coming; a secret may be split between two of them.
    open: Mutex<Option<OpenText>>,
}

struct OpenText {
    /// The last delta, for where it belongs.
    last: Delta,
    stream: RedactedStream,
}

impl Redaction {
    pub(crate) fn new(redactor: Arc<Redactor>) -> Self {
        Redaction {
            redactor,
            open: Mutex::new(None),
        }
    }

    /// The block as it may be written down.
    pub(crate) fn block(&self, block: NewBlock) -> NewBlock {
        self.redactor.block(block)
    }

    /// Tells an update without secrets. What was held back of a text is told when the text ends: at whatever is told
    /// next, or at a delta that belongs elsewhere.
    pub(crate) fn tell(&self, update: Update, tell: impl Fn(Update)) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let Update::Delta(delta) = update else {
            if let Some(rest) = open.take().and_then(OpenText::rest) {
                tell(rest);
            }
            return tell(update);
        };
        if open.as_ref().is_some_and(|text| !text.goes_on_with(&delta))
            && let Some(rest) = open.take().and_then(OpenText::rest)
        {
            tell(rest);
        }
        let text = open.get_or_insert_with(|| OpenText {
            last: delta.clone(),
            stream: self.redactor.stream(),
        });
        let shown = text.stream.push(&delta.text);
        text.last = Delta {
            text: String::new(),
            ..delta
        };
        if !shown.is_empty() {
            tell(Update::Delta(Delta {
                text: shown,
                ..text.last.clone()
            }));
        }
    }
}

impl OpenText {
    fn goes_on_with(&self, delta: &Delta) -> bool {
        self.last.channel == delta.channel && self.last.path == delta.path
    }

    /// What was held back.
    fn rest(mut self) -> Option<Update> {
        let text = self.stream.finish();
        (!text.is_empty()).then(|| Update::Delta(Delta { text, ..self.last }))
    }
}
