//! Paths: how the model, people and tools name what is on the timeline.
//!
//! A path is parsed once into a type and canonical from then on: equal things have equal text. It is a locator,
//! not an authority: whoever resolves it brings the caller's scope. Nothing here touches a file system.
//!
//! Start with [`LogicalPath`]; `docs/format/paths.md` gives the grammar and examples.

mod error;
mod kind;
mod lines;
mod logical;
pub mod mentions;
mod names;
mod physical;
mod relative;
pub mod rewrite;
mod sids;

pub use error::{PathError, UnsafePath};
pub use kind::{CallPart, PathKind};
pub use lines::{LineRange, RangedPath};
pub use logical::LogicalPath;
pub use physical::{Folder, PhysicalPath};
pub use relative::RelPath;
pub use sids::{SidSet, SidSetError};
