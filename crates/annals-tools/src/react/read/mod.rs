//! `react.read`: brings what a path names back to the tail of the conversation, whole or by lines.
//!
//! The status comes first; then, path by path, what is not visible already. Old blocks stay as they are, so that
//! the prefix does not change.

mod item;
mod source;

use annals_core::code::Code;
use annals_core::ids::{SkillName, TurnId};
use annals_core::limits;
use annals_core::path::{LineRange, LogicalPath, PathKind, RangedPath};
use annals_core::sources::{SourceRow, citation};
use annals_core::turn::outcome::{Artifact, Content, Notice, Outcome, Output, Payload};
use annals_policy::Reach;
use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Value, json};

use crate::access::{Access, Resource};
use crate::cx::ToolCx;
use crate::facet::FacetParam;
use crate::spec::{Effect, Family, Produces, ToolSpec};
use crate::tool::Tool;
use item::Item;

/// One call reads at most this many paths.
const PATHS_MAX: usize = 100;

/// The tool.
pub struct Read {
    spec: ToolSpec,
}

/// The text of the status block.
#[derive(Default, Serialize)]
struct Status {
    paths: Vec<String>,
    missing: Vec<String>,
    missing_skills: Vec<String>,
    exists_in_visible_context: Vec<String>,
    total_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<Problem>,
}

/// Why something that may exist was not read.
#[derive(Serialize)]
struct Problem {
    path: String,
    message: String,
}

/// What was read so far.
struct Reading<'a> {
    cx: &'a ToolCx,
    status: Status,
    artifacts: Vec<Artifact>,
    sources: Vec<SourceRow>,
}

impl Read {
    /// `react.read`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("react.read")
            .description(
                "Bring existing content back into view: files (fi:), calls and results (tc:), records (ar:), sources \
                 (so:sources_pool[1,3-5]), summaries (su:), skills (sk:). Append #L10-40 to read only those lines, \
                 #L7@48001 to read line 7 from its character 48001 on.",
            )
            .family(Family::React)
            .effect(Effect::Replayable)
            .produces(Produces::Artifacts)
            .reaches([Reach::Read])
            .facet(FacetParam::Path("paths".into()))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "paths": {
                        "type": "array",
                        "items": {"type": "string"},
                        "minItems": 1,
                        "maxItems": PATHS_MAX,
                        "description": "FIRST FIELD. One or more logical paths."
                    },
                },
                "required": ["paths"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        Read { spec }
    }
}

impl Default for Read {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, _turn: &TurnId, args: &Value) -> Option<Access> {
        let paths = args.get("paths").and_then(Value::as_array).into_iter().flatten();
        let files = paths
            .filter_map(|path| RangedPath::parse(path.as_str()?.trim()).ok()?.path.physical())
            .map(|path| Resource::physical(&path));
        // What a hide of the same answer leaves decides what has to be shown again.
        let view = Access::NOTHING.read(Resource::Named(super::VIEW.into()));
        Some(files.fold(view, Access::read))
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let mut reading = Reading {
            cx,
            status: Status::default(),
            artifacts: vec![],
            sources: vec![],
        };
        let mut seen: Vec<&str> = Vec::new();
        for given in args.get("paths").and_then(Value::as_array).into_iter().flatten() {
            let Some(given) = given
                .as_str()
                .map(str::trim)
                .filter(|given| !seen.contains(given))
            else {
                continue;
            };
            seen.push(given);
            reading.read(given).await;
        }
        reading.finish()
    }
}

impl Reading<'_> {
    async fn read(&mut self, given: &str) {
        let RangedPath { path, lines } = match RangedPath::parse(given) {
            Ok(path) => path,
            Err(error) => {
                self.status.paths.push(given.to_owned());
                self.status.missing.push(given.to_owned());
                return self.problem(given, error.to_string());
            }
        };
        self.status.paths.push(
            RangedPath {
                path: path.clone(),
                lines,
            }
            .to_string(),
        );
        match path.kind() {
            PathKind::Sources(sids) => {
                let rows = self.cx.timeline(|timeline| {
                    let rows: Vec<SourceRow> = timeline.pool().rows(&sids).cloned().collect();
                    let missing: Vec<_> = timeline.pool().missing(&sids).collect();
                    (rows, missing)
                });
                match rows.0.len() > limits::SOURCES_READ_WHOLE_MAX_ROWS {
                    true => {
                        self.show(Item {
                            lines,
                            ..source::listing(&path, &rows.0)
                        })
                        .await
                    }
                    false => self.read_rows(rows.0, lines).await,
                }
                self.status
                    .missing
                    .extend(rows.1.iter().map(|sid| format!("so:sources_pool[{sid}]")));
            }
            PathKind::Skill { name } => self.read_skill(&path, name).await,
            _ => self.read_path(&path, lines).await,
        }
    }

    async fn read_path(&mut self, path: &LogicalPath, lines: Option<LineRange>) {
        match source::stored(self.cx, path).await {
            Ok(stored) => self.show(Item { lines, ..stored }).await,
            Err(error) => {
                self.status.missing.push(path.to_string());
                if !matches!(error, crate::content::ContentError::Missing(_)) {
                    self.problem(path.as_str(), error.to_string());
                }
            }
        }
    }

    async fn read_rows(&mut self, rows: Vec<SourceRow>, lines: Option<LineRange>) {
        for row in rows {
            match row.file_path() {
                Some(file) => self.read_path(&file.logical(), lines).await,
                None => {
                    self.show(Item {
                        lines,
                        ..source::row(&row)
                    })
                    .await
                }
            }
        }
    }

    async fn read_skill(&mut self, path: &LogicalPath, name: &str) {
        let skill = SkillName::parse(name)
            .ok()
            .and_then(|name| self.cx.skills().get(&name));
        let Some(skill) = skill else {
            self.status.missing_skills.push(path.to_string());
            return;
        };
        let item = source::skill(path, &skill, self.sources.len());
        self.sources.extend(skill.rows());
        match item.artifact(self.cx).await {
            Ok(artifact) => self.add_citing(artifact),
            Err(message) => self.problem(path.as_str(), message),
        }
    }

    /// Adds a text that cites rows of this call, unless the model sees it already. That it does is judged by the
    /// numbers the rows have by now: rows that are not in the pool yet were never shown.
    fn add_citing(&mut self, artifact: Artifact) {
        let Content::Text(text) = artifact.content.clone() else {
            return self.add(artifact);
        };
        let rows = self.sources.iter().cloned();
        let sids = self.cx.timeline(|timeline| timeline.pool().assign(rows).sids);
        let numbered = citation::renumber(&text, |place| sids.get(place.get() as usize - 1).copied());
        let as_shown = Artifact {
            content: Content::Text(numbered.into()),
            ..artifact.clone()
        };
        if item::is_visible(self.cx, &as_shown) {
            return self.exists(&artifact);
        }
        self.status.total_tokens += item::tokens(&as_shown);
        self.artifacts.push(Artifact {
            content: Content::Citing(text),
            ..artifact
        });
    }

    async fn show(&mut self, item: Item) {
        let path = item.path.clone();
        match item.artifact(self.cx).await {
            Ok(artifact) => self.add(artifact),
            Err(message) => self.problem(path.as_str(), message),
        }
    }

    fn add(&mut self, artifact: Artifact) {
        if item::is_visible(self.cx, &artifact) {
            return self.exists(&artifact);
        }
        self.status.total_tokens += item::tokens(&artifact);
        self.artifacts.push(artifact);
    }

    fn exists(&mut self, artifact: &Artifact) {
        let path = artifact.digest.artifact_path.to_string();
        self.status.exists_in_visible_context.push(path);
    }

    fn problem(&mut self, path: &str, message: String) {
        self.status.problems.push(Problem {
            path: path.to_owned(),
            message,
        });
    }

    fn finish(self) -> Outcome {
        let Reading {
            status,
            artifacts,
            sources,
            ..
        } = self;
        let gone: Vec<String> = status
            .missing
            .iter()
            .chain(&status.missing_skills)
            .cloned()
            .collect();
        let notice = (!gone.is_empty()).then(|| {
            let message = format!("nothing is at {}: check the paths", gone.join(", "));
            Notice::new(Code::ReadPathsMissing, message).with("missing", gone)
        });
        Outcome {
            notices: notice.into_iter().collect(),
            output: Output::Payload(Payload::json(&status)),
            artifacts,
            sources,
            ..Outcome::default()
        }
    }
}
