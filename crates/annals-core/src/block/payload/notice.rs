//! The text of a `react.notice` block.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What went wrong with a call, or was changed for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// A stable code such as `protocol_violation.path_rewritten`.
    pub code: String,
    /// One sentence for the model.
    pub message: String,
    /// Further facts, flat beside the two.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl Notice {
    /// A notice with this code and message.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Notice {
            code: code.into(),
            message: message.into(),
            facts: Map::new(),
        }
    }

    /// With a further fact.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), value.into());
        self
    }
}
