//! Unified diffs, as models write them, applied to text.
//!
//! Models miscount lines and forget that a file has changed above, so hunk counts are read but not believed, and
//! a hunk that is not where it says is applied where its lines are found, if that is exactly one place. Nothing
//! else is guessed: any other doubt fails the whole patch, so that a file is either as the patch says or
//! untouched. This module knows text only: no files, no timeline.
//!
//! Start at [`apply`].

mod apply;
mod error;
mod lines;
mod parse;

pub use apply::{AppliedHunk, Patched, apply};
pub use error::PatchError;

/// Whether a text means a diff rather than a whole new content.
pub fn is_diff(text: &str) -> bool {
    let text = text.trim_start_matches(['\r', '\n']);
    ["---", "+++", "@@"].iter().any(|start| text.starts_with(start))
        || (text.starts_with("diff --git ") && text.contains("\n@@ "))
}

#[cfg(test)]
mod tests;
