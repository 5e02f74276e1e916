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
    assert!(
        widths[1] > crate::ooxml::ems("Availability") * 20.0 * 10.0,
        "{widths:?}"
    );
    assert!(widths[2] > widths[1], "{widths:?}");
}

fn parts(source: &str) -> (String, String) {
    let document = crate::markdown::read(source);
    let bytes = write(&document, &Pictures::default(), &[], PageOptions::default()).unwrap();
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let mut part = |name: &str| std::io::read_to_string(zip.by_name(name).unwrap()).unwrap();
    (part("word/document.xml"), part("word/footnotes.xml"))
}

#[test]
fn a_note_within_a_note_is_written_where_word_accepts_it() {
    let (body, notes) = parts(
        "One[^a] and three[^c].\n\n[^a]: First.\n\n    Second [^b], **see [^c]** and [^a].\n\n[^b]: Bee [^a][^b].\n\n[^c]: Sea.\n",
    );
    assert_eq!(body.matches("<w:footnoteReference ").count(), 2);
    assert_eq!(notes.matches("<w:footnoteReference ").count(), 0, "{notes}");
    assert_eq!(
        notes.matches("<w:footnote w:id=").count(),
        2,
        "the third has no mark of its own"
    );
    assert!(
        notes.contains("> (</w:t>") && notes.contains(">Bee </w:t>"),
        "its text stands in the note that mentions it: {notes}"
    );
}

#[test]
fn lists_keep_their_distance_and_empty_cells_are_not_higher_than_full_ones() {
    let (body, _) = parts("1. a\n2. b\n   - c\n   - d\n\n> quote\n\n| x | y |\n|---|---|\n| 1 |  |\n");
    assert_eq!(
        body.matches(&format!("<w:spacing w:after=\"{AFTER_LIST}\"/>"))
            .count(),
        1
    );
    let last = body
        .split("<w:p>")
        .find(|paragraph| paragraph.contains(">d<"))
        .unwrap();
    assert!(last.contains("w:after=\"140\""), "{last}");
    assert!(!body.contains("<w:p/>"), "{body}");
    assert_eq!(
        body.matches("<w:rPr><w:sz w:val=\"20\"/><w:szCs w:val=\"20\"/></w:rPr></w:pPr>")
            .count(),
        4
    );
}

#[test]
fn what_stands_in_lists_and_quotes_is_indented_with_them() {
    let (body, _) = parts("- a\n\n  | x |\n  |---|\n  | 1 |\n\n> > deep\n>\n> - item\n\n$$x^2$$\n");
    assert!(
        body.contains(&format!("<w:tblInd w:w=\"{LIST_INDENT}\" w:type=\"dxa\"/>")),
        "{body}"
    );
    let of = |word: &str| body.split("<w:p>").find(|p| p.contains(word)).unwrap().to_owned();
    assert!(of(">deep<").contains(&format!("<w:ind w:left=\"{}\"/>", 2 * QUOTE_INDENT)));
    let item = format!(
        "<w:ind w:left=\"{}\" w:hanging=\"{LIST_INDENT}\"/>",
        QUOTE_INDENT + LIST_INDENT
    );
    assert!(of(">item<").contains(&item), "{}", of(">item<"));
    assert!(of("superscript").contains("<w:jc w:val=\"center\"/>"));
}
