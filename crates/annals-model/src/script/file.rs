//! The format of a script, as JSON.
//!
//! Unknown fields are errors: a misspelt `expect` that is silently ignored would be a check that cannot fail.

use std::path::{Path, PathBuf};
use std::time::Duration;

use annals_core::tokens;
use annals_core::turn::text_call::{self, TextCall};
use serde::Deserialize;

use crate::error::{ModelError, StallPhase};
use crate::model::Window;
use crate::usage::{Price, Usage};

/// A whole script.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What the model says, call by call.
    pub steps: Vec<ScriptStep>,
    /// Summaries for compactions, in order. When present, even empty, compactions take no step; one too many fails.
    #[serde(default)]
    pub summaries: Option<Vec<String>>,
    /// Wait before each answer, unless the step has its own.
    #[serde(default)]
    pub delay_ms: u64,
    /// Wait between the chunks of an answer, unless the step has its own.
    #[serde(default)]
    pub chunk_ms: u64,
    /// The window the model claims to have.
    #[serde(default)]
    pub window: Option<ScriptWindow>,
    /// What its tokens cost, in billionths of a dollar each.
    #[serde(default)]
    pub price: Option<Price>,
}

/// What the model does at one call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptStep {
    /// Reasoning.
    pub thinking: Option<String>,
    /// The proof that comes with the reasoning.
    pub thinking_signature: Option<String>,
    /// Text.
    pub text: Option<String>,
    /// Calls.
    pub tool_calls: Vec<ScriptCall>,
    /// A failure: at once, or after everything else the step has said.
    pub error: Option<ScriptFailure>,
    /// Texts that must be in the rendered view.
    pub expect: Vec<String>,
    /// What the answer takes; counted when absent.
    pub usage: Option<Usage>,
    /// Wait before the answer.
    pub delay_ms: Option<u64>,
    /// Wait between chunks.
    pub chunk_ms: Option<u64>,
    /// `max_tokens` or `refusal`, instead of what follows from the calls.
    pub stop: Option<ScriptStop>,
}

impl ScriptStep {
    /// The step of a model that cannot call tools: its calls stand in its text.
    pub(super) fn in_words(mut self) -> Self {
        for call in std::mem::take(&mut self.tool_calls) {
            let params = call.params.map(|params| params.to_string());
            let written = text_call::write(&TextCall {
                id: call.id,
                tool: call.tool,
                arguments: call.arguments.or(params).unwrap_or_else(|| "{}".to_owned()),
            });
            let text = self.text.get_or_insert_default();
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&written);
        }
        self
    }
}

/// One call, either with parameters or with the raw text a model might send.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptCall {
    /// The call's id; made by the runtime when absent.
    pub id: Option<String>,
    /// The tool's id.
    pub tool: String,
    /// Parameters, in this order.
    pub params: Option<serde_json::Value>,
    /// The raw arguments.
    pub arguments: Option<String>,
}

/// A failure to play.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptFailure {
    /// Which one.
    pub kind: ScriptFailureKind,
    /// What the provider is supposed to have said.
    #[serde(default)]
    pub message: Option<String>,
    /// How long it asks to wait, for `rate_limit` and `overloaded`.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

/// The failures a script can play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words of ModelError::kind")]
#[non_exhaustive]
pub enum ScriptFailureKind {
    ContextLimit,
    RateLimit,
    Overloaded,
    Network,
    Auth,
    Quota,
    BadRequest,
    Stalled,
    CutOff,
    Malformed,
}

/// A stop reason a script can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptStop {
    /// The answer was cut at its longest length.
    MaxTokens,
    /// The model declined.
    Refusal,
}

/// The window a script claims.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptWindow {
    /// Prompt and answer together.
    pub context_tokens: u32,
    /// The longest answer.
    pub max_output_tokens: u32,
}

impl From<ScriptWindow> for Window {
    fn from(window: ScriptWindow) -> Self {
        Window {
            context_tokens: window.context_tokens,
            max_output_tokens: window.max_output_tokens,
        }
    }
}

/// Why a file is not a script.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("the script `{}` cannot be read", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// What is in the file is no script.
    #[error("`{}`: {problem}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        problem: Box<ScriptError>,
    },
    /// It is not the JSON of a script.
    #[error("the script is not valid: {0}")]
    Json(#[from] serde_json::Error),
    /// A call without a tool, or with two kinds of arguments.
    #[error("step {step} of the script: {problem}")]
    Step {
        /// Which step, from 1.
        step: usize,
        /// What is wrong.
        problem: &'static str,
    },
}

impl Script {
    /// Reads a script from a file.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path).map_err(|source| ScriptError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text).map_err(|problem| ScriptError::File {
            path: path.to_owned(),
            problem: Box::new(problem),
        })
    }

    /// Reads a script from JSON text.
    pub fn parse(json: &str) -> Result<Self, ScriptError> {
        let script: Script = serde_json::from_str(json)?;
        for (at, step) in script.steps.iter().enumerate() {
            for call in &step.tool_calls {
                let problem = match call {
                    ScriptCall { tool, .. } if tool.is_empty() => "a call names no `tool`",
                    ScriptCall {
                        params: Some(_),
                        arguments: Some(_),
                        ..
                    } => "a call has both `params` and `arguments`; keep one",
                    _ => continue,
                };
                return Err(ScriptError::Step {
                    step: at + 1,
                    problem,
                });
            }
        }
        Ok(script)
    }

    /// A script of these steps.
    pub fn of(steps: impl IntoIterator<Item = ScriptStep>) -> Self {
        Script {
            steps: steps.into_iter().collect(),
            ..Script::default()
        }
    }
}

impl ScriptStep {
    /// The model says this and stops.
    pub fn text(text: impl Into<String>) -> Self {
        ScriptStep {
            text: Some(text.into()),
            ..ScriptStep::default()
        }
    }

    /// The model calls one tool.
    pub fn call(id: &str, tool: &str, params: serde_json::Value) -> Self {
        ScriptStep::default().and_call(id, tool, params)
    }

    /// And calls another one.
    pub fn and_call(mut self, id: &str, tool: &str, params: serde_json::Value) -> Self {
        let (id, tool) = (Some(id.to_owned()), tool.to_owned());
        self.tool_calls.push(ScriptCall {
            id,
            tool,
            params: Some(params),
            arguments: None,
        });
        self
    }

    /// The call fails.
    pub fn failure(kind: ScriptFailureKind) -> Self {
        let error = ScriptFailure {
            kind,
            message: None,
            retry_after_ms: None,
        };
        ScriptStep {
            error: Some(error),
            ..ScriptStep::default()
        }
    }

    /// Whether the step says nothing, so that its failure comes at once.
    pub(crate) fn is_silent(&self) -> bool {
        self.text.is_none() && self.thinking.is_none() && self.tool_calls.is_empty()
    }

    pub(crate) fn output_tokens(&self) -> u64 {
        let texts = [&self.thinking, &self.text]
            .into_iter()
            .flatten()
            .map(|text| tokens::count(text));
        let calls = self
            .tool_calls
            .iter()
            .map(|call| tokens::count(&call.tool) + tokens::count(&call.json()));
        texts.chain(calls).map(u64::from).sum()
    }
}

impl ScriptCall {
    /// The arguments as the model sends them; empty when the script gives none.
    pub(crate) fn json(&self) -> String {
        match (&self.arguments, &self.params) {
            (Some(raw), _) => raw.clone(),
            (None, Some(params)) => params.to_string(),
            (None, None) => String::new(),
        }
    }
}

impl ScriptFailure {
    pub(crate) fn to_error(&self) -> ModelError {
        let message = self
            .message
            .clone()
            .unwrap_or_else(|| "the script says so".to_owned());
        let retry_after = self.retry_after_ms.map(Duration::from_millis);
        match self.kind {
            ScriptFailureKind::ContextLimit => ModelError::ContextLimit { message },
            ScriptFailureKind::RateLimit => ModelError::RateLimited { retry_after, message },
            ScriptFailureKind::Overloaded => ModelError::Overloaded { retry_after, message },
            ScriptFailureKind::Network => ModelError::Network { message },
            ScriptFailureKind::Auth => ModelError::Auth { message },
            ScriptFailureKind::Quota => ModelError::Quota { message },
            ScriptFailureKind::BadRequest => ModelError::BadRequest { message },
            ScriptFailureKind::Stalled => ModelError::Stalled {
                phase: StallPhase::Idle,
                after: Duration::from_secs(120),
            },
            ScriptFailureKind::CutOff => ModelError::CutOff,
            ScriptFailureKind::Malformed => ModelError::Malformed { message },
        }
    }
}
