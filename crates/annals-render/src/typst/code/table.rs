//! The code of a table.
//!
//! A row of known height is told it: Typst then lays its cells out once instead of measuring them first. A cell of one
//! line has no padding either, which would be one more layout around it.

use std::fmt::Write as _;

use crate::doc::{Align, Block, Cell, Direction, Style, Table, TableWidth};
use crate::grid::{Grid, Slot};

use super::super::measure::{CellLook, Measured, RowHeight};
use super::{Heights, MAX_RUN_IN_CELL, Writer, align};

/// The size of the body text, as the template has it.
const BODY_SIZE_PT: f64 = 10.0;
/// Cells up to this length are kept on one page.
const KEEP_CELL_CHARS: usize = 400;

/// The least that a column holds.
const MIN_RUN_IN_CELL: usize = 4;
/// What a character takes, on the wide side.
const CHAR_EM: f64 = 0.6;

/// How a table looks: the more columns there are, the smaller the text and the closer the cells.
#[derive(Clone, Copy)]
struct TableLook {
    size_em: f64,
    /// White space on each side of a cell's text.
    gap_pt: f64,
    /// The name of that space.
    edge: &'static str,
}

/// From the widest to the closest.
const LOOKS: [TableLook; 5] = [
    TableLook::new(0.92, 7.0, "edge"),
    TableLook::new(0.86, 7.0, "edge"),
    TableLook::new(0.78, 7.0, "edge"),
    TableLook::new(0.7, 4.5, "edge-narrow"),
    TableLook::new(0.6, 2.5, "edge-least"),
];

impl TableLook {
    const fn new(size_em: f64, gap_pt: f64, edge: &'static str) -> Self {
        TableLook {
            size_em,
            gap_pt,
            edge,
        }
    }

    /// The look of a table of this many columns, and those that are closer.
    fn from(columns: usize) -> &'static [TableLook] {
        let widest = match columns {
            0..=4 => 0,
            5..=6 => 1,
            7..=8 => 2,
            9..=11 => 3,
            _ => 4,
        };
        &LOOKS[widest..]
    }

    fn cell(self, max_run: usize) -> CellLook {
        CellLook {
            size_pt: self.size_em * BODY_SIZE_PT,
            gap_pt: self.gap_pt,
            max_run,
        }
    }

    /// Characters that a column can hold. Places to break within words spoil the search for them, so they come only
    /// where words would overlap.
    fn max_run(self, columns: usize, available_pt: f64) -> usize {
        if columns <= 8 {
            return MAX_RUN_IN_CELL;
        }
        let room_pt = available_pt / columns as f64 - 2.0 * self.gap_pt;
        let chars = room_pt / (self.size_em * BODY_SIZE_PT * CHAR_EM);
        (chars as usize).clamp(MIN_RUN_IN_CELL, MAX_RUN_IN_CELL)
    }
}

/// A look that was chosen for a table.
struct Fitted {
    look: TableLook,
    max_run: usize,
    measured: Option<Measured>,
}

/// How the cells of a row are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowForm {
    /// As Typst lays out a row of any table.
    Any,
    /// One line of text in a row of known height.
    Line,
    /// Any other row of a table that has such lines.
    Tall,
}

impl Writer<'_> {
    pub(super) fn table(&mut self, table: &Table) {
        let grid = Grid::of(table);
        let Fitted {
            look,
            max_run,
            measured,
        } = self.fit(&grid, table.width);
        let columns = match (&measured, table.width) {
            (Some(measured), _) => array(measured.widths_pt.iter().map(|width| format!("{width:.2}pt"))),
            (None, TableWidth::Natural) => grid.columns.to_string(),
            (None, TableWidth::Full) => array(column_shares(&grid).into_iter()),
        };
        let heights = self.heights(&grid, measured);
        let has_lines = heights.iter().any(|height| matches!(height, RowHeight::Line(_)));
        let rows = match has_lines {
            true => array(heights.iter().map(|height| match height {
                RowHeight::Line(pt) | RowHeight::Lines(pt) => format!("{pt:.2}pt"),
                RowHeight::Unknown => "auto".to_owned(),
            })),
            false => "auto".to_owned(),
        };
        let aligns = array((0..grid.columns).map(|column| align(table.align(column)).to_owned()));
        let cells = table.head.iter().chain(&table.rows).flatten();
        let longest = cells.map(|cell| text_length(&cell.blocks)).max().unwrap_or(0);
        let _ = write!(
            self.out,
            "data-table(columns: {columns}, rows: {rows}, head: {}, align: {aligns}, size: {}em, gap: {}pt, keep: {}, head-cells: (",
            grid.head_rows,
            look.size_em,
            look.gap_pt,
            longest <= KEEP_CELL_CHARS,
        );
        let outer_run = std::mem::replace(&mut self.max_run_in_cell, max_run);
        let was_in_cell = std::mem::replace(&mut self.in_cell, true);
        for (index, row) in grid.rows.iter().enumerate() {
            if index == grid.head_rows {
                self.put("), (\n");
            }
            let section = match index < grid.head_rows {
                true => Section::Head,
                false => Section::Body,
            };
            let form = match heights[index] {
                RowHeight::Line(_) => RowForm::Line,
                _ if has_lines => RowForm::Tall,
                _ => RowForm::Any,
            };
            self.row(table, look, row, form, section);
        }
        if grid.rows.len() == grid.head_rows {
            self.put("), (\n");
        }
        self.put("))");
        self.in_cell = was_in_cell;
        self.max_run_in_cell = outer_run;
    }

    /// The first look in which no word has to be broken, or else the widest one.
    fn fit(&self, grid: &Grid<'_>, width: TableWidth) -> Fitted {
        let looks = TableLook::from(grid.columns);
        // Within a cell or a list there is less room than the page has.
        let is_measured = width == TableWidth::Natural && !self.in_cell && !self.in_list;
        let measure = |look: TableLook, max_run: usize| {
            is_measured
                .then(|| Measured::of(grid, look.cell(max_run), self.text_width_pt))
                .flatten()
        };
        let whole_words = looks.iter().find_map(|look| {
            let measured = measure(*look, MAX_RUN_IN_CELL)?;
            measured.keeps_words.then_some(Fitted {
                look: *look,
                max_run: MAX_RUN_IN_CELL,
                measured: Some(measured),
            })
        });
        whole_words.unwrap_or_else(|| {
            let look = looks[0];
            let max_run = look.max_run(grid.columns, self.text_width_pt);
            Fitted {
                look,
                max_run,
                measured: measure(look, max_run),
            }
        })
    }

    /// The height of every row; none is known in writing from right to left, where Typst knows better on which side of
    /// a cell its text begins.
    fn heights(&self, grid: &Grid<'_>, measured: Option<Measured>) -> Vec<RowHeight> {
        let is_leftward = Direction::of_language(self.lang) == Direction::RightToLeft;
        measured
            .filter(|_| !is_leftward && self.heights == Heights::Told)
            .map_or_else(
                || vec![RowHeight::Unknown; grid.rows.len()],
                |measured| measured.heights,
            )
    }

    fn row(&mut self, table: &Table, look: TableLook, row: &[Slot<'_>], form: RowForm, section: Section) {
        for slot in row {
            let Slot::Cell {
                cell,
                column,
                colspan,
                rowspan,
            } = slot
            else {
                continue;
            };
            let style = cell.map(|cell| cell.style).unwrap_or_default();
            let is_plain =
                *colspan == 1 && *rowspan == 1 && style.background.is_none() && style.align.is_none();
            let is_call = match form {
                RowForm::Any if is_plain => false,
                RowForm::Line => false,
                RowForm::Any => {
                    self.put("table.cell(");
                    true
                }
                RowForm::Tall => {
                    let own = align(style.align.unwrap_or(table.align(*column)));
                    let _ = write!(self.out, "tall({own}, {}pt, ", look.gap_pt);
                    true
                }
            };
            if !is_plain {
                let _ = write!(self.out, "colspan: {colspan}, rowspan: {rowspan}, ");
                if let Some(fill) = style.background {
                    let _ = write!(self.out, "fill: rgb(\"{}\"), ", fill.hex());
                }
                if let Some(own) = style.align.filter(|_| form == RowForm::Any) {
                    let _ = write!(self.out, "align: {}, ", align(own));
                }
            }
            self.styled_cell(*cell, section, |writer| match (form, cell) {
                (RowForm::Line, Some(cell)) => writer.line(&cell.blocks, table.align(*column), look.edge),
                (_, cell) => writer.body_of(cell.map_or(&[], |cell| &cell.blocks)),
            });
            self.put(if is_call { "), " } else { ", " });
        }
        self.put("\n");
    }

    /// What `body` writes, in the look that the cell has of its own.
    fn styled_cell(&mut self, cell: Option<&Cell>, section: Section, body: impl FnOnce(&mut Self)) {
        let style = cell.map(|cell| cell.style).unwrap_or_default();
        let is_bold =
            section == Section::Head || cell.is_some_and(|cell| cell.header) || style.bold == Some(true);
        let text_style = Style {
            bold: is_bold.then_some(true),
            background: None,
            align: None,
            border: None,
            ..style
        };
        if cell.is_none() || text_style.is_plain() {
            return body(self);
        }
        self.put("group(");
        self.group_style(&text_style);
        body(self);
        self.put(")");
    }

    /// The text of a cell that is one line, with room on the side where it begins.
    fn line(&mut self, blocks: &[Block], align: Align, edge: &str) {
        let [Block::Paragraph(inlines)] = blocks else {
            return self.put("[]");
        };
        let edge = format!("#{edge};");
        self.put("[");
        self.put(if matches!(align, Align::Auto | Align::Left) {
            &edge
        } else {
            ""
        });
        inlines.iter().for_each(|inline| self.inline(inline));
        self.put(if align == Align::Right { &edge } else { "" });
        self.put("]");
    }
}

/// The part of a table that a row belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Head,
    Body,
}

/// `(a, b, )`, as Typst writes a list.
fn array(items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| item + ", ").collect();
    format!("({items})")
}

/// The share of the width each column gets, by its longest text.
fn column_shares(grid: &Grid<'_>) -> Vec<String> {
    let mut shares = vec![6; grid.columns];
    for slot in grid.rows.iter().flatten() {
        if let Slot::Cell {
            cell: Some(cell),
            column,
            colspan: 1,
            ..
        } = slot
        {
            shares[*column] = shares[*column].max(text_length(&cell.blocks).min(40));
        }
    }
    shares.into_iter().map(|share| format!("{share}fr")).collect()
}

fn text_length(blocks: &[Block]) -> usize {
    let length = |block: &Block| match block {
        Block::Paragraph(inlines) | Block::Heading { inlines, .. } => crate::doc::plain_text(inlines).len(),
        Block::Code { text, .. } => text.len(),
        _ => KEEP_CELL_CHARS,
    };
    blocks.iter().map(length).sum()
}
