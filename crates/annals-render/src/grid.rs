//! A table as a full rectangle: every place is a cell or covered by one.
//!
//! HTML tables may be ragged, overlap, or reach beyond their last row; writers fail on that or draw nonsense.
//! Here spans are clipped and holes are filled, once for all of them.

use crate::doc::{Cell, Table};
use crate::limits::MAX_COLUMNS;

/// One place of a row, from left to right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Slot<'a> {
    /// A cell starts here; `cell` is `None` where the row was too short.
    Cell {
        /// What the author wrote.
        cell: Option<&'a Cell>,
        /// Its first column.
        column: usize,
        /// Columns it covers.
        colspan: usize,
        /// Rows it covers.
        rowspan: usize,
    },
    /// Covered by a cell of an earlier row.
    Covered {
        /// The first column.
        column: usize,
        /// How many columns that cell has.
        colspan: usize,
    },
}

#[derive(Debug, PartialEq)]
pub(crate) struct Grid<'a> {
    pub(crate) columns: usize,
    /// How many of its rows are the head.
    pub(crate) head_rows: usize,
    /// All rows.
    pub(crate) rows: Vec<Vec<Slot<'a>>>,
}

impl<'a> Grid<'a> {
    /// Lays `table` out.
    pub(crate) fn of(table: &'a Table) -> Self {
        let mut columns = table.columns().min(MAX_COLUMNS);
        // Cells pushed aside by a rowspan above them need room as well.
        loop {
            let (rows, needed) = place(table, columns);
            if needed <= columns || columns >= MAX_COLUMNS {
                return Self {
                    columns,
                    head_rows: table.head.len(),
                    rows,
                };
            }
            columns = needed.min(MAX_COLUMNS);
        }
    }
}

fn place(table: &Table, columns: usize) -> (Vec<Vec<Slot<'_>>>, usize) {
    let mut rows = Vec::new();
    let mut needed = columns;
    for section in [&table.head, &table.rows] {
        // (rows still covered, width of the covering cell) for every column where such a cell starts.
        let mut covered: Vec<(usize, usize)> = vec![(0, 0); columns];
        for (index, row) in section.iter().enumerate() {
            let rows_left = section.len() - index;
            let mut slots = Vec::new();
            let mut cells = row.iter();
            let mut column = 0;
            while column < columns {
                let (rows_covered, width) = covered[column];
                if rows_covered > 0 {
                    covered[column].0 -= 1;
                    slots.push(Slot::Covered {
                        column,
                        colspan: width,
                    });
                    column += width;
                    continue;
                }
                let cell = cells.next();
                let wanted = cell.map_or(1, |cell| cell.colspan.max(1));
                let free = covered[column..]
                    .iter()
                    .take_while(|(rows, _)| *rows == 0)
                    .count();
                let colspan = wanted.min(free);
                let rowspan = cell.map_or(1, |cell| cell.rowspan.clamp(1, rows_left));
                if rowspan > 1 {
                    covered[column] = (rowspan - 1, colspan);
                }
                slots.push(Slot::Cell {
                    cell,
                    column,
                    colspan,
                    rowspan,
                });
                column += colspan;
            }
            needed = needed.max(columns + cells.map(|cell| cell.colspan.max(1)).sum::<usize>());
            rows.push(slots);
        }
    }
    (rows, needed)
}

/// Widths of columns that need `least` and would like `wanted`. What is left over the needs goes first to those
/// that want little more, so that one long text does not break the short ones; too little is shared by need.
pub(crate) fn share_width(least: &[f64], wanted: &[f64], available: f64) -> Vec<f64> {
    let needed: f64 = least.iter().sum();
    if needed >= available {
        return least.iter().map(|width| width * available / needed).collect();
    }
    let mut widths = least.to_vec();
    let mut by_wish: Vec<usize> = (0..least.len()).collect();
    by_wish.sort_by(|a, b| (wanted[*a] - least[*a]).total_cmp(&(wanted[*b] - least[*b])));
    let mut room = available - needed;
    for (done, index) in by_wish.iter().enumerate() {
        let share = room / (least.len() - done) as f64;
        let given = (wanted[*index] - least[*index]).clamp(0.0, share);
        widths[*index] += given;
        room -= given;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(spec: &[Vec<(usize, usize)>]) -> Table {
        let cell = |&(colspan, rowspan): &(usize, usize)| Cell {
            colspan,
            rowspan,
            ..Cell::new(Vec::new())
        };
        Table {
            rows: spec.iter().map(|row| row.iter().map(cell).collect()).collect(),
            ..Table::default()
        }
    }

    #[test]
    fn a_cell_pushed_aside_by_a_rowspan_widens_the_grid() {
        let table = table(&[vec![(1, 2), (1, 1)], vec![(1, 1), (1, 1)]]);
        let grid = Grid::of(&table);
        assert_eq!(grid.columns, 3);
        assert_eq!(
            grid.rows[1][0],
            Slot::Covered {
                column: 0,
                colspan: 1
            }
        );
    }

    proptest! {
        #[test]
        fn every_row_of_every_table_is_filled_exactly(
            spec in prop::collection::vec(prop::collection::vec((1usize..5, 1usize..5), 0..5), 1..6)
        ) {
            let table = table(&spec);
            let grid = Grid::of(&table);
            prop_assert_eq!(grid.rows.len(), spec.len());
            for row in &grid.rows {
                let mut at = 0;
                for slot in row {
                    let (column, width) = match *slot {
                        Slot::Cell { column, colspan, .. } | Slot::Covered { column, colspan } => (column, colspan),
                    };
                    prop_assert_eq!(column, at);
                    at += width;
                }
                prop_assert_eq!(at, grid.columns);
            }
            let placed = grid.rows.iter().flatten().filter(|slot| matches!(slot, Slot::Cell { cell: Some(_), .. }));
            prop_assert_eq!(placed.count(), spec.iter().map(Vec::len).sum::<usize>());
        }
    }

    proptest! {
        #[test]
        fn no_column_gets_less_than_it_needs_or_more_than_it_wants_while_there_is_room(
            columns in proptest::collection::vec((1.0..50.0_f64, 0.0..200.0_f64), 1..9),
            available in 10.0..900.0_f64,
        ) {
            let least: Vec<f64> = columns.iter().map(|(least, _)| *least).collect();
            let wanted: Vec<f64> = columns.iter().map(|(least, more)| least + more).collect();
            let widths = share_width(&least, &wanted, available);
            let sum: f64 = widths.iter().sum();
            let all: f64 = wanted.iter().sum();
            prop_assert!((sum - available.min(all)).abs() < 1e-6, "{sum}");
            if least.iter().sum::<f64>() < available {
                for ((width, least), wanted) in widths.iter().zip(&least).zip(&wanted) {
                    prop_assert!(*width >= least - 1e-9 && *width <= wanted + 1e-9);
                }
            }
        }
    }
}
