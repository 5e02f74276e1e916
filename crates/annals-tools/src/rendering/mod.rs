//! The rendering tools: documents from markdown or HTML, as files of the current turn. One file a tool, named
//! like it.
//!
//! Read in this order: [`assets`] (what a document may show), [`citations`] (what it cites), [`tool`] (one call).
//! Needs the feature `documents`, which brings the layout engine.

mod assets;
mod citations;
mod tool;
mod write_docx;
mod write_pdf;
mod write_png;
mod write_pptx;

use std::sync::Arc;

use annals_content::Content;

pub use tool::WriteDocument;
pub use write_docx::write_docx;
pub use write_pdf::write_pdf;
pub use write_png::write_png;
pub use write_pptx::write_pptx;

use crate::tool::Tool;

/// All rendering tools; documents are laid out by the helper processes of `content`.
pub fn all(content: &Content) -> Vec<Arc<dyn Tool>> {
    let tools = [write_pdf, write_png, write_docx, write_pptx];
    tools
        .into_iter()
        .map(|tool| Arc::new(tool(content.clone())) as Arc<dyn Tool>)
        .collect()
}
