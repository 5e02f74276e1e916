//! A stream of chat completion chunks as events.
//!
//! Tolerated, because servers do it: tool call deltas without `index`, or all with index 0; the id or the name on
//! every delta; arguments that are no string; no `[DONE]`; no finish reason before it; no usage; `choices` that are
//! missing or empty; reasoning under two names; content in parts. Not tolerated: an end without either a finish
//! reason or `[DONE]`.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use crate::event::{Event, StopReason};
use crate::usage::Usage;
use crate::wire::fault::Fault;
use crate::wire::http::{DecodeError, Decoder, parse};
use crate::wire::names::ToolNames;
use crate::wire::sse::SseEvent;

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<Value>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<i64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(default)]
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let details = wire.prompt_tokens_details.as_ref();
        Usage {
            input_tokens: wire.prompt_tokens.unwrap_or(0),
            cache_read_tokens: details
                .and_then(|details| details.cached_tokens)
                .or(wire.prompt_cache_hit_tokens)
                .unwrap_or(0),
            cache_write_tokens: details
                .and_then(|details| details.cache_write_tokens)
                .unwrap_or(0),
            output_tokens: wire.completion_tokens.unwrap_or(0),
        }
    }
}

/// A call whose arguments are coming in.
struct OpenCall {
    wire_index: Option<i64>,
    id: Option<String>,
    arguments: String,
}

/// Reads chat completion chunks.
pub(crate) struct ChatDecoder {
    names: ToolNames,
    calls: Vec<OpenCall>,
    usage: Usage,
    stop: Option<StopReason>,
    is_finished: bool,
}

impl ChatDecoder {
    pub(crate) fn new(names: ToolNames) -> Self {
        ChatDecoder {
            names,
            calls: Vec::new(),
            usage: Usage::default(),
            stop: None,
            is_finished: false,
        }
    }

    fn finish(&mut self, out: &mut VecDeque<Event>) {
        let by_content = if self.calls.is_empty() {
            StopReason::EndTurn
        } else {
            StopReason::ToolUse
        };
        let stop = self.stop.take().unwrap_or(by_content);
        out.push_back(Event::Finished {
            stop,
            usage: self.usage,
        });
        self.is_finished = true;
    }

    fn delta(&mut self, delta: Delta, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        let reasoning = delta.reasoning.as_ref().and_then(Value::as_str);
        if let Some(text) = delta
            .reasoning_content
            .as_deref()
            .or(reasoning)
            .filter(|text| !text.is_empty())
        {
            out.push_back(Event::Thinking(text.to_owned()));
        }
        if let Some(content) = delta.content {
            push_content(content, out);
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.stop = Some(StopReason::Refusal);
            out.push_back(Event::Text(refusal));
        }
        delta
            .tool_calls
            .into_iter()
            .flatten()
            .try_for_each(|call| self.call(call, out))
    }

    fn call(&mut self, delta: CallDelta, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        let function = delta.function.unwrap_or_default();
        let id = delta.id.filter(|id| !id.is_empty());
        let name = function.name.filter(|name| !name.is_empty());
        let index = match self.find(delta.index, id.as_deref(), name.as_deref()) {
            Some(index) => index,
            None => {
                let Some(name) = name else {
                    return Err(DecodeError::Malformed(
                        "a tool call begins without a name".to_owned(),
                    ));
                };
                let index = self.calls.len();
                self.calls.push(OpenCall {
                    wire_index: delta.index,
                    id: id.clone(),
                    arguments: String::new(),
                });
                out.push_back(Event::CallStarted {
                    index,
                    id,
                    tool: self.names.from_wire(&name),
                });
                index
            }
        };
        let json = match function.arguments {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::String(json)) => json,
            Some(value) => value.to_string(),
        };
        if !json.is_empty() {
            self.calls[index].arguments.push_str(&json);
            out.push_back(Event::CallArguments { index, json });
        }
        Ok(())
    }

    /// Which call a delta goes on with; `None` if it begins one.
    fn find(&self, wire_index: Option<i64>, id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let candidate = match wire_index {
            Some(_) => self
                .calls
                .iter()
                .rposition(|call| call.wire_index == wire_index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[candidate];
        let has_other_id = id.is_some() && call.id.as_deref() != id;
        // A name that comes again means nothing while the arguments go on, and a new call once they are whole.
        let is_whole = || serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
        let begins_anew = name.is_some() && (has_other_id || is_whole());
        (!begins_anew).then_some(candidate)
    }
}

impl Decoder for ChatDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.finish(out);
            return Ok(());
        }
        let chunk: Chunk = parse(data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(DecodeError::Fault(Fault::from_value(&error)));
        }
        if event.name == "error" {
            return Err(DecodeError::Fault(Fault::from_value(&parse(data)?)));
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage.into();
        }
        // Only one choice is ever asked for.
        for choice in chunk.choices.into_iter().flatten().take(1) {
            if let Some(delta) = choice.delta {
                self.delta(delta, out)?;
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stop.get_or_insert_with(|| stop_reason(reason));
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        if self.is_finished {
            return Ok(());
        }
        if self.stop.is_none() {
            return Err(DecodeError::CutOff);
        }
        self.finish(out);
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

fn push_content(content: Value, out: &mut VecDeque<Event>) {
    match content {
        Value::String(text) if !text.is_empty() => out.push_back(Event::Text(text)),
        Value::Array(parts) => {
            for part in parts {
                let nested = |key: &str| match &part[key] {
                    Value::String(text) => Some(text.clone()),
                    Value::Array(inner) => {
                        Some(inner.iter().filter_map(|inner| inner["text"].as_str()).collect())
                    }
                    _ => None,
                };
                if let Some(text) = nested("thinking").filter(|text| !text.is_empty()) {
                    out.push_back(Event::Thinking(text));
                } else if let Some(text) = nested("text").filter(|text| !text.is_empty()) {
                    out.push_back(Event::Text(text));
                }
            }
        }
        _ => {}
    }
}

fn stop_reason(reason: String) -> StopReason {
    match reason.as_str() {
        "stop" | "eos" => StopReason::EndTurn,
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" | "max_tokens" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::Other(reason),
    }
}
