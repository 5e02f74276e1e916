//! Tests that documents name as `FILE.rs::NAME`: each must be there, and must be a test.

use super::source::Tree;

/// Names of tests that lead nowhere.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let documents = tree.files.iter().filter(|file| file.name.ends_with(".md"));
    documents
        .flat_map(|document| {
            let named = document.text.split('`').skip(1).step_by(2).filter_map(test);
            named.filter_map(move |(file, name)| {
                let complaint = match tree.get(file) {
                    None => format!("there is no file `{file}`"),
                    Some(text) if !has_test(text, name) => format!("`{file}` has no test `{name}`"),
                    Some(_) => return None,
                };
                Some(format!("{}: {complaint}", document.name))
            })
        })
        .collect()
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
                file(
                    "docs/x.md",
                    "`a/tests/b.rs::one`, `a/tests/b.rs::two`, `a/tests/b.rs::helper`, `a/tests/b.rs::gone`, `a/c.rs::one`, `Vec::new`",
                ),
            ],
        };
        assert_eq!(
            check(&tree),
            [
                "docs/x.md: `a/tests/b.rs` has no test `helper`",
                "docs/x.md: `a/tests/b.rs` has no test `gone`",
                "docs/x.md: there is no file `a/c.rs`",
            ]
        );
    }
}
