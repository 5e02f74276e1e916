//! `cargo xtask tidy`: rules of this repository that neither rustfmt nor clippy knows.
//!
//! Each rule is a function from the tracked files to complaints; a complaint names the file and what to do. The rules
//! read text, not syntax: what they cannot see is for reviewers, and what they complain about wrongly has a list with a
//! reason beside them (`places.txt`, `unread.txt`).

mod features;
mod map;
mod places;
mod questions;
mod shared_build;
mod small_program;
mod source;
mod traced;
mod unread;
mod unsafe_code;

use anyhow::bail;

use crate::docs::{dependencies, limits};
use crate::flags::Flags;
use source::Tree;

/// A file with more lines is named, as a sign to look for the missing noun. It does not fail.
const LONG_FILE_LINES: usize = 700;

/// Folders of somebody's machine, without their slash, so that this file does not name one.
const MACHINE_FOLDERS: [&str; 3] = ["root", "work", "home"];

const EMPTY_COMMENTS: [&str; 5] = ["Why.", "Does it.", "See above.", "As above.", "The same."];
const PRIVATE_WORDS: [(&str, &str); 3] = [
    (" so many ", "which number, by the name of its parameter"),
    ("walled in", "`isolated`, or what isolates it"),
    ("made anew", "`rebuilt`"),
];

/// `cargo xtask tidy`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    Flags::new(arguments).done()?;
    check()
}

/// Looks at every tracked file; names what is wrong and then fails.
pub(crate) fn check() -> anyhow::Result<()> {
    let tree = Tree::read()?;
    let mut wrong = Vec::new();
    wrong.extend(machine_paths(&tree));
    wrong.extend(unmerged(&tree));
    wrong.extend(missing_headers(&tree));
    wrong.extend(idle_comments(&tree));
    wrong.extend(map::check(&tree));
    wrong.extend(places::check(&tree));
    wrong.extend(questions::check(&tree));
    wrong.extend(traced::check(&tree));
    wrong.extend(unread::check(&tree));
    wrong.extend(unsafe_code::check(&tree));
    wrong.extend(features::check(&tree)?);
    wrong.extend(shared_build::check()?);
    wrong.extend(small_program::check()?);
    wrong.extend(dependencies::check()?);
    wrong.extend(limits::check()?);
    let long = tree
        .sources()
        .filter(|file| file.text.lines().count() > LONG_FILE_LINES);
    long.for_each(|file| println!("long file: {}", file.name));
    wrong.iter().for_each(|complaint| println!("{complaint}"));
    if !wrong.is_empty() {
        bail!("{} things to tidy, named above", wrong.len());
    }
    println!("{} files are tidy", tree.files.len());
    Ok(())
}

fn machine_paths(tree: &Tree) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in &tree.files {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(folder) = machine_path(line) {
                let place = format!("{}:{}", file.name, number + 1);
                wrong.push(format!("{place}: names a path of a machine (`/{folder}`)"));
            }
        }
    }
    wrong
}

/// Files in which git has left both sides of a merge.
fn unmerged(tree: &Tree) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in &tree.files {
        let marker = file.text.lines().position(is_marker);
        wrong.extend(marker.map(|at| format!("{}:{}: is not merged: choose a side", file.name, at + 1)));
    }
    wrong
}

fn is_marker(line: &str) -> bool {
    ["<<<<<<<", ">>>>>>>"].iter().any(|marker| {
        line.strip_prefix(marker)
            .is_some_and(|rest| rest.starts_with(' '))
    })
}

fn missing_headers(tree: &Tree) -> Vec<String> {
    let bare = tree
        .sources()
        .filter(|file| needs_header(&file.name) && !file.text.trim_start().starts_with("//!"));
    bare.map(|file| {
        format!(
            "{}: begins without `//!`: say what the module keeps and what it must not do",
            file.name
        )
    })
    .collect()
}

/// Comments that say nothing, and words that readers of the field do not know.
fn idle_comments(tree: &Tree) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in tree.sources() {
        for (number, line) in file.text.lines().enumerate() {
            let Some(comment) = comment(line) else { continue };
            let place = format!("{}:{}", file.name, number + 1);
            if EMPTY_COMMENTS.contains(&comment) {
                wrong.push(format!(
                    "{place}: `{comment}` says nothing: say it, or delete the comment"
                ));
            }
            for (word, instead) in PRIVATE_WORDS {
                if comment.contains(word) {
                    wrong.push(format!("{place}: instead of `{word}` write {instead}"));
                }
            }
        }
    }
    wrong
}

/// What a line says that is a comment.
fn comment(line: &str) -> Option<&str> {
    let comment = line.trim_start().strip_prefix("//")?;
    Some(comment.trim_start_matches(['/', '!']).trim())
}

/// Modules, and the roots of tests, benches and examples. What lies below a `tests` folder or is called so belongs to
/// the module or the root beside it.
fn needs_header(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    let name = parts[parts.len() - 1];
    match parts[..parts.len() - 1].contains(&"tests") {
        true => parts.len() == 4 || name == "main.rs",
        false => !name.ends_with("tests.rs"),
    }
}

/// The folder of somebody's machine that a line names as an absolute path.
fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_FOLDERS.into_iter().find(|folder| {
        let path = format!("/{folder}");
        line.match_indices(&path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + path.len()..].chars().next();
            let begins = before.is_none_or(|c| !c.is_alphanumeric() && !"/._-}>".contains(c));
            // Another user's folder is meant only with a name after it.
            let ends = match *folder {
                "home" => after == Some('/'),
                _ => after.is_none_or(|c| !c.is_alphanumeric() && !"_-.".contains(c)),
            };
            begins && ends
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_of_a_machine_are_found_and_others_are_not() {
        for (line, folder) in [
            ("cd /{}/main", "work"),
            ("\"/{}\"", "root"),
            ("see `/{}/ann/x`", "home"),
            ("(/{})", "work"),
        ] {
            assert_eq!(machine_path(&line.replace("{}", folder)), Some(folder), "{line}");
        }
        for line in [
            "/workspace",
            "/proc/self/root",
            "https://example.org/work",
            "a/home/b",
            "/rootfs",
            "~/home",
        ] {
            assert_eq!(machine_path(line), None, "{line}");
        }
    }

    #[test]
    fn comments_that_say_nothing_are_found() {
        let file = |text: &str| source::File {
            name: "crates/a/src/lib.rs".into(),
            text: text.into(),
        };
        let idle = |text: &str| {
            idle_comments(&Tree {
                files: vec![file(text)],
            })
            .len()
        };
        assert_eq!(idle("    /// Why.\n    reason: String,\n"), 1);
        assert_eq!(idle("/// Starts so many nodes.\n"), 1);
        assert_eq!(
            idle("/// Why it failed.\nlet why = \"Why.\"; // not so many\n"),
            0
        );
    }

    #[test]
    fn what_git_leaves_of_a_merge_is_found() {
        assert!(is_marker("<<<<<<< HEAD") && is_marker(">>>>>>> branch"));
        assert!(!is_marker("=======") && !is_marker("x <<<<<<< y") && !is_marker("<<<<<<<<"));
    }

    #[test]
    fn modules_and_roots_need_a_header_and_test_modules_do_not() {
        for (file, needs) in [
            ("crates/a/src/lib.rs", true),
            ("crates/a/src/x/y.rs", true),
            ("crates/a/src/x/tests.rs", false),
            ("crates/a/tests/laws.rs", true),
            ("crates/a/tests/behaviour/main.rs", true),
            ("crates/a/tests/behaviour/table.rs", false),
            ("crates/a/benches/core.rs", true),
        ] {
            assert_eq!(needs_header(file), needs, "{file}");
        }
    }
}
