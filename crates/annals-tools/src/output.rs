//! What a tool function hands back, before the runtime's form of it is made.
//!
//! [`ToolOutput`] says everything a call may leave behind; [`IntoOutcome`] is every type that says some of it. It must not
//! decide how a value or a sandbox result is shown: that is [`serialise`](crate::serialise)'s.

use std::error::Error;

use annals_core::block::{ArtifactKind, ShownError, Visibility};
use annals_core::code::Code;
use annals_core::sources::citation;
use annals_core::turn::opening::answer_block;
use annals_core::turn::outcome::{Notice, Outcome, Output};
use annals_sandbox::OpResult;
use serde::Serialize;
use serde_json::Value;

use crate::cx::ToolCx;
use crate::disk;
use crate::failure::{IntoFailure, ToolFailure};
use crate::file::{Produced, TextShown};
use crate::react::target::WriteTarget;
use crate::serialise;
use crate::spec::ToolSpec;

/// Everything a tool function may return.
///
/// | type | what the model reads |
/// |---|---|
/// | [`Value`], [`Json<T>`](Json) | JSON |
/// | `String`, `&str` | the text itself |
/// | `()` | nothing but that it was done |
/// | [`OpResult`] | a sandbox result in the form of the built-in tools |
/// | [`ToolOutput`] | any of these with files, notices, or the end of the turn |
/// | [`Outcome`] | what a tool that implements [`Tool`](crate::Tool) by hand returns |
/// | `Result` of any of these | the same, or a [`ToolFailure`] |
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be what a tool returns",
    label = "not what a tool returns",
    note = "return `ToolResult`, `Json<T>` for a type that implements `Serialize`, or `ToolOutput`"
)]
pub trait IntoOutcome {
    /// What the call leaves behind.
    fn into_output(self) -> ToolOutput;
}

/// A value of any type that serialises, as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// What a call leaves behind: what the model reads, files of the turn, notices, perhaps the end of the turn.
///
/// ```
/// use annals_tools::{ToolOutput, ToolResult};
/// use serde_json::json;
///
/// fn export(rows: &[(&str, u32)]) -> ToolResult<ToolOutput> {
///     let csv: String = rows.iter().map(|(name, count)| format!("{name},{count}\n")).collect();
///     Ok(ToolOutput::value(json!({ "rows": rows.len() })).file("export.csv", csv))
/// }
/// # assert!(export(&[("a", 1)]).is_ok());
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ToolOutput {
    answer: Answer,
    files: Vec<NewFile>,
    notices: Vec<Notice>,
    ends_turn: bool,
}

#[derive(Clone, Debug, Default)]
enum Answer {
    #[default]
    Nothing,
    Value(Value),
    Text(String),
    Operation(Box<OpResult>),
    Failure(ToolFailure),
    Whole(Box<Outcome>),
}

#[derive(Clone, Debug)]
struct NewFile {
    path: String,
    bytes: Vec<u8>,
}

impl ToolOutput {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// JSON that the model reads.
    pub fn value(value: impl Into<Value>) -> Self {
        Answer::Value(value.into()).into()
    }

    /// Text that the model reads as it is.
    pub fn text(text: impl Into<String>) -> Self {
        Answer::Text(text.into()).into()
    }

    /// With a file of the running turn at this relative path, such as `report/figures.csv`. It is in OUT_DIR, hosted in
    /// the artifact store, and shown to the model and to people; an earlier version is replaced.
    pub fn file(mut self, path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push(NewFile {
            path: path.into(),
            bytes: bytes.into(),
        });
        self
    }

    /// With a notice that the model reads before the result.
    pub fn notice(mut self, notice: Notice) -> Self {
        self.notices.push(notice);
        self
    }

    /// Ends the turn: what the call answers is the turn's answer, and the model is not asked again. The other calls of
    /// the same answer still run. A call that failed ends nothing.
    pub fn end_turn(mut self) -> Self {
        self.ends_turn = true;
        self
    }

    /// Writes the files and gives everything its form.
    pub async fn outcome(self, cx: &ToolCx, spec: &ToolSpec) -> Outcome {
        let answer_text = self.ends_turn.then(|| self.answer.text());
        let mut outcome = match self.answer {
            Answer::Nothing if self.files.is_empty() => serialise::answer(cx, spec, Ok(Value::Null)).await,
            Answer::Nothing => Outcome::default(),
            Answer::Value(value) => serialise::answer(cx, spec, Ok(value)).await,
            Answer::Text(text) => Outcome {
                output: Output::Payload(serialise::text(cx, &text).await),
                ..Outcome::default()
            },
            Answer::Operation(result) => serialise::answer_op(cx, spec, Ok(*result)).await,
            Answer::Failure(failure) => serialise::answer(cx, spec, Err(failure)).await,
            Answer::Whole(outcome) => *outcome,
        };
        outcome.notices.splice(0..0, self.notices);
        for file in self.files {
            file.write(cx, spec, &mut outcome).await;
        }
        if let (Some(text), None) = (answer_text, &outcome.error) {
            let steps = cx.timeline(|timeline| timeline.current_turn().map_or(0, |turn| turn.steps));
            let cited = citation::extract(&text);
            outcome.beside.push(answer_block(cx.turn(), steps, &text, cited));
        }
        outcome
    }
}

impl Answer {
    /// The answer of a turn that ends with it.
    fn text(&self) -> String {
        match self {
            Answer::Value(Value::String(text)) | Answer::Text(text) => text.clone(),
            Answer::Value(value) => value.to_string(),
            Answer::Whole(outcome) => match &outcome.output {
                Output::Payload(payload) => payload.text.to_string(),
                _ => String::new(),
            },
            Answer::Operation(result) => serde_json::to_string(result).unwrap_or_default(),
            Answer::Nothing | Answer::Failure(_) => String::new(),
        }
    }
}

impl NewFile {
    /// Writes it into the turn's files and adds what its blocks carry.
    async fn write(self, cx: &ToolCx, spec: &ToolSpec, outcome: &mut Outcome) {
        let target = match WriteTarget::parse(&self.path, cx.turn()) {
            Ok(target) => target,
            Err(error) => return self.refuse(spec, outcome, error),
        };
        outcome.notices.extend(target.notice.clone());
        if let Err(error) = disk::write(cx.workspace(), &target.path, self.bytes.as_slice()).await {
            let message = format!("`{}` was not written: {error}", target.logical());
            let error = ShownError::new(Code::WriteFailed, message);
            return self.refuse(spec, outcome, error);
        }
        let produced = Produced {
            path: &target.path,
            bytes: &self.bytes,
            kind: ArtifactKind::File,
            visibility: Visibility::External,
            channel: None,
        };
        let recorded = produced.record(cx, spec.name().as_str(), TextShown::Whole).await;
        outcome.notices.extend(recorded.notices);
        outcome.artifacts.push(recorded.artifact);
        outcome.sources.extend(recorded.source);
        outcome.error = outcome.error.take().or(recorded.error);
    }

    fn refuse(&self, spec: &ToolSpec, outcome: &mut Outcome, error: ShownError) {
        outcome.notices.push(
            Notice::new(Code::ToolResultError, error.message.clone())
                .with("error", error.code.clone())
                .with("tool_id", spec.name().as_str())
                .with("path", self.path.clone()),
        );
        outcome.error.get_or_insert(error);
    }
}

impl From<Answer> for ToolOutput {
    fn from(answer: Answer) -> Self {
        ToolOutput {
            answer,
            ..ToolOutput::default()
        }
    }
}

impl IntoOutcome for ToolOutput {
    fn into_output(self) -> ToolOutput {
        self
    }
}

impl IntoOutcome for Outcome {
    fn into_output(self) -> ToolOutput {
        Answer::Whole(Box::new(self)).into()
    }
}

impl IntoOutcome for Value {
    fn into_output(self) -> ToolOutput {
        Answer::Value(self).into()
    }
}

impl<T: Serialize> IntoOutcome for Json<T> {
    fn into_output(self) -> ToolOutput {
        serde_json::to_value(self.0)
            .map_err(|error| Box::new(error) as Box<dyn Error>)
            .into_output()
    }
}

impl IntoOutcome for String {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoOutcome for &str {
    fn into_output(self) -> ToolOutput {
        ToolOutput::text(self)
    }
}

impl IntoOutcome for () {
    fn into_output(self) -> ToolOutput {
        Answer::Value(Value::Bool(true)).into()
    }
}

impl IntoOutcome for OpResult {
    fn into_output(self) -> ToolOutput {
        Answer::Operation(Box::new(self)).into()
    }
}

impl<T: IntoOutcome, E: IntoFailure> IntoOutcome for Result<T, E> {
    fn into_output(self) -> ToolOutput {
        match self {
            Ok(done) => done.into_output(),
            Err(error) => Answer::Failure(error.into_failure()).into(),
        }
    }
}
