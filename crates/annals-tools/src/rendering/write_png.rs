//! `rendering_tools.write_png`.

use annals_content::{Content, Form};

use super::tool::WriteDocument;

/// The tool that writes PNG pictures.
pub fn write_png(content: Content) -> WriteDocument {
    WriteDocument::new(
        content,
        Form::Png,
        "rendering_tools.write_png",
        "Render markdown or HTML as a PNG picture.",
    )
}
