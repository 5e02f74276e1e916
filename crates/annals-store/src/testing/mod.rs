//! The contract of a [`Store`](crate::log::Store) as functions: a backend is right when every one of them returns.
//!
//! ```
//! use std::sync::Arc;
//! use annals_store::testing::{CASES, Subject};
//! use annals_store::{ManualClock, MemoryLog};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! for case in CASES {
//!     let clock = Arc::new(ManualClock::default());
//!     let log = MemoryLog::with_clock(clock.clone());
//!     (case.run)(Subject::new(Arc::new(log), clock)).await;
//! }
//! # });
//! ```
//!
//! [`RECALL_CASES`] are the same for memory search, `ARCHIVE_CASES` for the archive of idle conversations, which
//! need the feature `object-store`.

// Its objects are in an object store in memory, where a case can damage them.
#[cfg(feature = "object-store")]
mod archive_cases;
mod cases;
mod recall_cases;
mod sample;
mod saying;

#[cfg(feature = "object-store")]
pub use archive_cases::{ARCHIVE_CASES, ArchiveCase, Archiving};
pub use cases::{CASES, Case, Subject};
pub use recall_cases::{RECALL_CASES, RecallCase};
pub use sample::{after, at, conversation, new_conversation, owner, text_block, varied_blocks};
pub use saying::{Remembering, Says, answer, attachment, delete, file, key, prompt, query, query_scope, say};
