//! What touches the world only in named places: files, environment, clock, randomness.
//!
//! A rule of its own instead of clippy's `disallowed-methods`: that is one lint, so a module allowed to open files would be
//! allowed to read the clock, and it would hold for tests too.

use super::source::{Tree, code_lines, listed};

const PLACES: &str = include_str!("places.txt");

const KINDS: [(&str, &[&str]); 4] = [
    (
        "files",
        &[
            "std::fs",
            "tokio::fs",
            " fs::",
            "(fs::",
            "File::open(",
            "File::create(",
            "OpenOptions::new(",
        ],
    ),
    (
        "environment",
        &["std::env", "env::var", "env::temp_dir", "env::current_"],
    ),
    ("clock", &["Instant::now(", "SystemTime::now(", "Timestamp::now("]),
    (
        "randomness",
        &["getrandom", "fastrand::", " rand::", "RandomState"],
    ),
];

/// Uses outside the named places, and named places without a use.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    check_places(tree, PLACES)
}

fn check_places(tree: &Tree, places: &str) -> Vec<String> {
    let places = listed(places);
    let mut used = vec![false; places.len()];
    let mut wrong = Vec::new();
    for file in tree.production() {
        for (kind, patterns) in KINDS {
            let found = code_lines(&file.text)
                .find(|(_, line)| patterns.iter().any(|pattern| line.contains(pattern)));
            let Some((number, _)) = found else { continue };
            let place = places.iter().position(|(place, _)| {
                let (listed, path) = place.split_once(' ').unwrap_or_default();
                listed == kind && file.name.starts_with(path.trim())
            });
            match place {
                Some(at) => used[at] = true,
                None => wrong.push(format!(
                    "{}:{number}: {kind} outside the named places: take it from outside, or give a reason in \
                     `xtask/src/tidy/places.txt`",
                    file.name
                )),
            }
        }
    }
    let idle = places.iter().zip(&used).filter(|(_, is_used)| !**is_used);
    wrong.extend(
        idle.map(|((place, _), _)| format!("xtask/src/tidy/places.txt: `{place}` is not used: delete it")),
    );
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::source::File;
    use super::*;

    #[test]
    fn a_clock_outside_its_place_is_named_and_a_file_is_another_matter() {
        let file = |name: &str, text: &str| File {
            name: name.into(),
            text: text.into(),
        };
        let tree = Tree {
            files: vec![
                file("crates/a/src/disk.rs", "use std::fs;\nlet t = Instant::now();\n"),
                file("crates/a/src/world.rs", "Instant::now()"),
            ],
        };
        let places = "files crates/a/src/disk.rs: keeps files\nclock crates/a/src/world.rs: it is the clock\n\
                      randomness crates/a/src/x.rs: nothing\n";
        let wrong = check_places(&tree, places);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("crates/a/src/disk.rs:2: clock outside"));
        assert!(wrong[1].contains("`randomness crates/a/src/x.rs` is not used"));
    }
}
