//! Calls and replies must match before anything is sent: a provider refuses a prompt in which they do not, and its
//! message seldom says which.

use std::collections::HashSet;

use annals_core::ids::CallId;
use annals_core::view::prompt::{AssistantPiece, Message, Prompt};

use crate::error::ModelError;

/// Every call is answered in the very next message, once, and nothing else is.
pub(crate) fn check(prompt: &Prompt) -> Result<(), ModelError> {
    let mut open: HashSet<&CallId> = HashSet::new();
    for message in &prompt.messages {
        if let Message::Tool(replies) = message {
            for reply in replies {
                if !open.remove(&reply.call) {
                    return Err(bad(format!(
                        "the reply to `{}` has no call before it",
                        reply.call
                    )));
                }
            }
        }
        if let Some(call) = open.iter().min() {
            return Err(bad(format!("call `{call}` has no reply after it")));
        }
        if let Message::Assistant(pieces) = message {
            for piece in pieces {
                if let AssistantPiece::Call(call) = piece
                    && !open.insert(&call.id)
                {
                    return Err(bad(format!("two calls of one answer have the id `{}`", call.id)));
                }
            }
        }
    }
    match open.iter().min() {
        Some(call) => Err(bad(format!("call `{call}` has no reply after it"))),
        None => Ok(()),
    }
}

fn bad(problem: String) -> ModelError {
    ModelError::BadRequest {
        message: format!("{problem} in the prompt; it was not sent"),
    }
}
