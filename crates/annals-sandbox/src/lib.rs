//! Isolated side effects: commands, files and code as data.
//!
//! Start at [`ops`]: what may be asked and what comes back. A [`Sandbox`] performs operations, a [`Backend`]
//! opens sandboxes, a [`Registry`] knows backends by name, a [`LazySandbox`] opens one on first need. [`streams`]
//! order operations. Files go in and out as [`tree`]s, programs inside ask through a [`context`] service. [`local`]
//! isolates with the kernel's own layers, [`trusted_host`] not at all.
//!
//! This crate knows nothing of conversations, tools or models.

pub mod ops;

pub mod capture;
pub mod failure;
pub mod language;
mod last_words;

pub mod limits;
pub mod spec;

pub mod context;
pub mod lazy_sandbox;
pub mod registry;
pub mod sandbox;
pub mod streams;
pub mod tree;

#[cfg(feature = "local")]
mod files;

#[cfg(feature = "local")]
pub mod facts;
#[cfg(feature = "local")]
pub mod helper;
#[cfg(feature = "local")]
mod host;
pub mod interpreters;
#[cfg_attr(
    not(feature = "local"),
    allow(dead_code, reason = "no role needs a helper process")
)]
#[allow(
    clippy::needless_doctest_main,
    reason = "where in `main` it stands is what the example shows"
)]
pub mod launcher;
#[cfg(feature = "local")]
pub mod local;
#[cfg(feature = "local")]
mod own_directories;
#[cfg(feature = "local")]
mod owners;
#[cfg(feature = "local")]
mod process;
#[cfg(feature = "local")]
pub mod service;
#[cfg(feature = "local")]
mod transfer;
#[cfg(feature = "local")]
pub mod trusted_host;

#[cfg(feature = "testing")]
pub mod testing;

pub use capture::Captured;
pub use context::{ContextError, ContextService, Fetched};
pub use failure::{Failure, FailureKind};
pub use language::{Language, UnknownLanguage};
pub use last_words::last_words;
pub use lazy_sandbox::LazySandbox;
pub use limits::{Bound, LimitError, Limits};
#[cfg(feature = "local")]
pub use local::Local;
pub use ops::{
    Cmd, CodeResult, CodeRun, CommandResult, CommandRun, Encoding, EntryKind, FileContent, FileData,
    FileEntries, FileEntry, FileWriteResult, FilesExists, FilesList, FilesRead, FilesWrite, Op, OpResult,
};
pub use registry::{Registry, UnknownBackend};
pub use sandbox::{Backend, Capabilities, LocalTree, OpenError, Opening, Sandbox, SandboxExt};
pub use spec::{Isolation, Layer, SandboxName, SandboxSpec};
pub use streams::{Event, Pending, Stream, StreamClosed};
pub use tree::{
    ByteStream, ChangeLimits, Changes, Digest, Manifest, Snapshot, TreeFile, TreePut, TreeSource,
};
#[cfg(feature = "local")]
pub use trusted_host::TrustedHost;
