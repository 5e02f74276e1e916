//! The names that a program needs: `use annals::prelude::*;`.
//!
//! `Deserialize` and `JsonSchema` bring their derives, which name their own crates: a program that derives them
//! depends on `serde` and `schemars` too. [`arguments`] derives both without that.

pub use annals_core::block::{Block, BlockKind, NewBlock};
pub use annals_core::ids::{ConversationId, Scope, TurnId};
pub use annals_core::path::LogicalPath;
pub use annals_core::settings::Settings;
pub use annals_core::timeline::Timeline;
pub use annals_core::turn::TurnEnd;
pub use annals_core::view::Layout;
pub use annals_core::view::View;
pub use annals_runtime::{
    Agent, AgentBuilder, Attachment, Delta, DeltaChannel, HookCx, Hooks, Listen, RunError, RunFailed,
    Runtime, Session, Turn, TurnFile, TurnRequest, Update, Verdict, World,
};
pub use annals_tools::{
    DynamicTool, IntoOutcome, Json, Notice, Outcome, State, Tool, ToolCx, ToolFailure, ToolOutput,
    ToolResult, ToolSpec, arguments, tool,
};
pub use async_trait::async_trait;
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};
pub use serde_json::{Value, json};

pub use crate::CancellationToken;
#[cfg(feature = "anthropic")]
pub use crate::model::Anthropic;
#[cfg(feature = "ollama")]
pub use crate::model::Ollama;
#[cfg(feature = "openai")]
pub use crate::model::OpenAi;
pub use crate::model::{Model, Script, ScriptModel, ScriptStep};
