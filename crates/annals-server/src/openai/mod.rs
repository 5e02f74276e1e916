//! The OpenAI-compatible API: Chat Completions and Responses, so that clients people already have can talk to the agent.
//!
//! A client sees a model; behind it is an agent with conversations. Read in this order:
//!
//! 1. [`transcript`] and [`input`]: what a request says, in one form for both wire forms;
//! 2. [`lineage`]: which conversation a history belongs to; [`ask`]: the turn that is started there;
//! 3. [`pieces`]: the turn as clients see it; [`chat`] and [`responses`]: on the wire; [`error`]: what goes wrong;
//! 4. [`files`]: files by id; [`routes`]: the handlers.

mod ask;
mod chat;
mod error;
mod files;
mod input;
mod lineage;
mod pieces;
mod responses;
mod routes;
mod transcript;

pub(crate) use ask::Turnstile;
pub(crate) use routes::table;
