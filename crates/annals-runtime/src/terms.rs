//! What holds for one turn and no other. Kept in its header, so that every process that goes on with it goes by the same.

use std::sync::Arc;

use annals_core::block::{BlobDigest, Block, Meta, NewBlock};
use annals_core::ids::TurnId;
use annals_core::timeline::Timeline;
use annals_tools::{ClientTool, SpecError, Tool};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The field of the header's metadata.
const FIELD: &str = "terms";

/// What holds for one turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnTerms {
    /// Nobody can be asked: what a person would have to allow is denied, and the model is told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unattended: bool,
    /// The JSON schema that the answer must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// What the client that started the turn performs itself: offered to the model beside the agent's own tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientFunction>,
    /// What the client that started the turn wants to be shown again. Nothing is made of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Value>,
}

/// A function that a client offers for one turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientFunction {
    /// The client's own name for it.
    pub name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

impl ClientFunction {
    /// The namespace of such tools in an agent's table.
    pub const NAMESPACE: &str = "client";
    const WORD_MAX_BYTES: usize = 48;

    /// Its name in the table: the client's in lower case, what a tool's name cannot hold replaced. A name that needed
    /// replacing gets a suffix from the client's own, so that no two become one.
    pub fn tool_name(&self) -> String {
        let own = self.name.as_str();
        let lower = own.to_lowercase();
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let word: String = lower.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
        let word = match word.starts_with(|c: char| c.is_ascii_lowercase()) {
            true => word,
            false => format!("f_{word}"),
        };
        if word == own && word.len() <= Self::WORD_MAX_BYTES {
            return format!("{}.{word}", Self::NAMESPACE);
        }
        let digest = BlobDigest::of(own.as_bytes()).to_string();
        let suffix: String = digest.chars().rev().take(6).collect();
        let end = word.floor_char_boundary(Self::WORD_MAX_BYTES.min(word.len()));
        format!("{}.{}_{suffix}", Self::NAMESPACE, &word[..end])
    }

    /// Whether a tool of this name is one that a client performs.
    pub fn performs(tool: &str) -> bool {
        tool.split_once('.')
            .is_some_and(|(namespace, _)| namespace == Self::NAMESPACE)
    }

    fn tool(&self) -> Result<Arc<dyn Tool>, SpecError> {
        let tool = ClientTool::new(&self.tool_name(), &self.description, self.parameters.clone())?;
        Ok(Arc::new(tool))
    }
}

impl TurnTerms {
    /// Writes them into a turn's header.
    pub(crate) fn write(&self, header: &mut NewBlock) {
        if *self == TurnTerms::default() {
            return;
        }
        let value = serde_json::to_value(self).expect("plain data always serialises to JSON");
        header.meta = std::mem::replace(&mut header.meta, Meta::EMPTY).with(FIELD, value);
    }

    /// The tools that the client performs.
    pub(crate) fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, SpecError> {
        self.client_tools.iter().map(ClientFunction::tool).collect()
    }

    /// The terms of a turn. Those that cannot be read are of a newer version, and then none hold.
    pub fn of(timeline: &Timeline, turn: &TurnId) -> Self {
        let header = timeline
            .turn(turn)
            .and_then(|turn| timeline.turn_blocks(turn).first());
        header.map(|header| Self::of_header(header)).unwrap_or_default()
    }

    /// The terms that a turn's header holds.
    pub fn of_header(header: &Block) -> Self {
        let kept = header.meta().get(FIELD);
        kept.and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_default()
    }
}
