//! What comes in through the inbox, from this process or another: prompts, steers, cancels, decisions.
//!
//! A row waits in the store until the append that writes it down consumes it, so that it is taken in once, whatever
//! process dies.

use annals_core::block::BlobDigest;
use annals_core::block::payload::{ApprovalDecision, InputResponse};
use annals_core::ids::TurnId;
use annals_store::{InboxId, Pending, Post};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::caller::Caller;
use crate::request::TurnRequest;
use crate::terms::TurnTerms;

/// The field of a steer's metadata by which its sender finds it.
pub(crate) const CLIENT_KEY: &str = "client_key";

/// What somebody posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Mail {
    /// A turn to run.
    Prompt {
        turn: TurnId,
        prompt: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<StoredAttachment>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instructions: Option<String>,
        #[serde(default)]
        terms: TurnTerms,
    },
    /// A turn in which a program calls one tool.
    Call {
        turn: TurnId,
        tool: String,
        params: Map<String, Value>,
    },
    /// Words for the turn that runs.
    Steer {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<TurnId>,
        text: String,
    },
    /// The turn is to end.
    Cancel {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn: Option<TurnId>,
    },
    /// What a person decided about a call that waits.
    Decision(ApprovalDecision),
    /// What a person or a client gave to a call that waits.
    Input(InputResponse),
    /// Something that was waited for has lapsed. Never posted: each process finds out by itself.
    #[serde(skip)]
    Lapse,
}

/// A file whose bytes are in the artifact store already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredAttachment {
    pub(crate) name: String,
    pub(crate) digest: BlobDigest,
}

/// Something that reached the owner of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Letter {
    /// The row to consume; none when it came from this process and was never stored.
    pub(crate) row: Option<InboxId>,
    /// The sender's name for it.
    pub(crate) client_key: Option<String>,
    /// None when it cannot be read: it is consumed and forgotten.
    pub(crate) mail: Option<Mail>,
}

impl Mail {
    /// The kind under which it is posted.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Mail::Prompt { .. } => "prompt",
            Mail::Call { .. } => "call",
            Mail::Steer { .. } => "steer",
            Mail::Cancel { .. } => "cancel",
            Mail::Decision(_) => "decision",
            Mail::Input(_) => "input",
            Mail::Lapse => "lapse",
        }
    }

    /// The post that carries it; `client_key` makes posting it twice the same as once.
    pub(crate) fn post(&self, client_key: String) -> Post {
        let body = serde_json::to_vec(self).expect("plain data always serialises to JSON");
        Post::new(client_key, self.kind(), body)
    }
}

impl Letter {
    /// Something this process tells itself.
    pub(crate) fn local(mail: Mail) -> Self {
        Letter {
            row: None,
            client_key: None,
            mail: Some(mail),
        }
    }

    /// The turn that it begins.
    pub(crate) fn begins(&self) -> Option<&TurnId> {
        match &self.mail {
            Some(Mail::Prompt { turn, .. } | Mail::Call { turn, .. }) => Some(turn),
            _ => None,
        }
    }

    /// The turn that it asks for, taken out of it.
    pub(crate) fn take_request(&mut self) -> Option<TurnRequest> {
        match self.mail.take() {
            Some(Mail::Prompt {
                turn,
                prompt,
                attachments,
                instructions,
                terms,
            }) => Some(TurnRequest {
                instructions,
                terms,
                ..TurnRequest::posted(turn, prompt, attachments)
            }),
            Some(Mail::Call { turn, tool, params }) => {
                Some(TurnRequest::call_by(Caller::Program, tool, params).turn_id(turn))
            }
            mail => {
                self.mail = mail;
                None
            }
        }
    }

    /// Whether it ends this turn.
    pub(crate) fn cancels(&self, running: Option<&TurnId>) -> bool {
        match &self.mail {
            Some(Mail::Cancel { turn }) => turn.is_none() || turn.as_ref() == running,
            _ => false,
        }
    }

    /// Whether it is meant for the turn that is open, if there is one.
    pub(crate) fn is_for_turn(&self) -> bool {
        self.wakes() || matches!(self.mail, Some(Mail::Steer { .. }))
    }

    /// Whether a turn that waits has to go on because of it.
    pub(crate) fn wakes(&self) -> bool {
        matches!(
            self.mail,
            Some(Mail::Cancel { .. } | Mail::Decision(_) | Mail::Input(_) | Mail::Lapse)
        )
    }
}

impl From<Pending> for Letter {
    fn from(row: Pending) -> Self {
        let mail = serde_json::from_slice(&row.post.body);
        if let Err(error) = &mail {
            tracing::warn!(kind = row.post.kind, %error, "a post cannot be read and is left out");
        }
        Letter {
            row: Some(row.id),
            client_key: Some(row.post.client_key),
            mail: mail.ok(),
        }
    }
}
