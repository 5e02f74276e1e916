//! The durable side of Annals: what was acknowledged survives.
//!
//! Keeps blocks, the bytes they name, and the working trees that are rebuilt from both. It decides nothing about
//! turns. Read in this order:
//!
//! 1. [`log`]: the log and its sisters as ports; [`memory`] and [`sqlite`] keep them; [`clock`] is where time comes in;
//!    [`columns`]: how blocks lie in rows;
//!    [`recall`]: the contract of memory search over it;
//!    [`register`]: values by name, on any of them;
//! 2. [`artifacts`]: bytes by digest, durable before a block names them;
//! 3. [`workspace`]: OUT_DIR, rebuilt on demand, impossible to leave;
//! 4. [`transfer`]: a conversation with its artifacts as one file;
//! 5. [`preflight`]: what may come in as an attachment;
//! 6. [`home`]: where all of this lies on one machine;
//! 7. `testing` (feature `testing`): the contract as functions that every backend must pass.

#![forbid(unsafe_code)]

pub mod clock;
pub mod columns;
pub mod log;
pub mod memory;
pub mod recall;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub mod register;

pub mod artifacts;

pub mod workspace;

pub mod transfer;

pub mod preflight;

pub mod home;

#[cfg(feature = "testing")]
pub mod testing;

#[doc(hidden)]
pub mod disk;
#[doc(hidden)]
pub mod failpoint;

pub use artifacts::{
    ArtifactDraft, ArtifactError, ArtifactLedger, ArtifactStore, CollectError, Stored, Swept,
    hash as hash_file, resource_name,
};
pub use clock::{Clock, ManualClock, SystemClock};
pub use home::{Home, workspace_folder};
pub use log::{
    Ancestor, Answers, Append, Archive, Asking, AskingPage, BatchId, BlockLog, BlockLogExt, Breadth, Claimed,
    Claims, ConversationInfo, Cursor, Holding, IdempotencyKey, Inbox, InboxId, Lease, Listing, LogError,
    Member, Members, NewConversation, Operator, Owner, Pending, Post, Posted, Role, Roles, Stale, Store,
    StoredAnswer, Tails, Taken, Token, Tokens, Work, named_by, named_in_post, needed_blobs,
};
pub use memory::{MemoryLog, MemoryRecall};
pub use recall::{Progress, Recall, RecallIndex, ReindexError};
pub use register::Register;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteLog, SqliteOptions, SqliteRecall};
pub use transfer::{
    ExportError, Exported, ImportAs, ImportError, Imported, export_conversation, import_answering,
    import_conversation,
};
pub use workspace::{FileEntry, Materialised, TreeEntry, Workspace, WorkspaceError};
