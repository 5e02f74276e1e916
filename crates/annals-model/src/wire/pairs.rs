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

#[cfg(test)]
mod tests {
    use annals_core::view::prompt::Piece;

    use super::*;
    use crate::wire::fixture::{call, reply};

    fn problem(messages: Vec<Message>) -> Option<String> {
        let prompt = Prompt {
            system: "".into(),
            tools: [].into(),
            messages: messages.into(),
        };
        check(&prompt).err().map(|error| error.to_string())
    }

    #[test]
    fn calls_and_replies_that_lose_each_other_are_found_before_they_are_sent() {
        let calls = |ids: &[&str]| Message::Assistant(ids.iter().map(|id| call(id, "t", "{}")).collect());
        let replies = |ids: &[&str]| Message::Tool(ids.iter().map(|id| reply(id, vec![])).collect());
        let user = || Message::User(vec![Piece::text("hi")]);
        assert_eq!(
            problem(vec![user(), calls(&["a", "b"]), replies(&["b", "a"]), user()]),
            None
        );
        for (messages, expected) in [
            (vec![calls(&["a"])], "call `a` has no reply"),
            (vec![calls(&["a", "b"]), replies(&["a"])], "call `b` has no reply"),
            (
                vec![calls(&["a"]), user(), replies(&["a"])],
                "call `a` has no reply",
            ),
            (vec![user(), replies(&["a"])], "the reply to `a` has no call"),
            (
                vec![calls(&["a"]), replies(&["a", "a"])],
                "the reply to `a` has no call",
            ),
            (
                vec![calls(&["a", "a"]), replies(&["a"])],
                "two calls of one answer have the id `a`",
            ),
        ] {
            let problem = problem(messages).unwrap();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}
