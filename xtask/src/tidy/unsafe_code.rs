//! A crate without unsafe code says so, so that the compiler keeps it without.

use super::source::{Tree, has_word};

const FORBIDS: &str = "#![forbid(unsafe_code)]";

/// Roots of crates that could forbid it and do not.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let roots = tree.sources().filter(|file| {
        let parts: Vec<&str> = file.name.split('/').collect();
        matches!(parts[..], ["crates", _, "src", "lib.rs"])
    });
    let silent = roots.filter(|root| !root.text.contains(FORBIDS));
    let needless = silent.filter(|root| {
        let folder = root.name.trim_end_matches("lib.rs");
        let mut sources = tree.sources().filter(|file| file.name.starts_with(folder));
        !sources.any(|file| has_word(&file.text, "unsafe"))
    });
    needless
        .map(|root| format!("{}: has no unsafe code: write `{FORBIDS}`", root.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::File;
    use super::*;

    #[test]
    fn a_crate_without_unsafe_code_must_forbid_it() {
        let file = |name: &str, text: &str| File {
            name: name.into(),
            text: text.into(),
        };
        let tree = Tree {
            files: vec![
                file("crates/a/src/lib.rs", "mod x;"),
                file("crates/a/src/x.rs", "unsafe { f() }"),
                file("crates/b/src/lib.rs", "#![forbid(unsafe_code)]"),
                file("crates/c/src/lib.rs", "pub struct UnsafePath;"),
                file("crates/c/tests/t.rs", "unsafe { f() }"),
            ],
        };
        assert_eq!(
            check(&tree),
            ["crates/c/src/lib.rs: has no unsafe code: write `#![forbid(unsafe_code)]`"]
        );
    }
}
