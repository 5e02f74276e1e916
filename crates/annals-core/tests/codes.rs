//! The list of codes and its page say the same, and no code of this repository is written anywhere else.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use annals_core::code::Code;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_page_lists_every_code_with_its_meaning() {
    let page = fs::read_to_string(root().join("docs/codes.md")).unwrap();
    let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = Code::ALL
        .iter()
        .map(|code| format!("| `{code}` | {} |", code.meaning()))
        .collect();
    assert_eq!(listed, expected);
}

#[test]
fn codes_are_distinct_words_that_read_back() {
    let words: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(words.len(), Code::ALL.len());
    let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
    for word in words {
        assert!(word.chars().all(is_plain), "{word}");
        assert_eq!(Code::of(word).map(Code::as_str), Some(word));
    }
    assert_eq!(Code::of("a_code_of_a_host"), None);
}

/// Sources of the library crates, each up to its tests.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            if path.file_name() != Some("tests".as_ref()) {
                sources(&path, found);
            }
        } else if path.extension() == Some("rs".as_ref()) && path.file_name() != Some("tests.rs".as_ref()) {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            // Programs in doc comments are those of other people's tools.
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            found.push((path, lines.collect::<Vec<_>>().join("\n")));
        }
    }
}

fn all_sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap().map(Result::unwrap) {
        sources(&entry.path().join("src"), &mut found);
    }
    assert!(found.len() > 300, "the sources are somewhere else");
    found.retain(|(path, _)| !path.ends_with("annals-core/src/code.rs"));
    found
}

/// Lists of words of their own, which have some words in common with the codes.
const OTHER_LISTS: [(&str, &str); 4] = [
    (
        "annals-sandbox/src/failure.rs",
        "the sandbox knows no results; a test of the tools compares",
    ),
    ("annals-core/src/block/payload/report.rs", "how a turn ended"),
    ("annals-server/src/problem.rs", "problems of HTTP requests"),
    ("annals-model/src/error.rs", "failures of model providers"),
];

/// Codes of one word (`timeout`, `busy`) are words of the language, too, so only the others are looked for.
#[test]
fn no_code_is_spelt_where_it_is_used() {
    let codes = Code::ALL
        .iter()
        .map(|code| code.as_str())
        .filter(|code| code.contains(['_', '.']));
    let codes: Vec<String> = codes.map(|code| format!("\"{code}\"")).collect();
    for (path, code) in all_sources() {
        if OTHER_LISTS.iter().any(|(list, _)| path.ends_with(list)) {
            continue;
        }
        let spelt = codes.iter().find(|spelt| code.contains(spelt.as_str()));
        assert_eq!(spelt, None, "{}: write `Code::…` instead", path.display());
        for made in [
            "ToolFailure::new(",
            "ShownError::new(",
            "Notice::new(",
            "recovery::failed(",
        ] {
            for (at, _) in code.match_indices(made) {
                let argument = code[at + made.len()..].trim_start();
                assert!(
                    !argument.starts_with('"'),
                    "{}: name it in `annals_core::code::Code`: {made}{}",
                    path.display(),
                    argument.lines().next().unwrap_or_default()
                );
            }
        }
    }
}

#[test]
fn every_code_is_used() {
    let sources = all_sources();
    for code in Code::ALL {
        let name = format!("Code::{code:?}");
        let uses = |text: &str| {
            text.match_indices(&name)
                .any(|(at, _)| !text[at + name.len()..].starts_with(|next: char| next.is_alphanumeric()))
        };
        assert!(
            sources.iter().any(|(_, text)| uses(text)),
            "nothing writes `{name}`: use it or remove it"
        );
    }
}
