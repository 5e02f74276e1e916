//! The code map of ARCHITECTURE.md against the tree: every source file has a line or lies below a folder that has one,
//! and no line names a file that is not there.

use super::source::Tree;

const MAP: &str = "ARCHITECTURE.md";

/// Files without a line, and names without a file.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let text = tree.get(MAP).unwrap_or_default();
    let map = text.split("\n## Code map\n").nth(1).unwrap_or_default();
    let map = map.split("\n## ").next().unwrap_or_default();
    let mut wrong = Vec::new();
    let sections: Vec<(&str, &str)> = map
        .split("\n### ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .collect();
    for (name, rows) in &sections {
        let prefix = format!("crates/{}/", name.trim());
        let files = tree.files.iter().map(|file| &*file.name);
        let files: Vec<&str> = files.filter_map(|file| file.strip_prefix(&*prefix)).collect();
        wrong.extend(section(name, rows, &files));
    }
    let crates = tree.files.iter().filter_map(|file| {
        let name = file.name.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        (!sections.iter().any(|(section, _)| section.trim() == name)).then_some(name)
    });
    wrong.extend(crates.map(|name| format!("{MAP}: the code map has no section `### {name}`")));
    wrong
}

fn section(name: &str, rows: &str, files: &[&str]) -> Vec<String> {
    let names = named(rows);
    let sources: Vec<&str> = files
        .iter()
        .filter_map(|file| file.strip_prefix("src/"))
        .filter(|file| file.ends_with(".rs") && !file.ends_with("tests.rs"))
        .collect();
    let is_named = |file: &&str| names.iter().any(|name| covers(name, file));
    let unnamed = sources
        .iter()
        .filter(|file| **file != "lib.rs" && !is_named(file));
    let mut wrong: Vec<String> = unnamed
        .map(|file| format!("{MAP}: the map of `{name}` has no line for `{file}`"))
        .collect();
    let exists = |wanted: &&String| {
        sources.iter().any(|file| covers(wanted, file))
            || files.iter().any(|file| file.starts_with(wanted.as_str()))
    };
    let gone = names.iter().filter(|name| !exists(name));
    wrong.extend(gone.map(|gone| format!("{MAP}: the map of `{name}` names `{gone}`, which is not there")));
    wrong
}

/// Everything in backticks that is a file or a folder. A name without a folder may follow one with a folder in its row.
fn named(rows: &str) -> Vec<String> {
    let quoted = rows.split('`').skip(1).step_by(2);
    quoted
        .filter(|name| (name.ends_with(".rs") || name.ends_with('/')) && !name.contains(' '))
        .map(str::to_owned)
        .collect()
}

/// Whether a name of the map means a file: the file itself wherever it lies, a folder above it, or a file in the folder
/// that a `mod.rs` opens.
fn covers(name: &str, file: &str) -> bool {
    if file
        .strip_suffix("mod.rs")
        .is_some_and(|folder| !folder.is_empty() && name.starts_with(folder))
    {
        return true;
    }
    match name.strip_suffix('/') {
        Some(folder) => {
            file.starts_with(name) || file.contains(&format!("/{name}")) || file == format!("{folder}.rs")
        }
        None => file == name || file.ends_with(&format!("/{name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_needs_a_line_or_a_folder_and_a_line_a_file() {
        let rows =
            "| `a.rs`, `x/b.rs`, `c.rs` | `d.rs` beside it |\n| `y/` | all of `y` |\n| `gone.rs` | |\n";
        let files = [
            "src/lib.rs",
            "src/a.rs",
            "src/x/b.rs",
            "src/x/c.rs",
            "src/x/d.rs",
            "src/y/mod.rs",
            "src/y/deep/e.rs",
            "src/y/tests.rs",
            "src/new.rs",
        ];
        assert_eq!(
            section("n", rows, &files),
            [
                "ARCHITECTURE.md: the map of `n` has no line for `new.rs`",
                "ARCHITECTURE.md: the map of `n` names `gone.rs`, which is not there"
            ]
        );
    }
}
