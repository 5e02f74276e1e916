//! What to do in one turn.

use std::sync::Arc;

use annals_core::ids::TurnId;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::attach::Attachment;
use crate::caller::Caller;
use crate::joining::UnfinishedTurn;
use crate::listen::{Listen, Nobody};
use crate::mail::StoredAttachment;
use crate::terms::TurnTerms;

/// What to do in one turn: a prompt with its files, an unfinished turn to go on with, or one tool to call; and who
/// watches, and how to cancel it.
pub struct TurnRequest {
    pub(crate) work: Work,
    pub(crate) turn: Option<TurnId>,
    pub(crate) instructions: Option<String>,
    pub(crate) listener: Arc<dyn Listen>,
    pub(crate) cancel: CancellationToken,
    pub(crate) terms: TurnTerms,
    /// The turn that was unfinished when the session was opened in which it runs.
    pub(crate) found: Option<UnfinishedTurn>,
}

/// What a turn can be asked to do.
pub(crate) enum Work {
    Prompt {
        prompt: String,
        attachments: Vec<Attachment>,
    },
    /// A prompt that came through the inbox: its files are stored already.
    Posted {
        prompt: String,
        attachments: Vec<StoredAttachment>,
    },
    Resume,
    Call {
        tool: String,
        params: Map<String, Value>,
        caller: Caller,
    },
}

impl TurnRequest {
    /// A turn for this prompt.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self::of(Work::Prompt {
            prompt: prompt.into(),
            attachments: Vec::new(),
        })
    }

    /// The turn that a crash or a cancelled process left open, gone on with. If its owner has gone on with it already,
    /// because an answer for it had come, this joins it.
    pub fn resume() -> Self {
        Self::of(Work::Resume)
    }

    /// A turn in which a person calls one tool: the same blocks, notices and limits as a model's call. The person need not
    /// be asked; what rules deny stays denied.
    pub fn call(tool: impl Into<String>, params: Map<String, Value>) -> Self {
        Self::call_by(Caller::Person, tool.into(), params)
    }

    /// A turn in which somebody calls one tool.
    pub(crate) fn call_by(caller: Caller, tool: String, params: Map<String, Value>) -> Self {
        Self::of(Work::Call { tool, params, caller })
    }

    /// A turn for a prompt that was posted.
    pub(crate) fn posted(turn: TurnId, prompt: String, attachments: Vec<StoredAttachment>) -> Self {
        Self::of(Work::Posted { prompt, attachments }).turn_id(turn)
    }

    fn of(work: Work) -> Self {
        TurnRequest {
            work,
            turn: None,
            instructions: None,
            listener: Arc::new(Nobody),
            cancel: CancellationToken::new(),
            terms: TurnTerms::default(),
            found: None,
        }
    }

    /// With this file. Only a prompt takes files.
    #[must_use]
    pub fn attach(mut self, attachment: Attachment) -> Self {
        if let Work::Prompt { attachments, .. } = &mut self.work {
            attachments.push(attachment);
        }
        self
    }

    /// With this id instead of a new one. A turn that is gone on with keeps its own.
    #[must_use]
    pub fn turn_id(mut self, turn: TurnId) -> Self {
        self.turn = Some(turn);
        self
    }

    /// With a client's own system text, which stands after the prompt and takes nothing away from the agent's.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Watched by this listener: a closure, a channel's sender, or a type of one's own.
    #[must_use]
    pub fn listen(mut self, listener: impl Listen + 'static) -> Self {
        self.listener = Arc::new(listener);
        self
    }

    /// On these terms. A turn that is gone on with keeps its own.
    #[must_use]
    pub fn terms(mut self, terms: TurnTerms) -> Self {
        self.terms = terms;
        self
    }

    /// Cancelled by this token.
    #[must_use]
    pub fn cancel(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }
}

impl<T: Into<String>> From<T> for TurnRequest {
    fn from(prompt: T) -> Self {
        TurnRequest::new(prompt)
    }
}
