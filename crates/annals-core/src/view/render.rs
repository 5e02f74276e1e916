//! Parts filed into messages. A renderer keeps what it has rendered and adds only what is new; after a hide or a
//! summary it goes back to the first place that changed.

use super::cache::CachePoints;
use super::part::{Part, PartBody, Place};
use super::prompt::{AssistantPiece, CachePoint, Call, Message, Piece, PieceBody, Prompt, ToolReply, ToolSchema};
use super::tail::Tail;
use super::template;
use crate::settings::CacheSettings;
use crate::timeline::Timeline;
use std::sync::Arc;

/// How parts become messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Messages and native calls, for models with tool calling.
    #[default]
    Chat,
    /// One user message with everything as text.
    Timeline,
}

/// Where a slot's last piece is: message, place in it, and place in that (for replies).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    message: u32,
    outer: u32,
    inner: u32,
}

/// Renders a timeline that grows.
#[derive(Clone, Debug)]
pub struct Renderer {
    layout: Layout,
    epoch: usize,
    messages: Vec<Message>,
    /// For each rendered slot, where its last piece is; the one before it, if it renders to nothing.
    ends: Vec<Option<Position>>,
}

impl Renderer {
    /// A renderer that has rendered nothing yet.
    pub fn new(layout: Layout) -> Self {
        Renderer { layout, epoch: 0, messages: Vec::new(), ends: Vec::new() }
    }

    /// The layout it renders.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Renders what is new since the last time. Costs what is new.
    pub fn update(&mut self, timeline: &Timeline) {
        let slots = timeline.slots();
        if let Some(changed) = slots.changed_since(self.epoch) {
            self.go_back_to(changed);
        }
        self.epoch = slots.epoch();
        let stable = slots.stable_end(timeline);
        self.go_back_to(stable);
        for slot in &slots.list()[self.ends.len()..stable] {
            let mut end = self.ends.last().copied().flatten();
            for part in template::parts(timeline, slot, self.layout) {
                end = Some(self.file(part));
            }
            self.ends.push(end);
        }
    }

    /// The messages rendered so far, without cache points and tail.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The whole prompt for a model: what is rendered, marked with its cache points, and the tail after it.
    pub fn prompt(
        &mut self,
        timeline: &Timeline,
        cache: &CacheSettings,
        system: Arc<str>,
        tools: Arc<[ToolSchema]>,
        tail: Option<&Tail>,
    ) -> Prompt {
        self.update(timeline);
        let mut messages = self.messages.clone();
        for (point, slot) in CachePoints::of(timeline, cache).marks() {
            if let Some(end) = self.ends.get(slot).copied().flatten() {
                mark(&mut messages, end, point);
            }
        }
        if let Some(tail) = tail {
            let pieces = tail.texts().into_iter().map(Piece::text).collect::<Vec<_>>();
            match messages.last_mut() {
                Some(Message::User(last)) => last.extend(pieces),
                _ => messages.push(Message::User(pieces)),
            }
        }
        Prompt { system, tools, messages }
    }

    fn file(&mut self, part: Part) -> Position {
        if self.layout == Layout::Timeline {
            return self.file_as_user(text_pieces(part));
        }
        match part.place.clone() {
            Place::User => self.file_as_user(text_pieces(part)),
            Place::Reply { call, failed } => self.file_reply(call, failed, text_pieces(part)),
            Place::Assistant => {
                self.file_as_assistant(text_pieces(part).into_iter().map(AssistantPiece::Text).collect())
            }
            Place::Thinking { signature } => {
                let text = body_text(part.body);
                self.file_as_assistant(vec![AssistantPiece::Thinking { text, signature }])
            }
            Place::Call { id, tool } => {
                let call = Call { id, tool, arguments: body_text(part.body), cache_point: None };
                self.file_as_assistant(vec![AssistantPiece::Call(call)])
            }
        }
    }

    fn file_as_user(&mut self, pieces: Vec<Piece>) -> Position {
        if !matches!(self.messages.last(), Some(Message::User(_))) {
            self.messages.push(Message::User(Vec::new()));
        }
        let message = self.messages.len() as u32 - 1;
        let Some(Message::User(list)) = self.messages.last_mut() else { unreachable!("just pushed") };
        append(list, pieces);
        Position { message, outer: list.len() as u32 - 1, inner: 0 }
    }

    fn file_as_assistant(&mut self, pieces: Vec<AssistantPiece>) -> Position {
        if !matches!(self.messages.last(), Some(Message::Assistant(_))) {
            self.messages.push(Message::Assistant(Vec::new()));
        }
        let message = self.messages.len() as u32 - 1;
        let Some(Message::Assistant(list)) = self.messages.last_mut() else { unreachable!("just pushed") };
        list.extend(pieces);
        Position { message, outer: list.len() as u32 - 1, inner: 0 }
    }

    fn file_reply(&mut self, call: crate::ids::CallId, failed: bool, pieces: Vec<Piece>) -> Position {
        if !matches!(self.messages.last(), Some(Message::Tool(_))) {
            self.messages.push(Message::Tool(Vec::new()));
        }
        let message = self.messages.len() as u32 - 1;
        let Some(Message::Tool(replies)) = self.messages.last_mut() else { unreachable!("just pushed") };
        // Only the last reply may grow: what was rendered before it is a prefix that must not change.
        if !replies.iter().any(|reply| reply.call == call) {
            replies.push(ToolReply { call, is_error: false, pieces: Vec::new() });
        }
        let outer = replies.len() - 1;
        let reply = &mut replies[outer];
        reply.is_error |= failed;
        append(&mut reply.pieces, pieces);
        Position { message, outer: outer as u32, inner: reply.pieces.len() as u32 - 1 }
    }

    /// Forgets what was rendered from this slot on.
    fn go_back_to(&mut self, slot: usize) {
        if slot >= self.ends.len() {
            return;
        }
        self.ends.truncate(slot);
        let Some(end) = self.ends.last().copied().flatten() else {
            self.messages.clear();
            return;
        };
        self.messages.truncate(end.message as usize + 1);
        match self.messages.last_mut() {
            Some(Message::User(list)) => list.truncate(end.outer as usize + 1),
            Some(Message::Assistant(list)) => list.truncate(end.outer as usize + 1),
            Some(Message::Tool(replies)) => {
                replies.truncate(end.outer as usize + 1);
                if let Some(reply) = replies.last_mut() {
                    reply.pieces.truncate(end.inner as usize + 1);
                }
            }
            None => {}
        }
    }
}

/// Adds a part's pieces, set off from the part before by an empty line.
fn append(list: &mut Vec<Piece>, mut pieces: Vec<Piece>) {
    if !list.is_empty()
        && let Some(Piece { body: PieceBody::Text(first), .. }) = pieces.first_mut()
    {
        *first = format!("\n\n{first}").into();
    }
    list.extend(pieces);
}

fn text_pieces(part: Part) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(2);
    if !part.head.is_empty() {
        pieces.push(Piece::text(part.head));
    }
    match part.body {
        PartBody::Text(text) => pieces.push(Piece::text(text)),
        PartBody::Media { mime, blob } => pieces.push(Piece::media(mime, blob)),
        PartBody::None => {}
    }
    if pieces.is_empty() {
        pieces.push(Piece::text(""));
    }
    pieces
}

fn body_text(body: PartBody) -> Arc<str> {
    match body {
        PartBody::Text(text) => text,
        PartBody::None | PartBody::Media { .. } => "".into(),
    }
}

/// Marks the piece at a position. Reasoning cannot carry a mark; the piece before it does then.
fn mark(messages: &mut [Message], end: Position, point: CachePoint) {
    let (inner, mut outer) = (end.inner as usize, Some(end.outer as usize));
    for message in messages[..=end.message as usize].iter_mut().rev() {
        let place = match message {
            Message::User(list) => last_of(list, outer).map(|piece| &mut piece.cache_point),
            Message::Tool(replies) => {
                let inner = outer.map(|_| inner);
                last_of(replies, outer).and_then(|reply| last_of(&mut reply.pieces, inner)).map(|piece| &mut piece.cache_point)
            }
            Message::Assistant(list) => {
                let end = outer.map_or(list.len(), |outer| outer + 1);
                list[..end].iter_mut().rev().find_map(|piece| match piece {
                    AssistantPiece::Text(piece) => Some(&mut piece.cache_point),
                    AssistantPiece::Call(call) => Some(&mut call.cache_point),
                    AssistantPiece::Thinking { .. } => None,
                })
            }
        };
        if let Some(place) = place {
            *place = Some(place.map_or(point, |there| there.max(point)));
            return;
        }
        outer = None;
    }
}

fn last_of<T>(list: &mut [T], at: Option<usize>) -> Option<&mut T> {
    match at {
        Some(at) => list.get_mut(at),
        None => list.last_mut(),
    }
}

/// The whole view as text, in the `timeline` layout: what people read and what `expect` is matched against.
pub fn as_text(messages: &[Message]) -> String {
    let mut text = String::new();
    let push = |piece: &Piece, text: &mut String| match &piece.body {
        PieceBody::Text(body) => text.push_str(body),
        PieceBody::Media { mime, blob } => {
            let part = Part {
                place: Place::User,
                head: String::new(),
                body: PartBody::Media { mime: mime.clone(), blob: *blob },
                seq: crate::ids::Seq::FIRST,
                tokens: 0,
            };
            part.write_body(text);
        }
    };
    for message in messages {
        match message {
            Message::User(pieces) => pieces.iter().for_each(|piece| push(piece, &mut text)),
            Message::Tool(replies) => {
                replies.iter().flat_map(|reply| &reply.pieces).for_each(|piece| push(piece, &mut text));
            }
            Message::Assistant(pieces) => {
                for piece in pieces {
                    match piece {
                        AssistantPiece::Thinking { .. } => {}
                        AssistantPiece::Text(piece) => push(piece, &mut text),
                        AssistantPiece::Call(call) => text.push_str(&call.arguments),
                    }
                }
            }
        }
        text.push('\n');
    }
    text
}
