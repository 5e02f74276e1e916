//! Public items that nothing reads: declared once, mentioned nowhere. Wire them or delete them.
//!
//! A reader is production code, an example, a benchmark or a page of documentation; a test alone is none, and neither is
//! `pub use`. Names are compared as words, those of methods as calls (`name(`, `::name`), so a name that something else has
//! too is never found out.

use std::collections::BTreeMap;

use super::source::{Tree, code_lines, has_word, listed};

const EXCEPTIONS: &str = include_str!("unread.txt");

const DECLARATIONS: [&str; 8] = [
    "pub fn ",
    "pub async fn ",
    "pub const fn ",
    "pub const ",
    "pub static ",
    "pub struct ",
    "pub enum ",
    "pub type ",
];

/// Items without a reader, and exceptions that are none.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    check_except(tree, EXCEPTIONS)
}

fn check_except(tree: &Tree, exceptions: &str) -> Vec<String> {
    let exceptions = listed(exceptions);
    let mut mentions: BTreeMap<&str, Mentions> = BTreeMap::new();
    for line in read_lines(tree) {
        for (at, word) in words(line) {
            let of_word = mentions.entry(word).or_default();
            of_word.all += 1;
            of_word.calls += usize::from(is_call(line, at, word));
        }
    }
    let mut unread = Vec::new();
    // What only tests link is read by tests.
    let is_shipped = |name: &str| !name.contains("annals-testbed/") && !name.contains("-double/");
    for file in tree.production().filter(|file| is_shipped(&file.name)) {
        let lines: Vec<(usize, &str)> = code_lines(&file.text).collect();
        for (at, (number, line)) in lines.iter().enumerate() {
            let Some(name) = declared(line) else { continue };
            let found = mentions.get(name).copied().unwrap_or_default();
            // Its own declaration is one mention.
            let is_read = match is_method(&lines[at..]) {
                true => found.calls > 0,
                false => found.all > 1,
            };
            if !is_read {
                unread.push((name, format!("{}:{number}", file.name)));
            }
        }
    }
    let is_excepted = |name: &str| exceptions.iter().any(|(listed, _)| *listed == name);
    let mut wrong: Vec<String> = unread
        .iter()
        .filter(|(name, _)| !is_excepted(name))
        .map(|(name, place)| {
            format!("{place}: nothing reads `{name}`: wire it, delete it, or give a reason in `xtask/src/tidy/unread.txt`")
        })
        .collect();
    let idle = exceptions
        .iter()
        .filter(|(name, _)| !unread.iter().any(|(found, _)| found == name));
    wrong.extend(
        idle.map(|(name, _)| format!("xtask/src/tidy/unread.txt: `{name}` is read or gone: delete it")),
    );
    wrong
}

/// How often a word stands somewhere.
#[derive(Clone, Copy, Default)]
struct Mentions {
    all: usize,
    calls: usize,
}

/// The words of a line, with where they begin.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.map(move |word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}

/// Whether a word is called, or named by its path, and not declared.
fn is_call(line: &str, at: usize, word: &str) -> bool {
    let (before, after) = (&line[..at], &line[at + word.len()..]);
    !before.ends_with("fn ") && (before.ends_with("::") || after.starts_with('(') || after.starts_with("::<"))
}

/// Whether a declaration has a receiver; it may begin on the next line.
fn is_method(lines: &[(usize, &str)]) -> bool {
    let text: String = lines.iter().take(2).map(|(_, line)| *line).collect();
    let parameters = text.split_once('(').map_or("", |(_, rest)| rest);
    has_word(parameters.split([',', ')']).next().unwrap_or_default(), "self")
}

/// Lines that count as readers.
fn read_lines(tree: &Tree) -> impl Iterator<Item = &str> {
    let is_reader = |name: &str| {
        let is_documentation = name == "README.md" || name.starts_with("docs/");
        let is_program = ["/examples/", "/benches/", "bench/"]
            .iter()
            .any(|part| name.contains(part));
        is_documentation || is_program
    };
    let others = tree.files.iter().filter(move |file| is_reader(&file.name));
    let production = tree.production().flat_map(|file| code_lines(&file.text));
    production
        .map(|(_, line)| line)
        .filter(|line| !line.trim_start().starts_with("pub use") && !has_word(line, "derive"))
        .chain(others.flat_map(|file| file.text.lines()))
}

/// The name that a line declares for everyone.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = DECLARATIONS.iter().find_map(|start| line.strip_prefix(start))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (end > 0).then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::super::source::File;
    use super::*;

    #[test]
    fn what_only_tests_and_re_exports_mention_is_unread() {
        let file = |name: &str, text: &str| File {
            name: name.into(),
            text: text.into(),
        };
        let tree = Tree {
            files: vec![
                file(
                    "crates/a/src/lib.rs",
                    "pub use x::Unused;\npub fn read_it() {}\npub struct Unused;\npub const LIMIT_BYTES: u8 = 1;\n\
                     #[cfg(test)]\nmod tests {\n Unused; LIMIT_BYTES\n}\n",
                ),
                file("crates/a/src/b.rs", "fn f() { read_it(); x.width; y.height(); }"),
                file(
                    "crates/a/src/c.rs",
                    "pub fn width(&self) {\npub async fn height(\n    &self,\n    n: u8,\n",
                ),
                file("crates/a/tests/t.rs", "Unused"),
            ],
        };
        let wrong = check_except(&tree, "LIMIT_BYTES: for hosts\nread_it: wrong\n");
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].starts_with("crates/a/src/lib.rs:3: nothing reads `Unused`"));
        assert!(wrong[1].starts_with("crates/a/src/c.rs:1: nothing reads `width`"));
        assert!(wrong[2].contains("`read_it` is read or gone"));
    }
}
