//! OpenAI's Responses, for models that reason: their reasoning comes back to them within the turn, encrypted.
//!
//! Nothing is kept at the server (`store` is false): the timeline is the only truth, and what the server wants to see
//! again it gets again. [`request`] is what is sent, [`stream`] what comes back.

pub(crate) mod request;
pub(crate) mod stream;

use serde::{Deserialize, Serialize};

use crate::thinking::RESPONSES;

/// A reasoning item as the server sent it, which it wants back unchanged.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReasoningItem {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(default)]
    pub(crate) summary: Vec<Summary>,
    pub(crate) encrypted_content: String,
}

/// A piece of what the model tells of its reasoning.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Summary {
    SummaryText { text: String },
}

impl ReasoningItem {
    /// The item as a signature that the timeline keeps.
    pub(crate) fn signature(&self) -> String {
        let json = serde_json::to_string(self).expect("plain data is always JSON");
        format!("{RESPONSES}{json}")
    }

    /// The item that a signature stands for, if it came over this wire.
    pub(crate) fn of_signature(signature: &str) -> Option<Self> {
        serde_json::from_str(signature.strip_prefix(RESPONSES)?).ok()
    }
}
