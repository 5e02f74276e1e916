//! Annals over HTTP: conversations, live events, artifacts, the OpenAI-compatible API, and MCP.
//!
//! A request that starts a turn is answered once the prompt is durable; the turn belongs to no connection. A subscriber
//! holds a number and reads the log from there. Read in this order:
//!
//! 1. [`server`]: options, the accept loop, the graceful stop;
//! 2. [`routes`]: the table of everything that can be asked, from which router and API document are made;
//! 3. [`door`]: who comes in; [`secrets`]: tokens, cookies and links; [`limits`]: how much one caller may have at once;
//! 4. [`problem`]: every error there is; [`idempotency`]: requests that may be sent again; [`request`]: bodies read;
//! 5. one module a resource: [`conversations`], [`turns`], [`events`], [`blocks`], [`artifacts`], [`transfer`],
//!    [`approvals`], [`inputs`], [`search`], [`health`], [`page`], and [`mcp`], which speaks a protocol of its own;
//! 6. [`relay`]: what other nodes are producing; [`webhooks`]: what others are told; [`side_table`]: what the server keeps
//!    for itself;
//! 7. [`openapi`], with [`schemas`] of other crates' types, and [`metrics`]: what the server says of itself.

#![forbid(unsafe_code)]

mod access_log;
mod app;
mod approvals;
mod artifacts;
mod blocks;
mod connection;
mod conversations;
mod door;
mod events;
mod form;
mod health;
mod idempotency;
mod inputs;
mod limits;
mod mcp;
mod mcp_servers;
mod metrics;
mod openai;
mod openapi;
mod page;
mod problem;
mod relay;
mod request;
mod routes;
mod schemas;
mod search;
pub mod secrets;
mod server;
mod side_table;
mod transfer;
mod turns;
mod webhooks;

pub use limits::Limits;
pub use openai::is_reserved;
pub use problem::Code;
pub use routes::routes;
pub use server::{Options, ServeError, Server};
pub use webhooks::{Webhook, WebhookError, WebhookEvent};
