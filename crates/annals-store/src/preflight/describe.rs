//! What is in an attachment, said without a model: one line for the view, and the text inside.
//!
//! Reads what a stranger wrote: every step is linear in what it reads and stops at its bound, nothing is recursive, and
//! what cannot be read gives a shorter description and no error. Takes bytes and gives texts, so that it can run
//! anywhere.

use super::{AttachmentKind, Checked, office};

/// What is known of an attachment's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// One line.
    pub summary: Option<String>,
    /// The text of a file that is no text itself.
    pub text: Option<String>,
    /// Width and height of a picture.
    pub pixels: Option<(u32, u32)>,
}

impl Described {
    /// With the text that was read from the pages of a PDF, whose first line is taken for its heading.
    #[must_use]
    pub fn with_text_of_pages(self, text: String) -> Self {
        let heading = text.lines().map(str::trim).find(|line| !line.is_empty());
        let heading = heading.map(|line| format!(", begins: {}", shown(line)));
        let summary = self.summary.unwrap_or_else(|| "PDF".to_owned());
        let mut text = text;
        text.truncate(text.floor_char_boundary(TEXT_MAX_BYTES));
        with_text(format!("{summary}{}", heading.unwrap_or_default()), text)
    }
}

/// The text of a file is kept up to this.
pub(super) const TEXT_MAX_BYTES: usize = 1_000_000;
/// Names of columns and sheets, and first lines, are shown up to this.
const SHOWN_MAX_CHARS: usize = 80;
/// A summary names at most this many columns or sheets.
const NAMED_MAX_COUNT: usize = 12;

/// Describes an attachment that passed the checks; `pixels` if it is a picture that was measured.
pub fn describe(checked: &Checked, bytes: &[u8], pixels: Option<(u32, u32)>) -> Described {
    Described {
        pixels,
        ..in_words(checked, bytes, pixels)
    }
}

fn in_words(checked: &Checked, bytes: &[u8], pixels: Option<(u32, u32)>) -> Described {
    match checked.kind {
        AttachmentKind::Text => std::str::from_utf8(bytes).map_or_else(
            |_| Described::default(),
            |text| summary_only(text_summary(&checked.mime, text)),
        ),
        AttachmentKind::Image => match pixels {
            Some((width, height)) => summary_only(format!("picture, {width} × {height} pixels")),
            None => Described::default(),
        },
        AttachmentKind::Pdf => match checked.pages {
            Some(pages) => summary_only(format!("PDF, {}", counted(pages as usize, "page"))),
            None => Described::default(),
        },
        AttachmentKind::Other => office::describe(&checked.mime, bytes).unwrap_or_default(),
    }
}

fn summary_only(summary: String) -> Described {
    Described {
        summary: Some(summary),
        ..Described::default()
    }
}

pub(super) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// A text on one line, cut where people stop reading.
pub(super) fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

pub(super) fn named(names: &[String]) -> String {
    let mut shown_names: Vec<String> = names
        .iter()
        .take(NAMED_MAX_COUNT)
        .map(|name| shown(name))
        .collect();
    if names.len() > NAMED_MAX_COUNT {
        shown_names.push(format!("{} more", names.len() - NAMED_MAX_COUNT));
    }
    shown_names.join(", ")
}

fn text_summary(mime: &str, text: &str) -> String {
    let size = format!("{}, {} bytes", counted(text.lines().count(), "line"), text.len());
    match mime {
        "text/csv" => table(text, separator(text, &[',', ';', '\t'])),
        "text/tab-separated-values" => table(text, '\t'),
        "application/x-ndjson" | "application/jsonl" => records(text).unwrap_or(size),
        _ => match text.lines().map(str::trim).find(|line| !line.is_empty()) {
            Some(first) => format!("{size}, begins: {}", shown(first.trim_start_matches(['#', ' ']))),
            None => size,
        },
    }
}

/// The separator that the first line has most of.
fn separator(text: &str, among: &[char]) -> char {
    let first = text.lines().next().unwrap_or_default();
    let count = |separator: &char| first.matches(*separator).count();
    among.iter().copied().rev().max_by_key(count).unwrap_or(',')
}

/// Columns and rows of a table whose first record names the columns.
fn table(text: &str, separator: char) -> String {
    let mut columns = vec![String::new()];
    let (mut records, mut is_quoted, mut has_content) = (0usize, false, false);
    for c in text.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            '\n' if !is_quoted => {
                records += usize::from(has_content);
                has_content = false;
                continue;
            }
            '\r' if !is_quoted => continue,
            _ if records > 0 => {}
            c if c == separator && !is_quoted => columns.push(String::new()),
            c => {
                if let Some(column) = columns
                    .last_mut()
                    .filter(|column| column.len() < 4 * SHOWN_MAX_CHARS)
                {
                    column.push(c);
                }
            }
        }
        has_content = true;
    }
    records += usize::from(has_content);
    let rows = counted(records.saturating_sub(1), "row");
    format!(
        "table, {rows}, {}: {}",
        counted(columns.len(), "column"),
        named(&columns)
    )
}

/// Records of JSON Lines, and the fields of the first.
fn records(text: &str) -> Option<String> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first: serde_json::Map<String, serde_json::Value> = serde_json::from_str(lines.next()?).ok()?;
    let fields: Vec<String> = first.keys().cloned().collect();
    let records = counted(1 + lines.count(), "record");
    Some(format!(
        "{records}, {}: {}",
        counted(fields.len(), "field"),
        named(&fields)
    ))
}

pub(super) fn with_text(summary: String, text: String) -> Described {
    let text = text.trim().to_owned();
    Described {
        summary: Some(summary),
        text: (!text.is_empty()).then_some(text),
        ..Described::default()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use super::*;
    use crate::preflight::check_attachment;

    fn described(name: &str, bytes: &[u8]) -> Described {
        describe(&check_attachment(name, bytes).unwrap(), bytes, None)
    }

    fn summary(name: &str, bytes: &[u8]) -> String {
        described(name, bytes).summary.unwrap()
    }

    fn zip(parts: &[(&str, &str)]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in parts {
            writer
                .start_file(*name, zip::write::SimpleFileOptions::default())
                .unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn a_table_says_its_columns_and_rows() {
        assert_eq!(
            summary("a.csv", b"month,\"net, EUR\"\njan,\"1\n2\"\nfeb,3\n\n"),
            "table, 2 rows, 2 columns: month, net, EUR"
        );
        assert_eq!(
            summary("a.csv", b"a;b;c\r\n1;2;3"),
            "table, 1 row, 3 columns: a, b, c"
        );
        let wide: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
        assert!(summary("a.csv", wide.join(",").as_bytes()).ends_with("c11, 28 more"));
    }

    #[test]
    fn a_text_says_how_it_begins() {
        assert_eq!(
            summary("a.md", b"\n# Tides\n\nThey follow the moon.\n"),
            "4 lines, 32 bytes, begins: Tides"
        );
        let long = format!("{}\n", "x".repeat(500));
        assert!(summary("a.txt", long.as_bytes()).ends_with('…'));
    }

    #[test]
    fn an_office_document_gives_its_text() {
        let xml = "<w:document><w:body><w:p><w:pPr/><w:r><w:t>Annual</w:t></w:r><w:r><w:t xml:space=\"preserve\"> report</w:t></w:r></w:p>\
                   <w:p><w:r><w:t>A &amp; B</w:t><w:tab/><w:t>&#8364; 5</w:t></w:r></w:p></w:body></w:document>";
        let bytes = zip(&[("[Content_Types].xml", "<Types/>"), ("word/document.xml", xml)]);
        let described = described("report.docx", &bytes);
        assert_eq!(
            described.summary.unwrap(),
            "document, 7 words, begins: Annual report"
        );
        assert_eq!(described.text.unwrap(), "Annual report\nA & B\t€ 5");
    }

    #[test]
    fn a_workbook_gives_its_sheets_and_cells() {
        let bytes = zip(&[
            ("[Content_Types].xml", "<Types/>"),
            (
                "xl/workbook.xml",
                "<workbook><sheets><sheet name=\"Sales &amp; more\" sheetId=\"1\"/><sheet name=\"Costs\"/></sheets></workbook>",
            ),
            (
                "xl/sharedStrings.xml",
                "<sst><si><t>month</t></si><si><r><t>ne</t></r><r><t>t</t></r></si></sst>",
            ),
            (
                "xl/worksheets/sheet1.xml",
                "<worksheet><sheetData><row><c r=\"A1\" t=\"s\"><v>0</v></c><c t=\"s\"><v>1</v></c></row>\
              <row><c><v>3.5</v></c><c t=\"s\"><v>99</v></c></row></sheetData></worksheet>",
            ),
            ("xl/worksheets/sheet2.xml", "<worksheet><sheetData/></worksheet>"),
        ]);
        let described = described("book.xlsx", &bytes);
        assert_eq!(
            described.summary.unwrap(),
            "workbook, 2 sheets: Sales & more (2 rows), Costs (0 rows)"
        );
        assert_eq!(
            described.text.unwrap(),
            "[Sheet Sales & more]\nmonth\tnet\n3.5\t99\n\n[Sheet Costs]"
        );
    }

    #[test]
    fn a_presentation_gives_its_slides_in_order() {
        let slide = |text: &str| format!("<p:sld><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sld>");
        let bytes = zip(&[
            ("[Content_Types].xml", "<Types/>"),
            ("ppt/presentation.xml", "<p:presentation/>"),
            ("ppt/slides/slide10.xml", &slide("last")),
            ("ppt/slides/slide2.xml", &slide("middle")),
            ("ppt/slides/slide1.xml", &slide("first")),
        ]);
        let described = described("deck.pptx", &bytes);
        assert_eq!(
            described.summary.unwrap(),
            "presentation, 3 slides, begins: first"
        );
        let text = described.text.unwrap();
        assert!(
            text.find("middle").unwrap() < text.find("last").unwrap(),
            "{text}"
        );
    }

    #[test]
    fn hostile_parts_end_and_give_no_more_than_the_bound() {
        for xml in [
            "<".repeat(200_000),
            "<w:p>".repeat(200_000),
            "<!--".repeat(100_000),
            "<![CDATA[".repeat(50_000),
            "&".repeat(500_000),
            format!("<w:t>{}", "&#x41;".repeat(100_000)),
            "<w:t a='".repeat(50_000),
            "<?".repeat(100_000),
        ] {
            let bytes = zip(&[("[Content_Types].xml", "<Types/>"), ("word/document.xml", &xml)]);
            if let Ok(checked) = check_attachment("a.docx", &bytes) {
                let text = describe(&checked, &bytes, None).text.unwrap_or_default();
                assert!(text.len() <= TEXT_MAX_BYTES, "{}", &xml[..10]);
            }
        }
    }
}
