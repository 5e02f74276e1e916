//! The sandbox port over the two HTTP services of OpenSandbox.
//!
//! Start at [`OpenSandbox`], the backend. A `slot` is the sandbox of one conversation, found by its metadata or made,
//! fenced by its owner's token, replaced when it is lost. A `remote` is one sandbox that lives: calls in it and files to
//! and from it, over clients of the `lifecycle` server and of `execd`. A `handle` is what a caller has open.
//!
//! Inside runs a script (`guest.sh`), so that commands keep their bytes, exit codes and process trees, which execd's
//! event stream alone does not: it cuts output into lines, replaces what is not UTF-8 and leaves detached processes. The
//! script also makes a call happen once, however often a broken connection has it sent.

mod frames;
mod wire;

mod error;
mod execd;
mod lifecycle;
mod multipart;

mod archive;
mod guest;
mod owner;

mod backend;
mod handle;
mod kernel;
mod mailbox;
mod remote;
mod settings;
mod slot;
mod trees;

pub use backend::{OpenSandbox, ServerFacts};
pub use error::ApiError;
pub use settings::{OpenSandboxOptions, SettingsError};
pub use wire::{NetworkAction, NetworkPolicy, NetworkRule};
