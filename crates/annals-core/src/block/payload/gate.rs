//! What a policy said of a call, as its result keeps it.

use serde::{Deserialize, Serialize};

/// The rules that decided about a call. Kept with the result, since the rules may be others tomorrow; a call that no rule
/// speaks of has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateNote {
    /// `allow` or `deny`. Where a rule asked, the request and the decision are blocks of their own.
    pub decide: String,
    /// The rules, strictest first.
    pub by: Vec<GateRule>,
}

/// A rule that decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRule {
    /// Its id.
    pub id: String,
    /// Where it stands: `policy.toml:12`, `config.toml:3`, `conversation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Why, in the rule's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
