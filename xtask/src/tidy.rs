//! `cargo xtask tidy`: rules of this repository that neither rustfmt nor clippy knows.

use std::path::Path;

use anyhow::bail;

use crate::flags::Flags;
use crate::repository::{root, tracked_files};

/// A file with more lines is named, as a sign to look for the missing noun. It does not fail.
const LONG_FILE_LINES: usize = 700;

/// Folders of somebody's machine, without their slash, so that this file does not name one.
const MACHINE_FOLDERS: [&str; 3] = ["root", "work", "home"];

/// `cargo xtask tidy`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    Flags::new(arguments).done()?;
    check()
}

/// Looks at every tracked file; names what is wrong and then fails.
pub(crate) fn check() -> anyhow::Result<()> {
    let files = tracked_files()?;
    let (mut wrong, mut long) = (Vec::new(), Vec::new());
    for file in &files {
        // Gone from the working tree, or not text: nothing to say about it.
        let Ok(text) = std::fs::read_to_string(root().join(file)) else {
            continue;
        };
        let name = file.display();
        for (number, line) in text.lines().enumerate() {
            if let Some(folder) = machine_path(line) {
                wrong.push(format!(
                    "{name}:{}: names a path of a machine (`/{folder}`)",
                    number + 1
                ));
            }
        }
        if needs_header(file) && !text.trim_start().starts_with("//!") {
            wrong.push(format!(
                "{name}: begins without `//!`: say what the module keeps and what it must not do"
            ));
        }
        let lines = text.lines().count();
        if lines > LONG_FILE_LINES && is_source(file) {
            long.push(format!("{name}: {lines} lines"));
        }
    }
    long.iter().for_each(|file| println!("long file: {file}"));
    wrong.iter().for_each(|what| println!("{what}"));
    if !wrong.is_empty() {
        bail!("{} things to tidy, named above", wrong.len());
    }
    println!("{} files are tidy, {} of them long", files.len(), long.len());
    Ok(())
}

fn is_source(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs")
}

/// Modules, and the roots of tests, benches and examples. What lies below a `tests` folder or is called so belongs to
/// the module or the root beside it.
fn needs_header(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    let Some(name) = parts.last().filter(|_| is_source(file)) else {
        return false;
    };
    let below_tests = parts.iter().rev().skip(1).any(|part| part == "tests");
    match below_tests {
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
    fn modules_and_roots_need_a_header_and_test_modules_do_not() {
        for (file, needs) in [
            ("crates/a/src/lib.rs", true),
            ("crates/a/src/x/y.rs", true),
            ("crates/a/src/x/tests.rs", false),
            ("crates/a/tests/laws.rs", true),
            ("crates/a/tests/behaviour/main.rs", true),
            ("crates/a/tests/behaviour/table.rs", false),
            ("crates/a/benches/core.rs", true),
            ("docs/x.md", false),
        ] {
            assert_eq!(needs_header(Path::new(file)), needs, "{file}");
        }
    }
}
