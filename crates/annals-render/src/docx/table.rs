//! Tables of a DOCX, and boxes side by side, which are tables without lines.

use std::fmt::Write as _;

use crate::doc::{Align, Block, Style, Table};
use crate::grid::{Grid, Slot, share_width};
use crate::ooxml::ems;

use super::{Place, Writer};

/// Space at the sides of a cell in twentieths of a point.
const CELL_MARGIN: usize = 90;

/// How much wider bold text is.
const BOLDER: f64 = 1.1;

/// Longer words are broken.
const MOST_WORD_EMS: f64 = 15.0;

/// Longer texts are broken into lines.
const MOST_TEXT_EMS: f64 = 36.0;

/// Whether a table row names its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowKind {
    Head,
    Body,
}

impl Writer<'_> {
    pub(super) fn table(&mut self, table: &Table, place: Place) {
        let grid = Grid::of(table);
        let half_points = match grid.columns {
            0..=4 => 20,
            5..=6 => 18,
            7..=8 => 16,
            9..=12 => 14,
            _ => 12,
        };
        let available = self.text_width - place.left() as f64;
        let widths = column_widths(&grid, available, half_points);
        let _ = write!(
            self.out,
            "<w:tbl><w:tblPr><w:tblStyle w:val=\"ReportTable\"/><w:tblW w:w=\"0\" w:type=\"auto\"/>\
             <w:tblInd w:w=\"{}\" w:type=\"dxa\"/><w:tblLayout w:type=\"fixed\"/>",
            place.left()
        );
        let _ = write!(
            self.out,
            "<w:tblCellMar><w:left w:w=\"{CELL_MARGIN}\" w:type=\"dxa\"/><w:right w:w=\"{CELL_MARGIN}\" \
             w:type=\"dxa\"/></w:tblCellMar><w:tblLook w:val=\"0020\" w:firstRow=\"1\"/></w:tblPr><w:tblGrid>"
        );
        for width in &widths {
            let _ = write!(self.out, "<w:gridCol w:w=\"{width:.0}\"/>");
        }
        self.out.push_str("</w:tblGrid>");
        for (index, row) in grid.rows.iter().enumerate() {
            self.out.push_str("<w:tr><w:trPr><w:cantSplit/>");
            self.out.push_str(if index < grid.head_rows {
                "<w:tblHeader/></w:trPr>"
            } else {
                "</w:trPr>"
            });
            let row_kind = if index < grid.head_rows {
                RowKind::Head
            } else {
                RowKind::Body
            };
            for slot in row {
                self.cell(slot, table, &widths, half_points, row_kind);
            }
            self.out.push_str("</w:tr>");
        }
        // Two tables in a row would grow together, and a cell must not end with a table.
        self.out.push_str("</w:tbl><w:p><w:pPr><w:spacing w:after=\"60\" w:line=\"240\" w:lineRule=\"auto\"/></w:pPr></w:p>");
    }

    fn cell(&mut self, slot: &Slot<'_>, table: &Table, widths: &[f64], half_points: usize, row: RowKind) {
        let (column, colspan) = match *slot {
            Slot::Cell { column, colspan, .. } | Slot::Covered { column, colspan } => (column, colspan),
        };
        let width: f64 = widths[column..column + colspan].iter().sum();
        let _ = write!(
            self.out,
            "<w:tc><w:tcPr><w:tcW w:w=\"{width:.0}\" w:type=\"dxa\"/>"
        );
        if colspan > 1 {
            let _ = write!(self.out, "<w:gridSpan w:val=\"{colspan}\"/>");
        }
        let Slot::Cell { cell, rowspan, .. } = *slot else {
            self.out.push_str("<w:vMerge/></w:tcPr>");
            self.paragraph(
                &[],
                Place {
                    in_cell: true,
                    half_points: Some(half_points),
                    ..Place::default()
                },
            );
            self.out.push_str("</w:tc>");
            return;
        };
        if rowspan > 1 {
            self.out.push_str("<w:vMerge w:val=\"restart\"/>");
        }
        let style = cell.map(|cell| cell.style).unwrap_or_default();
        if let Some(fill) = style.background {
            let _ = write!(
                self.out,
                "<w:shd w:val=\"clear\" w:color=\"auto\" w:fill=\"{}\"/>",
                fill.hex()
            );
        }
        self.out.push_str("</w:tcPr>");
        let column_align = Some(table.align(column)).filter(|align| *align != Align::Auto);
        let bold = (row == RowKind::Head || cell.is_some_and(|cell| cell.header))
            .then_some(true)
            .or(style.bold);
        let look = Style {
            background: None,
            border: None,
            align: style.align.or(column_align),
            bold,
            ..style
        };
        let place = Place {
            in_cell: true,
            half_points: Some(half_points),
            look,
            ..Place::default()
        };
        match cell.map_or(&[][..], |cell| &cell.blocks) {
            [] => self.paragraph(&[], place),
            blocks => self.blocks(blocks, place),
        }
        self.out.push_str("</w:tc>");
    }

    /// Boxes side by side are a table without lines.
    pub(super) fn columns(&mut self, columns: &[Vec<Block>], place: Place) {
        let per_row = columns.len().clamp(1, 4);
        let width = self.text_width / per_row as f64;
        self.out
            .push_str("<w:tbl><w:tblPr><w:tblW w:w=\"5000\" w:type=\"pct\"/></w:tblPr><w:tblGrid>");
        for _ in 0..per_row {
            let _ = write!(self.out, "<w:gridCol w:w=\"{width:.0}\"/>");
        }
        self.out.push_str("</w:tblGrid>");
        for row in columns.chunks(per_row) {
            self.out.push_str("<w:tr>");
            for index in 0..per_row {
                let _ = write!(
                    self.out,
                    "<w:tc><w:tcPr><w:tcW w:w=\"{width:.0}\" w:type=\"dxa\"/></w:tcPr>"
                );
                let blocks = row.get(index).map_or(&[][..], Vec::as_slice);
                self.blocks(
                    blocks,
                    Place {
                        in_cell: true,
                        look: place.look,
                        ..Place::default()
                    },
                );
                if !matches!(blocks.last(), Some(Block::Paragraph(_) | Block::Heading { .. })) {
                    self.out.push_str("<w:p/>");
                }
                self.out.push_str("</w:tc>");
            }
            self.out.push_str("</w:tr>");
        }
        self.out.push_str("</w:tbl><w:p/>");
    }
}

/// Widths in twentieths of a point: every column can hold its longest word, what is left goes to those with
/// long texts. Programs refine this on opening.
pub(super) fn column_widths(grid: &Grid<'_>, available: f64, half_points: usize) -> Vec<f64> {
    let twips_per_em = half_points as f64 * 10.0;
    let width = |ems: f64| ems * BOLDER * twips_per_em + 2.5 * CELL_MARGIN as f64;
    let mut least = vec![width(1.5); grid.columns];
    let mut wanted = least.clone();
    for slot in grid.rows.iter().flatten() {
        let Slot::Cell {
            cell: Some(cell),
            column,
            colspan: 1,
            ..
        } = slot
        else {
            continue;
        };
        for block in &cell.blocks {
            let (word, text) = block_ems(block);
            least[*column] = least[*column].max(width(word.min(MOST_WORD_EMS)));
            wanted[*column] = wanted[*column].max(width(text.min(MOST_TEXT_EMS)));
        }
    }
    share_width(&least, &wanted, available)
}

/// How wide the longest word and the whole text of a block are, in ems.
fn block_ems(block: &Block) -> (f64, f64) {
    match block {
        Block::Paragraph(inlines) | Block::Heading { inlines, .. } => {
            let text = crate::doc::plain_text(inlines);
            let word = text.split_whitespace().map(ems).fold(0.0, f64::max);
            (word, ems(&text))
        }
        other => (0.0, crate::doc::block_text_length(other) as f64 * 0.6),
    }
}
