//! `rendering_tools.write_pdf`.

use annals_content::{Content, Form};

use super::tool::WriteDocument;

/// The tool that writes PDF files.
pub fn write_pdf(content: Content) -> WriteDocument {
    WriteDocument::new(
        content,
        Form::Pdf,
        "rendering_tools.write_pdf",
        "Render markdown or HTML as a PDF.",
    )
}
