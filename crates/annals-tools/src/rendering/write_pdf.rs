//! `rendering_tools.write_pdf`.

use annals_render::Renderer;

use super::tool::{Form, WriteDocument};

/// The tool that writes PDF files.
pub fn write_pdf(renderer: Renderer) -> WriteDocument {
    WriteDocument::new(
        renderer,
        Form::Pdf,
        "rendering_tools.write_pdf",
        "Render markdown or HTML as a PDF.",
    )
}
