//! `<table>` → [`Table`]: which rows are its head, what its cells cover, how they look.

use markup5ever_rcdom::Handle;

use crate::doc::{Block, Cell, Style, Table, TableWidth};
use crate::limits::MAX_COLUMNS;

use super::css::Display;
use super::element::{Flow, Reader};
use super::{attr, tag};

impl Reader<'_> {
    /// The table and its caption.
    pub(super) fn table(&mut self, node: &Handle, width: TableWidth) -> Vec<Block> {
        let mut rows: Vec<(Handle, Vec<Handle>, bool)> = Vec::new();
        let mut out = Vec::new();
        let mut flow = Flow::default();
        collect_rows(node, &mut Vec::new(), false, &mut rows);
        self.ancestors.push(node.clone());
        for child in node
            .children
            .borrow()
            .iter()
            .filter(|child| tag(child) == Some("caption"))
        {
            self.node(child, &mut flow);
        }
        out.append(&mut flow.into_blocks());
        let mut table = Table {
            width,
            ..Table::default()
        };
        for (row, path, in_head) in rows {
            let depth = self.ancestors.len();
            self.ancestors.extend(path);
            let cells = self.row(&row);
            self.ancestors.truncate(depth);
            if cells.is_empty() {
                continue;
            }
            let heads_all = cells.iter().all(|cell| cell.header);
            if table.rows.is_empty() && (in_head || (table.head.is_empty() && heads_all)) {
                table.head.push(cells);
            } else {
                table.rows.push(cells);
            }
        }
        self.ancestors.pop();
        if table.rows.is_empty() {
            table.rows = std::mem::take(&mut table.head);
        }
        if !table.rows.is_empty() {
            out.push(Block::Table(table));
        }
        out
    }

    fn row(&mut self, row: &Handle) -> Vec<Cell> {
        let row_style = self.sheet.compute(row, &self.ancestors).style;
        self.ancestors.push(row.clone());
        let mut cells: Vec<Cell> = Vec::new();
        for child in row.children.borrow().iter() {
            let header = match tag(child) {
                Some("th") => true,
                Some("td") => false,
                _ => continue,
            };
            let own = self.sheet.compute(child, &self.ancestors);
            if own.display == Display::None {
                continue;
            }
            let style = Style {
                color: own.style.color.or(row_style.color),
                background: own.style.background.or(row_style.background),
                border: None,
                align: own.style.align.or(row_style.align),
                bold: own.style.bold.or(row_style.bold),
                italic: own.style.italic.or(row_style.italic),
                size_percent: own.style.size_percent.or(row_style.size_percent),
            };
            let span = |name: &str| {
                attr(child, name)
                    .and_then(|span| span.parse::<usize>().ok())
                    .unwrap_or(1)
            };
            let blocks = self.blocks_of(child);
            let (colspan, rowspan) = (
                span("colspan").clamp(1, MAX_COLUMNS),
                span("rowspan").clamp(1, 1000),
            );
            let full = cells.len() >= MAX_COLUMNS;
            match cells.last_mut().filter(|_| full) {
                Some(last) => last.blocks.extend(blocks),
                None => cells.push(Cell {
                    blocks,
                    colspan,
                    rowspan,
                    header,
                    style,
                }),
            }
        }
        self.ancestors.pop();
        cells
    }
}

/// The rows of a table with the sections between them and it; rows of tables within are not theirs.
fn collect_rows(
    node: &Handle,
    path: &mut Vec<Handle>,
    in_head: bool,
    rows: &mut Vec<(Handle, Vec<Handle>, bool)>,
) {
    for child in node.children.borrow().iter() {
        match tag(child) {
            Some("tr") => rows.push((child.clone(), path.clone(), in_head)),
            Some(name @ ("thead" | "tbody" | "tfoot")) => {
                path.push(child.clone());
                collect_rows(child, path, name == "thead", rows);
                path.pop();
            }
            _ => {}
        }
    }
}
