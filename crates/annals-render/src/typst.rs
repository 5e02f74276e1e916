//! [`Document`](crate::doc::Document) → pages, by Typst.
//!
//! The text reaches Typst only as string literals in code this module writes ([`code`]); it is never read as
//! Typst markup. The world a document sees ([`world`]) holds the template, that code and the pictures, and
//! nothing else: no file system, no packages, no clock.

pub(crate) mod code;
mod encode;
mod math;
mod measure;
pub(crate) mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use typst::diag::SourceDiagnostic;
use typst_layout::PagedDocument;
use typst_pdf::PdfOptions;
use typst_render::RenderOptions;

use crate::fonts::Fonts;
use crate::limits::{MAX_PNG_PIXELS, MAX_PNG_SIDE};
use crate::picture::Picture;
use crate::request::{PngView, RenderError, Warning};
pub(crate) use encode::Pixels;
use world::DocumentWorld;

/// Calls after which an unused layout result is forgotten.
const EVICT_AFTER_CALLS: usize = 4;

/// Space between the pages of a stacked picture.
const STACK_GAP_PT: f64 = 12.0;

/// Forgets layout results that were not used for some calls. It takes milliseconds: nobody should wait for it.
pub(crate) fn forget_unused() {
    typst::comemo::evict(EVICT_AFTER_CALLS);
}

/// Lays the pages out. A panic of the engine is an error of this document, not of the process.
pub(crate) fn layout(world: &DocumentWorld<'_>, page_limit: usize) -> Result<PagedDocument, RenderError> {
    let result = catch_unwind(AssertUnwindSafe(|| typst::compile::<PagedDocument>(world)));
    let compiled = result.map_err(|_| RenderError::Layout {
        reason: "it panicked".to_owned(),
    })?;
    let document = compiled.output.map_err(|errors| RenderError::Layout {
        reason: describe(&errors),
    })?;
    let pages = document.pages().len();
    if pages > page_limit {
        return Err(RenderError::TooManyPages {
            pages,
            limit: page_limit,
        });
    }
    Ok(document)
}

fn describe(errors: &[SourceDiagnostic]) -> String {
    let messages: Vec<&str> = errors
        .iter()
        .take(3)
        .map(|error| error.message.as_str())
        .collect();
    messages.join("; ")
}

/// The pages as a PDF.
pub(crate) fn pdf(document: &PagedDocument) -> Result<Vec<u8>, RenderError> {
    let options = PdfOptions {
        creator: typst::foundations::Smart::Custom(None),
        ..PdfOptions::default()
    };
    let result = catch_unwind(AssertUnwindSafe(|| typst_pdf::pdf(document, &options)));
    let exported = result.map_err(|_| RenderError::Layout {
        reason: "the PDF export panicked".to_owned(),
    })?;
    exported.map_err(|errors| RenderError::Layout {
        reason: describe(&errors),
    })
}

/// One picture as a PNG of twice its size in CSS pixels, for programs that cannot read its own format.
pub(crate) fn rasterise(picture: &Picture, fonts: &Fonts) -> Result<Vec<u8>, RenderError> {
    let width_pt = (picture.width_px * 0.75).clamp(1.0, 1500.0);
    let code = format!(
        "#set page(width: auto, height: auto, margin: 0pt, fill: none)\n#image({}, format: {}, width: {width_pt}pt)",
        code::literal(&world::picture_path(0)),
        code::literal(picture.kind.name())
    );
    let world = DocumentWorld::new(code, fonts.all(), std::slice::from_ref(picture));
    let document = layout(&world, 1)?;
    png(
        &document,
        PngView::Page(1),
        192.0,
        Pixels::of(std::slice::from_ref(picture)),
        &mut Vec::new(),
    )
}

/// The pages as one picture.
pub(crate) fn png(
    document: &PagedDocument,
    view: PngView,
    pixels_per_inch: f64,
    pixels: Pixels,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<u8>, RenderError> {
    let pages = document.pages();
    let shown = match view {
        PngView::Page(page) if page == 0 || page > pages.len() => {
            return Err(RenderError::NoSuchPage {
                page,
                pages: pages.len(),
            });
        }
        PngView::Page(page) => &pages[page - 1..page],
        PngView::Continuous | PngView::Stacked => pages,
    };
    let width: f64 = shown
        .iter()
        .map(|page| page.frame.width().to_pt())
        .fold(1.0, f64::max);
    let gaps = STACK_GAP_PT * shown.len().saturating_sub(1) as f64;
    let height: f64 = shown.iter().map(|page| page.frame.height().to_pt()).sum::<f64>() + gaps;
    let wanted = (pixels_per_inch.clamp(10.0, 600.0)) / 72.0;
    let scale = wanted
        .min((MAX_PNG_PIXELS / (width * height)).sqrt())
        .min(MAX_PNG_SIDE / width.max(height));
    if scale < wanted {
        warnings.push(Warning::LowerResolution {
            pixels_per_inch: (scale * 72.0) as u32,
        });
    }
    let options = RenderOptions {
        pixel_per_pt: scale.into(),
        render_bleed: false,
    };
    let result = catch_unwind(AssertUnwindSafe(|| match shown {
        [page] => typst_render::render(page, &options),
        _ => {
            let gap = typst::layout::Abs::pt(STACK_GAP_PT);
            let grey = typst::visualize::Color::from_u8(0xd0, 0xd4, 0xd9, 0xff);
            typst_render::render_merged(document, &options, gap, Some(grey))
        }
    }));
    let pixmap = result.map_err(|_| RenderError::Layout {
        reason: "the rasteriser panicked".to_owned(),
    })?;
    encode::png(pixmap, pixels).map_err(|error| RenderError::Layout {
        reason: error.to_string(),
    })
}
