//! A file that plays the model.
//!
//! The k-th call of the process gets step k, whatever conversation makes it. [`file`](mod@file) is the format, [`play`] turns a
//! step into events. A script never looks at the prompt except for a step's `expect`, and never goes to the network.

pub mod file;
mod play;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::view::Layout;
use annals_core::view::prompt::{AssistantPiece, Message, Piece, PieceBody, Prompt};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::cache_sim::CacheSim;
use crate::catalog;
use crate::error::ModelError;
use crate::model::{EventStream, Model, Purpose, Request, Window};
use crate::usage::{Price, Usage};

pub use file::{Script, ScriptCall, ScriptError, ScriptFailure, ScriptFailureKind, ScriptStep};

/// A model that answers from a [`Script`].
#[derive(Debug)]
pub struct ScriptModel {
    name: String,
    script: Script,
    next_step: AtomicUsize,
    next_summary: AtomicUsize,
    /// Counts what the prompts would have taken. A lock, because each prompt changes what the next one finds; held
    /// for one count and never across an await.
    cache: Mutex<CacheSim>,
}

impl ScriptModel {
    /// A model that plays this script, named `script:<name>`.
    pub fn new(name: &str, script: Script) -> Self {
        ScriptModel {
            name: format!("script:{name}"),
            script,
            next_step: AtomicUsize::new(0),
            next_summary: AtomicUsize::new(0),
            cache: Mutex::default(),
        }
    }

    /// Plays the script of a file, named after it.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let script = Script::load(path)?;
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        Ok(Self::new(&stem.to_string_lossy(), script))
    }

    /// How many steps were taken.
    pub fn steps_taken(&self) -> usize {
        self.next_step
            .load(Ordering::Relaxed)
            .min(self.script.steps.len())
    }

    fn take_step(&self) -> Result<(usize, &ScriptStep), ModelError> {
        let at = self.next_step.fetch_add(1, Ordering::Relaxed);
        let steps = self.script.steps.len();
        let step = self
            .script
            .steps
            .get(at)
            .ok_or(ModelError::ScriptExhausted { call: at + 1, steps })?;
        Ok((at + 1, step))
    }

    fn take_summary(&self) -> Option<Result<ScriptStep, ModelError>> {
        let summaries = self.script.summaries.as_ref()?;
        let at = self.next_summary.fetch_add(1, Ordering::Relaxed);
        let exhausted = ModelError::ScriptExhausted {
            call: at + 1,
            steps: summaries.len(),
        };
        Some(summaries.get(at).map(ScriptStep::text).ok_or(exhausted))
    }

    fn usage(&self, step: &ScriptStep, prompt: &Prompt) -> Usage {
        if let Some(usage) = step.usage {
            return usage;
        }
        let reading = self
            .cache
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .send(prompt);
        Usage {
            input_tokens: reading.input_tokens,
            cache_read_tokens: reading.read_tokens,
            cache_write_tokens: reading.write_tokens,
            output_tokens: step.output_tokens(),
        }
    }

    async fn play(
        &self,
        step: &ScriptStep,
        request: &Request,
        cancel: &CancellationToken,
    ) -> Result<EventStream, ModelError> {
        let delay = step.delay_ms.unwrap_or(self.script.delay_ms);
        if delay > 0 {
            let wait = tokio::time::sleep(Duration::from_millis(delay));
            cancel
                .run_until_cancelled(wait)
                .await
                .ok_or(ModelError::Cancelled)?;
        }
        if cancel.is_cancelled() {
            return Err(ModelError::Cancelled);
        }
        if let Some(failure) = &step.error
            && step.is_silent()
        {
            return Err(failure.to_error());
        }
        let spoken;
        let step = match request.layout {
            Layout::Chat => step,
            Layout::Timeline => {
                spoken = step.clone().in_words();
                &spoken
            }
        };
        let usage = self.usage(step, &request.prompt);
        let pause = Duration::from_millis(step.chunk_ms.unwrap_or(self.script.chunk_ms));
        Ok(play::stream(step, usage, pause, cancel.clone()))
    }
}

#[async_trait]
impl Model for ScriptModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn window(&self) -> Window {
        self.script.window.map_or(catalog::UNKNOWN_WINDOW, Window::from)
    }

    fn price(&self) -> Option<Price> {
        self.script.price
    }

    async fn stream(&self, request: Request, cancel: &CancellationToken) -> Result<EventStream, ModelError> {
        if request.purpose == Purpose::Summary
            && let Some(summary) = self.take_summary()
        {
            return self.play(&summary?, &request, cancel).await;
        }
        let (number, step) = self.take_step()?;
        if let Some(missing) = missing_text(&step.expect, &request) {
            return Err(ModelError::ExpectationFailed {
                step: number,
                missing,
            });
        }
        self.play(step, &request, cancel).await
    }
}

/// The first expected text that the view does not have.
fn missing_text(expected: &[String], request: &Request) -> Option<String> {
    if expected.is_empty() {
        return None;
    }
    let own;
    let view = match &request.rendered {
        Some(rendered) => &**rendered,
        None => {
            own = all_text(&request.prompt);
            &own
        }
    };
    expected
        .iter()
        .find(|text| !view.contains(text.as_str()))
        .cloned()
}

fn all_text(prompt: &Prompt) -> String {
    fn push(all: &mut String, text: &str) {
        all.push_str(text);
        all.push('\n');
    }
    fn push_piece(all: &mut String, piece: &Piece) {
        if let PieceBody::Text(text) = &piece.body {
            push(all, text);
        }
    }
    let mut all = String::new();
    push(&mut all, &prompt.system);
    for message in &prompt.messages {
        match message {
            Message::User(pieces) => pieces.iter().for_each(|piece| push_piece(&mut all, piece)),
            Message::Assistant(pieces) => pieces.iter().for_each(|piece| match piece {
                AssistantPiece::Thinking { .. } => {}
                AssistantPiece::Text(piece) => push_piece(&mut all, piece),
                AssistantPiece::Call(call) => {
                    push(&mut all, &call.tool);
                    push(&mut all, &call.arguments);
                }
            }),
            Message::Tool(replies) => {
                replies
                    .iter()
                    .flat_map(|reply| &reply.pieces)
                    .for_each(|piece| push_piece(&mut all, piece));
            }
        }
    }
    all
}
