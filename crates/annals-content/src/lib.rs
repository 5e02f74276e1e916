//! What strangers wrote, parsed and rendered where it can be killed.
//!
//! HTML, PDF, pictures, drawings, fonts, archives and office files are read, and documents laid out, in **helper
//! processes**: this program in the role [`ROLE`], behind the isolation layers of the sandbox, without network, files
//! or keys, with hard limits of memory, time, stack and output. The process that holds sessions never parses any of it.
//!
//! Start at [`Content`]: what can be asked, and about which [`Source`]. [`limits`] bounds it, [`error`] says which bound was met, [`pool`] starts,
//! reuses and replaces helpers, [`wire`] is what the two sides say to each other, [`helper`] is the other side. [`page`]
//! and [`pdf`] are readers that run there.

#![allow(
    missing_docs,
    reason = "a name that needs no comment is better than a comment"
)]

pub mod error;
pub mod limits;

mod allocator;
mod content;
#[cfg(feature = "local")]
mod helper;
mod open_files;
#[cfg(feature = "local")]
mod pool;
#[cfg(not(feature = "local"))]
#[path = "no_pool.rs"]
mod pool;
mod source;
#[cfg_attr(
    not(feature = "local"),
    allow(dead_code, reason = "there is no helper to ask")
)]
mod task;
#[cfg(feature = "local")]
mod wire;

#[cfg(feature = "web")]
pub mod page;
#[cfg(feature = "web")]
pub mod pdf;

#[cfg(feature = "testing")]
pub mod hostile;

pub use allocator::give_back_freed_memory;
#[cfg(feature = "documents")]
pub use annals_render::tree::{TreeRequest, left_out};
pub use content::Content;
pub use error::ContentError;
#[cfg(feature = "local")]
pub use helper::{ROLE, init};
pub use limits::Limits;
pub use open_files::raise_open_files;
pub use source::{Piece, Source};
#[cfg(feature = "documents")]
pub use task::{Document, DocumentHead, Form};
