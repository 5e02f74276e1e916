//! `rendering_tools.write_pptx`.

use annals_render::Renderer;

use super::tool::{Form, WriteDocument};

/// The tool that writes presentations.
pub fn write_pptx(renderer: Renderer) -> WriteDocument {
    WriteDocument::new(
        renderer,
        Form::Pptx,
        "rendering_tools.write_pptx",
        "Render markdown or HTML as a presentation (PPTX): each heading of the first or second level, and each rule, begins a slide.",
    )
}
