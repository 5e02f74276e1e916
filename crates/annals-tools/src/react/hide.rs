//! `react.hide`: something large near the tail gives way to a short placeholder.
//!
//! `react.memory_hide` is the same tool under another name.

use annals_core::block::ShownError;
use annals_core::code::Code;
use annals_core::path::LogicalPath;
use annals_core::turn::outcome::{HideItem, Outcome, Output, Payload};
use annals_core::view::HideCheck;
use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Value, json};

use crate::access::Uses;
use crate::cx::ToolCx;
use crate::serialise;
use crate::spec::{Effect, Family, ToolSpec};
use crate::tool::Tool;

const NAME: &str = "react.hide";

/// The tool.
pub struct Hide {
    spec: ToolSpec,
    /// The parameter that holds the placeholder's text.
    replacement: &'static str,
}

#[derive(Serialize)]
struct Status<'a> {
    path: &'a str,
    status: &'static str,
    blocks_hidden: u32,
    tokens_hidden: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tail_tokens: Option<u32>,
    tail_limit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ShownError>,
}

impl Hide {
    /// `react.hide`.
    pub fn new() -> Self {
        Self::named(NAME, "replacement")
    }

    /// `react.memory_hide`.
    pub fn memory_hide() -> Self {
        Self::named("react.memory_hide", "replacement_text")
    }

    fn named(name: &str, replacement: &'static str) -> Self {
        let spec = ToolSpec::builder(name)
            .description(
                "Replace what a path shows near the end of the conversation by a short placeholder, when it is \
                 large and no longer needed. react.read brings it back.",
            )
            .family(Family::React)
            .effect(Effect::Replayable)
            // Each hide must see what the one before it left, so that both stay within the tail.
            .writes(Uses::named(super::VIEW))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "path": {
                        "type": "string",
                        "description": "FIRST FIELD. The logical path to hide (fi:, ar:, tc:, so:)."
                    },
                    replacement: {
                        "type": "string",
                        "description": "SECOND FIELD. What to remember of it, in one line."
                    },
                },
                "required": ["path", replacement],
                "additionalProperties": false,
            }));
        let spec = if name == NAME { spec } else { spec.alias_of(NAME) };
        Hide {
            spec: spec.build().expect("a built-in's declaration is valid"),
            replacement,
        }
    }
}

impl Default for Hide {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for Hide {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let text = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = match LogicalPath::parse(text("path")) {
            Ok(path) => path,
            Err(error) => return serialise::refused(ShownError::new(error.code(), error.to_string())),
        };
        let settings = &cx.settings().cache;
        let tail_limit = settings.editable_tail_size_in_tokens;
        let check = cx.timeline(|timeline| timeline.hide_check(&path, settings));
        let mut status = Status {
            path: path.as_str(),
            status: "ok",
            blocks_hidden: 0,
            tokens_hidden: 0,
            tail_tokens: None,
            tail_limit,
            error: None,
        };
        let (code, message) = match check {
            HideCheck::Ok {
                from_seq,
                blocks,
                tokens,
                tail_tokens,
            } => {
                status.blocks_hidden = blocks;
                status.tokens_hidden = tokens;
                status.tail_tokens = Some(tail_tokens);
                let replacement = one_line(text(self.replacement));
                let hide = HideItem {
                    path: path.clone(),
                    replacement,
                    from_seq: Some(from_seq),
                };
                let output = Output::Payload(Payload::json(&status));
                return Outcome {
                    output,
                    hides: vec![hide],
                    ..Outcome::default()
                };
            }
            HideCheck::NotFound => {
                status.status = "not_found";
                let message = format!("nothing visible has the path `{path}`");
                (Code::HideNotFound, message)
            }
            HideCheck::BeforeCache => {
                status.status = "too_old";
                (
                    Code::HideBeforeCache,
                    format!("`{path}` lies in the cached part of the conversation: leave it"),
                )
            }
            HideCheck::TooOld { tail_tokens } => {
                status.status = "too_old";
                status.tail_tokens = Some(tail_tokens);
                (
                    Code::HideTooOld,
                    format!("`{path}` is more than {tail_limit} tokens from the end: leave it"),
                )
            }
        };
        let error = ShownError::new(code, message);
        status.error = Some(&error);
        let output = Output::Payload(Payload::json(&status));
        Outcome {
            output,
            error: Some(error),
            ..Outcome::default()
        }
    }
}

/// The placeholder is one line that ends before its full stop.
fn one_line(replacement: &str) -> String {
    let words: Vec<&str> = replacement.split_whitespace().collect();
    words.join(" ").trim_end_matches('.').to_owned()
}
