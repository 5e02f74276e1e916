//! Skills on disk: folders with a `SKILL.md`, below the folder of skills or a checkout in it, and the files beside them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use annals::core::ids::SkillName;
use annals::core::limits;
use annals::core::skill::Skill;

/// Where the folder of skills appears in the sandbox, read-only.
pub(crate) const IN_SANDBOX: &str = "/skills";

/// A checkout keeps its skills a few folders deep: `checkout/plugins/x/skills/y`.
const DEPTH_MAX: usize = 6;
/// The folder of skills in a program's own hidden folder, such as `.claude/skills`.
const IN_HIDDEN: &str = "skills";
/// Files that a skill's text is told of.
const FILES_SHOWN_MAX: usize = 60;
/// How long a description may be for other programs to take it.
const DESCRIPTION_MAX_CHARS: usize = 1_024;

/// A folder with a `SKILL.md`.
pub(crate) struct SkillFolder {
    /// Relative to the folder of skills.
    pub(crate) folder: PathBuf,
    /// The skill, or why it cannot be read.
    pub(crate) skill: Result<Skill, String>,
    /// The files beside its `SKILL.md`, relative to its folder.
    pub(crate) files: Vec<String>,
}

impl SkillFolder {
    /// What other programs would not take, though it can be read here.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let Ok(skill) = &self.skill else {
            return Vec::new();
        };
        let mut doubts = Vec::new();
        let folder = self.folder.file_name().unwrap_or_default();
        if !self.folder.as_os_str().is_empty() && folder != skill.name.as_str() {
            doubts.push(format!("its folder is not called `{}`", skill.name));
        }
        let length = skill.description.chars().count();
        if length > DESCRIPTION_MAX_CHARS {
            doubts.push(format!(
                "its description has {length} characters, more than {DESCRIPTION_MAX_CHARS}"
            ));
        }
        if skill.body.trim().is_empty() {
            doubts.push("it says nothing below its front matter".to_owned());
        }
        doubts
    }
}

/// All folders with a `SKILL.md` below this one, in the order of their paths.
pub(crate) fn find(folder: &Path) -> Vec<SkillFolder> {
    let mut found = Vec::new();
    look(folder, Path::new(""), 0, &mut found);
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    found
}

fn look(root: &Path, folder: &Path, depth: usize, found: &mut Vec<SkillFolder>) {
    let here = root.join(folder);
    if here.join("SKILL.md").is_file() {
        return found.push(read(root, folder));
    }
    let Ok(entries) = std::fs::read_dir(&here) else {
        return;
    };
    for entry in entries.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !is_folder || depth >= DEPTH_MAX {
            continue;
        }
        let inner = folder.join(entry.file_name());
        match is_hidden {
            false => look(root, &inner, depth + 1, found),
            // What else is hidden is nobody's skill.
            true => look(root, &inner.join(IN_HIDDEN), depth + 1, found),
        }
    }
}

fn read(root: &Path, folder: &Path) -> SkillFolder {
    let here = root.join(folder);
    // Whoever wrote the skill may have left anything under these names.
    let text = |name: &str| annals_files::read_text(&here.join(name), limits::SKILL_MAX_BYTES as u64);
    let sources = match text("sources.yaml") {
        Ok(sources) => Ok(Some(sources)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("`sources.yaml` cannot be read: {error}")),
    };
    let skill = sources.and_then(|sources| {
        let text = text("SKILL.md").map_err(|error| error.to_string())?;
        Skill::parse(&text, sources.as_deref()).map_err(|error| error.to_string())
    });
    let mut files = Vec::new();
    beside(&here, Path::new(""), 0, &mut files);
    files.sort_unstable();
    SkillFolder {
        folder: folder.to_owned(),
        skill,
        files,
    }
}

fn beside(root: &Path, folder: &Path, depth: usize, files: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        return;
    };
    for entry in entries.flatten() {
        let path = folder.join(entry.file_name());
        let name = path.to_string_lossy().into_owned();
        let is_own = depth == 0 && matches!(name.as_str(), "SKILL.md" | "sources.yaml");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth < DEPTH_MAX && !name.starts_with('.') => {
                beside(root, &path, depth + 1, files);
            }
            Ok(kind) if kind.is_file() && !is_own => files.push(name),
            _ => {}
        }
    }
}

/// The skills by name, each with where the sandbox has the files beside it, if it has them. One that cannot be read is named in a warning
/// and left out; of two with one name the first counts.
pub(crate) fn by_name(
    folder: &Path,
    found: Vec<SkillFolder>,
    seen_at: impl Fn(&SkillFolder) -> Option<PathBuf>,
) -> BTreeMap<SkillName, Skill> {
    let mut skills = BTreeMap::new();
    for found in found {
        let shown = folder.join(&found.folder).join("SKILL.md");
        let seen_at = seen_at(&found);
        match found.skill {
            Ok(mut skill) => {
                skill.body.push_str(&match seen_at {
                    Some(seen_at) => told(&seen_at, &found.files),
                    None => out_of_reach(&found.files),
                });
                let name = skill.name.clone();
                if skills.contains_key(&name) {
                    tracing::warn!(
                        "the skill `{}` is left out: `{name}` is there already",
                        shown.display()
                    );
                    continue;
                }
                skills.insert(name, skill);
            }
            Err(error) => tracing::warn!("the skill `{}` is left out: {error}", shown.display()),
        }
    }
    skills
}

/// What a skill's text says of files beside it that no program here can reach.
fn out_of_reach(files: &[String]) -> String {
    match files.len() {
        0 => String::new(),
        files => format!(
            "\n\n---\nThis skill has {files} more files, which cannot be read or run in this sandbox: do without them, and say so.\n"
        ),
    }
}

/// What a skill's text says of the files beside it.
fn told(folder: &Path, files: &[String]) -> String {
    if files.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n\n---\nFiles of this skill, in `{}` of the sandbox (change none of them; run its scripts there by their whole path):\n",
        folder.display()
    );
    for file in files.iter().take(FILES_SHOWN_MAX) {
        text.push_str(&format!("- {file}\n"));
    }
    if files.len() > FILES_SHOWN_MAX {
        text.push_str(&format!("- and {} more\n", files.len() - FILES_SHOWN_MAX));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn skill(name: &str) -> String {
        format!("---\nname: {name}\ndescription: How to {name}\nallowed-tools: [Read, Bash]\n---\nDo it.\n")
    }

    #[test]
    fn skills_lie_in_folders_and_in_checkouts_and_a_broken_one_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "charts/SKILL.md", &skill("charts"));
        write(root.path(), "charts/scripts/draw.py", "print(1)");
        write(root.path(), "checkout/.git/SKILL.md", &skill("hidden"));
        write(root.path(), "checkout/skills/pdf/SKILL.md", &skill("pdf"));
        write(
            root.path(),
            "checkout/plugins/x/skills/deep/SKILL.md",
            &skill("deep"),
        );
        write(root.path(), "checkout/.claude/skills/own/SKILL.md", &skill("own"));
        write(root.path(), "checkout/.claude/agents/SKILL.md", &skill("agents"));
        write(root.path(), "broken/SKILL.md", "no front matter");
        let inside = |found: &SkillFolder| Some(Path::new(IN_SANDBOX).join(&found.folder));
        let skills = by_name(root.path(), find(root.path()), inside);
        let names: Vec<&str> = skills.keys().map(SkillName::as_str).collect();
        assert_eq!(names, ["charts", "deep", "own", "pdf"]);
        let body = &skills.values().next().unwrap().body;
        assert!(
            body.contains("`/skills/charts`") && body.contains("- scripts/draw.py"),
            "{body}"
        );
        let elsewhere = by_name(root.path(), find(root.path()), |_| None);
        let body = &elsewhere.values().next().unwrap().body;
        assert!(body.contains("1 more files, which cannot be read"), "{body}");
        assert!(find(&root.path().join("absent")).is_empty());
        let broken = find(root.path())
            .into_iter()
            .find(|found| found.skill.is_err())
            .unwrap();
        assert_eq!(broken.folder, Path::new("broken"));
    }

    #[test]
    fn what_other_programs_would_refuse_is_doubted() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "one/SKILL.md",
            "---\nname: two\ndescription: d\n---\n",
        );
        assert_eq!(find(root.path())[0].doubts().len(), 2);
    }
}
