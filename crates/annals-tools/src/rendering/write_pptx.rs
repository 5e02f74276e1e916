//! `rendering_tools.write_pptx`.

use annals_content::{Content, Form};

use super::tool::WriteDocument;

/// The tool that writes presentations.
pub fn write_pptx(content: Content) -> WriteDocument {
    WriteDocument::new(
        content,
        Form::Pptx,
        "rendering_tools.write_pptx",
        "Render markdown or HTML as a presentation (PPTX): each heading of the first or second level, and each rule, begins a slide.",
    )
}
