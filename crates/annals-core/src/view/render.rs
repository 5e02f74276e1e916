//! Parts filed into messages. A renderer keeps what it has rendered and adds only what is new; after a hide or a
//! summary it goes back to the first place that changed.

use std::sync::Arc;

use super::cache::CachePoints;
use super::digest::PrefixHash;
use super::fold::View;
use super::messages::Messages;
use super::part::{Part, PartBody, Place};
use super::prompt::{
    AssistantPiece, CachePoint, Call, Message, Piece, PieceBody, Prompt, ToolReply, ToolSchema,
};
use super::tail::Tail;
use super::{part, template};
use crate::block::{Blob, BlobDigest};
use crate::ids::CallId;
use crate::settings::CacheSettings;
use crate::timeline::{Ix, NONE};

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

/// A place among the pieces, in the order they are sent: message, place in it, and place in that (for replies).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    message: u32,
    outer: u32,
    inner: u32,
}

/// Renders a timeline that grows.
#[derive(Clone, Debug)]
pub struct ViewRenderer {
    layout: Layout,
    epoch: usize,
    messages: Messages,
    /// For each rendered slot, the last piece that it or a slot before it has.
    ends: Vec<Option<Position>>,
    /// Pictures and documents that are shown, each with the slot that shows it.
    media: Vec<(usize, Blob)>,
    hashed: PrefixHash,
}

impl ViewRenderer {
    /// A renderer that has rendered nothing yet.
    pub fn new(layout: Layout) -> Self {
        ViewRenderer {
            layout,
            epoch: 0,
            messages: Messages::default(),
            ends: Vec::new(),
            media: Vec::new(),
            hashed: PrefixHash::default(),
        }
    }

    /// The layout it renders.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Renders what is new since the last time. Costs what is new.
    pub fn update(&mut self, view: &View) {
        let slots = view.slots();
        if let Some(changed) = slots.changed_since(self.epoch) {
            self.go_back_to(changed);
        }
        self.epoch = slots.epoch();
        let stable = slots.stable_end(view);
        self.go_back_to(stable);
        for slot in &slots.list()[self.ends.len()..stable] {
            let mut end = self.ends.last().copied().flatten();
            for part in template::parts(view, slot, self.layout) {
                if let PartBody::Media { blob, .. } = &part.body {
                    self.media.push((self.ends.len(), *blob));
                }
                end = end.max(self.file(view, slot.ix, part));
            }
            self.ends.push(end);
        }
    }

    /// The pictures and documents among them, whose bytes go with a prompt.
    pub fn media(&self) -> impl Iterator<Item = &Blob> {
        self.media.iter().map(|(_, blob)| blob)
    }

    /// The whole prompt for a model: what is rendered, marked with its cache points, and the tail after it.
    pub fn prompt(
        &mut self,
        view: &View,
        cache: &CacheSettings,
        system: Arc<str>,
        tools: Arc<[ToolSchema]>,
        tail: Option<&Tail>,
    ) -> Prompt {
        self.update(view);
        let mut messages = self.messages.clone();
        for (point, slot) in CachePoints::of(view, cache).marks() {
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
        Prompt {
            system,
            tools,
            messages,
        }
    }

    /// [`Prompt::digest`] of the prompt that was made last. Costs what is new since the one before.
    pub fn digest(&mut self, prompt: &Prompt) -> BlobDigest {
        // The last message may still grow, and the tail may stand in it.
        let fixed = self.messages.len().saturating_sub(1);
        self.hashed.digest(prompt, fixed)
    }

    /// Files a part of the block at `ix`; `None` when there is nothing in it to show.
    fn file(&mut self, view: &View, ix: Ix, part: Part) -> Option<Position> {
        let content = Content {
            head: part.head,
            body: part.body,
        };
        if self.layout == Layout::Timeline {
            return self.file_as_user(content);
        }
        match part.place {
            Place::User => self.file_stray(view, content),
            Place::Reply { call } => self.file_reply(view, ix, &call, content),
            Place::Assistant => {
                let pieces = content.into_pieces(Gap::None);
                self.file_as_assistant(pieces.map(AssistantPiece::Text))
            }
            Place::Thinking { signature } => {
                let text = content.body_text();
                self.file_as_assistant([AssistantPiece::Thinking { text, signature }])
            }
            Place::Call { id, tool } => {
                let arguments = content.body_text();
                let call = Call {
                    id,
                    tool,
                    arguments,
                    cache_point: None,
                };
                self.file_as_assistant([AssistantPiece::Call(call)])
            }
        }
    }

    fn file_as_user(&mut self, content: Content) -> Option<Position> {
        if content.is_empty() {
            return None;
        }
        if !matches!(self.messages.last(), Some(Message::User(_))) {
            self.messages.push(Message::User(Vec::new()));
        }
        let message = self.messages.len() as u32 - 1;
        let Some(Message::User(list)) = self.messages.last_mut() else {
            unreachable!("just pushed")
        };
        content.append_to(list);
        Some(Position {
            message,
            outer: list.len() as u32 - 1,
            inner: 0,
        })
    }

    fn file_as_assistant(&mut self, pieces: impl IntoIterator<Item = AssistantPiece>) -> Option<Position> {
        let mut pieces = pieces.into_iter().peekable();
        pieces.peek()?;
        if !matches!(self.messages.last(), Some(Message::Assistant(_))) {
            self.close_exchange();
            self.messages.push(Message::Assistant(Vec::new()));
        }
        let message = self.messages.len() as u32 - 1;
        let Some(Message::Assistant(list)) = self.messages.last_mut() else {
            unreachable!("just pushed")
        };
        list.extend(pieces);
        Some(Position {
            message,
            outer: list.len() as u32 - 1,
            inner: 0,
        })
    }

    /// Files what belongs to a call's reply. Until all calls of an answer are settled nothing of their replies is
    /// rendered, so each reply may grow up to then; what comes later may only follow the last of them, because what
    /// stands before it is a prefix that must not change.
    fn file_reply(&mut self, view: &View, ix: Ix, call: &CallId, content: Content) -> Option<Position> {
        self.open_replies(view);
        let replies = match self.messages.last() {
            Some(Message::Tool(replies)) => replies.as_slice(),
            _ => &[],
        };
        let at = replies.iter().position(|reply| reply.call == *call);
        match at {
            Some(at) if at + 1 == replies.len() || ix <= settled(view, replies) => {
                self.extend_reply(at, content)
            }
            _ => self.file_stray(view, content),
        }
    }

    /// Files what answers no call: in the person's place, or, while replies are outstanding, into the one that is
    /// being told, for nothing may stand between a call and its reply.
    fn file_stray(&mut self, view: &View, content: Content) -> Option<Position> {
        self.open_replies(view);
        match self.messages.last() {
            Some(Message::Tool(replies)) if replies.iter().any(|reply| reply.pieces.is_empty()) => {
                let told = replies
                    .iter()
                    .rposition(|reply| !reply.pieces.is_empty())
                    .unwrap_or(0);
                self.extend_reply(told, content)
            }
            _ => self.file_as_user(content),
        }
    }

    /// After an answer with calls, makes room for the reply to each, in the order of the calls.
    fn open_replies(&mut self, view: &View) {
        let Some(Message::Assistant(pieces)) = self.messages.last() else {
            return;
        };
        let calls = pieces.iter().filter_map(|piece| match piece {
            AssistantPiece::Call(call) => Some(&call.id),
            AssistantPiece::Text(_) | AssistantPiece::Thinking { .. } => None,
        });
        let open = |call: &CallId| ToolReply {
            call: call.clone(),
            is_error: view.has_failed(call),
            pieces: Vec::new(),
        };
        let replies: Vec<ToolReply> = calls.map(open).collect();
        if !replies.is_empty() {
            self.messages.push(Message::Tool(replies));
        }
    }

    fn extend_reply(&mut self, at: usize, content: Content) -> Option<Position> {
        let message = self.messages.len() as u32 - 1;
        let Some(Message::Tool(replies)) = self.messages.last_mut() else {
            unreachable!("replies were opened")
        };
        let list = &mut replies[at].pieces;
        content.append_to(list);
        Some(Position {
            message,
            outer: at as u32,
            inner: list.len().checked_sub(1)? as u32,
        })
    }

    /// The model speaks again: replies that are still empty stay so for good.
    fn close_exchange(&mut self) {
        if let Some(Message::Tool(replies)) = self.messages.last_mut() {
            for reply in replies.iter_mut().filter(|reply| reply.pieces.is_empty()) {
                reply.pieces.push(Piece::text("(no result yet)"));
            }
        }
    }

    /// Forgets what was rendered from this slot on. Replies grow side by side, so an exchange is forgotten whole.
    fn go_back_to(&mut self, slot: usize) {
        if slot >= self.ends.len() {
            return;
        }
        self.ends.truncate(slot);
        while let Some(Some(end)) = self.ends.last()
            && matches!(self.messages[end.message as usize], Message::Tool(_))
        {
            self.ends.pop();
        }
        let slots = self.ends.len();
        self.media
            .truncate(self.media.partition_point(|(slot, _)| *slot < slots));
        let Some(end) = self.ends.last().copied().flatten() else {
            self.hashed.go_back_to(0);
            self.messages.truncate(0);
            return;
        };
        self.hashed.go_back_to(end.message as usize);
        self.messages.truncate(end.message as usize + 1);
        match self.messages.last_mut() {
            Some(Message::User(list)) => list.truncate(end.outer as usize + 1),
            Some(Message::Assistant(list)) => list.truncate(end.outer as usize + 1),
            Some(Message::Tool(_)) | None => unreachable!("a remembered end lies in a kept message"),
        }
    }
}

/// The block after which all of these replies' calls were settled.
fn settled(view: &View, replies: &[ToolReply]) -> Ix {
    let settled = |reply: &ToolReply| view.call(&reply.call).map_or(0, |record| record.settled);
    replies.iter().map(settled).max().unwrap_or(0)
}

impl View {
    /// Every part of the view, oldest first, also those of calls that are still running.
    pub fn parts(&self, layout: Layout) -> impl Iterator<Item = Part> {
        self.slots()
            .list()
            .iter()
            .flat_map(move |slot| template::parts(self, slot, layout))
    }

    fn has_failed(&self, call: &CallId) -> bool {
        let Some(record) = self.call(call) else {
            return false;
        };
        record.is_lost() || record.group != NONE && self.at_ix(record.group).meta().error.is_some()
    }
}

/// What a part says, on its way into a message.
struct Content {
    head: String,
    body: PartBody,
}

/// What sets a part off from the one before it in the same message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    None,
    EmptyLine,
}

impl Content {
    /// Vendors refuse a text of nothing but space, so such a text is not shown.
    fn is_empty(&self) -> bool {
        let has_body = match &self.body {
            PartBody::Text(text) => !text.trim_start().is_empty(),
            PartBody::Media { .. } => true,
            PartBody::None => false,
        };
        !has_body && self.head.trim_start().is_empty()
    }

    fn append_to(self, list: &mut Vec<Piece>) {
        let gap = if list.is_empty() {
            Gap::None
        } else {
            Gap::EmptyLine
        };
        list.extend(self.into_pieces(gap));
    }

    /// The head and the body, each as a piece if there is something in it. The body is shared with its block, unless
    /// it comes first and needs the gap.
    fn into_pieces(self, gap: Gap) -> impl Iterator<Item = Piece> {
        let Content { mut head, body } = self;
        let mut body = match body {
            PartBody::Text(text) if text.trim_start().is_empty() => {
                head.push_str(&text);
                None
            }
            PartBody::Text(text) => Some(Piece::text(text)),
            PartBody::Media { mime, blob } => Some(Piece::media(mime, blob)),
            PartBody::None => None,
        };
        let has_head = !head.trim_start().is_empty();
        if gap == Gap::EmptyLine {
            match &mut body {
                _ if has_head => head.insert_str(0, "\n\n"),
                Some(Piece {
                    body: PieceBody::Text(text),
                    ..
                }) => *text = format!("\n\n{text}").into(),
                Some(_) | None => {}
            }
        }
        has_head.then(|| Piece::text(head)).into_iter().chain(body)
    }

    fn body_text(self) -> Arc<str> {
        match self.body {
            PartBody::Text(text) => text,
            PartBody::None | PartBody::Media { .. } => "".into(),
        }
    }
}

/// Marks the piece at a position, or the nearest one before it that can carry a mark.
fn mark(messages: &mut Messages, end: Position, point: CachePoint) {
    let last = end.message as usize;
    for at in (0..=last).rev() {
        let (outer, inner) = match at == last {
            true => (end.outer as usize, end.inner as usize),
            false => (usize::MAX, usize::MAX),
        };
        if let Some(place) = messages
            .get_mut(at)
            .and_then(|message| place_of_mark(message, outer, inner))
        {
            *place = Some(place.map_or(point, |there| there.max(point)));
            return;
        }
    }
}

/// The mark of a message's last piece not after `outer` and `inner`. Reasoning cannot carry a mark.
fn place_of_mark(message: &mut Message, outer: usize, inner: usize) -> Option<&mut Option<CachePoint>> {
    match message {
        Message::User(list) => list
            .iter_mut()
            .take(outer.saturating_add(1))
            .last()
            .map(|piece| &mut piece.cache_point),
        Message::Tool(replies) => {
            let replies = replies.iter_mut().enumerate().take(outer.saturating_add(1));
            let pieces = replies.flat_map(|(at, reply)| {
                let end = if at == outer {
                    inner.saturating_add(1)
                } else {
                    usize::MAX
                };
                reply.pieces.iter_mut().take(end)
            });
            pieces.last().map(|piece| &mut piece.cache_point)
        }
        Message::Assistant(list) => {
            let pieces = list.iter_mut().take(outer.saturating_add(1));
            let marks = pieces.filter_map(|piece| match piece {
                AssistantPiece::Text(piece) => Some(&mut piece.cache_point),
                AssistantPiece::Call(call) => Some(&mut call.cache_point),
                AssistantPiece::Thinking { .. } => None,
            });
            marks.last()
        }
    }
}

/// The whole view as text, in the `timeline` layout: what people read and what `expect` is matched against.
pub fn as_text(messages: &Messages) -> String {
    let mut text = String::new();
    let push = |piece: &Piece, text: &mut String| match &piece.body {
        PieceBody::Text(body) => text.push_str(body),
        PieceBody::Media { mime, blob } => part::write_media(text, mime, blob),
    };
    for message in messages {
        match message {
            Message::User(pieces) => pieces.iter().for_each(|piece| push(piece, &mut text)),
            Message::Tool(replies) => {
                replies
                    .iter()
                    .flat_map(|reply| &reply.pieces)
                    .for_each(|piece| push(piece, &mut text));
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
