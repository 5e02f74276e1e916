//! Documents from markdown and HTML: PDF, PNG, DOCX, PPTX.
//!
//! Start at [`Renderer`]: it takes a [`Request`] and gives back [`Rendered`]. Inside, a reader ([`markdown`],
//! [`html`]) fills the model ([`doc`]), a writer ([`typst`]) prints it; readers and writers do not know each
//! other.
//!
//! **Invariants.** Text is never interpreted as Typst. Nothing is fetched and no script runs in the embedded
//! engine. The crate opens no file of the caller: pictures come through [`Assets`].

#![allow(
    missing_docs,
    reason = "a name that needs no comment is better than a comment"
)]

mod renderer;
mod request;

pub mod doc;
pub mod limits;
pub mod pdf_page;
pub mod tree;

mod citation;
pub mod html;
pub mod markdown;
mod math;
mod prose;

mod fonts;
mod grid;
mod highlight;
mod picture;
mod visit;

mod chromium;
mod docx;
mod ooxml;
mod pptx;
mod typst;

pub use chromium::find as find_chromium;
pub use doc::Source;
pub use limits::Limits;
pub use renderer::{Facts, Renderer};
pub use request::{
    Assets, Engine, Format, NoAssets, Orientation, PageOptions, Paper, PngView, RenderError, Rendered,
    Request, UsedEngine, Warning,
};
