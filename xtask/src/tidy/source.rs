//! The tracked text files, and what of a Rust file is production code.

use crate::repository::{root, tracked_files};

/// One tracked text file.
pub(super) struct File {
    /// Its path from the root, with `/`.
    pub(super) name: String,
    pub(super) text: String,
}

/// All tracked text files.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
}

impl Tree {
    /// Reads them. What is gone from the working tree, or is not text, is not there.
    pub(super) fn read() -> anyhow::Result<Tree> {
        let read = |path: std::path::PathBuf| {
            let text = std::fs::read_to_string(root().join(&path)).ok()?;
            let name = path.to_string_lossy().into_owned();
            Some(File { name, text })
        };
        let files = tracked_files()?.into_iter().filter_map(read).collect();
        Ok(Tree { files })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.files.iter().find(|file| file.name == name);
        found.map(|file| &*file.text)
    }

    /// Rust files.
    pub(super) fn sources(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.name.ends_with(".rs"))
    }

    /// Rust files of the crates that ship, without tests and conformance suites.
    pub(super) fn production(&self) -> impl Iterator<Item = &File> {
        self.sources().filter(|file| is_production(&file.name))
    }
}

fn is_production(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_shipped = parts.len() > 3 && parts[0] == "crates" && parts[2] == "src";
    is_shipped
        && parts[1] != "annals-requirements"
        && !parts[3..].iter().any(|part| matches!(*part, "tests" | "testing"))
        && !name.ends_with("tests.rs")
}

/// The lines of a Rust file before its test module, with their numbers and without comments.
pub(super) fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..end].lines().enumerate();
    lines
        .map(|(at, line)| (at + 1, line.split("// ").next().unwrap_or_default()))
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with("//"))
}

/// Whether a text has this word as a whole.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        !is_inside(before.chars().next_back()) && !is_inside(after.chars().next())
    })
}

/// `key: reason` lines of a checked-in list; comments begin with `#`.
pub(super) fn listed(list: &str) -> Vec<(&str, &str)> {
    let lines = list
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shipped_code_is_production() {
        for (name, expected) in [
            ("crates/annals-core/src/lib.rs", true),
            ("crates/annals-store/src/sqlite/row.rs", true),
            ("crates/annals-store/src/testing/mod.rs", false),
            ("crates/annals-core/src/x/tests.rs", false),
            ("crates/annals-core/tests/laws.rs", false),
            ("crates/annals-requirements/src/lib.rs", false),
            ("xtask/src/main.rs", false),
        ] {
            assert_eq!(is_production(name), expected, "{name}");
        }
    }

    #[test]
    fn comments_and_test_modules_are_not_code() {
        let text = "a // why\n// b\nc\n#[cfg(test)]\nmod tests {\n d\n}\n";
        let lines: Vec<(usize, &str)> = code_lines(text).collect();
        assert_eq!(lines, [(1, "a "), (3, "c")]);
        assert!(has_word("x(LIMIT)", "LIMIT") && !has_word("A_LIMIT LIMITS", "LIMIT"));
    }
}
