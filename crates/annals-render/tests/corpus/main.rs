//! Thirty documents in the style that models write: every one becomes a PDF on which no word of it is missing.

#[path = "../common/mod.rs"]
mod common;
mod print;

use std::collections::BTreeSet;

use annals_render::{Request, Warning};
use annals_requirements::{Requirement, met};
use common::{RENDERER, assets, corpus, pdf_text_by_poppler, squeeze};

/// Words that are shown as something else: names of formulas' symbols, tags and comments of HTML, numbers of lists that go
/// on, and marks of the dialect.
const NOT_PRINTED: &[&str] = &[
    "mathbb",
    "times",
    "lVert",
    "rVert",
    "frac",
    "partial",
    "beta",
    "top",
    "hat",
    "sum",
    "mathrm",
    "sigma",
    "begin",
    "end",
    "pmatrix",
    "cases",
    "qquad",
    "sqrt",
    "alpha",
    "int",
    "infty",
    "approx",
    "epsilon",
    "tfrac",
    "ell",
    "dot",
    "theta",
    "cos",
    "sin",
    "ddot",
    "left",
    "right",
    "dots",
    "circ",
    "quad",
    "RSS",
    "details",
    "summary",
    "table",
    "span",
    "style",
    "color",
    "comment",
    "that",
    "nobody",
    "should",
    "see",
    "script",
    "alert",
    "sub",
    "sup",
    "kbd",
    "mark",
    "copy",
    "mdash",
    "NOTE",
    "TIP",
    "IMPORTANT",
    "WARNING",
    "CAUTION",
    "https",
    "example",
    "org",
    "mailto",
    "html",
    "With",
    "title",
    "well",
];

#[test]
fn no_word_of_the_corpus_is_lost_on_paper() {
    if !met(Requirement::Poppler) || !met(Requirement::CjkFont) {
        return;
    }
    let documents = corpus();
    assert_eq!(documents.len(), 30);
    let assets = assets();
    let mut lost = Vec::new();
    for (name, markdown) in &documents {
        let request = Request {
            assets: &assets,
            ..Request::markdown(markdown)
        };
        let rendered = RENDERER.pdf(&request).unwrap();
        for warning in &rendered.warnings {
            let is_known = match warning {
                Warning::MissingImage { reference } => reference == "missing.png",
                // Whether a machine has a font for emoji is not the corpus's matter.
                Warning::MissingGlyphs { chars } => chars.iter().all(|c| u32::from(*c) >= 0x2000),
                _ => false,
            };
            assert!(is_known, "{name}: {warning:?}");
        }
        let text = squeeze(&pdf_text_by_poppler(&rendered.bytes).unwrap());
        let missing: Vec<&str> = words(markdown)
            .into_iter()
            .filter(|word| !text.contains(*word))
            .collect();
        if !missing.is_empty() {
            lost.push(format!("{name}: {missing:?}"));
        }
    }
    assert!(lost.is_empty(), "not on the page: {lost:#?}");
}

#[test]
fn a_date_in_a_japanese_table_stays_on_its_line() {
    if !met(Requirement::Poppler) || !met(Requirement::CjkFont) {
        return;
    }
    let documents = corpus();
    let (_, markdown) = documents.iter().find(|(name, _)| name == "07-japanese").unwrap();
    let rendered = RENDERER.pdf(&Request::markdown(markdown)).unwrap();
    let text = pdf_text_by_poppler(&rendered.bytes).unwrap();
    let lines: Vec<String> = text.lines().map(squeeze).collect();
    assert!(lines.iter().any(|line| line.contains("3月11日")), "{text}");
}

#[test]
fn a_wide_table_breaks_no_word() {
    if !met(Requirement::Poppler) {
        return;
    }
    let documents = corpus();
    let (_, markdown) = documents
        .iter()
        .find(|(name, _)| name == "02-wide-table")
        .unwrap();
    let rendered = RENDERER.pdf(&Request::markdown(markdown)).unwrap();
    let text = pdf_text_by_poppler(&rendered.bytes).unwrap();
    let printed: BTreeSet<&str> = text.split_whitespace().collect();
    for word in [
        "PostgreSQL",
        "FoundationDB",
        "Cassandra",
        "Transactions",
        "Replication",
        "serializable",
        "transaction",
    ] {
        assert!(printed.contains(word), "`{word}` is broken: {text}");
    }
}

/// Words of three and more Latin, Greek or Cyrillic letters that a reader should see: not the languages of fences, not the
/// targets of links, not the texts of pictures.
fn words(markdown: &str) -> BTreeSet<&str> {
    markdown
        .lines()
        .filter(|line| !["```", "~~~", "!["].iter().any(|mark| line.starts_with(mark)))
        .flat_map(|line| line.split("](").enumerate())
        .map(|(at, piece)| match at {
            0 => piece,
            _ => piece.split_once(')').map_or("", |(_, rest)| rest),
        })
        .flat_map(|piece| piece.split(|c: char| !(c.is_alphabetic() && u32::from(c) < 0x0590)))
        .filter(|word| word.chars().count() >= 3 && !NOT_PRINTED.contains(word))
        .collect()
}
