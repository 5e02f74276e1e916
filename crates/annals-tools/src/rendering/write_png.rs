//! `rendering_tools.write_png`.

use annals_render::Renderer;

use super::tool::{Form, WriteDocument};

/// The tool that writes PNG pictures.
pub fn write_png(renderer: Renderer) -> WriteDocument {
    WriteDocument::new(
        renderer,
        Form::Png,
        "rendering_tools.write_png",
        "Render markdown or HTML as a PNG picture.",
    )
}
