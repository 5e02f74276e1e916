//! A conversation with its artifacts as one file: JSON Lines, self-describing, verified when it is read.
//!
//! ```text
//! {"annals_export":1,"conversation":{"id":…,"scope":…,"title":…,"created":…,"lineage":[…]},"blocks":N}
//! {"artifact":"sha256:…","size_bytes":n,"offset":0,"base64":"…"}      bytes named by the next block, piece by piece
//! {"seq":1,"type":…,…}                                                a block; small binary content inline
//! …
//! {"end":{"blocks":N,"artifacts":M,"sha256":"sha256:…"}}              digest of every byte before this line
//! ```
//!
//! Reading adds nothing to the log before the last line has been checked. It streams: memory holds the blocks and
//! one piece of an artifact.

mod error;
mod export;
mod import;
mod lines;

pub use error::{ExportError, ImportError};
pub use export::{Exported, export_conversation};
pub use import::{ImportAs, Imported, import_answering, import_conversation};
