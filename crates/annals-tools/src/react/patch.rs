//! `react.patch`: a unified diff, or a whole new content, for a file that exists.

use annals_core::block::{ArtifactKind, Channel, ShownError, Visibility};
use annals_core::code::Code;
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::{Notice, Outcome, Payload};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::target::WriteTarget;
use crate::access::Uses;
use crate::content::{self, ContentError, Whole};
use crate::cx::ToolCx;
use crate::file::{Produced, TextShown};
use crate::patch::{self, Patched};
use crate::proposal::Proposal;
use crate::spec::{BodyParam, Effect, Family, Produces, ToolSpec};
use crate::tool::Tool;
use crate::{disk, serialise};

const NAME: &str = "react.patch";

/// The tool.
pub struct Patch {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    path: String,
    channel: Channel,
    patch: String,
    kind: Option<ArtifactKind>,
}

/// A file before and after.
struct Edited {
    target: WriteTarget,
    notices: Vec<Notice>,
    /// None when it is no text.
    before: Option<String>,
    text: String,
    summary: Value,
}

impl Patch {
    /// `react.patch`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder(NAME)
            .description(
                "Change an existing file. A patch that starts with `---`, `+++` or `@@` is a unified diff; anything \
                 else replaces the whole file. Nothing is changed unless every hunk applies.",
            )
            .family(Family::React)
            .effect(Effect::Once)
            .writes(Uses::TurnFile("path".into()))
            .produces(Produces::Artifacts)
            .body(BodyParam::Streamed("patch"))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "description": "FIRST FIELD. The file to change. A file of an earlier turn is copied into \
                            this turn first."
                    },
                    "channel": {
                        "type": "string",
                        "enum": ["canvas", "timeline_text", "internal"],
                        "description": "SECOND FIELD. Where the user sees the change."
                    },
                    "patch": {"type": "string", "description": "THIRD FIELD. The unified diff or the new content."},
                    "kind": {
                        "type": "string",
                        "enum": ["display", "file"],
                        "description": "FOURTH FIELD. `file` to keep the result for download. Default: as the file \
                            was."
                    },
                },
                "required": ["path", "channel", "patch"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        Patch { spec }
    }
}

impl Default for Patch {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for Patch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn proposes(&self, cx: &ToolCx, args: &Value) -> Option<Proposal> {
        let args: Args = serde_json::from_value(args.clone()).ok()?;
        Some(match edit(cx, &args).await {
            Ok(edited) => Proposal::Change {
                path: edited.target.logical().to_string(),
                before: edited.before,
                after: edited.text,
            },
            Err((_, error)) => Proposal::Fails(error),
        })
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let args: Args = match serde_json::from_value(args) {
            Ok(args) => args,
            Err(error) => {
                return serialise::refused(ShownError::new(Code::InvalidToolArguments, error.to_string()));
            }
        };
        match edit(cx, &args).await {
            Ok(edited) => record(cx, &args, edited).await,
            Err((notices, error)) => Outcome {
                notices,
                ..serialise::refused(error)
            },
        }
    }
}

/// Finds the file and makes its new text; writes nothing.
async fn edit(cx: &ToolCx, args: &Args) -> Result<Edited, (Vec<Notice>, ShownError)> {
    let mut target = WriteTarget::parse(&args.path, cx.turn()).map_err(|error| (Vec::new(), error))?;
    let (source, old) = match source(cx, &args.path, &target).await {
        Ok(found) => found,
        Err(error) => return Err((target.notice.into_iter().collect(), error)),
    };
    let notices: Vec<Notice> = match target.notice.take() {
        Some(_) if source != target.logical() => vec![copied(&source, &target.logical())],
        notice => notice.into_iter().collect(),
    };
    if !patch::is_diff(&args.patch) {
        let summary = json!({"path": target.logical(), "mode": "replace", "size_bytes": args.patch.len()});
        return Ok(Edited {
            target,
            notices,
            before: old.text().map(str::to_owned),
            text: args.patch.clone(),
            summary,
        });
    }
    let Ok(old) = std::str::from_utf8(&old.bytes) else {
        let message = format!("`{source}` is {}, not text: a diff cannot change it", old.mime);
        return Err((notices, ShownError::new(Code::HunkMismatch, message)));
    };
    match patch::apply(old, &args.patch) {
        Ok(patched) => {
            let summary = summary(&target.logical(), &patched);
            Ok(Edited {
                target,
                notices,
                before: Some(old.to_owned()),
                text: patched.text,
                summary,
            })
        }
        Err(error) => Err((notices, mismatch(&source, old, &error))),
    }
}

/// The file to start from: this turn's, if it has one of that name (perhaps a copy made by an earlier patch); else
/// the earlier turn's file that was named in full.
async fn source(cx: &ToolCx, given: &str, target: &WriteTarget) -> Result<(LogicalPath, Whole), ShownError> {
    let here = target.logical();
    let error = match content::whole(cx.shared(), &here, Some(cx.turn())).await {
        Ok(whole) => return Ok((here, whole)),
        Err(error) => error,
    };
    let named = LogicalPath::parse(given)
        .ok()
        .filter(|path| path.physical().is_some() && *path != here);
    let Some(named) = named else {
        return Err(missing(&here, &error, earlier(cx, target)));
    };
    match content::whole(cx.shared(), &named, Some(cx.turn())).await {
        Ok(whole) => Ok((named, whole)),
        Err(error) => Err(missing(&named, &error, earlier(cx, target))),
    }
}

/// The latest earlier turn's file of the same name, which may be the one that was meant.
fn earlier(cx: &ToolCx, target: &WriteTarget) -> Option<LogicalPath> {
    let rel = target.path.rel();
    cx.timeline(|timeline| {
        let mut turns = timeline.turns().iter().rev();
        turns.find_map(|turn| {
            let path = LogicalPath::file(&turn.id, &rel);
            timeline.latest(&path).is_some().then_some(path)
        })
    })
}

fn copied(from: &LogicalPath, to: &LogicalPath) -> Notice {
    let message = format!("`{from}` belongs to another turn: it was copied to `{to}` and changed there");
    Notice::new(Code::ViolationPathRewritten, message)
        .with("from", from.as_str())
        .with("to", to.as_str())
}

fn missing(source: &LogicalPath, error: &ContentError, earlier: Option<LogicalPath>) -> ShownError {
    let message = match (error, earlier) {
        (ContentError::Missing(_), Some(earlier)) => {
            format!("there is no file `{source}` to patch: did you mean `{earlier}`?")
        }
        (ContentError::Missing(_), None) => {
            format!("there is no file `{source}` to patch: write it with react.write")
        }
        (ContentError::TooLarge { .. } | ContentError::Unavailable { .. }, _) => error.to_string(),
    };
    ShownError::new(Code::PatchTargetMissing, message)
}

fn mismatch(source: &LogicalPath, old: &str, error: &patch::PatchError) -> ShownError {
    let mut details = error.details();
    if let (Some((first, last)), Some(facts)) = (error.lines_to_read(), details.as_object_mut()) {
        let count = old.lines().count().max(1);
        let (first, last) = (first.min(count), last.min(count));
        facts.insert(
            "read".into(),
            format!("react.read(paths=[\"{source}#L{first}-{last}\"])").into(),
        );
    }
    ShownError::new(error.code(), error.to_string()).details(details)
}

fn summary(path: &LogicalPath, patched: &Patched) -> Value {
    json!({
        "path": path,
        "mode": "diff",
        "hunks": patched.hunks,
        "lines_added": patched.lines_added,
        "lines_removed": patched.lines_removed,
        "size_bytes": patched.text.len(),
    })
}

async fn record(cx: &ToolCx, args: &Args, edited: Edited) -> Outcome {
    let Edited {
        target,
        mut notices,
        text,
        summary,
        ..
    } = edited;
    if let Err(error) = disk::write(cx.workspace(), &target.path, text.as_bytes()).await {
        let message = format!("`{}` was not written: {error}", target.logical());
        return Outcome {
            notices,
            ..serialise::refused(ShownError::new(Code::WriteFailed, message))
        };
    }
    let before = cx.timeline(|timeline| timeline.latest_digest(&target.logical()));
    let visibility = match args.channel {
        Channel::Internal => Visibility::Internal,
        Channel::Canvas | Channel::TimelineText => Visibility::External,
    };
    let kind = args
        .kind
        .or(before.map(|digest| digest.kind))
        .unwrap_or(ArtifactKind::Display);
    let produced = Produced {
        path: &target.path,
        bytes: text.as_bytes(),
        kind,
        visibility,
        channel: Some(args.channel),
    };
    let recorded = produced.record(cx, NAME, TextShown::Instead(&args.patch)).await;
    notices.extend(recorded.notices);
    Outcome {
        notices,
        closing: Some(Payload::json(&summary)),
        artifacts: vec![recorded.artifact],
        sources: recorded.source.into_iter().collect(),
        error: recorded.error,
        ..Outcome::default()
    }
}
