//! Skills: instructions in a folder that the model reads when it needs them.
//!
//! A skill is a `SKILL.md` (front matter with `name` and `description`, then the body) and perhaps a
//! `sources.yaml`. Here both are only text; finding and reading them is done elsewhere.

mod yaml;

use crate::ids::{IdError, Sid, SkillName};
use crate::limits;
use crate::path::LogicalPath;
use crate::sources::{SourceRow, SourceType, citation};
use yaml::Node;

pub use yaml::YamlError;

/// Why a folder's texts are not a skill.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// `SKILL.md` does not begin with front matter.
    #[error("`SKILL.md` has no front matter: begin it with `---`, `name: …`, `description: …`, `---`")]
    NoFrontMatter,
    /// The front matter lacks a field.
    #[error("the front matter of `SKILL.md` has no `{field}`: add it")]
    Missing {
        /// Which field.
        field: &'static str,
    },
    /// The name is not one.
    #[error(transparent)]
    Name(#[from] IdError),
    /// The front matter cannot be read.
    #[error("the front matter of `SKILL.md` cannot be read: {0}")]
    FrontMatter(YamlError),
    /// The sources cannot be read.
    #[error("`sources.yaml` cannot be read: {0}")]
    Sources(YamlError),
    /// The sources have another form.
    #[error("`sources.yaml` must be a list of `sid`, `title`, `url`, `text`: {why}")]
    SourcesForm {
        /// What is wrong.
        why: String,
    },
    /// A text is too long.
    #[error("`{file}` is longer than {} bytes: shorten it", limits::SKILL_MAX_BYTES)]
    TooLong {
        /// Which file.
        file: &'static str,
    },
}

/// A skill as its folder has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// What the model calls it.
    pub name: SkillName,
    /// When to use it: stands in the system message.
    pub description: String,
    /// What to do, in Markdown; its citations use the skill's own numbers.
    pub body: String,
    /// What the body cites.
    pub sources: Vec<SkillSource>,
}

/// A source under the number that the skill's body uses for it.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillSource {
    /// The skill's own number.
    pub local_sid: Sid,
    /// What enters the pool.
    pub row: SourceRow,
}

impl Skill {
    /// Reads a skill from the text of its `SKILL.md` and of its `sources.yaml`, if it has one.
    pub fn parse(skill_md: &str, sources_yaml: Option<&str>) -> Result<Self, SkillError> {
        if skill_md.len() > limits::SKILL_MAX_BYTES {
            return Err(SkillError::TooLong { file: "SKILL.md" });
        }
        let (front, body) = split_front_matter(skill_md).ok_or(SkillError::NoFrontMatter)?;
        let front = yaml::parse(front).map_err(SkillError::FrontMatter)?;
        let field = |field: &'static str| {
            let text = front.get(field).and_then(Node::as_text).map(str::trim);
            text.filter(|text| !text.is_empty())
                .ok_or(SkillError::Missing { field })
        };
        Ok(Self {
            name: SkillName::parse(field("name")?)?,
            description: field("description")?.to_owned(),
            body: body.to_owned(),
            sources: sources_yaml.map_or_else(|| Ok(Vec::new()), read_sources)?,
        })
    }

    /// The path by which the model reads it.
    pub fn path(&self) -> LogicalPath {
        LogicalPath::skill(&self.name)
    }

    /// The rows that enter the pool when the skill is read, in the order of [`Self::sources`].
    pub fn rows(&self) -> Vec<SourceRow> {
        self.sources.iter().map(|source| source.row.clone()).collect()
    }

    /// The body with its citations renumbered to what the pool gave [`Self::rows`], in the same order. Citations
    /// of sources the skill does not have are left out.
    pub fn body_citing(&self, pool_sids: &[Sid]) -> String {
        citation::renumber(&self.body, |local| {
            let at = self.sources.iter().position(|source| source.local_sid == local)?;
            pool_sids.get(at).copied()
        })
    }
}

/// Splits the lines between `---` and `---` from the rest.
fn split_front_matter(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| line.trim_end() == "---")?;
    let mut at = first.len();
    for line in lines {
        let end = at + line.len();
        if matches!(line.trim_end(), "---" | "...") {
            return Some((
                &text[first.len()..at],
                text[end..].trim_start_matches(['\r', '\n']),
            ));
        }
        at = end;
    }
    None
}

fn read_sources(text: &str) -> Result<Vec<SkillSource>, SkillError> {
    if text.len() > limits::SKILL_MAX_BYTES {
        return Err(SkillError::TooLong { file: "sources.yaml" });
    }
    let root = yaml::parse(text).map_err(SkillError::Sources)?;
    let wrong = |why: String| SkillError::SourcesForm { why };
    let items = match root.get("sources").unwrap_or(&root) {
        Node::List(items) => items,
        Node::Text(text) if text.is_empty() => return Ok(Vec::new()),
        _ => return Err(wrong("it is not a list".into())),
    };
    if items.len() > limits::SKILL_MAX_SOURCES {
        return Err(wrong(format!(
            "it has more than {} entries",
            limits::SKILL_MAX_SOURCES
        )));
    }
    let mut sources: Vec<SkillSource> = Vec::with_capacity(items.len());
    for (item, number) in items.iter().zip(1_u32..) {
        let source = read_source(item, number).map_err(|why| wrong(format!("entry {number} {why}")))?;
        if sources.iter().any(|known| known.local_sid == source.local_sid) {
            return Err(wrong(format!("entry {number} repeats sid {}", source.local_sid)));
        }
        sources.push(source);
    }
    Ok(sources)
}

fn read_source(item: &Node, number: u32) -> Result<SkillSource, String> {
    let Node::Map(fields) = item else {
        return Err("has no fields".into());
    };
    let text = |name: &str| item.get(name).and_then(Node::as_text).unwrap_or_default().trim();
    let local_sid = match text("sid") {
        "" => Sid::try_new(number),
        given => given.parse(),
    };
    let source_type = if text("url").is_empty() {
        SourceType::Manual
    } else {
        SourceType::Web
    };
    let mut row = SourceRow {
        source_type,
        ..SourceRow::web(text("url"), text("title"), text("text"))
    };
    if row.url.is_empty() && row.title.is_empty() && row.text.is_empty() {
        return Err("has neither title, url nor text".into());
    }
    let known = ["sid", "title", "url", "text"];
    for (name, value) in fields.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
        if let Some(value) = value.as_text() {
            row.extra.insert(name.clone(), value.into());
        }
    }
    Ok(SkillSource {
        local_sid: local_sid.map_err(|e| e.to_string())?,
        row,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sources::SourcesPool;

    const SKILL: &str = "---\nname: pdf-press\ndescription: >\n  Makes PDFs\n  that look right.\nlicense: MIT\n---\n\n# How\nUse tables [[S:1]] and fonts [[S:2,3]], not `[[S:1]]`.\n";

    #[test]
    fn a_skill_is_its_front_matter_and_its_body() {
        let skill = Skill::parse(SKILL, None).unwrap();
        assert_eq!(skill.name.as_str(), "pdf-press");
        assert_eq!(skill.description, "Makes PDFs that look right.");
        assert!(skill.body.starts_with("# How\n"));
        assert_eq!(skill.path().as_str(), "sk:pdf-press");
        let crlf = Skill::parse(&SKILL.replace('\n', "\r\n"), None).unwrap();
        assert_eq!((crlf.name, crlf.description), (skill.name, skill.description));
    }

    #[test]
    fn citations_follow_the_sources_into_the_pool() {
        let sources = "sources:\n  - sid: 2\n    title: Fonts\n    url: https://fonts.org\n    text: \"all: fonts\"\n  - sid: 1\n    title: Tables\n    text: |\n      line one\n      line two\n    author: Ann\n";
        let skill = Skill::parse(SKILL, Some(sources)).unwrap();
        let mut pool = SourcesPool::new();
        pool.merge([SourceRow::web("https://other.org", "", "")]);
        let sids = pool.merge(skill.rows());
        assert_eq!(
            skill.body_citing(&sids),
            "# How\nUse tables [[S:3]] and fonts [[S:2]], not `[[S:1]]`.\n"
        );
        let tables = pool.get(sids[1]).unwrap();
        assert_eq!(
            (&*tables.text, tables.source_type),
            ("line one\nline two", SourceType::Manual)
        );
        assert_eq!(tables.extra["author"], "Ann");
    }

    #[test]
    fn what_is_no_skill_is_refused_with_what_to_do() {
        let refused = |md: &str, yaml: Option<&str>| Skill::parse(md, yaml).unwrap_err().to_string();
        let messages = [
            refused("# No front matter", None),
            refused("---\nname: x\n", None),
            refused("---\nname: x\n---\n", None),
            refused("---\nname: ../x\ndescription: d\n---\n", None),
            refused("---\nname x\n---\n", None),
            refused(SKILL, Some("title: x")),
            refused(SKILL, Some("- sid: 1")),
            refused(SKILL, Some("- sid: 0\n  title: x")),
            refused(SKILL, Some("- sid: 1\n  title: x\n- sid: 1\n  title: y")),
            refused(SKILL, Some("- title: \"x")),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r"
        `SKILL.md` has no front matter: begin it with `---`, `name: …`, `description: …`, `---`
        `SKILL.md` has no front matter: begin it with `---`, `name: …`, `description: …`, `---`
        the front matter of `SKILL.md` has no `description`: add it
        skill name `../x` is not valid: expected 1 to 64 of `A-Z a-z 0-9 _ - .`, not starting with a dot
        the front matter of `SKILL.md` has no `name`: add it
        `sources.yaml` must be a list of `sid`, `title`, `url`, `text`: it is not a list
        `sources.yaml` must be a list of `sid`, `title`, `url`, `text`: entry 1 has neither title, url nor text
        `sources.yaml` must be a list of `sid`, `title`, `url`, `text`: entry 1 source id 0 does not exist: they count from 1
        `sources.yaml` must be a list of `sid`, `title`, `url`, `text`: entry 2 repeats sid 1
        `sources.yaml` cannot be read: line 1: while scanning a quoted scalar, found unexpected end of stream
        ");
    }

    proptest! {
        #[test]
        fn no_text_panics(md in "(---\n)?[a-z:#>|\"' \n-]{0,40}(\n---\n)?\\PC{0,20}", yaml in "[a-z:#>|\"' \n\\[\\]-]{0,60}") {
            let _ = Skill::parse(&md, Some(&yaml));
            let _ = Skill::parse(SKILL, Some(&yaml));
        }
    }
}
