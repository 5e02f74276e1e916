//! The react tools: they exist only inside the loop. One file each, named like the tool.

mod clarify;
mod hide;
mod memsearch;
mod patch;
mod plan;
mod read;
#[cfg(feature = "search-files")]
mod search_files;
pub(crate) mod target;
mod write;

use std::sync::Arc;

pub use clarify::Clarify;
pub use hide::Hide;
pub use memsearch::MemSearch;
pub use patch::Patch;
pub use plan::PlanTool;
pub use read::Read;
#[cfg(feature = "search-files")]
pub use search_files::SearchFiles;
pub use write::Write;

use crate::tool::Tool;

/// What hides change and reading depends on: which blocks the model sees.
const VIEW: &str = "timeline.view";

/// All react tools with their other names.
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Read::new()),
        Arc::new(Write::new()),
        Arc::new(Write::stream()),
        Arc::new(Write::file()),
        Arc::new(Patch::new()),
        Arc::new(Hide::new()),
        Arc::new(Hide::memory_hide()),
        #[cfg(feature = "search-files")]
        Arc::new(SearchFiles::new()),
        Arc::new(MemSearch::new()),
        Arc::new(PlanTool::new()),
        Arc::new(Clarify::new()),
    ]
}
