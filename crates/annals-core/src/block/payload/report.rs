//! The text of a `react.completion` block: how a turn ended and what it cost.

use serde::{Deserialize, Serialize};

macro_rules! outcomes {
    ($($(#[doc = $doc:literal])* $name:ident = $word:literal;)*) => {
        /// How a turn ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum TurnEnd {
            $($(#[doc = $doc])* #[serde(rename = $word)] $name,)*
        }

        impl TurnEnd {
            /// Every outcome, in the order of the documentation.
            pub const ALL: &[TurnEnd] = &[$(TurnEnd::$name,)*];

            /// The word in `react.completion`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(TurnEnd::$name => $word,)*
                }
            }
        }
    };
}

outcomes! {
    /// With an answer.
    Complete = "complete";
    /// With questions to the person.
    Clarify = "clarify";
    /// At the limit of model calls.
    MaxIterations = "max_iterations";
    /// At the limit of tokens, money or time.
    BudgetExceeded = "budget_exceeded";
    /// The same call with the same result, again and again.
    Loop = "loop";
    /// After the same violation several times in a row.
    ProtocolViolation = "protocol_violation";
    /// The provider failed for good.
    ModelError = "model_error";
    /// Nobody decided in time.
    ApprovalExpired = "approval_expired";
    /// A person cancelled it, or refused a call and wanted no more.
    Cancelled = "cancelled";
    /// The process died, and the next prompt closed it.
    Interrupted = "interrupted";
    /// Annals itself could not go on.
    Failed = "failed";
}

impl TurnEnd {
    /// Whether the person got what a turn is for.
    pub fn is_success(self) -> bool {
        matches!(self, TurnEnd::Complete | TurnEnd::Clarify)
    }
}

/// Tokens of a turn by bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnUsage {
    /// All input tokens, those read from or written to the provider's cache among them.
    pub input_tokens: u64,
    /// Of these, read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Of these, written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
}

impl TurnUsage {
    /// Adds another call's tokens.
    pub fn add(&mut self, other: TurnUsage) {
        self.input_tokens += other.input_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.output_tokens += other.output_tokens;
    }
}

/// How a turn ended and what it cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnReport {
    /// How the turn ended.
    pub outcome: TurnEnd,
    /// Tool calls made.
    pub rounds: u32,
    /// Model calls made.
    pub iterations: u32,
    /// Tokens used.
    pub usage: TurnUsage,
    /// Tokens of each model call, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub usage_by_call: Vec<TurnUsage>,
    /// From the prompt to the end.
    pub elapsed_ms: u64,
    /// Why, when it did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl TurnReport {
    /// The report of a turn that did nothing.
    pub fn empty(outcome: TurnEnd, error: Option<String>) -> Self {
        TurnReport {
            outcome,
            rounds: 0,
            iterations: 0,
            usage: TurnUsage::default(),
            usage_by_call: Vec::new(),
            elapsed_ms: 0,
            error,
        }
    }
}
