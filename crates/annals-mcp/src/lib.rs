//! The Model Context Protocol both ways: tools from outside, and Annals for other programs.
//!
//! A server is a stranger: its words are cleaned, its answers bounded, its process isolated, and what it offers is *pinned*.
//! The model is offered the pinned definitions, never what a server says at the moment, so a prompt's bytes do not depend on
//! which servers run. Read in this order:
//!
//! 1. [`config`], [`hosts`]: which servers there are, how they are started, what they may touch and reach; [`package`],
//!    [`install`]: those that `npx` and `uvx` would fetch;
//! 2. [`definition`], [`pins`]: what a server offers, and what of it a person has accepted;
//! 3. [`connection`], [`transport`]: one session with a server, over pipes or HTTP, in both lifecycles of the protocol;
//!    [`listing`]: what it offers in it;
//!    [`auth`]: logins at servers that want one;
//!    `proxy`: the way out of a sandboxed one;
//! 4. [`server`]: a server that is started at need, fails, and is tried again; `call`, `question`, `parked`: one call, what
//!    the server asks a person meanwhile, and where the call waits for the answer;
//! 5. [`tool`], [`result`](mod@result), [`many`]: its tools as tools of an agent;
//!    [`resources`]: what else it has, for people; [`linked`]: the part of it that the model may read;
//! 6. [`file`](mod@file), [`set`]: all servers of a home;
//! 7. [`serve`]: the other way round, Annals as a server.

#![forbid(unsafe_code)]

pub mod auth;
mod call;
pub mod config;
pub mod connection;
pub mod definition;
pub mod file;
mod hidden;
pub mod hosts;
mod http_client;
pub mod install;
pub mod limits;
pub mod linked;
pub mod listing;
pub mod many;
pub mod name;
pub mod package;
mod parked;
pub mod pins;
mod private_file;
mod proxy;
mod question;
pub mod resources;
pub mod result;
pub mod serve;
pub mod server;
pub mod set;
pub mod text;
pub mod tool;
pub mod transport;

pub use auth::LoginState;
pub use config::{ConfigError, ServerConfig, Servers, Transport};
pub use definition::{Definition, Digest};
pub use pins::{Difference, Pins};
pub use server::{RemoteServer, ServerError};
pub use set::ServerSet;
