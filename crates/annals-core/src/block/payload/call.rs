//! The text of a `react.tool.call` block.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// One call as it is written down, borrowed from its block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallText<'a> {
    /// The tool, such as `react.write`.
    #[serde(borrow)]
    pub tool_id: Cow<'a, str>,
    /// The call.
    #[serde(borrow)]
    pub tool_call_id: Cow<'a, str>,
    /// The parameters as JSON text, in the model's order.
    #[serde(borrow)]
    pub params: Cow<'a, RawValue>,
    /// When the call was made.
    #[serde(borrow)]
    pub ts: Cow<'a, str>,
}

impl<'a> CallText<'a> {
    /// Reads a call block's text; `None` when it is not of that form.
    pub fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
