//! The `Tool` trait, the tool table, and every built-in tool.
//!
//! A tool **returns** an outcome; the runtime writes it. Nothing here appends blocks. Read in this order:
//!
//! 1. [`tool`], [`spec`], [`access`], [`facet`], [`cx`]: what a tool is, what it declares, which calls conflict, what rules look at, what
//!    it may touch;
//! 2. [`table`]: the tools of one agent;
//! 3. [`validate`], [`schema`], [`dispatch`], [`reference`](mod@reference), [`execute`], [`serialise`]: one call, from raw arguments to an outcome;
//! 4. [`content`], [`file`](mod@file), [`mentioned`], [`skills`]: what tools read and write;
//! 5. [`react`], [`system`], [`exec`], `web` (feature `web`), `rendering` (feature `documents`): the tools themselves, one file each;
//!    [`patch`] is the diff engine of `react.patch`.

#![forbid(unsafe_code)]

pub mod access;
#[doc(hidden)]
pub mod arguments;
pub mod cx;
pub mod facet;
mod failure;
pub mod foreign;
mod name;
mod output;
mod proposal;
pub mod spec;
mod state;
pub mod tool;
pub mod tree;

mod dynamic;
mod input;
pub mod table;

pub mod dispatch;
pub mod execute;
pub mod reference;
pub mod schema;
pub mod serialise;
pub mod validate;

pub mod content;
mod disk;
pub mod file;
pub mod mentioned;
pub mod skills;

pub mod exec;
pub mod patch;
pub mod react;
#[cfg(feature = "documents")]
pub mod rendering;
pub mod system;
#[cfg(feature = "web")]
pub mod web;

pub use access::{Access, CallOrder, CallPlace, Resource, Uses};
pub use annals_core::turn::outcome::{Notice, Outcome};
pub use annals_policy::{KnownTool, Reach};
pub use annals_tool_macro::{arguments, tool};
pub use cx::{ConversationCx, SharedTimeline, ToolCx, ToolProgress, Vault};
pub use dynamic::DynamicTool;
pub use facet::FacetParam;
pub use failure::{IntoFailure, ToolError, ToolFailure, ToolResult};
pub use input::{ClientTool, InputAsk};
pub use name::{ToolName, ToolNameError};
pub use output::{IntoOutcome, Json, ToolOutput};
pub use proposal::Proposal;
pub use spec::{BodyParam, Effect, Family, Listing, Produces, SpecError, ToolSpec, ToolSpecBuilder};
pub use state::State;
pub use table::{SharedTools, ToolSource, ToolTable, ToolTableBuilder, ToolTableError};
pub use tool::Tool;

/// What the `#[tool]` macro's output names. Not for people.
#[doc(hidden)]
pub mod __private {
    pub use annals_core::turn::outcome::Outcome;
    pub use async_trait::async_trait;
    pub use schemars;
    pub use serde;
    pub use serde_json::Value;

    pub use crate::arguments::{MayBeObject, Probe};
    pub use crate::{Effect, IntoOutcome, State, Tool, ToolCx, ToolFailure, ToolSpec, Uses};

    /// The arguments as the tool's own type. The schema was checked before, so this fails only where a type is
    /// stricter than its schema says.
    pub fn typed<T: serde::de::DeserializeOwned>(args: Value) -> Result<T, ToolFailure> {
        serde_json::from_value(args).map_err(|error| {
            ToolFailure::new(
                annals_core::code::Code::InvalidToolArguments,
                format!("the arguments do not fit: {error}"),
            )
        })
    }
}
