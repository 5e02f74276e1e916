//! Public items that nothing reads: declared once, mentioned nowhere. Wire them or delete them.
//!
//! A reader is production code, an example, a benchmark or a page of documentation; a test alone is none, and neither is
//! `pub use`. Names are compared as words, so a name that something else has too is never found out.

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
    let mut words: BTreeMap<&str, usize> = BTreeMap::new();
    for line in read_lines(tree) {
        let of_line = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        of_line.for_each(|word| *words.entry(word).or_default() += 1);
    }
    let mut unread = Vec::new();
    for file in tree.production() {
        for (number, line) in code_lines(&file.text) {
            let Some(name) = declared(line) else { continue };
            // Its own declaration is one mention.
            if words.get(name).is_none_or(|mentions| *mentions < 2) {
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
                file("crates/a/src/b.rs", "fn f() { read_it(); }"),
                file("crates/a/tests/t.rs", "Unused"),
            ],
        };
        let wrong = check_except(&tree, "LIMIT_BYTES: for hosts\nread_it: wrong\n");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("crates/a/src/lib.rs:3: nothing reads `Unused`"));
        assert!(wrong[1].contains("`read_it` is read or gone"));
    }
}
