//! How wide the columns of a large table are, from the advances of the body font.
//!
//! Typst finds the widths itself by laying every cell out once more than the page needs, which for a table of some
//! hundred cells is most of the work of a document. The same rule is applied here to estimates: columns are as wide as
//! their text, and when they do not fit, the widest share what the others leave. Cells whose width cannot be told from
//! their text leave the table to Typst.

use std::sync::LazyLock;

use typst::foundations::Bytes;
use typst::layout::Abs;
use typst::text::{Font, FontInstance, FontVariations};

use crate::doc::{Block, Inline};
use crate::grid::{Grid, Slot};
use crate::prose::is_cjk;

/// A table with fewer cells is left to Typst, which is exact.
const LARGE_CELLS: usize = 60;
/// Estimates leave out kerning: a little room keeps a word from being broken for it.
const SLACK: f64 = 1.015;
const SLACK_PT: f64 = 0.6;
/// What a character takes that the body font lacks.
const UNKNOWN_EM: f64 = 0.62;
/// A character of code, with the size that the template gives it.
const CODE_EM: f64 = 0.602 * 1.1;

/// The advances of one face, in ems.
struct Advances(FontInstance);

static REGULAR: LazyLock<Option<Advances>> = LazyLock::new(|| Advances::of(notosans::REGULAR_TTF));
static BOLD: LazyLock<Option<Advances>> = LazyLock::new(|| Advances::of(notosans::BOLD_TTF));

impl Advances {
    fn of(face: &'static [u8]) -> Option<Self> {
        let font = Font::new(Bytes::new(face), 0)?;
        let variant = font.info().variant;
        Some(Self(font.instantiate(
            variant,
            Abs::pt(10.0),
            &FontVariations::default(),
        )))
    }

    fn em(&self, c: char) -> Option<f64> {
        let glyph = self.0.ttf().glyph_index(c)?;
        self.0.x_advance(glyph.0).map(|advance| advance.get())
    }
}

/// Whether text is set bold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Regular,
    Bold,
}

/// The width of each column in points, when the table is large and all its cells are text.
/// `gap_pt` is the white space on each side of a cell's text.
pub(super) fn columns(grid: &Grid<'_>, size_pt: f64, gap_pt: f64, available_pt: f64) -> Option<Vec<f64>> {
    if grid.rows.len() * grid.columns < LARGE_CELLS {
        return None;
    }
    let mut widths = vec![0.0_f64; grid.columns];
    for (index, row) in grid.rows.iter().enumerate() {
        let weight = if index < grid.head_rows {
            Weight::Bold
        } else {
            Weight::Regular
        };
        for slot in row {
            let Slot::Cell {
                cell,
                column,
                colspan,
                ..
            } = slot
            else {
                continue;
            };
            if *colspan > 1 {
                return None;
            }
            let Some(cell) = cell else { continue };
            let weight = if cell.header { Weight::Bold } else { weight };
            let ems = cell_ems(&cell.blocks, weight)?;
            let width = ems * size_pt * SLACK + SLACK_PT + 2.0 * gap_pt;
            widths[*column] = widths[*column].max(width);
        }
    }
    shrink(&mut widths, available_pt);
    Some(widths)
}

/// The widest line of a cell; nothing when it is more than text.
fn cell_ems(blocks: &[Block], weight: Weight) -> Option<f64> {
    let mut widest = 0.0_f64;
    for block in blocks {
        let Block::Paragraph(inlines) = block else {
            return None;
        };
        let mut lines = vec![0.0];
        measure(inlines, weight, &mut lines)?;
        widest = lines.into_iter().fold(widest, f64::max);
    }
    Some(widest)
}

fn measure(inlines: &[Inline], weight: Weight, lines: &mut Vec<f64>) -> Option<()> {
    for inline in inlines {
        let ems = match inline {
            Inline::Text(text) => text_ems(text, weight),
            Inline::Code(text) => text.chars().count() as f64 * CODE_EM + 0.4,
            Inline::Cite(sids) => sids.len() as f64 * 0.9 + 0.6,
            Inline::FootnoteRef(_) => 0.5,
            Inline::LineBreak => {
                lines.push(0.0);
                continue;
            }
            Inline::Strong(inner) => {
                measure(inner, Weight::Bold, lines)?;
                continue;
            }
            Inline::Em(inner)
            | Inline::Strike(inner)
            | Inline::Underline(inner)
            | Inline::Sub(inner)
            | Inline::Sup(inner)
            | Inline::Link { inlines: inner, .. } => {
                measure(inner, weight, lines)?;
                continue;
            }
            Inline::Span { .. } | Inline::Image(_) | Inline::Math { .. } => return None,
        };
        *lines.last_mut()? += ems;
    }
    Some(())
}

fn text_ems(text: &str, weight: Weight) -> f64 {
    let face = match weight {
        Weight::Regular => REGULAR.as_ref(),
        Weight::Bold => BOLD.as_ref(),
    };
    let em = |c: char| {
        let known = face.and_then(|face| face.em(c));
        known.unwrap_or(if is_cjk(c) { 1.0 } else { UNKNOWN_EM })
    };
    text.chars().map(em).sum()
}

/// Columns that are wider than their share give way to it; the others keep what they need.
fn shrink(widths: &mut [f64], available: f64) {
    if widths.iter().sum::<f64>() <= available {
        return;
    }
    let (mut left, mut overlarge, mut share) = (available, widths.len(), 0.0);
    let mut is_settled = vec![false; widths.len()];
    loop {
        if overlarge == 0 {
            return;
        }
        share = f64::max(share, left / overlarge as f64);
        let before = overlarge;
        for (width, settled) in widths.iter().zip(&mut is_settled) {
            if !*settled && *width <= share {
                *settled = true;
                left -= *width;
                overlarge -= 1;
            }
        }
        if overlarge == before {
            break;
        }
    }
    for (width, _) in widths.iter_mut().zip(is_settled).filter(|(_, settled)| !settled) {
        *width = share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_columns_keep_their_width_and_wide_ones_share_the_rest() {
        let mut fits = vec![10.0, 20.0, 30.0];
        shrink(&mut fits, 100.0);
        assert_eq!(fits, [10.0, 20.0, 30.0]);
        let mut widths = vec![10.0, 200.0, 30.0, 300.0];
        shrink(&mut widths, 140.0);
        assert_eq!(widths, [10.0, 50.0, 30.0, 50.0]);
        let mut equal = vec![100.0; 4];
        shrink(&mut equal, 40.0);
        assert_eq!(equal, [10.0; 4]);
    }

    #[test]
    fn letters_have_the_width_of_the_font_and_bold_ones_are_wider() {
        let narrow = text_ems("illi", Weight::Regular);
        let wide = text_ems("WMWM", Weight::Regular);
        assert!(narrow > 0.9 && narrow < 1.2, "{narrow}");
        assert!(wide > 3.5 && wide < 4.0, "{wide}");
        assert!(text_ems("word", Weight::Bold) > text_ems("word", Weight::Regular));
        assert_eq!(text_ems("漢字", Weight::Regular), 2.0);
    }
}
