//! `react.write`: content that the user sees, kept as a file of the current turn.
//!
//! `react.stream` and `react.file` are the same tool under other names.

use annals_core::block::{ArtifactKind, BlockKind, Channel, Meta, NewBlock, ShownError, Visibility};
use annals_core::code::Code;
use annals_core::ids::{CallId, TurnId};
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::{Notice, Outcome};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::target::WriteTarget;
use crate::access::Uses;
use crate::cx::ToolCx;
use crate::file::{Produced, TextShown};
use crate::proposal::{self, Proposal};
use crate::spec::{BodyParam, Effect, Family, Produces, ToolSpec, ToolSpecBuilder};
use crate::tool::Tool;
use crate::{disk, serialise};

const NAME: &str = "react.write";
const DESCRIPTION: &str = "Write content to a file of this turn, replacing it if it exists. The content is shown to \
    the user on `channel` while you write it. Give parameters in this order.";

/// The tool.
pub struct Write {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    path: String,
    channel: Option<Channel>,
    content: String,
    kind: Option<ArtifactKind>,
}

fn parameters(required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "FIRST FIELD. Relative path such as `report.md`, below this turn's files."
            },
            "channel": {
                "type": "string",
                "enum": ["canvas", "timeline_text", "internal"],
                "description": "SECOND FIELD. `canvas` for documents, `timeline_text` for short texts in the \
                    conversation, `internal` for notes to yourself (tag lines [P] preference, [D] decision, [S] spec)."
            },
            "content": {"type": "string", "description": "THIRD FIELD. The whole content."},
            "kind": {
                "type": "string",
                "enum": ["display", "file"],
                "description": "FOURTH FIELD. `display` to show it, `file` to also keep it for download. \
                    Default `display`."
            },
        },
        "required": required,
        "additionalProperties": false,
    })
}

fn base(name: &str) -> ToolSpecBuilder {
    ToolSpec::builder(name)
        .description(DESCRIPTION)
        .family(Family::React)
        .effect(Effect::Replayable)
        .writes(Uses::TurnFile("path".into()))
        .produces(Produces::Artifacts)
        .body(BodyParam::Content("content"))
}

impl Write {
    /// `react.write`.
    pub fn new() -> Self {
        Self::with(base(NAME).parameters(parameters(&["path", "channel", "content"])))
    }

    /// `react.stream`: the same, with `kind` required.
    pub fn stream() -> Self {
        let parameters = parameters(&["path", "channel", "content", "kind"]);
        Self::with(base("react.stream").parameters(parameters).alias_of(NAME))
    }

    /// `react.file`: a path and a content, always `kind=file`.
    pub fn file() -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "FIRST FIELD. Relative path below this turn's files."},
                "content": {"type": "string", "description": "SECOND FIELD. The whole content."},
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        let description = "Write content to a file of this turn for download, replacing it if it exists.";
        Self::with(
            base("react.file")
                .description(description)
                .parameters(parameters)
                .alias_of(NAME),
        )
    }

    fn with(spec: ToolSpecBuilder) -> Self {
        Write {
            spec: spec.build().expect("a built-in's declaration is valid"),
        }
    }

    /// The kind of a write that does not say.
    fn default_kind(&self) -> ArtifactKind {
        if self.spec.name().as_str() == "react.file" {
            ArtifactKind::File
        } else {
            ArtifactKind::Display
        }
    }
}

impl Default for Write {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn body_path(&self, turn: &TurnId, _call: &CallId, args: &Value) -> Option<LogicalPath> {
        WriteTarget::parse(args.get("path")?.as_str()?, turn)
            .ok()
            .map(|target| target.logical())
    }

    async fn proposes(&self, cx: &ToolCx, args: &Value) -> Option<Proposal> {
        let args: Args = serde_json::from_value(args.clone()).ok()?;
        let path = match WriteTarget::parse(&args.path, cx.turn()) {
            Ok(target) => target.logical(),
            Err(error) => return Some(Proposal::Fails(error)),
        };
        Some(Proposal::Change {
            before: proposal::text_of(cx, &path).await,
            path: path.to_string(),
            after: args.content,
        })
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let args: Args = match serde_json::from_value(args) {
            Ok(args) => args,
            Err(error) => {
                return serialise::refused(ShownError::new(Code::InvalidToolArguments, error.to_string()));
            }
        };
        let target = match WriteTarget::parse(&args.path, cx.turn()) {
            Ok(target) => target,
            Err(error) => return serialise::refused(error),
        };
        let visibility = match args.channel {
            Some(Channel::Internal) => Visibility::Internal,
            _ => Visibility::External,
        };
        let produced = Produced {
            path: &target.path,
            bytes: args.content.as_bytes(),
            kind: args.kind.unwrap_or_else(|| self.default_kind()),
            visibility,
            channel: args.channel,
        };
        let written = disk::write(cx.workspace(), &target.path, produced.bytes).await;
        let mut recorded = produced.record(cx, NAME, TextShown::Whole).await;
        if let Err(error) = written {
            let error = ShownError::new(
                Code::WriteFailed,
                format!("`{}` was not written: {error}", target.logical()),
            );
            recorded.artifact.digest.error = Some(Box::new(error.clone()));
            recorded.notices.push(write_failed(&error, &target.logical()));
            recorded.error = Some(error);
        }
        let note = (visibility == Visibility::Internal).then(|| note(cx, &args.content));
        Outcome {
            notices: target.notice.into_iter().chain(recorded.notices).collect(),
            artifacts: vec![recorded.artifact],
            sources: recorded.source.into_iter().collect(),
            error: recorded.error,
            beside: note.into_iter().collect(),
            ..Outcome::default()
        }
    }
}

fn write_failed(error: &ShownError, path: &LogicalPath) -> Notice {
    Notice::new(Code::ToolResultError, error.message.clone())
        .with("error", error.code.clone())
        .with("artifact_path", path.as_str())
}

/// The `react.note` of an internal write.
fn note(cx: &ToolCx, content: &str) -> NewBlock {
    NewBlock::new(
        BlockKind::Note,
        cx.turn(),
        LogicalPath::note(cx.turn(), cx.call()),
    )
    .text("text/markdown", content)
    .meta(Meta::of_call(cx.call()).with_channel(Channel::Internal))
}
