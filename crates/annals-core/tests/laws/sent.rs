//! What a prompt holds: its bytes, its cache points, its calls and replies.

use std::collections::HashSet;

use annals_core::ids::CallId;
use annals_core::view::View;
use annals_core::view::prompt::{AssistantPiece, Message, Piece, PieceBody, Prompt};
use annals_core::view::{CachePoint, Layout, Messages, Place};
use proptest::prelude::*;

use crate::events::Played;

pub(crate) struct Seen {
    pub(crate) calls: HashSet<CallId>,
    pub(crate) replies: HashSet<CallId>,
}

pub(crate) fn calls_and_replies(timeline: &View) -> Seen {
    let mut seen = Seen {
        calls: HashSet::new(),
        replies: HashSet::new(),
    };
    for part in timeline.parts(Layout::Timeline) {
        match part.place {
            Place::Call { id, .. } => seen.calls.insert(id),
            Place::Reply { call } => seen.replies.insert(call),
            Place::User | Place::Assistant | Place::Thinking { .. } => false,
        };
    }
    seen
}

/// The bytes of messages with their boundaries, whole or up to the tail cache point.
pub(crate) struct Bytes {
    pub(crate) bytes: Vec<u8>,
    pub(crate) up_to_tail: usize,
}

impl Bytes {
    pub(crate) fn of(messages: &Messages) -> Self {
        let mut flat = Bytes {
            bytes: Vec::new(),
            up_to_tail: 0,
        };
        for message in messages {
            match message {
                Message::User(pieces) => {
                    flat.push(b"\x01user");
                    pieces.iter().for_each(|piece| flat.piece(piece));
                }
                Message::Assistant(pieces) => {
                    flat.push(b"\x01assistant");
                    for piece in pieces {
                        match piece {
                            AssistantPiece::Thinking { text, signature } => {
                                flat.push(format!("\x02think {signature}\x03{text}").as_bytes());
                            }
                            AssistantPiece::Text(piece) => flat.piece(piece),
                            AssistantPiece::Call(call) => {
                                flat.push(
                                    format!("\x02call {} {}\x03{}", call.id, call.tool, call.arguments)
                                        .as_bytes(),
                                );
                                flat.close(call.cache_point);
                            }
                        }
                    }
                }
                Message::Tool(replies) => {
                    flat.push(b"\x01tool");
                    for reply in replies {
                        flat.push(format!("\x02reply {} {}", reply.call, reply.is_error).as_bytes());
                        reply.pieces.iter().for_each(|piece| flat.piece(piece));
                    }
                }
            }
        }
        flat
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn piece(&mut self, piece: &Piece) {
        match &piece.body {
            PieceBody::Text(text) => self.push(format!("\x02text\x03{text}").as_bytes()),
            PieceBody::Media { mime, blob } => self.push(format!("\x02{mime}\x03{}", blob.digest).as_bytes()),
        }
        self.close(piece.cache_point);
    }

    fn close(&mut self, point: Option<CachePoint>) {
        if point == Some(CachePoint::Tail) {
            self.up_to_tail = self.bytes.len();
        }
    }
}

pub(crate) fn marks(prompt: &Prompt) -> Vec<CachePoint> {
    let mut marks = Vec::new();
    for message in &prompt.messages {
        match message {
            Message::User(pieces) => marks.extend(pieces.iter().filter_map(|piece| piece.cache_point)),
            Message::Tool(replies) => {
                marks.extend(
                    replies
                        .iter()
                        .flat_map(|reply| &reply.pieces)
                        .filter_map(|piece| piece.cache_point),
                );
            }
            Message::Assistant(pieces) => marks.extend(pieces.iter().filter_map(|piece| match piece {
                AssistantPiece::Text(piece) => piece.cache_point,
                AssistantPiece::Call(call) => call.cache_point,
                AssistantPiece::Thinking { .. } => None,
            })),
        }
    }
    marks
}

/// Every call has exactly one reply, in the next message; every reply has its call; nobody says nothing.
pub(crate) fn check_exchanges(messages: &Messages) -> Played {
    prop_assert!(
        matches!(messages.get(0), Some(Message::User(_))),
        "a prompt begins with the person"
    );
    for (at, message) in messages.iter().enumerate() {
        let next = messages.get(at + 1);
        match message {
            Message::User(pieces) => {
                prop_assert!(
                    !pieces.is_empty() && !matches!(next, Some(Message::User(_) | Message::Tool(_)))
                );
            }
            Message::Assistant(pieces) => {
                let calls: Vec<&CallId> = pieces
                    .iter()
                    .filter_map(|piece| match piece {
                        AssistantPiece::Call(call) => Some(&call.id),
                        AssistantPiece::Text(_) | AssistantPiece::Thinking { .. } => None,
                    })
                    .collect();
                let replies: Vec<&CallId> = match next {
                    Some(Message::Tool(replies)) => replies.iter().map(|reply| &reply.call).collect(),
                    _ => Vec::new(),
                };
                prop_assert_eq!(calls, replies);
                prop_assert!(!pieces.is_empty() && !matches!(next, Some(Message::Assistant(_))));
            }
            Message::Tool(replies) => {
                prop_assert!(
                    at > 0 && matches!(messages[at - 1], Message::Assistant(_)),
                    "orphaned replies"
                );
                prop_assert!(
                    replies.iter().all(|reply| !reply.pieces.is_empty()),
                    "an empty reply"
                );
            }
        }
        let texts: Vec<&Piece> = match message {
            Message::User(pieces) => pieces.iter().collect(),
            Message::Tool(replies) => replies.iter().flat_map(|reply| &reply.pieces).collect(),
            Message::Assistant(pieces) => pieces
                .iter()
                .filter_map(|piece| {
                    if let AssistantPiece::Text(piece) = piece {
                        Some(piece)
                    } else {
                        None
                    }
                })
                .collect(),
        };
        for piece in texts {
            prop_assert!(
                !matches!(&piece.body, PieceBody::Text(text) if text.trim().is_empty()),
                "a text of space"
            );
        }
    }
    Ok(())
}
