//! Tables on slides: widths, row heights, and cells as plain lines.

use crate::doc::{Align, Block, Inline, Table, plain_text};
use crate::grid::{Grid, Slot, share_width};
use crate::ooxml::ems;

use super::deck::{Atom, BODY_WIDTH_PT, RowKind, TableCell, TableRow};
use super::estimate::lines_of;

/// How much wider bold text is.
const BOLDER: f64 = 1.1;

/// Longer texts are broken.
const MOST_EMS: f64 = 34.0;

/// The table as one thing to place; `None` when it has no rows.
pub(super) fn table_atom(table: &Table) -> Option<Atom> {
    let grid = Grid::of(table);
    let size_pt = match grid.columns {
        0..=4 => 14.0,
        5..=6 => 12.0,
        7..=8 => 11.0,
        _ => 9.0,
    };
    let widths = column_widths(&grid, size_pt);
    let rows: Vec<TableRow> = grid
        .rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            table_row(
                row,
                table,
                &widths,
                size_pt,
                if index < grid.head_rows {
                    RowKind::Head
                } else {
                    RowKind::Body
                },
            )
        })
        .collect();
    (!rows.is_empty()).then_some(Atom::Table {
        widths,
        rows,
        size_pt,
    })
}

fn column_widths(grid: &Grid<'_>, size_pt: f64) -> Vec<f64> {
    let mut least = vec![size_pt * 3.0; grid.columns];
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
        let text = plain_text(&cell_inlines(&cell.blocks));
        let width = |text: &str| ems(text) * BOLDER * size_pt + 18.0;
        let word = text.split_whitespace().map(width).fold(0.0, f64::max);
        least[*column] = least[*column].max(word.min(MOST_EMS * size_pt));
        wanted[*column] = wanted[*column].max(width(&text).min(MOST_EMS * size_pt));
    }
    let widths = share_width(&least, &wanted, BODY_WIDTH_PT);
    let sum: f64 = widths.iter().sum();
    let total = sum.max(BODY_WIDTH_PT * 0.5);
    widths.iter().map(|width| width * total / sum).collect()
}

fn table_row(row: &[Slot<'_>], table: &Table, widths: &[f64], size_pt: f64, kind: RowKind) -> TableRow {
    let mut cells = Vec::new();
    let mut lines = 1;
    for slot in row {
        let (column, colspan) = match *slot {
            Slot::Cell { column, colspan, .. } | Slot::Covered { column, colspan } => (column, colspan),
        };
        let (inlines, rowspan, bold, align, v_merged) = match *slot {
            Slot::Cell { cell, rowspan, .. } => {
                let inlines = cell.map(|cell| cell_inlines(&cell.blocks)).unwrap_or_default();
                let bold = kind == RowKind::Head || cell.is_some_and(|cell| cell.header);
                let own = cell.and_then(|cell| cell.style.align);
                (inlines, rowspan, bold, own.unwrap_or(table.align(column)), false)
            }
            Slot::Covered { .. } => (Vec::new(), 1, false, Align::Auto, true),
        };
        let width: f64 = widths[column..column + colspan].iter().sum();
        if rowspan == 1 {
            lines = lines.max(lines_of(&inlines, width - 14.0, size_pt));
        }
        cells.push(TableCell {
            inlines,
            align,
            bold,
            colspan,
            rowspan,
            h_merged: false,
            v_merged,
        });
        let covered = TableCell {
            inlines: Vec::new(),
            align: Align::Auto,
            bold: false,
            colspan: 1,
            rowspan: 1,
            h_merged: true,
            v_merged,
        };
        cells.extend(std::iter::repeat_n(covered, colspan - 1));
    }
    TableRow {
        cells,
        height: lines as f64 * size_pt * 1.2 + 9.0,
        kind,
    }
}

/// A cell holds text only: blocks are joined by line breaks.
fn cell_inlines(blocks: &[Block]) -> Vec<Inline> {
    let mut out: Vec<Inline> = Vec::new();
    for block in blocks {
        if !out.is_empty() {
            out.push(Inline::LineBreak);
        }
        match block {
            Block::Paragraph(inlines) | Block::Heading { inlines, .. } => out.extend(inlines.iter().cloned()),
            Block::Code { text, .. } => out.push(Inline::Code(text.clone())),
            Block::List(list) => {
                for (index, item) in list.items.iter().enumerate() {
                    if index > 0 {
                        out.push(Inline::LineBreak);
                    }
                    out.push(Inline::Text("• ".to_owned()));
                    out.extend(cell_inlines(&item.blocks));
                }
            }
            Block::Image(image) => out.push(Inline::Text(format!("[{}]", image.alt))),
            Block::Alert { kind, blocks } => {
                out.extend(kind.labelled());
                out.push(Inline::LineBreak);
                out.extend(cell_inlines(blocks));
            }
            Block::Quote(blocks) | Block::Group { blocks, .. } => out.extend(cell_inlines(blocks)),
            Block::Columns(columns) => columns.iter().for_each(|column| out.extend(cell_inlines(column))),
            Block::Table(table) => {
                table
                    .head
                    .iter()
                    .chain(&table.rows)
                    .flatten()
                    .for_each(|cell| out.extend(cell_inlines(&cell.blocks)));
            }
            Block::Rule | Block::PageBreak | Block::Notes(_) => {}
        }
    }
    out
}
