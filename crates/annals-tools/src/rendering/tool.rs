//! What the rendering tools have in common: all but their format.

use annals_content::{Content, ContentError, Document, DocumentHead, Form};
use annals_core::block::{ArtifactKind, ShownError, Visibility, word};
use annals_core::code::Code;
use annals_core::ids::TurnId;
use annals_core::path::{PhysicalPath, mentions};
use annals_core::turn::outcome::{Notice, Outcome};
use annals_policy::Reach;
use annals_render::{Engine, Format, Orientation, PageOptions, Paper, RenderError, Rendered};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::assets::TurnFiles;
use super::citations::{self, Citations};
use crate::access::{Access, Resource};
use crate::cx::ToolCx;
use crate::disk;
use crate::failure::ToolFailure;
use crate::file::{self, Produced, TextShown};
use crate::mentioned::{self, Brought};
use crate::react::target::WriteTarget;
use crate::serialise;
use crate::spec::{Effect, Family, Produces, ToolSpec};
use crate::tool::Tool;

const COMMON: &str = " Tables, code, pictures, links, footnotes and non-Latin text are laid out; pictures are files of \
    this conversation by name or path (nothing is fetched from the web); [[S:n]] become citations with a list of \
    sources. `content` may be ref:fi:<turn>.files/<name> to render a file written before.";

/// Writes documents of one form.
pub struct WriteDocument {
    spec: ToolSpec,
    form: Form,
    content: Content,
}

#[derive(Deserialize)]
struct Args {
    path: String,
    content: String,
    #[serde(default)]
    format: Option<GivenFormat>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    engine: GivenEngine,
    #[serde(default)]
    paper: GivenPaper,
    #[serde(default)]
    orientation: GivenOrientation,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GivenFormat {
    Markdown,
    Html,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GivenEngine {
    #[default]
    Auto,
    Embedded,
    Chromium,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GivenPaper {
    A3,
    #[default]
    A4,
    A5,
    Letter,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GivenOrientation {
    #[default]
    Portrait,
    Landscape,
}

impl Args {
    fn format(&self) -> Format {
        match self.format {
            Some(GivenFormat::Markdown) => Format::Markdown,
            Some(GivenFormat::Html) => Format::Html,
            // A whole page announces itself; markdown may begin with a tag.
            None => {
                let head: String = self
                    .content
                    .trim_start()
                    .chars()
                    .take(9)
                    .collect::<String>()
                    .to_ascii_lowercase();
                if head.starts_with("<!doctype") || head.starts_with("<html") {
                    Format::Html
                } else {
                    Format::Markdown
                }
            }
        }
    }

    fn engine(&self) -> Engine {
        match self.engine {
            GivenEngine::Auto => Engine::Auto,
            GivenEngine::Embedded => Engine::Embedded,
            GivenEngine::Chromium => Engine::Chromium,
        }
    }

    fn page(&self) -> PageOptions {
        let paper = match self.paper {
            GivenPaper::A3 => Paper::A3,
            GivenPaper::A4 => Paper::A4,
            GivenPaper::A5 => Paper::A5,
            GivenPaper::Letter => Paper::Letter,
        };
        let orientation = match self.orientation {
            GivenOrientation::Portrait => Orientation::Portrait,
            GivenOrientation::Landscape => Orientation::Landscape,
        };
        PageOptions {
            paper,
            orientation,
            ..PageOptions::default()
        }
    }
}

fn parameters(form: Form) -> Value {
    let mut properties = Map::new();
    let mut put = |name: &str, schema: Value| properties.insert(name.to_owned(), schema);
    let path = format!(
        "FIRST FIELD. Relative path such as `report.{}`, below this turn's files.",
        form.extension()
    );
    put("path", json!({"type": "string", "description": path}));
    put(
        "content",
        json!({"type": "string", "description": "SECOND FIELD. The whole document."}),
    );
    put(
        "format",
        json!({"type": "string", "enum": ["markdown", "html"], "description": "THIRD FIELD. Default: what the content looks like."}),
    );
    put(
        "title",
        json!({"type": "string", "description": "FOURTH FIELD. Printed above the text and kept as metadata."}),
    );
    if form.has_pages() {
        put(
            "engine",
            json!({"type": "string", "enum": ["auto", "embedded", "chromium"], "description": "Who lays out HTML. Default auto."}),
        );
        put(
            "paper",
            json!({"type": "string", "enum": ["a3", "a4", "a5", "letter"], "description": "Default a4."}),
        );
        put(
            "orientation",
            json!({"type": "string", "enum": ["portrait", "landscape"], "description": "Default portrait."}),
        );
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": ["path", "content"],
        "additionalProperties": false,
    })
}

impl WriteDocument {
    pub(super) fn new(content: Content, form: Form, name: &str, description: &str) -> Self {
        let spec = ToolSpec::builder(name)
            .description(format!("{description}{COMMON}"))
            .family(Family::External)
            .effect(Effect::Replayable)
            .produces(Produces::Artifacts)
            .reaches([Reach::Write])
            .parameters(parameters(form))
            .build()
            .expect("a built-in's declaration is valid");
        WriteDocument { spec, form, content }
    }

    async fn write(&self, cx: &ToolCx, args: Args, target: WriteTarget) -> Outcome {
        // Started while the files that the content mentions are brought.
        self.content.start_ahead();
        let brought = mentioned::bring(cx, &args.content).await;
        let citations = citations::resolve(cx, &args.content).await;
        let mut notices: Vec<Notice> = target.notice.clone().into_iter().collect();
        notices.extend(missing_assets(&brought));
        notices.extend(citations.notices.iter().cloned());
        let mut outcome = match self.render(cx, args, &citations).await {
            Ok(rendered) => self.keep(cx, &target.path, rendered, &citations).await,
            Err(error) => self.absent(&target.path, error),
        };
        outcome.notices.splice(0..0, notices);
        outcome
    }

    /// Has the document laid out in a helper process.
    async fn render(&self, cx: &ToolCx, args: Args, citations: &Citations) -> Result<Rendered, ShownError> {
        let files = TurnFiles {
            workspace: cx.workspace().as_ref().clone(),
            turn: cx.turn().clone(),
        };
        let head = DocumentHead {
            format: args.format(),
            sources: citations.sources.clone(),
            engine: args.engine(),
            page: args.page(),
            title: args.title,
        };
        let document = Document {
            content: args.content,
            head,
        };
        let rendered = self
            .content
            .render(self.form, document, move |reference| files.get(reference));
        tokio::select! {
            rendered = rendered => rendered.map_err(|error| ShownError::new(code(&error), error.to_string())),
            () = cx.cancel().cancelled() => Err(ShownError::new(Code::Cancelled, "rendering was cancelled")),
        }
    }

    async fn keep(
        &self,
        cx: &ToolCx,
        path: &PhysicalPath,
        rendered: Rendered,
        citations: &Citations,
    ) -> Outcome {
        let warnings = rendered.warnings.iter().map(ToString::to_string);
        if let Err(error) = disk::write(cx.workspace(), path, rendered.bytes.clone()).await {
            return self.absent(path, ShownError::new(Code::WriteFailed, error.to_string()));
        }
        let produced = Produced {
            path,
            bytes: &rendered.bytes,
            kind: ArtifactKind::File,
            visibility: Visibility::External,
            channel: None,
        };
        let mut recorded = produced
            .record(cx, self.spec.name().as_str(), TextShown::Whole)
            .await;
        let digest = &mut recorded.artifact.digest;
        // The writer knows what it wrote better than the name or the first bytes can tell.
        digest.mime = word(rendered.mime);
        digest.sources_used = citations.used.clone().into();
        let small = digest.write_warning.take();
        let all: Vec<String> = small
            .into_iter()
            .chain(warnings)
            .chain(self.odd_name(path))
            .collect();
        digest.write_warning = (!all.is_empty()).then(|| all.join("; "));
        Outcome {
            notices: recorded.notices,
            artifacts: vec![recorded.artifact],
            sources: recorded.source.into_iter().collect(),
            error: recorded.error,
            ..Outcome::default()
        }
    }

    /// Programs open files by their extension.
    fn odd_name(&self, path: &PhysicalPath) -> Option<String> {
        let extension = self.form.extension();
        let is_usual = path
            .as_str()
            .to_ascii_lowercase()
            .ends_with(&format!(".{extension}"));
        (!is_usual).then(|| format!("the name does not end in .{extension}"))
    }

    fn absent(&self, path: &PhysicalPath, error: ShownError) -> Outcome {
        let notice = Notice::new(Code::ToolResultError, error.message.clone())
            .with("error", error.code.clone())
            .with("tool_id", self.spec.name().as_str())
            .with("artifact_path", path.logical().as_str());
        Outcome {
            notices: vec![notice],
            artifacts: vec![file::absent(
                path,
                ArtifactKind::File,
                Visibility::External,
                error.clone(),
            )],
            error: Some(error),
            ..Outcome::default()
        }
    }

    /// A call that cannot run.
    fn refused(&self, failure: &ToolFailure) -> Outcome {
        let notice = Notice::new(Code::ToolCallError, failure.message.clone())
            .with("error", failure.kind.clone())
            .with("tool_id", self.spec.name().as_str());
        Outcome {
            notices: vec![notice],
            ..serialise::failed(failure)
        }
    }
}

fn missing_assets(brought: &Brought) -> Option<Notice> {
    let missing: Vec<&str> = brought
        .missing
        .iter()
        .map(|missing| missing.path.as_str())
        .collect();
    if missing.is_empty() {
        return None;
    }
    let message = format!(
        "files that the content mentions are missing: {}; a placeholder stands for each picture",
        missing.join(", ")
    );
    Some(Notice::new(Code::MissingAssets, message).with("missing", missing))
}

fn code(error: &ContentError) -> &'static str {
    match error {
        ContentError::Render(RenderError::ContentTooLarge { .. } | RenderError::TooManyPages { .. }) => {
            Code::DocumentTooLarge.as_str()
        }
        ContentError::Render(RenderError::Deadline { .. }) => Code::Timeout.as_str(),
        ContentError::Render(RenderError::Busy) => Code::Busy.as_str(),
        ContentError::Render(RenderError::Chromium { .. }) => Code::ChromiumNotAvailable.as_str(),
        error => error.code(),
    }
}

#[async_trait]
impl Tool for WriteDocument {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, turn: &TurnId, args: &Value) -> Option<Access> {
        let text = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        let target = Access::NOTHING.write(Resource::turn_file(turn, text("path")));
        let shown = mentions::files(text("content"));
        let shown = shown.iter().filter_map(|path| path.physical());
        Some(shown.fold(target, |access, path| access.read(Resource::physical(&path))))
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let args = match crate::__private::typed::<Args>(args) {
            Ok(args) => args,
            Err(failure) => return self.refused(&failure),
        };
        if args.content.trim().is_empty() {
            let message = "the content is empty: give the text of the document";
            return self.refused(&ToolFailure::new(Code::EmptyContent, message));
        }
        match WriteTarget::parse(&args.path, cx.turn()) {
            Ok(target) => self.write(cx, args, target).await,
            Err(error) => self.refused(&ToolFailure::new(error.code, error.message)),
        }
    }
}
