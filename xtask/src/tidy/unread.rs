//! Public items that nothing reads: declared once, mentioned nowhere. Wire them or delete them.
//!
//! A reader is production code, an example, a benchmark or a page of documentation; a test alone is none, and neither is
//! `pub use`. Names are compared as words, those of methods as calls (`name(`, `::name`). A call does not read a method of a
//! crate that its own crate is not built from, nor one of a crate's if a method of that name is declared next to the call:
//! in its file, or for others in its folder. Beyond that, two methods of one name are not told apart.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{File, Tree, code_lines, has_word, listed};

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
    let mut mentions: BTreeMap<&str, Mentions<'_>> = BTreeMap::new();
    for (reader, line) in read_lines(tree) {
        for (at, word) in words(line) {
            let of_word = mentions.entry(word).or_default();
            of_word.all += 1;
            if is_call(line, at, word) {
                of_word.callers.insert(reader);
            }
        }
    }
    let (methods, crates) = (Methods::of(tree), Crates::of(tree));
    let mut unread = Vec::new();
    // What only tests link is read by tests.
    let is_shipped = |name: &str| !name.contains("annals-testbed/") && !name.contains("-double/");
    for file in tree.production().filter(|file| is_shipped(&file.name)) {
        let lines: Vec<(usize, &str)> = code_lines(&file.text).collect();
        for (at, (number, line)) in lines.iter().enumerate() {
            let Some(name) = declared(line) else { continue };
            let is_reader = |caller: &Option<&str>| {
                // Documentation, examples and benchmarks may speak of anything.
                caller.is_none_or(|caller| {
                    crates.may_call(caller, &file.name) && !methods.has_own(name, caller, &file.name)
                })
            };
            let is_read = mentions
                .get(name)
                .is_some_and(|found| match is_method(&lines[at..]) {
                    true => found.callers.iter().any(is_reader),
                    // Its own declaration is one mention.
                    false => found.all > 1,
                });
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

/// Where a word stands.
#[derive(Default)]
struct Mentions<'a> {
    all: usize,
    /// Files with a call; none for what is no production code.
    callers: BTreeSet<Option<&'a str>>,
}

/// Where methods are declared, by name: files, and for those that others see their modules too.
struct Methods<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Methods<'a> {
    fn of(tree: &'a Tree) -> Self {
        let mut methods: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for file in tree.production() {
            let lines: Vec<(usize, &str)> = code_lines(&file.text).collect();
            for (at, (_, line)) in lines.iter().enumerate() {
                let Some((before, rest)) = line.split_once("fn ") else {
                    continue;
                };
                if is_method(&lines[at..])
                    && let Some((_, name)) = words(rest).next()
                {
                    let places = methods.entry(name).or_default();
                    places.insert(&file.name);
                    if before.trim_start().starts_with("pub") {
                        places.insert(module(&file.name));
                    }
                }
            }
        }
        Methods(methods)
    }

    /// Whether a call is meant for a method that is declared next to it, and not for the one in this file.
    fn has_own(&self, name: &str, caller: &str, declared_in: &str) -> bool {
        let is_near = module(caller) == module(declared_in);
        let places = self.0.get(name).filter(|_| !is_near);
        places.is_some_and(|places| places.contains(caller) || places.contains(module(caller)))
    }
}

/// The folder of a module; files at the root of a crate are modules of their own.
fn module(file: &str) -> &str {
    match file.rsplit_once('/') {
        Some((folder, _)) if !folder.ends_with("/src") => folder,
        _ => file,
    }
}

/// Which of our crates a crate is built from.
struct Crates<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Crates<'a> {
    fn of(tree: &'a Tree) -> Self {
        let own = |file: &'a File| {
            let name = file.name.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            let text = file.text.split("[dev-dependencies]").next().unwrap_or_default();
            let lines = text.lines().filter_map(|line| line.split(['.', ' ']).next());
            let parts: BTreeSet<&str> = lines.filter(|word| word.starts_with("annals")).collect();
            Some((name, parts))
        };
        let mut crates: BTreeMap<&str, BTreeSet<&str>> = tree.files.iter().filter_map(own).collect();
        loop {
            let whole: BTreeMap<&str, BTreeSet<&str>> = crates
                .iter()
                .map(|(name, parts)| {
                    let inner = parts.iter().filter_map(|part| crates.get(part)).flatten();
                    (*name, parts.iter().chain(inner).copied().collect())
                })
                .collect();
            if whole == crates {
                return Crates(crates);
            }
            crates = whole;
        }
    }

    fn may_call(&self, caller: &str, declared_in: &str) -> bool {
        let (caller, declared_in) = (caller.split('/').nth(1), declared_in.split('/').nth(1));
        let (Some(caller), Some(declared_in)) = (caller, declared_in) else {
            return true;
        };
        // What a macro writes is compiled where it is used.
        let is_macro = caller.ends_with("-macro");
        is_macro
            || caller == declared_in
            || self
                .0
                .get(caller)
                .is_some_and(|parts| parts.contains(declared_in))
    }
}

/// The words of a line, with where they begin.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.map(move |word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}

/// Whether a word is called, or named by its path, and neither declared nor a module.
fn is_call(line: &str, at: usize, word: &str) -> bool {
    let (before, after) = (&line[..at], &line[at + word.len()..]);
    let is_named =
        before.ends_with("::") && !after.starts_with("::") && !before.trim_start().starts_with("use ");
    !before.ends_with("fn ") && (is_named || after.starts_with('(') || after.starts_with("::<"))
}

/// Whether a declaration has a receiver; it may begin on the next line.
fn is_method(lines: &[(usize, &str)]) -> bool {
    let text: String = lines.iter().take(2).map(|(_, line)| *line).collect();
    // `pub(super)` has a parenthesis of its own.
    let signature = text.split_once("fn ").map_or(text.as_str(), |(_, rest)| rest);
    let parameters = signature.split_once('(').map_or("", |(_, rest)| rest);
    has_word(parameters.split([',', ')']).next().unwrap_or_default(), "self")
}

/// Lines that count as readers, with their file where it is production code.
fn read_lines(tree: &Tree) -> impl Iterator<Item = (Option<&str>, &str)> {
    let is_reader = |name: &str| {
        let is_documentation = name == "README.md" || name.starts_with("docs/");
        let is_program = ["/examples/", "/benches/", "bench/"]
            .iter()
            .any(|part| name.contains(part));
        is_documentation || is_program
    };
    let others = tree.files.iter().filter(move |file| is_reader(&file.name));
    let production = tree.production().flat_map(|file| {
        let lines = code_lines(&file.text);
        lines.map(move |(_, line)| (Some(&*file.name), line))
    });
    production
        .filter(|(_, line)| !line.trim_start().starts_with("pub use") && !has_word(line, "derive"))
        .chain(others.flat_map(|file| file.text.lines().map(|line| (None, line))))
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
    use super::*;

    fn file(name: &str, text: &str) -> File {
        File {
            name: name.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_namesake_of_another_type_is_no_reader() {
        let mut tree = Tree {
            files: vec![
                file(
                    "crates/annals-top/Cargo.toml",
                    "[dependencies]\nannals-mid.workspace = true\n",
                ),
                file(
                    "crates/annals-mid/Cargo.toml",
                    "[dependencies]\nannals-low = { x }\n[dev-dependencies]\nannals-top = 1\n",
                ),
                file("crates/annals-low/Cargo.toml", ""),
                file(
                    "crates/annals-mid/src/lib.rs",
                    "pub fn merge(&self) {}\npub fn lineage(&self) {}\n",
                ),
                file("crates/annals-low/src/lib.rs", "fn f() { pool.merge(rows) }\n"),
                file(
                    "crates/annals-top/src/face/own.rs",
                    "use mid::lineage;\npub(super) fn lineage(&self) {}\n",
                ),
                file(
                    "crates/annals-top/src/face/ask.rs",
                    "fn f() { lineage::ask(); transcript.lineage() }\n",
                ),
            ],
        };
        let wrong = check_except(&tree, "");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("nothing reads `merge`") && wrong[1].contains("nothing reads `lineage`"));
        tree.files.push(file(
            "crates/annals-top/src/host.rs",
            "fn f() { agent.merge(x); agent.lineage(y) }\n",
        ));
        assert_eq!(check_except(&tree, ""), Vec::<String>::new());
    }

    #[test]
    fn what_only_tests_and_re_exports_mention_is_unread() {
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
