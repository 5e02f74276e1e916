//! `react.memsearch`: what was said in earlier turns, by words and by meaning.

use annals_core::block::ShownError;
use annals_core::code::Code;
use annals_core::limits;
use annals_core::turn::outcome::{Notice, Outcome, Output, Payload};
use annals_store::LogError;
use annals_store::recall::{Hit, Query, RecallHits, RecallTarget, Within};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cx::ToolCx;
use crate::serialise;
use crate::spec::{Effect, Family, ToolSpec};
use crate::tool::Tool;

/// What finds things otherwise, of what is built in.
const INSTEAD: &str = match cfg!(feature = "search-files") {
    true => "react.search_files and react.read",
    false => "react.read",
};

/// The tool.
pub struct MemSearch {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    query: String,
    #[serde(default)]
    targets: Vec<String>,
    top_k: Option<usize>,
    days: Option<u32>,
    #[serde(default)]
    scope: Where,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Where {
    #[default]
    Conversation,
    User,
}

/// A hit as a model reads it.
#[derive(Serialize)]
struct Shown<'h> {
    turn_id: &'h str,
    path: Option<&'h str>,
    role: &'static str,
    text: &'h str,
    score: f64,
    ts: String,
    /// Named when it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation: Option<&'h str>,
}

impl MemSearch {
    /// `react.memsearch`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("react.memsearch")
            .description(
                "Find what was said or written in earlier turns, by meaning and by words. Returns the passages with \
                 their paths, the best first; react.read shows the whole of a path.",
            )
            .family(Family::React)
            .effect(Effect::None)
            .parameters(json!({
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "minLength": 1,
                        "description": "FIRST FIELD. What to look for: a question, or words that were used."
                    },
                    "targets": {
                        "type": "array",
                        "items": {"type": "string", "enum": RecallTarget::ALL.map(RecallTarget::as_str)},
                        "description": "SECOND FIELD. Whose words: prompts (user), answers, notes and written files \
                                        (assistant), attached files (attachment). Default: all."
                    },
                    "top_k": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "THIRD FIELD. How many passages at most. Default 5."
                    },
                    "days": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "FOURTH FIELD. How far back. Default 365."
                    },
                    "scope": {
                        "type": "string",
                        "enum": ["conversation", "user"],
                        "description": "FIFTH FIELD. Where: this conversation (default), or all of this user's."
                    },
                },
                "required": ["query"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        MemSearch { spec }
    }
}

impl Default for MemSearch {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for MemSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let args: Args = match serde_json::from_value(args) {
            Ok(args) => args,
            Err(error) => return refused(Code::InvalidToolArguments, error.to_string()),
        };
        let Some(recall) = cx.recall() else {
            return refused(
                Code::MemoryNotConfigured,
                format!("this session's log has no memory search: use {INSTEAD}"),
            );
        };
        if args.query.trim().is_empty() {
            return refused(Code::EmptyQuery, "`query` has no words: say what to look for");
        }
        match recall.search(query(cx, args)).await {
            Ok(found) => answer(cx, &found),
            // What a log says of itself names places on the host.
            Err(LogError::NotFound { .. }) => {
                refused(Code::MemoryNotAvailable, "this conversation is not in the log")
            }
            Err(_) => refused(
                Code::MemoryNotAvailable,
                format!("the memory search failed: try again, or use {INSTEAD}"),
            ),
        }
    }
}

fn query(cx: &ToolCx, args: Args) -> Query {
    let running = cx.timeline(|timeline| {
        let turn = timeline.turn(cx.turn())?;
        let first = timeline.turn_blocks(turn).first()?;
        Some((cx.conversation().clone(), first.seq))
    });
    let top_k = args.top_k.unwrap_or(limits::MEMSEARCH_DEFAULT_HITS);
    let query = Query {
        within: match args.scope {
            Where::Conversation => Within::Conversation(cx.conversation().clone()),
            Where::User => Within::Scope,
        },
        targets: args
            .targets
            .iter()
            .filter_map(|word| RecallTarget::from_word(word))
            .collect(),
        limit: top_k.clamp(1, limits::MEMSEARCH_MAX_HITS),
        before: running,
        ..Query::new(
            cx.scope().clone(),
            cx.conversation().clone(),
            args.query,
            cx.now(),
        )
    };
    query.days(args.days.unwrap_or(limits::MEMSEARCH_DEFAULT_DAYS))
}

fn answer(cx: &ToolCx, found: &RecallHits) -> Outcome {
    let shown: Vec<Shown<'_>> = found.hits.iter().map(|hit| show(cx, hit)).collect();
    let shortfall = found.shortfall.iter();
    Outcome {
        notices: shortfall
            .map(|shortfall| Notice::new(Code::MemoryIncomplete, shortfall.to_string()))
            .collect(),
        output: Output::Payload(Payload::json(&shown)),
        ..Outcome::default()
    }
}

fn show<'h>(cx: &ToolCx, hit: &'h Hit) -> Shown<'h> {
    Shown {
        turn_id: hit.turn.as_str(),
        path: hit.path.as_ref().map(|path| path.as_str()),
        role: hit.target.as_str(),
        text: &hit.text,
        score: (f64::from(hit.score) * 1_000.0).round() / 1_000.0,
        ts: hit.ts.to_string(),
        conversation: Some(hit.conversation.as_str()).filter(|_| hit.conversation != *cx.conversation()),
    }
}

fn refused(code: Code, message: impl Into<String>) -> Outcome {
    serialise::refused(ShownError::new(code, message))
}
