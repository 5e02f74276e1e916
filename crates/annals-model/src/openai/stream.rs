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
use crate::wire::decode::{DecodeError, Decoder, parse};
use crate::wire::fault::Fault;
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
                    tool: self.names.tool_id(&name),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::decode::tests::{cut, replay};

    fn body(chunks: &[&str]) -> String {
        chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
    }

    /// One line an event.
    fn read(chunks: &[&str]) -> Vec<String> {
        let body = body(chunks);
        let events = replay(ChatDecoder::new(ToolNames::default()), [body.as_bytes()]);
        events
            .into_iter()
            .map(|event| match event {
                Ok(Event::Thinking(text)) => format!("thinking {text}"),
                Ok(Event::Text(text)) => format!("text {text}"),
                Ok(Event::CallStarted { index, id, tool }) => {
                    format!("{index} {} {tool}", id.unwrap_or_default())
                }
                Ok(Event::CallArguments { index, json }) => format!("{index} {json}"),
                Ok(Event::Finished { stop, .. }) => format!("finished {}", stop.as_str()),
                Ok(other) => format!("{other:?}"),
                Err(error) => format!("error {}", error.kind()),
            })
            .collect()
    }

    fn calls(deltas: &[&str]) -> Vec<String> {
        let mut chunks: Vec<String> = deltas
            .iter()
            .map(|delta| format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{delta}]}}}}]}}"#))
            .collect();
        chunks.push("[DONE]".to_owned());
        read(&chunks.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[test]
    fn deltas_without_an_index_go_to_the_call_they_belong_to() {
        let events = calls(&[
            r#"{"id":"a","function":{"name":"one","arguments":"{\"x\":"}}"#,
            r#"{"function":{"arguments":"1}"}}"#,
            r#"{"id":"b","function":{"name":"two","arguments":"{}"}}"#,
        ]);
        assert_eq!(
            events,
            [
                "0 a one",
                "0 {\"x\":",
                "0 1}",
                "1 b two",
                "1 {}",
                "finished tool_use"
            ]
        );
    }

    #[test]
    fn calls_that_all_claim_index_0_are_told_apart_by_their_ids() {
        let events = calls(&[
            r#"{"index":0,"id":"a","function":{"name":"one","arguments":"{}"}}"#,
            r#"{"index":0,"id":"b","function":{"name":"two","arguments":"{}"}}"#,
        ]);
        assert_eq!(
            events,
            ["0 a one", "0 {}", "1 b two", "1 {}", "finished tool_use"]
        );
    }

    #[test]
    fn an_id_and_a_name_on_every_delta_are_still_one_call() {
        let delta =
            |json: &str| format!(r#"{{"index":0,"id":"a","function":{{"name":"one","arguments":{json}}}}}"#);
        let events = calls(&[&delta(r#""{\"x\"""#), &delta(r#"": 1""#), &delta(r#""}""#)]);
        assert_eq!(
            events,
            ["0 a one", "0 {\"x\"", "0 : 1", "0 }", "finished tool_use"]
        );
    }

    #[test]
    fn doubled_ids_without_an_index_are_two_calls_once_the_first_is_whole() {
        let delta = r#"{"id":"a","function":{"name":"one","arguments":"{}"}}"#;
        assert_eq!(
            calls(&[delta, delta]),
            ["0 a one", "0 {}", "1 a one", "1 {}", "finished tool_use"]
        );
    }

    #[test]
    fn interleaved_calls_are_kept_apart_and_arguments_may_be_missing_or_an_object() {
        let events = calls(&[
            r#"{"index":0,"id":"a","function":{"name":"one"}},{"index":1,"id":"b","function":{"name":"two"}}"#,
            r#"{"index":1,"function":{"arguments":{"y":2}}}"#,
            r#"{"index":0,"function":{"arguments":""}},{"index":0,"function":{"arguments":null}}"#,
        ]);
        assert_eq!(
            events,
            ["0 a one", "1 b two", r#"1 {"y":2}"#, "finished tool_use"]
        );
    }

    #[test]
    fn a_call_that_never_gets_a_name_is_malformed() {
        assert_eq!(
            calls(&[r#"{"index":0,"id":"a","function":{"arguments":"{}"}}"#]),
            ["error malformed"]
        );
    }

    #[test]
    fn odd_chunks_are_read_as_far_as_they_mean_something() {
        let events = read(&[
            r#"{"choices":null,"prompt_filter_results":[]}"#,
            r#"{"choices":[{"delta":null}]}"#,
            r#"{"choices":[{"delta":{"reasoning":"hm","content":[{"type":"thinking","thinking":[{"type":"text","text":"so"}]},{"type":"text","text":"Hi"}]}}]}"#,
            r#"{"choices":[{"delta":{"refusal":"No."},"finish_reason":"stop"}]}"#,
        ]);
        assert_eq!(
            events,
            [
                "thinking hm",
                "thinking so",
                "text Hi",
                "text No.",
                "finished refusal"
            ]
        );
        assert_eq!(
            read(&[r#"{"choices":[{"finish_reason":"length"}]}"#]),
            ["finished max_tokens"]
        );
        assert_eq!(read(&[r#"{"error":"boom"}"#]), ["error overloaded"]);
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(places in prop::collection::vec(any::<usize>(), 0..6)) {
            let body = body(&[
                r#"{"choices":[{"delta":{"content":"für 🦀"}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"one","arguments":"{}"}}]}}]}"#,
                r#"{"error":{"message":"é","type":"server_error"}}"#,
                "[DONE]",
            ]);
            let decoder = || ChatDecoder::new(ToolNames::default());
            let whole = replay(decoder(), [body.as_bytes()]);
            prop_assert!(whole.last().is_some_and(|last| last.as_ref().is_err_and(|error| error.kind() == "overloaded")));
            prop_assert_eq!(replay(decoder(), cut(body.as_bytes(), &places)), whole);
        }
    }
}
