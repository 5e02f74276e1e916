//! Office files: their text, and how much there is of what.

use std::io::{Cursor, Read as _};

use zip::ZipArchive;

use super::describe::{Described, TEXT_MAX_BYTES, counted, named, shown, with_text};
use super::markup::{self, Piece};

/// One part of an office file is read up to this.
const PART_MAX_BYTES: u64 = 20_000_000;
/// A workbook's or a presentation's parts beyond these are not read.
const PARTS_MAX_COUNT: usize = 200;

type Archive<'b> = ZipArchive<Cursor<&'b [u8]>>;

/// Describes an office file by its type; nothing if it is none.
pub(super) fn describe(mime: &str, bytes: &[u8]) -> Option<Described> {
    let archive = ZipArchive::new(Cursor::new(bytes)).ok()?;
    match mime.rsplit('.').next()? {
        "document" => document(archive, "word/document.xml"),
        "text" => document(archive, "content.xml"),
        "presentation" if mime.contains("openxml") => presentation(archive),
        "sheet" => workbook(archive),
        _ => None,
    }
}

/// One part of the file, as far as it is read.
fn part(archive: &mut Archive<'_>, name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let entry = archive.by_name(name).ok()?;
    entry.take(PART_MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The numbered parts of a folder, in the order of their numbers.
fn numbered(archive: &Archive<'_>, prefix: &str) -> Vec<String> {
    let number =
        |name: &str| -> Option<u32> { name.strip_prefix(prefix)?.strip_suffix(".xml")?.parse().ok() };
    let mut names: Vec<(u32, String)> = archive
        .file_names()
        .filter_map(|name| name.ok())
        .filter_map(|name| Some((number(&name)?, name.into_owned())))
        .collect();
    names.sort();
    names
        .into_iter()
        .take(PARTS_MAX_COUNT)
        .map(|(_, name)| name)
        .collect()
}

fn document(mut archive: Archive<'_>, name: &str) -> Option<Described> {
    let text = markup::paragraphs(&part(&mut archive, name)?, TEXT_MAX_BYTES);
    let words = text.split_whitespace().count();
    let mut summary = format!("document, {}", counted(words, "word"));
    if let Some(first) = text.lines().find(|line| !line.trim().is_empty()) {
        summary.push_str(&format!(", begins: {}", shown(first)));
    }
    Some(with_text(summary, text))
}

fn presentation(mut archive: Archive<'_>) -> Option<Described> {
    let slides = numbered(&archive, "ppt/slides/slide");
    let mut text = String::new();
    let mut first = None;
    for (at, name) in slides.iter().enumerate() {
        let left = TEXT_MAX_BYTES.saturating_sub(text.len());
        let slide = markup::paragraphs(&part(&mut archive, name).unwrap_or_default(), left);
        first = first.or_else(|| slide.lines().find(|line| !line.trim().is_empty()).map(shown));
        text.push_str(&format!("[Slide {}]\n{}\n\n", at + 1, slide.trim_end()));
    }
    let mut summary = format!("presentation, {}", counted(slides.len(), "slide"));
    if let Some(first) = first {
        summary.push_str(&format!(", begins: {first}"));
    }
    Some(with_text(summary, text))
}

fn workbook(mut archive: Archive<'_>) -> Option<Described> {
    let names = markup::attributes(&part(&mut archive, "xl/workbook.xml")?, "sheet", "name");
    let strings =
        part(&mut archive, "xl/sharedStrings.xml").map_or_else(Vec::new, |xml| markup::strings(&xml));
    let (mut text, mut sheets) = (String::new(), Vec::new());
    for (at, file) in numbered(&archive, "xl/worksheets/sheet").iter().enumerate() {
        let name = names
            .get(at)
            .cloned()
            .unwrap_or_else(|| format!("sheet {}", at + 1));
        let left = TEXT_MAX_BYTES.saturating_sub(text.len());
        let (rows, lines) = sheet(&part(&mut archive, file).unwrap_or_default(), &strings, left);
        text.push_str(&format!("[Sheet {}]\n{lines}\n", shown(&name)));
        sheets.push(format!("{} ({})", shown(&name), counted(rows, "row")));
    }
    let summary = format!("workbook, {}: {}", counted(sheets.len(), "sheet"), named(&sheets));
    Some(with_text(summary, text))
}

/// How many rows a sheet has, and their cells, separated by tabs.
fn sheet(xml: &str, strings: &[String], max_bytes: usize) -> (usize, String) {
    let (mut rows, mut lines) = (0, String::new());
    let (mut is_shared, mut in_value, mut cell) = (false, false, String::new());
    for piece in markup::pieces(xml) {
        match piece {
            Piece::Open { name: "c", tag } => {
                is_shared = markup::attribute(tag, "t").as_deref() == Some("s");
                cell.clear();
            }
            Piece::Open { name: "v" | "t", .. } => in_value = true,
            Piece::Close("v" | "t") => in_value = false,
            Piece::Text(text) if in_value => cell.push_str(&markup::unescaped(text)),
            Piece::Close("c") if lines.len() < max_bytes => {
                let index = || cell.trim().parse::<usize>().ok();
                let shared = is_shared.then(|| strings.get(index()?)).flatten();
                lines.push_str(shared.unwrap_or(&cell));
                lines.push('\t');
            }
            Piece::Close("row") => {
                rows += 1;
                if lines.len() < max_bytes {
                    lines.truncate(lines.trim_end_matches('\t').len());
                    lines.push('\n');
                }
            }
            _ => {}
        }
    }
    lines.truncate(lines.floor_char_boundary(max_bytes));
    (rows, lines)
}
