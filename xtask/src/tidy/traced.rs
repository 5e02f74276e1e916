//! What documents name: files of the repository, which must be there, and tests (`FILE.rs::NAME`), which must be tests.

use super::source::Tree;

/// The folders whose files documents name by their whole path.
const FOLDERS: [&str; 7] = [
    "crates/",
    "xtask/",
    "bench/",
    "docs/",
    "examples/",
    "fixtures/",
    "deploy/",
];

/// What tells of changes names what was there at the time.
const HISTORY: &str = "CHANGELOG.md";

/// Names that lead nowhere.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let documents = tree.files.iter();
    let documents = documents.filter(|file| file.name.ends_with(".md") && file.name != HISTORY);
    documents
        .flat_map(|document| {
            let spans = document.text.split('`').skip(1).step_by(2);
            let complaints =
                spans.filter_map(|span| missing_test(tree, span).or_else(|| missing(tree, span)));
            complaints.map(|complaint| format!("{}: {complaint}", document.name))
        })
        .collect()
}

fn missing_test(tree: &Tree, span: &str) -> Option<String> {
    let (file, name) = test(span)?;
    match tree.get(file) {
        None => Some(format!("there is no file `{file}`")),
        Some(text) if !has_test(text, name) => Some(format!("`{file}` has no test `{name}`")),
        Some(_) => None,
    }
}

/// A file or a folder that is not there. A span with a gap in it (`crates/<name>/src`) names none.
fn missing(tree: &Tree, span: &str) -> Option<String> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_named = FOLDERS.iter().any(|folder| span.starts_with(folder)) && span.chars().all(is_path);
    if !is_named {
        return None;
    }
    let folder = format!("{}/", span.trim_end_matches('/'));
    let is_there = |name: &str| name == span || name.starts_with(&folder);
    let is_missing = !tree.files.iter().any(|file| is_there(&file.name));
    is_missing.then(|| format!("there is no file `{span}`"))
}

/// The file and the name, if a span of code is of this form.
fn test(span: &str) -> Option<(&str, &str)> {
    let (file, name) = span.split_once("::")?;
    (file.ends_with(".rs") && file.contains('/')).then_some((file, name))
}

/// Whether a function of this name stands right behind an attribute that makes it a test.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let declaration = format!("fn {name}(");
    lines.iter().enumerate().any(|(at, line)| {
        let is_declared = line
            .strip_prefix("async ")
            .unwrap_or(line)
            .starts_with(&declaration);
        let before = lines[..at].iter().rev();
        let mut attributes = before.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        is_declared && attributes.any(|line| line.starts_with("#[") && line.contains("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::File;
    use super::*;

    #[test]
    fn a_document_may_name_only_tests_that_are_there() {
        let file = |name: &str, text: &str| File {
            name: name.to_owned(),
            text: text.to_owned(),
        };
        let tests = "#[tokio::test]\n#[ignore]\nasync fn one() {}\n\n#[test]\n/// Says why.\nfn two() {}\n\nfn helper() {}\n";
        let tree = Tree {
            files: vec![
                file("a/tests/b.rs", tests),
                file("bench/a/b.rs", ""),
                file("CHANGELOG.md", "`bench/gone.rs`"),
                file(
                    "docs/x.md",
                    "`bench/a`, `bench/a/b.rs`, `bench/<name>.rs`, `bench/c.rs` and `a/tests/b.rs::one`, `a/tests/b.rs::two`, `a/tests/b.rs::helper`, `a/tests/b.rs::gone`, `a/c.rs::one`, `Vec::new`",
                ),
            ],
        };
        assert_eq!(
            check(&tree),
            [
                "docs/x.md: there is no file `bench/c.rs`",
                "docs/x.md: `a/tests/b.rs` has no test `helper`",
                "docs/x.md: `a/tests/b.rs` has no test `gone`",
                "docs/x.md: there is no file `a/c.rs`",
            ]
        );
    }
}
