//! Side effects behind walls: commands, files and code as data.
//!
//! Start at [`ops`]: what may be asked and what comes back. A [`Sandbox`] performs operations, a [`Backend`]
//! opens sandboxes, a [`Registry`] knows backends by name, a [`Target`] opens one on first need. [`streams`]
//! order operations. [`local`] isolates with the kernel's own walls, [`trusted_host`] has none.
//!
//! This crate knows nothing of conversations, tools or models.

pub mod ops;

pub mod capture;
pub mod failure;
pub mod language;

pub mod limits;
pub mod spec;

pub mod registry;
pub mod sandbox;
pub mod streams;
pub mod target;

#[cfg_attr(
    not(feature = "local"),
    allow(dead_code, reason = "only backends on this machine use all of it")
)]
pub mod files;

#[cfg(feature = "local")]
pub mod facts;
#[cfg(feature = "local")]
mod host;
pub mod interpreters;
#[cfg_attr(
    not(feature = "local"),
    allow(dead_code, reason = "no role needs a helper process")
)]
pub mod launcher;
#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "local")]
mod process;
#[cfg(feature = "local")]
pub mod trusted_host;

#[cfg(feature = "testing")]
pub mod testing;

pub use capture::Captured;
pub use failure::{Failure, FailureKind};
pub use language::{Language, UnknownLanguage};
pub use limits::Limits;
#[cfg(feature = "local")]
pub use local::Local;
pub use ops::{
    Cmd, CodeResult, CodeRun, CommandResult, CommandRun, Encoding, EntryKind, FileContent, FileData,
    FileEntries, FileEntry, FileWriteResult, FilesExists, FilesList, FilesRead, FilesWrite, Op, OpResult,
};
pub use registry::{Registry, UnknownBackend};
pub use sandbox::{Backend, Capabilities, OpenError, Sandbox, SandboxExt};
pub use spec::{Bind, Isolation, Layer, SandboxSpec};
pub use streams::{Event, Pending, Stream, StreamClosed};
pub use target::Target;
#[cfg(feature = "local")]
pub use trusted_host::TrustedHost;
