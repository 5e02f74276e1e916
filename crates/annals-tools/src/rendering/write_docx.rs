//! `rendering_tools.write_docx`.

use annals_render::Renderer;

use super::tool::{Form, WriteDocument};

/// The tool that writes Word documents.
pub fn write_docx(renderer: Renderer) -> WriteDocument {
    WriteDocument::new(
        renderer,
        Form::Docx,
        "rendering_tools.write_docx",
        "Render markdown or HTML as a Word document (DOCX).",
    )
}
