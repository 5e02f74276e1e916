//! `rendering_tools.write_docx`.

use annals_content::{Content, Form};

use super::tool::WriteDocument;

/// The tool that writes Word documents.
pub fn write_docx(content: Content) -> WriteDocument {
    WriteDocument::new(
        content,
        Form::Docx,
        "rendering_tools.write_docx",
        "Render markdown or HTML as a Word document (DOCX).",
    )
}
