//! The corpus beside a browser's print of the same markdown: every word, in the same order.
//!
//! Chromium prints a plain HTML rendering of all documents at once; poppler reads both. Formulas and pictures are replaced by
//! a word on both sides, since a plain HTML rendering has neither. Both sets of files are left below the target folder, to be
//! looked at.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use annals_render::Request;
use annals_requirements::{Requirement, met, program};

use pulldown_cmark::{Event, Options, Parser, Tag, html};
use similar::{ChangeTag, TextDiff};

use crate::common::{RENDERER, corpus};

/// The foot of our pages begins below this, in points.
const FOOT_PT: &str = "780";

/// Programs disagree about the order in which a line of mixed directions is drawn: of these documents only what is printed is
/// compared.
const BOTH_DIRECTIONS: [&str; 2] = ["09-arabic", "26-hebrew-and-mixed"];

/// The head of a table that is printed again on every page, wherever that begins.
const REPEATED_HEAD: &str = "NoStationTimeLevelmQuality";

const STYLE: &str = "@page { size: A4; margin: 18mm } body { font-family: sans-serif; font-size: 10pt } \
    article { break-before: page } pre, code { white-space: pre-wrap; overflow-wrap: anywhere } \
    table { border-collapse: collapse } th, td { border: 1px solid silver; padding: 3px 6px; overflow-wrap: anywhere } \
    .markdown-alert-note::before { content: 'Note' } .markdown-alert-tip::before { content: 'Tip' } \
    .markdown-alert-important::before { content: 'Important' } \
    .markdown-alert-warning::before { content: 'Warning' } .markdown-alert-caution::before { content: 'Caution' }";

fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_MATH
        | Options::ENABLE_GFM
}

/// The markdown with a word in the place of each formula and picture.
fn comparable(markdown: &str) -> String {
    let mut ranges = Vec::new();
    for (event, range) in Parser::new_ext(markdown, options()).into_offset_iter() {
        let word = match event {
            Event::InlineMath(_) | Event::DisplayMath(_) => "formula",
            Event::Start(Tag::Image { .. }) => "picture",
            _ => continue,
        };
        ranges.push((range, word));
    }
    let mut text = markdown.to_owned();
    for (range, word) in ranges.into_iter().rev() {
        text.replace_range(range, word);
    }
    text
}

/// All documents as one page of HTML, each after a mark.
fn plain_html(documents: &[(String, String)]) -> String {
    let mut page = format!("<!doctype html><meta charset=utf-8><style>{STYLE}</style>");
    for (name, markdown) in documents {
        page.push_str(&format!("<article><p>{}</p>", mark(name)));
        html::push_html(&mut page, Parser::new_ext(markdown, options()));
        page.push_str("</article>");
    }
    // What is folded away on a screen is not on paper at all; a script would wait for somebody to answer it.
    [
        ("<details>", "<details open>"),
        ("<script", "<template"),
        ("</script", "</template"),
    ]
    .into_iter()
    .fold(page, |page, (from, to)| page.replace(from, to))
}

fn mark(name: &str) -> String {
    format!("MARK{}MARK", name.replace('-', ""))
}

fn by_chromium(page: &str, folder: &Path) -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let chromium = names.into_iter().find_map(program).expect("a browser");
    let (html, pdf) = (folder.join("chromium.html"), folder.join("chromium.pdf"));
    std::fs::write(&html, page).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let status = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-pdf-header-footer",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--print-to-pdf={}", pdf.display()))
        .arg(format!("file://{}", html.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("Chromium starts");
    assert!(status.success(), "Chromium prints nothing");
    pdf
}

/// Letters and digits of a PDF in the order in which it draws them.
fn letters(pdf: &Path, height_pt: &str) -> String {
    let output = Command::new(program("pdftotext").expect("poppler"))
        .args([
            "-raw", "-r", "72", "-x", "0", "-y", "0", "-W", "595", "-H", height_pt,
        ])
        .args([pdf, Path::new("-")])
        .output()
        .expect("pdftotext starts");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

#[test]
fn every_word_of_the_corpus_is_printed_as_a_browser_prints_it() {
    let needed = [Requirement::Chromium, Requirement::Poppler, Requirement::CjkFont];
    if !needed.into_iter().all(met) {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("print");
    std::fs::create_dir_all(&folder).unwrap();
    let documents: Vec<(String, String)> = corpus()
        .into_iter()
        .map(|(name, markdown)| (name, comparable(&markdown)))
        .collect();
    let printed = letters(&by_chromium(&plain_html(&documents), &folder), "842");
    let mut differences = Vec::new();
    for (name, markdown) in &documents {
        let pdf = folder.join(format!("{name}.pdf"));
        std::fs::write(&pdf, RENDERER.pdf(&Request::markdown(markdown)).unwrap().bytes).unwrap();
        let ours = letters(&pdf, FOOT_PT);
        let (_, theirs) = printed.split_once(&mark(name)).expect("its mark is printed");
        let theirs = theirs.split("MARK").next().unwrap_or_default();
        let is_same = match BOTH_DIRECTIONS.contains(&name.as_str()) {
            true => has_all(&ours, theirs),
            false => theirs.replace(REPEATED_HEAD, "") == ours.replace(REPEATED_HEAD, ""),
        };
        if !is_same {
            differences.push(format!("{name}: {}", changes(theirs, &ours)));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Whether every letter of `theirs` is there, as often as it is there.
fn has_all(ours: &str, theirs: &str) -> bool {
    theirs
        .chars()
        .all(|c| ours.matches(c).count() >= theirs.matches(c).count())
}

/// What was left out and what was added, with their signs.
fn changes(theirs: &str, ours: &str) -> String {
    let diff = TextDiff::configure()
        .timeout(Duration::from_secs(5))
        .diff_chars(theirs, ours);
    let mut out = String::new();
    let mut last = ChangeTag::Equal;
    for change in diff.iter_all_changes() {
        if change.tag() != ChangeTag::Equal {
            if change.tag() != last {
                out.push_str(&format!(" {}", change.tag()));
            }
            out.push_str(change.value());
        }
        last = change.tag();
    }
    out
}
