//! The questions of a newcomer in CONTRIBUTING.md: each names the field's word to search for, and that search must lead
//! to the file that answers, among few others.

use super::source::Tree;

const FILE: &str = "CONTRIBUTING.md";
const HEADING: &str = "\n## Where is …?\n";
/// There are at least this many.
const QUESTIONS: usize = 20;
/// A search that gives more files than this is no answer.
const FILES_MAX: usize = 8;

/// Questions that one search does not answer.
pub(super) fn check(tree: &Tree) -> Vec<String> {
    let text = tree.get(FILE).unwrap_or_default();
    let section = text.split(HEADING).nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows: Vec<[&str; 3]> = section.lines().filter_map(row).collect();
    let mut wrong: Vec<String> = rows.iter().filter_map(|row| unanswered(tree, *row)).collect();
    if rows.len() < QUESTIONS {
        wrong.push(format!(
            "{FILE}: {} questions of a newcomer, {QUESTIONS} are wanted",
            rows.len()
        ));
    }
    wrong
}

/// Question, word and file of a table's row.
fn row(line: &str) -> Option<[&str; 3]> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let row = [cells.next()?, cells.next()?, cells.next()?];
    let is_head = row[0].starts_with("---") || row[0] == "question";
    (!is_head).then(|| row.map(|cell| cell.trim_matches('`')))
}

fn unanswered(tree: &Tree, [question, word, answer]: [&str; 3]) -> Option<String> {
    let wanted = word.to_lowercase();
    let found: Vec<&str> = tree
        .production()
        .filter(|file| file.text.to_lowercase().contains(&wanted))
        .map(|file| &*file.name)
        .collect();
    let complaint = match found.contains(&answer) {
        false => format!("`{word}` is not found in `{answer}`"),
        true if found.len() > FILES_MAX => format!("`{word}` is found in {} files", found.len()),
        true => return None,
    };
    Some(format!("{FILE}: \"{question}\": {complaint}"))
}

#[cfg(test)]
mod tests {
    use super::super::source::File;
    use super::*;

    #[test]
    fn a_search_must_lead_to_the_file_and_not_to_all_files() {
        let file = |name: String, text: &str| File {
            name,
            text: text.into(),
        };
        let mut files: Vec<File> = (0..FILES_MAX)
            .map(|n| file(format!("crates/a/src/f{n}.rs"), "// block"))
            .collect();
        files.push(file(
            "crates/a/src/lease.rs".into(),
            "/// Renews the lease of a block.",
        ));
        let tree = Tree { files };
        let ask = |word| unanswered(&tree, ["where?", word, "crates/a/src/lease.rs"]);
        assert_eq!(ask("renew"), None);
        assert!(ask("tail").unwrap().contains("not found"));
        assert!(ask("block").unwrap().contains("9 files"));
        assert_eq!(
            row("| Where is it? | `renew` | `a.rs` |"),
            Some(["Where is it?", "renew", "a.rs"])
        );
        assert_eq!(row("|---|---|---|"), None);
    }
}
