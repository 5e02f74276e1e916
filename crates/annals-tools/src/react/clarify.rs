//! `react.clarify`: the turn ends with questions for the person.

use annals_core::block::{BlockKind, Meta, NewBlock, ShownError};
use annals_core::code::Code;
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::{Outcome, Output, Payload};
use annals_policy::Reach;
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::cx::ToolCx;
use crate::serialise;
use crate::spec::{Effect, Family, ToolSpec};
use crate::tool::Tool;

/// A person answers only a few questions at once.
const QUESTIONS_MAX: usize = 10;

/// The tool.
pub struct Clarify {
    spec: ToolSpec,
}

impl Clarify {
    /// `react.clarify`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("react.clarify")
            .description(
                "Ask the user and end the turn. Only when you cannot go on without the answer; the next message \
                 answers it.",
            )
            .family(Family::React)
            .effect(Effect::Replayable)
            .independent()
            .reaches([Reach::Read])
            .parameters(json!({
                "type": "object",
                "properties": {
                    "questions": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1},
                        "minItems": 1,
                        "maxItems": QUESTIONS_MAX,
                        "description": "What you need to know, one question each."
                    },
                },
                "required": ["questions"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        Clarify { spec }
    }
}

impl Default for Clarify {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for Clarify {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let questions: Vec<&str> = args
            .get("questions")
            .and_then(Value::as_array)
            .map(|questions| {
                questions
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::trim)
                    .collect()
            })
            .unwrap_or_default();
        let questions: Vec<&str> = questions
            .into_iter()
            .filter(|question| !question.is_empty())
            .collect();
        let path = LogicalPath::stage(cx.turn(), "clarification");
        let (false, Ok(path)) = (questions.is_empty(), path) else {
            let message = "there is no question: ask at least one, or answer without asking";
            return serialise::refused(ShownError::new(Code::ClarifyWithoutQuestion, message));
        };
        let stage = NewBlock::new(BlockKind::StageClarification, cx.turn(), path)
            .text("text/markdown", as_text(&questions))
            .meta(Meta::of_call(cx.call()));
        Outcome {
            output: Output::Payload(Payload::json(&json!({"status": "asked", "questions": questions}))),
            beside: vec![stage],
            ..Outcome::default()
        }
    }
}

/// One question as it is, several as a numbered list.
fn as_text(questions: &[&str]) -> String {
    if let [only] = questions {
        return (*only).to_owned();
    }
    let lines: Vec<String> = questions
        .iter()
        .enumerate()
        .map(|(index, question)| format!("{}. {question}", index + 1))
        .collect();
    lines.join("\n")
}
