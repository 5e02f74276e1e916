//! Fields of a block's metadata that belong to one kind of block, by type instead of by name.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::payload::{GateNote, TurnUsage};
use super::{Channel, Meta};
use crate::path::LogicalPath;

const ATTACHMENT_PATH: &str = "attachment_path";
const CHANNEL: &str = "channel";
const GATE: &str = "gate";
const HIDDEN: &str = "hidden";
const KIND: &str = "kind";
const PROMPT: &str = "prompt";
const SERVER_META: &str = "server_meta";
const SIGNATURE: &str = "signature";
const SUMMARY: &str = "summary";
const USAGE: &str = "usage";

/// What a `system.message` is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageKind {
    /// Old blocks were shortened, because the provider's cache had gone cold.
    CacheTtlPruned,
    /// The provider refused a prompt for its length.
    ContextLimit,
    /// A rule that a person wanted kept could not be.
    PolicyNotKept,
    /// A host's own.
    Other(Arc<str>),
}

impl MessageKind {
    /// The word in `meta.kind` and at the end of the block's path.
    pub fn as_str(&self) -> &str {
        match self {
            MessageKind::CacheTtlPruned => "cache_ttl_pruned",
            MessageKind::ContextLimit => "context_limit",
            MessageKind::PolicyNotKept => "policy_not_kept",
            MessageKind::Other(kind) => kind,
        }
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Self {
        match word {
            "cache_ttl_pruned" => MessageKind::CacheTtlPruned,
            "context_limit" => MessageKind::ContextLimit,
            "policy_not_kept" => MessageKind::PolicyNotKept,
            other => MessageKind::Other(other.into()),
        }
    }
}

impl Meta {
    /// What a `system.message` is about.
    pub fn message_kind(&self) -> Option<MessageKind> {
        self.field::<String>(KIND)
            .map(|word| MessageKind::from_word(&word))
    }

    /// As a system message of this kind.
    pub fn with_message_kind(self, kind: &MessageKind) -> Self {
        self.with(KIND, kind.as_str())
    }

    /// The vendor's proof of some reasoning.
    pub fn signature(&self) -> Option<String> {
        self.field(SIGNATURE)
    }

    /// As reasoning, which is never shown as text, with the vendor's proof of it.
    pub fn with_reasoning(self, signature: Option<&str>) -> Self {
        let meta = self.with(HIDDEN, true);
        match signature {
            Some(signature) => meta.with(SIGNATURE, signature),
            None => meta,
        }
    }

    /// Tokens of the model call that wrote this block first.
    pub fn usage(&self) -> Option<TurnUsage> {
        self.field(USAGE)
    }

    /// With the tokens of the model call that wrote this block first.
    pub fn with_usage(self, usage: &TurnUsage) -> Self {
        self.with(USAGE, super::meta::to_value(usage))
    }

    /// What the prompt that this block answers first was made from, such as a `SentPrompt` of the view.
    pub fn prompt<T: DeserializeOwned>(&self) -> Option<T> {
        self.field(PROMPT)
    }

    /// With what the prompt that this block answers first was made from.
    pub fn with_prompt(self, sent: &impl Serialize) -> Self {
        self.with(PROMPT, super::meta::to_value(sent))
    }

    /// On the first result block of a call: the rules that decided about it.
    pub fn gate(&self) -> Option<GateNote> {
        self.field(GATE)
    }

    /// With the rules that decided about the call.
    pub fn with_gate(self, note: &GateNote) -> Self {
        self.with(GATE, super::meta::to_value(note))
    }

    /// On the first result block of a call: what a foreign server said of its result beside it (`_meta` of MCP).
    pub fn server_meta(&self) -> Option<Value> {
        self.field(SERVER_META)
    }

    /// With what a foreign server said of its result beside it.
    pub fn with_server_meta(self, meta: &Value) -> Self {
        self.with(SERVER_META, meta.clone())
    }

    /// Where the text of a note appears.
    pub fn channel(&self) -> Option<Channel> {
        self.field(CHANNEL)
    }

    /// On this channel.
    pub fn with_channel(self, channel: Channel) -> Self {
        self.with(CHANNEL, channel.as_str())
    }

    /// What is in an attachment, in one line.
    pub fn attachment_summary(&self) -> Option<String> {
        self.field(SUMMARY)
    }

    /// With one line on what is in an attachment.
    pub fn with_attachment_summary(self, summary: &str) -> Self {
        self.with(SUMMARY, summary)
    }

    /// The attachment that a text was taken from.
    pub fn attachment_path(&self) -> Option<LogicalPath> {
        self.field(ATTACHMENT_PATH)
    }

    /// As text taken from this attachment.
    pub fn with_attachment_path(self, path: &LogicalPath) -> Self {
        self.with(ATTACHMENT_PATH, path.as_str())
    }

    /// A further field of this type; one of another type is kept, and read as absent.
    fn field<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        self.extra.get(name)
    }
}
