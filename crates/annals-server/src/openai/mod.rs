//! The OpenAI-compatible API: Chat Completions and Responses, so that clients people already have can talk to the agent.
//!
//! A client sees a model; behind it is an agent with conversations. Read in this order:
//!
//! 1. [`transcript`] and [`input`]: what a request says, in one form for both wire forms;
//! 2. [`lineage`] and [`target`]: which conversation a history belongs to; [`ask`]: the turn that is started there;
//!    [`client_tools`]: the client's own tools, whose results a turn waits for; [`part`]: what one request is answered with;
//! 3. [`follow`] and [`pieces`]: the turn as clients see it; [`chat`] and [`responses`]: on the wire; [`error`]: what goes
//!    wrong;
//! 4. [`files`]: files by id; [`headers`]: what requests and answers say beside their bodies; [`completions`] and
//!    [`response_routes`]: the handlers of the two forms; [`sse`]: answers as streams; [`routes`]: the table.

mod ask;
mod chat;
mod client_tools;
mod completions;
mod error;
mod files;
mod follow;
mod headers;
mod input;
mod lineage;
mod part;
mod pieces;
mod response_routes;
mod responses;
mod routes;
mod sse;
mod stand_alone;
mod target;
mod transcript;

pub(crate) use ask::Turnstile;
pub use lineage::is_reserved;
pub(crate) use routes::table;
pub(crate) use stand_alone::take_up;
