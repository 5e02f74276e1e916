//! The sandbox port on servers of sandboxes, whatever their wire.
//!
//! A wire implements two traits: [`ControlPlane`], the server that makes, finds, renews and deletes sandboxes, and
//! [`Daemon`], the service inside one. [`RemoteBackend`] makes a backend of them. A `slot` is the sandbox of one conversation,
//! found by its metadata or made, fenced by its owner's token, replaced when it is lost. A `remote` is one sandbox that
//! lives: calls in it and files to and from it. A `handle` is what a caller has open.
//!
//! Inside runs a script (`guest.sh`), so that commands keep their bytes, exit codes and process trees, which no wire does
//! by itself. The script also makes a call happen once, however often a broken connection has it sent.

#![forbid(unsafe_code)]

pub mod http;
pub mod multipart;

mod error;
mod port;
mod server;
mod timing;

mod archive;
mod guest;
mod owner;

mod backend;
mod files;
mod fleet;
mod handle;
mod mailbox;
mod paths;
mod remote;
mod run;
mod slot;
mod trees;

pub use backend::{RemoteBackend, ServerFacts};
pub use error::{ApiError, SettingsError};
pub use fleet::FleetOptions;
pub use port::{
    CodeRequest, Command, CommandEvent, CommandEvents, ControlPlane, Daemon, Phase, Record, Status, Upload,
    UploadBody,
};
pub use server::{Dialect, Server, ServerAddress, server_url};
pub use timing::{Backoff, Timing};
