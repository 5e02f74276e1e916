//! Pages of a PDF as pictures, for people whose screen shows no PDF.
//!
//! The file is a stranger's: this runs where it can be killed. A page is bounded in pixels whatever size it claims.

use std::sync::Arc;

use hayro::hayro_interpret::InterpreterSettings;
use hayro::hayro_interpret::font::{FontData, FontQuery, StandardFont};
use hayro::hayro_syntax::Pdf;
use hayro::vello_cpu::color::palette::css::WHITE;
use hayro::{RenderCache, RenderSettings};
use typst_assets::pdf as fonts;

/// Pixels of a picture's longer side, at most.
const SIDE_MAX_PX: f32 = 4096.0;
const WIDTH_MIN_PX: f32 = 16.0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdfPage {
    /// The picture, as PNG.
    pub png: Vec<u8>,
    /// Pages of the whole file.
    pub pages: usize,
}

/// Why there is no picture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PdfPageError {
    /// The file is no PDF, or is locked.
    #[error("this is no PDF that can be read without a password")]
    Unreadable,
    /// There is no such page.
    #[error("there is no page {number}: the file has {pages}")]
    NoSuchPage {
        /// The page that was asked for.
        number: usize,
        /// How many there are.
        pages: usize,
    },
    /// The page has no area.
    #[error("page {number} has no size")]
    NoSize { number: usize },
    /// The picture cannot be written.
    #[error("page {number} cannot be written as a picture: {reason}")]
    Picture {
        number: usize,
        /// What the encoder said.
        reason: String,
    },
}

/// The page of this number, from 1, drawn about as wide as this many pixels.
pub fn draw(pdf: Vec<u8>, number: usize, width: u32) -> Result<PdfPage, PdfPageError> {
    let pdf = Pdf::new(pdf).map_err(|_| PdfPageError::Unreadable)?;
    let pages = pdf.pages().len();
    let page = number.checked_sub(1).and_then(|at| pdf.pages().get(at));
    let page = page.ok_or(PdfPageError::NoSuchPage { number, pages })?;
    let (wide, tall) = page.render_dimensions();
    if !(wide >= 1.0 && tall >= 1.0) {
        return Err(PdfPageError::NoSize { number });
    }
    let wanted = (width as f32).clamp(WIDTH_MIN_PX, SIDE_MAX_PX) / wide;
    let scale = wanted.min(SIDE_MAX_PX / wide.max(tall));
    let pixels = |length: f32| (length * scale).clamp(1.0, SIDE_MAX_PX) as u16;
    let settings = RenderSettings {
        x_scale: scale,
        y_scale: scale,
        width: Some(pixels(wide)),
        height: Some(pixels(tall)),
        bg_color: WHITE,
    };
    let drawn = hayro::render(page, &RenderCache::new(), &interpreter(), &settings);
    let png = drawn.into_png().map_err(|error| PdfPageError::Picture {
        number,
        reason: error.to_string(),
    })?;
    Ok(PdfPage { png, pages })
}

/// Files may leave the fourteen standard fonts to the reader; whatever else they leave out is drawn with the nearest of
/// them.
fn interpreter() -> InterpreterSettings {
    let found = |query: &FontQuery| -> Option<(FontData, u32)> {
        let font = match query {
            FontQuery::Standard(font) => *font,
            FontQuery::Fallback(described) => described.pick_standard_font(),
        };
        Some((Arc::new(standard(font)), 0))
    };
    InterpreterSettings {
        font_resolver: Arc::new(found),
        // The tables for East Asian texts whose fonts are not in the file are as large as the rest of the program.
        cmap_resolver: Arc::new(|_| None),
        warning_sink: Arc::new(|_| {}),
        render_annotations: true,
    }
}

fn standard(font: StandardFont) -> &'static [u8] {
    use StandardFont as F;
    match font {
        F::TimesRoman => fonts::SERIF,
        F::TimesItalic => fonts::SERIF_ITALIC,
        F::TimesBold => fonts::SERIF_BOLD,
        F::TimesBoldItalic => fonts::SERIF_BOLD_ITALIC,
        F::Helvetica => fonts::SANS,
        F::HelveticaOblique => fonts::SANS_ITALIC,
        F::HelveticaBold => fonts::SANS_BOLD,
        F::HelveticaBoldOblique => fonts::SANS_BOLD_ITALIC,
        F::Courier => fonts::FIXED,
        F::CourierOblique => fonts::FIXED_ITALIC,
        F::CourierBold => fonts::FIXED_BOLD,
        F::CourierBoldOblique => fonts::FIXED_BOLD_ITALIC,
        F::Symbol => fonts::SYMBOL,
        F::ZapfDingBats => fonts::DING_BATS,
    }
}
