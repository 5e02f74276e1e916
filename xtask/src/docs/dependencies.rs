//! Every direct dependency with the reason for it: `docs/dependencies.md` is the notes in `docs/deps/*.md`, one after the
//! other.

use anyhow::Context as _;

use crate::repository::{crates, root};

pub(super) const PAGE: &str = "docs/dependencies.md";

const HEAD: &str = "\
# Dependencies

Every direct dependency, and why it is there. Made by `cargo xtask docs` from `docs/deps/*.md`: change those.
Versions are in the root `Cargo.toml`; licences and advisories are checked by `deny.toml`.
";

/// The page.
pub(super) fn page() -> anyhow::Result<String> {
    let notes = notes()?;
    Ok(notes.iter().fold(HEAD.to_owned(), |page, (_, text)| {
        page + "\n#" + text.trim_end() + "\n"
    }))
}

/// Dependencies without a reason, and a page that is not made from the notes.
pub(crate) fn check() -> anyhow::Result<Vec<String>> {
    let notes = notes()?;
    let mut wrong = Vec::new();
    for krate in crates()? {
        let manifest = std::fs::read_to_string(krate.folder.join("Cargo.toml"))?;
        // A crate may have several files of notes: `annals-tools.md`, `annals-tools-web.md`.
        let own = notes
            .iter()
            .filter(|(file, _)| file.starts_with(&krate.name) || file == "bench");
        let text: String = own.map(|(_, text)| &**text).collect();
        let is_explained = |name: &String| {
            let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
            words.any(|word| word == name)
        };
        let missing = direct(&manifest).into_iter().filter(|name| !is_explained(name));
        wrong.extend(missing.map(|name| format!("docs/deps/{}.md: no word about `{name}`", krate.name)));
    }
    let bare = notes.iter().filter(|(_, text)| !text.starts_with("# "));
    wrong.extend(bare.map(|(file, _)| format!("docs/deps/{file}.md: begins without a heading")));
    if std::fs::read_to_string(root().join(PAGE)).ok() != Some(page()?) {
        wrong.push(format!(
            "{PAGE}: is not made from `docs/deps`: `cargo xtask docs`"
        ));
    }
    Ok(wrong)
}

/// The notes by the names of their files.
fn notes() -> anyhow::Result<Vec<(String, String)>> {
    let mut notes = Vec::new();
    for entry in std::fs::read_dir(root().join("docs/deps")).context("cannot list `docs/deps`")? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        notes.push((name.into_owned(), std::fs::read_to_string(&path)?));
    }
    notes.sort();
    Ok(notes)
}

/// The names under `[dependencies]`, other crates of this repository left out.
fn direct(manifest: &str) -> Vec<String> {
    let lines = manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1);
    let names = lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', '=', ' ']).next());
    names
        .filter(|name| name.starts_with(|c: char| c.is_alphanumeric()) && !name.starts_with("annals"))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_dependencies_are_read_from_a_manifest() {
        let manifest = "[package]\nname = \"a\"\n\n[dependencies]\nannals-core.workspace = true\n# why\nbytes.workspace = true\n\
                        tokio = { workspace = true }\n\n[dev-dependencies]\ninsta.workspace = true\n";
        assert_eq!(direct(manifest), ["bytes", "tokio"]);
    }
}
