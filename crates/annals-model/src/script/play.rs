//! A step as a stream of events: words of text, pieces of arguments, as a provider would send them.

use std::collections::VecDeque;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use tokio_util::sync::CancellationToken;

use super::file::{ScriptStep, ScriptStop};
use crate::error::ModelError;
use crate::event::{Event, StopReason};
use crate::model::EventStream;
use crate::usage::Usage;

const ARGUMENTS_CHUNK_CHARS: usize = 24;

/// Plays the step, with a pause before each event.
pub(super) fn stream(
    step: &ScriptStep,
    usage: Usage,
    pause: Duration,
    cancel: CancellationToken,
) -> EventStream {
    let queue: VecDeque<_> = events(step, usage).into();
    stream::unfold((queue, cancel), move |(mut queue, cancel)| async move {
        let next = queue.pop_front()?;
        let is_cancelled = if pause.is_zero() {
            cancel.is_cancelled()
        } else {
            cancel
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
        };
        if is_cancelled {
            return Some((Err(ModelError::Cancelled), (VecDeque::new(), cancel)));
        }
        Some((next, (queue, cancel)))
    })
    .boxed()
}

fn events(step: &ScriptStep, usage: Usage) -> Vec<Result<Event, ModelError>> {
    let mut events = Vec::new();
    if let Some(thinking) = &step.thinking {
        events.extend(words(thinking).map(|word| Event::Thinking(word.to_owned())));
        events.extend(step.thinking_signature.clone().map(Event::ThinkingSignature));
    }
    if let Some(text) = &step.text {
        events.extend(words(text).map(|word| Event::Text(word.to_owned())));
    }
    for (index, call) in step.tool_calls.iter().enumerate() {
        events.push(Event::CallStarted {
            index,
            id: call.id.clone(),
            tool: call.tool.clone(),
        });
        let json = call.json();
        events.extend(chunks(&json).map(|chunk| Event::CallArguments {
            index,
            json: chunk.to_owned(),
        }));
    }
    let mut events: Vec<Result<Event, ModelError>> = events.into_iter().map(Ok).collect();
    events.push(match &step.error {
        Some(failure) => Err(failure.to_error()),
        None => Ok(Event::Finished {
            stop: stop(step),
            usage,
        }),
    });
    events
}

fn stop(step: &ScriptStep) -> StopReason {
    match step.stop {
        Some(ScriptStop::MaxTokens) => StopReason::MaxTokens,
        Some(ScriptStop::Refusal) => StopReason::Refusal,
        None if step.tool_calls.is_empty() => StopReason::EndTurn,
        None => StopReason::ToolUse,
    }
}

/// Words with the space after them; together they are the text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(char::is_whitespace)
}

fn chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest
            .char_indices()
            .nth(ARGUMENTS_CHUNK_CHARS)
            .map_or(rest.len(), |(at, _)| at);
        let (chunk, after) = rest.split_at(end);
        rest = after;
        Some(chunk)
    })
}
