//! Every direct dependency with the reason for it: the notes in `docs/deps/*.md`, one table a crate.

use std::collections::BTreeSet;

use anyhow::Context as _;

use super::cell;
use crate::repository::{crates, root};

const HEAD: &str = "\
# Dependencies

Every direct dependency, and why it is there. Made by `cargo xtask docs` from `docs/deps/*.md`: change those.
Versions are in the root `Cargo.toml`; licences and advisories are checked by `deny.toml`.
";

/// The notes of one file.
struct Notes {
    title: String,
    rows: Vec<(String, String)>,
    remarks: Vec<String>,
}

/// The page.
pub(crate) fn page() -> anyhow::Result<String> {
    let mut page = HEAD.to_owned();
    for (file, text) in note_files()? {
        let notes = read(&file, &text);
        page.push_str(&format!(
            "\n## {}\n\n| dependency | why |\n|---|---|\n",
            notes.title
        ));
        for (names, why) in &notes.rows {
            page.push_str(&format!("| {} | {} |\n", cell(names), cell(why)));
        }
        for remark in &notes.remarks {
            page.push_str(&format!("\n{remark}\n"));
        }
    }
    Ok(page)
}

/// Dependencies in a crate's manifest that no note of that crate mentions, as `crate: name, name`.
pub(crate) fn unexplained() -> anyhow::Result<Vec<String>> {
    let files = note_files()?;
    let mut lines = Vec::new();
    for krate in crates()? {
        let own = files.iter().filter(|(file, _)| owner(file) == krate.name);
        let words: BTreeSet<String> = own.flat_map(|(file, text)| words(&read(file, text))).collect();
        let manifest = std::fs::read_to_string(krate.folder.join("Cargo.toml"))?;
        let missing: Vec<String> = direct(&manifest)
            .into_iter()
            .filter(|name| !words.contains(name))
            .collect();
        if !missing.is_empty() {
            lines.push(format!("{}: {}", krate.name, missing.join(", ")));
        }
    }
    Ok(lines)
}

fn note_files() -> anyhow::Result<Vec<(String, String)>> {
    let folder = root().join("docs/deps");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).context("cannot list `docs/deps`")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            files.push((name, std::fs::read_to_string(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// The crate whose notes a file holds: the longest crate name the file's name begins with.
fn owner(file: &str) -> String {
    let names = crates()
        .map(|all| all.into_iter().map(|krate| krate.name).collect::<Vec<_>>())
        .unwrap_or_default();
    let fits = |name: &&String| file == *name || file.starts_with(&format!("{name}-"));
    names
        .iter()
        .filter(fits)
        .max_by_key(|name| name.len())
        .cloned()
        .unwrap_or_else(|| file.to_owned())
}

/// Reads notes: rows of a table or of a list, everything else as remarks.
fn read(file: &str, text: &str) -> Notes {
    let mut notes = Notes {
        title: file.to_owned(),
        rows: Vec::new(),
        remarks: Vec::new(),
    };
    for item in items(text) {
        if let Some(title) = item.strip_prefix("# ") {
            notes.title = title.trim_start_matches("Direct dependencies of ").to_owned();
        } else if item.starts_with('|') {
            let mut cells = item.trim_matches('|').split(" | ").map(str::trim);
            let (names, why) = (cells.next().unwrap_or_default(), cells.next().unwrap_or_default());
            if !names.starts_with('-') && !matches!(names, "crate" | "dependency") {
                notes.rows.push((names.to_owned(), why.to_owned()));
            }
        } else if let Some((names, why)) = item.strip_prefix("- ").and_then(|row| row.split_once(": ")) {
            notes.rows.push((names.to_owned(), why.to_owned()));
        } else {
            notes.remarks.push(item);
        }
    }
    notes
}

/// Headings, rows, list items and paragraphs, each with its continued lines joined.
fn items(text: &str) -> Vec<String> {
    let mut items: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        let begins = line.starts_with(['#', '|']) || line.starts_with("- ");
        if line.trim().is_empty() {
            is_open = false;
        } else if let (true, false, Some(last)) = (is_open, begins, items.last_mut()) {
            last.push(' ');
            last.push_str(line.trim());
        } else {
            items.push(line.trim().to_owned());
            is_open = !line.starts_with('#');
        }
    }
    items
}

/// The words of the notes' rows that could be names of crates.
fn words(notes: &Notes) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let texts = notes.rows.iter().flat_map(|(names, why)| [names, why]);
    texts
        .flat_map(|text| text.split(|c| !is_name(c)).map(str::to_owned))
        .filter(|word| !word.is_empty())
        .collect()
}

/// The names under `[dependencies]`, other crates of this repository left out.
fn direct(manifest: &str) -> Vec<String> {
    let lines = manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let names = lines
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .map(str::trim);
    names
        .filter(|name| !name.is_empty() && !name.starts_with('#') && !name.starts_with("annals"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_lists_and_remarks_are_all_read() {
        let text = "# Direct dependencies of a-b\n\n| crate | why |\n|---|---|\n| x, y | one |\n\n- `z`: goes\n  on\n\nNot\ntaken: q.\n";
        let notes = read("a-b", text);
        assert_eq!(notes.title, "a-b");
        assert_eq!(
            notes.rows,
            [
                ("x, y".to_owned(), "one".to_owned()),
                ("`z`".to_owned(), "goes on".to_owned())
            ]
        );
        assert_eq!(notes.remarks, ["Not taken: q."]);
        assert!(words(&notes).contains(&"z".to_owned()));
    }

    #[test]
    fn direct_dependencies_are_read_from_a_manifest() {
        let manifest = "[package]\nname = \"a\"\n\n[dependencies]\nannals-core.workspace = true\n# why\nbytes.workspace = true\ntokio = { workspace = true }\n\n[dev-dependencies]\ninsta.workspace = true\n";
        assert_eq!(direct(manifest), ["bytes", "tokio"]);
    }
}
