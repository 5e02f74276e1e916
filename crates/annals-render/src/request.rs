//! What a caller asks for, and what comes back.
//!
//! Nothing here knows where files live: bytes of pictures come through [`Assets`], the result goes back as
//! bytes.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::doc::Source;

/// One document to render.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub content: &'a str,
    /// What language the text is written in.
    pub format: Format,
    /// Printed above the text and stored as metadata; without it the first heading serves as metadata.
    pub title: Option<&'a str>,
    /// Gives the bytes of pictures.
    pub assets: &'a dyn Assets,
    /// What `[[S:n]]` may point to; only those the text cites are printed.
    pub sources: &'a [Source],
    /// Who lays out HTML.
    pub engine: Engine,
    pub page: PageOptions,
}

impl<'a> Request<'a> {
    /// Markdown on A4 without pictures or sources; set the other fields as needed.
    pub fn markdown(content: &'a str) -> Self {
        Self {
            content,
            format: Format::Markdown,
            title: None,
            assets: &NoAssets,
            sources: &[],
            engine: Engine::Auto,
            page: PageOptions::default(),
        }
    }

    /// HTML on A4 without pictures or sources; set the other fields as needed.
    pub fn html(content: &'a str) -> Self {
        Self {
            format: Format::Html,
            ..Self::markdown(content)
        }
    }
}

/// The language of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Format {
    /// CommonMark with the usual extensions.
    Markdown,
    /// HTML; scripts never run and nothing is fetched.
    Html,
}

/// Who lays out HTML as PDF or PNG. Markdown, DOCX and PPTX are always made by the embedded writers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Engine {
    /// Chromium when one is installed, the embedded engine otherwise (or when Chromium fails).
    #[default]
    Auto,
    /// Typst, with the CSS subset of this crate.
    Embedded,
    /// Chromium, or an error.
    Chromium,
}

/// Gives the bytes behind a reference as the author wrote it.
///
/// Rules: `None` means there is no such picture (a placeholder is printed); the implementation decides what a
/// reference may reach, this crate never opens a file or an address itself.
pub trait Assets {
    /// The bytes behind `reference`.
    fn get(&self, reference: &str) -> Option<Vec<u8>>;
}

/// No pictures at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAssets;

impl Assets for NoAssets {
    fn get(&self, _reference: &str) -> Option<Vec<u8>> {
        None
    }
}

impl Assets for std::collections::HashMap<String, Vec<u8>> {
    fn get(&self, reference: &str) -> Option<Vec<u8>> {
        std::collections::HashMap::get(self, reference).cloned()
    }
}

/// The paper and the picture taken of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PageOptions {
    pub paper: Paper,
    /// Which side is up.
    pub orientation: Orientation,
    /// What a PNG shows.
    pub png: PngView,
    /// Pixels per inch of a PNG.
    pub pixels_per_inch: f64,
}

impl Default for PageOptions {
    fn default() -> Self {
        Self {
            paper: Paper::A4,
            orientation: Orientation::Portrait,
            png: PngView::Continuous,
            pixels_per_inch: 144.0,
        }
    }
}

impl PageOptions {
    /// Width and height in points.
    pub fn size_pt(&self) -> (f64, f64) {
        let (short, long) = match self.paper {
            Paper::A3 => (841.89, 1190.55),
            Paper::A4 => (595.28, 841.89),
            Paper::A5 => (419.53, 595.28),
            Paper::Letter => (612.0, 792.0),
        };
        match self.orientation {
            Orientation::Portrait => (short, long),
            Orientation::Landscape => (long, short),
        }
    }
}

/// Sheet sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Paper {
    /// 297 × 420 mm.
    A3,
    /// 210 × 297 mm.
    #[default]
    A4,
    /// 148 × 210 mm.
    A5,
    /// 8.5 × 11 in.
    Letter,
}

/// Which side of the paper is up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Orientation {
    /// Higher than wide.
    #[default]
    Portrait,
    /// Wider than high.
    Landscape,
}

/// What a PNG shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PngView {
    /// The whole content as one page as high as it needs; no page numbers.
    #[default]
    Continuous,
    /// One page of the PDF, counted from 1.
    Page(usize),
    /// All pages of the PDF below each other.
    Stacked,
}

/// A finished file.
#[derive(Debug, Clone)]
pub struct Rendered {
    pub bytes: Vec<u8>,
    /// Its media type.
    pub mime: &'static str,
    /// Pages or slides, where the format has them.
    pub pages: Option<usize>,
    /// Who laid it out.
    pub engine: UsedEngine,
    /// What a reader of the file would want to know.
    pub warnings: Vec<Warning>,
}

/// The engine that made a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UsedEngine {
    /// This crate.
    Embedded,
    /// An installed Chromium.
    Chromium,
}

/// Something in the document is not as its author meant it; the file is complete all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Warning {
    /// [`Assets`] has no such picture; a placeholder box stands in its place.
    MissingImage {
        /// As written.
        reference: String,
    },
    /// The picture lies on the network, which is never asked.
    RemoteImage {
        /// As written.
        reference: String,
    },
    /// The bytes are no picture this crate can show.
    UnreadableImage {
        /// As written.
        reference: String,
        reason: String,
    },
    /// A drawing points to other pictures, which are not opened.
    LinkedImages {
        /// The drawing, as written.
        reference: String,
        /// What it points to, the first few.
        targets: Vec<String>,
    },
    /// No font has a glyph for these characters: they print as empty boxes.
    MissingGlyphs {
        /// Each once, in order of their code.
        chars: Vec<char>,
    },
    /// `[[S:n]]` names a source that was not given; it prints as a plain `[n]`.
    UnknownSource { sid: u32 },
    /// Chromium was wanted but could not be used.
    EmbeddedInstead { reason: String },
    /// A PNG would have been too large and was made at a lower resolution.
    LowerResolution {
        /// The resolution it has.
        pixels_per_inch: u32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingImage { reference } => write!(f, "image `{}` not found", shorten(reference)),
            Self::RemoteImage { reference } => {
                write!(
                    f,
                    "remote image `{}` not fetched: download it first and refer to the file",
                    shorten(reference)
                )
            }
            Self::UnreadableImage { reference, reason } => {
                write!(f, "image `{}` cannot be shown: {reason}", shorten(reference))
            }
            Self::LinkedImages { reference, targets } => {
                let targets: Vec<String> = targets
                    .iter()
                    .map(|target| format!("`{}`", shorten(target)))
                    .collect();
                write!(
                    f,
                    "image `{}` shows {}, which is left out: put the bytes into the drawing",
                    shorten(reference),
                    targets.join(", ")
                )
            }
            Self::MissingGlyphs { chars } => {
                let list: Vec<String> = chars
                    .iter()
                    .take(20)
                    .map(|&c| format!("`{c}` (U+{:04X})", u32::from(c)))
                    .collect();
                write!(f, "no font has a glyph for {}", list.join(", "))?;
                if chars.len() > 20 {
                    write!(f, " and {} more", chars.len() - 20)?;
                }
                write!(f, "; install a font that covers them")
            }
            Self::UnknownSource { sid } => write!(f, "source `{sid}` is cited but not known"),
            Self::EmbeddedInstead { reason } => write!(f, "laid out by the embedded engine: {reason}"),
            Self::LowerResolution { pixels_per_inch } => {
                write!(
                    f,
                    "the picture was made at `{pixels_per_inch}` pixels per inch to stay within bounds: a PDF shows more"
                )
            }
        }
    }
}

/// A data: address can be megabytes long; nobody reads them.
pub(crate) fn shorten(reference: &str) -> String {
    if reference.chars().count() <= 120 {
        return reference.to_owned();
    }
    let head: String = reference.chars().take(60).collect();
    format!("{head}…")
}

/// Why there is no file.
#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum RenderError {
    /// Too much text.
    #[error(
        "the content has `{bytes}` bytes, more than the `{limit}` allowed: split it into several documents"
    )]
    ContentTooLarge {
        /// What it has.
        bytes: usize,
        /// What it may have.
        limit: usize,
    },
    /// Too many pages.
    #[error(
        "the document has `{pages}` pages, more than the `{limit}` allowed: split it into several documents"
    )]
    TooManyPages {
        /// What it has.
        pages: usize,
        /// What it may have.
        limit: usize,
    },
    /// The page asked for does not exist.
    #[error("page `{page}` does not exist: the document has `{pages}`")]
    NoSuchPage {
        /// What was asked for.
        page: usize,
        /// What there is.
        pages: usize,
    },
    /// The call took too long; its work is abandoned.
    #[error("rendering took longer than `{}` ms: make the document smaller", .limit.as_millis())]
    Deadline {
        /// What it may take.
        limit: Duration,
    },
    /// Elements within elements without end.
    #[error(transparent)]
    TooDeep(#[from] crate::html::TooDeep),
    /// Too many abandoned calls are still running.
    #[error("too many documents are being rendered: try again later")]
    Busy,
    /// The layout engine refused the document. This is a defect of this crate.
    #[error("the layout engine failed: {reason}")]
    Layout {
        /// What it said.
        reason: String,
    },
    /// Chromium was asked for by name and cannot be used.
    #[error("chromium cannot be used: {reason}")]
    Chromium { reason: String },
    /// The office file could not be put together.
    #[error("cannot write the package: {reason}")]
    Package { reason: String },
}
