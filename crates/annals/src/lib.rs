//! Agent runtime with a durable timeline, stable paths and a sandbox.
//!
//! Five words carry the rest:
//!
//! - A **block** is one thing that happened: a prompt, a call, a result, an answer. It is durable before anybody is shown
//!   it, never changed, and has a path (`tc:turn_1.tc_3.result`) that stays valid.
//! - A **conversation** is a log of blocks, named by scope and id. What the model sees, what happens next and what is done
//!   after a crash are folds over it; there is no other state.
//! - A **turn** is what one prompt leads to. It ends as complete, with a question, at a limit, cancelled, …: [`Turn::end`].
//! - A **round** is one step of a turn: the model is asked, its calls are written down, run and answered.
//! - A **session** is the right to write a conversation, with its sandbox. [`Agent::run`] takes it and gives it back in the
//!   [`Turn`], or in the error.
//!
//! A custom tool runs in twenty lines:
//!
//! ```no_run
//! # #[cfg(all(feature = "openai", feature = "sqlite"))] mod program {
//! use annals::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct AddOne { x: i64 }
//!
//! #[tool(name = "add_one", description = "Add 1 to x")]
//! async fn add_one(_cx: &ToolCx, args: AddOne) -> ToolResult { Ok(json!(args.x + 1)) }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! annals::launcher::init();
//! let agent = Agent::builder().model(OpenAi::new("gpt-5")?).tool(add_one).home("./data").build().await?;
//! let session = agent.session("conv_1").await?;
//! let turn = agent.run(session, "What is 41 + 1?").await?;
//! println!("{} ({:?})", turn.answer(), turn.end());
//! # Ok(())
//! # }
//! # }
//! ```
//!
//! Read in this order:
//!
//! 1. [`prelude`]: the names that a program needs;
//! 2. [`launcher`]: the one line at the top of `main`;
//! 3. [`model`]: models by name, with keys from the environment;
//! 4. [`tools`]: all built-in tools in one call, and what a tool is made of;
//! 5. [`runtime`]: agent, session, listeners, hooks;
//! 6. [`core`], [`embed`], [`store`], [`sandbox`], [`content`], `render` (feature `documents`): the parts below;
//! 7. `mcp` (feature `mcp`): tools of MCP servers; `opensandbox` and `e2b` (features of the same names): sandboxes on a
//!    server.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod launcher;
pub mod model;
pub mod prelude;
pub mod tools;

pub use annals_content as content;
pub use annals_core as core;
#[cfg(feature = "e2b")]
#[cfg_attr(docsrs, doc(cfg(feature = "e2b")))]
pub use annals_e2b as e2b;
pub use annals_embed as embed;
#[cfg(feature = "mcp")]
#[cfg_attr(docsrs, doc(cfg(feature = "mcp")))]
pub use annals_mcp as mcp;
#[cfg(feature = "opensandbox")]
#[cfg_attr(docsrs, doc(cfg(feature = "opensandbox")))]
pub use annals_opensandbox as opensandbox;
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub use annals_postgres as postgres;
#[cfg(feature = "documents")]
#[cfg_attr(docsrs, doc(cfg(feature = "documents")))]
pub use annals_render as render;
pub use annals_runtime as runtime;
#[cfg(feature = "s3")]
#[cfg_attr(docsrs, doc(cfg(feature = "s3")))]
pub use annals_s3 as s3;
pub use annals_sandbox as sandbox;
pub use annals_store as store;

pub use annals_runtime::{Agent, RunFailed, Runtime, Session, Turn, TurnRequest};
pub use model::Model;

// Crates whose types stand in signatures here, so that a program need not name them, nor match their versions.
pub use async_trait::async_trait;
pub use futures;
pub use futures::stream::BoxStream;
pub use schemars;
pub use serde;
pub use serde_json;
pub use tokio_util::sync::CancellationToken;

// What the `#[tool]` macro's output names. Not for people.
#[doc(hidden)]
pub use annals_tools::__private;

/// The programs of the README and of the library guide compile, and the guide's run.
#[cfg(all(doctest, feature = "openai", feature = "sqlite"))]
mod guides {
    #[doc = include_str!("../../../README.md")]
    struct Readme;

    #[doc = include_str!("../../../docs/library.md")]
    struct Library;
}
