use super::table::column_widths;
use super::*;
use crate::doc::{Cell, Table};
use crate::grid::Grid;

#[test]
fn every_column_can_hold_its_longest_word() {
    let cell = |text: &str| Cell::new(vec![Block::Paragraph(vec![Inline::Text(text.to_owned())])]);
    let long = "several words that may well be broken into lines ".repeat(3);
    let table = Table {
        rows: vec![vec![cell("A"), cell("Availability"), cell(&long)]],
        ..Table::default()
    };
    let widths = column_widths(&Grid::of(&table), 9000.0, 20);
    assert!((widths.iter().sum::<f64>() - 9000.0).abs() < 900.0, "{widths:?}");
    assert!(widths[1] > 12.0 * 20.0 * 10.0 * 0.62, "{widths:?}");
    assert!(widths[2] > widths[1], "{widths:?}");
}
