//! What a call would make of a file, found out without doing it: what a person looks at before deciding.

use std::io::Read as _;

use annals_core::block::ShownError;
use annals_core::limits;
use annals_core::path::{LogicalPath, RelPath};

use crate::content;
use crate::cx::ToolCx;
use crate::disk;

/// What becomes of a file if the call runs now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proposal {
    /// It gets another text.
    Change {
        /// The file, as the tool names it.
        path: String,
        /// Its text now; none when there is no such file, or when it is no text.
        before: Option<String>,
        /// Its text afterwards.
        after: String,
    },
    /// The call cannot do what it wants, and this is why.
    Fails(ShownError),
}

/// The present text of a file that a path names.
pub(crate) async fn text_of(cx: &ToolCx, path: &LogicalPath) -> Option<String> {
    let whole = content::whole(cx.shared(), path, Some(cx.turn())).await.ok()?;
    whole.text().map(str::to_owned)
}

/// The present text of a file of the working tree.
pub(crate) async fn text_in_workspace(cx: &ToolCx, path: &str) -> Option<String> {
    let path = RelPath::parse(path).ok()?;
    let workspace = cx.workspace().clone();
    let read = move || {
        let mut text = String::new();
        let file = workspace.open_at(&path).ok()?;
        file.take(limits::READ_MAX_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    };
    disk::blocking(read).await
}
