//! The whole answer, folded from events.
//!
//! Keeps what the model sent and judges nothing: broken arguments stay broken, doubled ids stay doubled. The one
//! exception is a finished call without any arguments, which is `{}` by the custom of every vendor.

use futures::StreamExt as _;

use crate::error::ModelError;
use crate::event::{Event, StopReason};
use crate::model::EventStream;
use crate::thinking;
use crate::usage::Usage;

/// What a model answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its reasoning, if it showed any.
    pub thinking: Option<Thinking>,
    /// Its text; empty if it only called tools.
    pub text: String,
    /// Its calls, in the order they began.
    pub calls: Vec<RawCall>,
    /// Why it stopped. Never [`StopReason::EndTurn`] when there are calls: some servers say so.
    pub stop: StopReason,
    /// What it took.
    pub usage: Usage,
}

/// Reasoning, with what is needed to send it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thinking {
    /// The readable part; may be empty when the vendor encrypts it.
    pub text: String,
    /// Opaque, for `AssistantPiece::Thinking`; without it the reasoning cannot be sent back.
    pub signature: Option<String>,
}

/// A call as the model sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawCall {
    /// The model's id for it, if it gave one; not necessarily unique or well formed.
    pub id: Option<String>,
    /// The tool's id.
    pub tool: String,
    /// The arguments, hopefully JSON.
    pub arguments: String,
}

impl Answer {
    /// Reads a stream to its end.
    pub async fn collect(mut stream: EventStream) -> Result<Answer, ModelError> {
        let mut assembler = Assembler::new();
        while let Some(event) = stream.next().await {
            assembler.push(&event?);
        }
        assembler.finish()
    }
}

/// Folds events to an [`Answer`].
#[derive(Debug, Default)]
pub struct Assembler {
    blocks: Vec<Thinking>,
    open_thinking: String,
    text: String,
    calls: Vec<(usize, RawCall)>,
    finished: Option<(StopReason, Usage)>,
}

impl Assembler {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        match event {
            Event::Thinking(delta) => self.open_thinking.push_str(delta),
            Event::ThinkingSignature(signature) => self.blocks.push(Thinking {
                text: std::mem::take(&mut self.open_thinking),
                signature: Some(signature.clone()),
            }),
            Event::Text(delta) => self.text.push_str(delta),
            Event::CallStarted { index, id, tool } => {
                let call = RawCall {
                    id: id.clone(),
                    tool: tool.clone(),
                    arguments: String::new(),
                };
                self.calls.push((*index, call));
            }
            Event::CallArguments { index, json } => {
                // The newest call of that index: a vendor that starts two calls under one index means the second.
                if let Some((_, call)) = self.calls.iter_mut().rev().find(|(at, _)| at == index) {
                    call.arguments.push_str(json);
                }
            }
            Event::Restarted { .. } => *self = Assembler::new(),
            Event::Finished { stop, usage } => self.finished = Some((stop.clone(), *usage)),
        }
    }

    /// What was said so far, for callers that keep partial answers.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The whole answer, or [`ModelError::CutOff`] if the model never finished.
    pub fn finish(mut self) -> Result<Answer, ModelError> {
        let (stop, usage) = self.finished.take().ok_or(ModelError::CutOff)?;
        if !self.open_thinking.is_empty() {
            let text = std::mem::take(&mut self.open_thinking);
            self.blocks.push(Thinking {
                text,
                signature: None,
            });
        }
        let mut calls: Vec<RawCall> = self.calls.into_iter().map(|(_, call)| call).collect();
        // An answer cut at its longest length may have lost the arguments of the last call: leave them broken.
        let whole = if stop == StopReason::MaxTokens {
            calls.len().saturating_sub(1)
        } else {
            calls.len()
        };
        for call in calls
            .iter_mut()
            .take(whole)
            .filter(|call| call.arguments.trim().is_empty())
        {
            call.arguments = "{}".to_owned();
        }
        let stop = if stop == StopReason::EndTurn && !calls.is_empty() {
            StopReason::ToolUse
        } else {
            stop
        };
        Ok(Answer {
            thinking: thinking::join(self.blocks),
            text: self.text,
            calls,
            stop,
            usage,
        })
    }
}
