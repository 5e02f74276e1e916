//! A stream of Responses events as events of ours.
//!
//! Tolerated, because servers do it: deltas without an item that was announced, arguments that come only with the
//! finished call, `[DONE]` at the end, usage that is missing. Not tolerated: an end without `response.completed`,
//! `response.incomplete` or `response.failed`.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use super::ReasoningItem;
use crate::event::{Event, StopReason};
use crate::usage::Usage;
use crate::wire::decode::{DecodeError, Decoder, parse};
use crate::wire::fault::Fault;
use crate::wire::names::ToolNames;
use crate::wire::sse::SseEvent;

#[derive(Deserialize)]
struct Head {
    #[serde(rename = "type", default)]
    kind: String,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default)]
    output_index: u64,
    #[serde(default)]
    delta: String,
}

#[derive(Deserialize)]
struct ItemEvent {
    #[serde(default)]
    output_index: u64,
    item: WireItem,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireItem {
    FunctionCall {
        #[serde(default)]
        call_id: Option<String>,
        #[serde(default)]
        name: String,
        #[serde(default)]
        arguments: String,
    },
    Reasoning {
        #[serde(default)]
        id: Option<String>,
        #[serde(default)]
        summary: Value,
        #[serde(default)]
        encrypted_content: Option<String>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct EndEvent {
    response: WireResponse,
}

#[derive(Deserialize)]
struct WireResponse {
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    incomplete_details: Option<Incomplete>,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Incomplete {
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
}

#[derive(Default, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: u64,
    /// Models that charge for writing say how much they wrote.
    #[serde(default)]
    cache_write_tokens: u64,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let details = wire.input_tokens_details.unwrap_or_default();
        Usage {
            input_tokens: wire.input_tokens,
            cache_read_tokens: details.cached_tokens,
            cache_write_tokens: details.cache_write_tokens,
            output_tokens: wire.output_tokens,
        }
    }
}

/// A call whose arguments are coming in.
struct OpenCall {
    output_index: u64,
    has_arguments: bool,
}

/// Reads Responses events.
pub(crate) struct ResponsesDecoder {
    names: ToolNames,
    calls: Vec<OpenCall>,
    is_refusal: bool,
    is_finished: bool,
}

impl ResponsesDecoder {
    pub(crate) fn new(names: ToolNames) -> Self {
        ResponsesDecoder {
            names,
            calls: Vec::new(),
            is_refusal: false,
            is_finished: false,
        }
    }

    fn find(&self, output_index: u64) -> Option<usize> {
        self.calls
            .iter()
            .position(|call| call.output_index == output_index)
    }

    /// The call of this item, begun now if nothing announced it.
    fn call(
        &mut self,
        output_index: u64,
        id: Option<String>,
        name: &str,
        out: &mut VecDeque<Event>,
    ) -> Result<usize, DecodeError> {
        if let Some(index) = self.find(output_index) {
            return Ok(index);
        }
        if name.is_empty() {
            return Err(DecodeError::Malformed(
                "a tool call begins without a name".to_owned(),
            ));
        }
        let index = self.calls.len();
        self.calls.push(OpenCall {
            output_index,
            has_arguments: false,
        });
        out.push_back(Event::CallStarted {
            index,
            id: id.filter(|id| !id.is_empty()),
            tool: self.names.tool_id(name),
        });
        Ok(index)
    }

    fn item_added(&mut self, event: ItemEvent, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        if let WireItem::FunctionCall { call_id, name, .. } = event.item {
            self.call(event.output_index, call_id, &name, out)?;
        }
        Ok(())
    }

    fn item_done(&mut self, event: ItemEvent, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        match event.item {
            WireItem::FunctionCall {
                call_id,
                name,
                arguments,
            } => {
                let index = self.call(event.output_index, call_id, &name, out)?;
                if !self.calls[index].has_arguments && !arguments.is_empty() {
                    self.calls[index].has_arguments = true;
                    out.push_back(Event::CallArguments {
                        index,
                        json: arguments,
                    });
                }
            }
            WireItem::Reasoning {
                id,
                summary,
                encrypted_content: Some(encrypted_content),
            } => {
                let item = ReasoningItem {
                    id,
                    summary: serde_json::from_value(summary).unwrap_or_default(),
                    encrypted_content,
                };
                out.push_back(Event::ThinkingSignature(item.signature()));
            }
            WireItem::Reasoning { .. } | WireItem::Other => {}
        }
        Ok(())
    }

    fn arguments(&mut self, delta: Delta, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        let Some(index) = self.find(delta.output_index) else {
            let message = "arguments of a call that has not begun".to_owned();
            return Err(DecodeError::Malformed(message));
        };
        if !delta.delta.is_empty() {
            self.calls[index].has_arguments = true;
            out.push_back(Event::CallArguments {
                index,
                json: delta.delta,
            });
        }
        Ok(())
    }

    fn finish(&mut self, response: WireResponse, out: &mut VecDeque<Event>) {
        let incomplete = response.incomplete_details.map(|details| details.reason);
        let stop = match incomplete.as_deref().filter(|reason| !reason.is_empty()) {
            Some("max_output_tokens") => StopReason::MaxTokens,
            Some("content_filter") => StopReason::Refusal,
            Some(other) => StopReason::Other(other.to_owned()),
            None if self.is_refusal => StopReason::Refusal,
            None if self.calls.is_empty() => StopReason::EndTurn,
            None => StopReason::ToolUse,
        };
        let usage = response.usage.map(Usage::from).unwrap_or_default();
        out.push_back(Event::Finished { stop, usage });
        self.is_finished = true;
    }
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        let head: Head = parse(data)?;
        let kind = if head.kind.is_empty() {
            event.name.as_str()
        } else {
            head.kind.as_str()
        };
        let text = |data| parse::<Delta>(data).map(|delta| delta.delta);
        match kind {
            "response.output_text.delta" => push(Event::Text, text(data)?, out),
            "response.refusal.delta" => {
                self.is_refusal = true;
                push(Event::Text, text(data)?, out);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                push(Event::Thinking, text(data)?, out);
            }
            // Parts of a summary are paragraphs.
            "response.reasoning_summary_part.added" if !is_first_part(data)? => {
                out.push_back(Event::Thinking("\n\n".to_owned()));
            }
            "response.function_call_arguments.delta" => self.arguments(parse(data)?, out)?,
            "response.output_item.added" => self.item_added(parse(data)?, out)?,
            "response.output_item.done" => self.item_done(parse(data)?, out)?,
            "response.completed" | "response.incomplete" => {
                self.finish(parse::<EndEvent>(data)?.response, out);
            }
            "response.failed" => {
                let error = parse::<EndEvent>(data)?.response.error.unwrap_or_default();
                return Err(DecodeError::Fault(Fault::from_value(&error)));
            }
            "error" => {
                let error: Value = parse(data)?;
                let inner = error.get("error").filter(|inner| !inner.is_null());
                return Err(DecodeError::Fault(Fault::from_value(inner.unwrap_or(&error))));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        match self.is_finished {
            true => Ok(()),
            false => Err(DecodeError::CutOff),
        }
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

fn push(event: impl FnOnce(String) -> Event, text: String, out: &mut VecDeque<Event>) {
    if !text.is_empty() {
        out.push_back(event(text));
    }
}

fn is_first_part(data: &str) -> Result<bool, DecodeError> {
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        summary_index: u64,
    }
    Ok(parse::<Part>(data)?.summary_index == 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ModelError;
    use crate::wire::decode::tests::{cut, replay};

    const STREAM: &str = concat!(
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\"}}\n\n",
        "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":0,",
        "\"item\":{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[]}}\n\n",
        "event: response.reasoning_summary_part.added\ndata: {\"type\":\"response.reasoning_summary_part.added\",",
        "\"item_id\":\"rs_1\",\"output_index\":0,\"summary_index\":0,\"part\":{\"type\":\"summary_text\",\"text\":\"\"}}\n\n",
        "event: response.reasoning_summary_text.delta\ndata: {\"type\":\"response.reasoning_summary_text.delta\",",
        "\"item_id\":\"rs_1\",\"output_index\":0,\"summary_index\":0,\"delta\":\"Über den Plan\"}\n\n",
        "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":",
        "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"Über den Plan\"}],",
        "\"encrypted_content\":\"gAAA\"}}\n\n",
        "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":1,",
        "\"item\":{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":[]}}\n\n",
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",",
        "\"output_index\":1,\"content_index\":0,\"delta\":\"Ich schreibe 🦀\"}\n\n",
        "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":2,",
        "\"item\":{\"type\":\"function_call\",\"id\":\"fc_1\",\"call_id\":\"call_1\",\"name\":\"react__write\",\"arguments\":\"\"}}\n\n",
        "event: response.function_call_arguments.delta\ndata: {\"type\":\"response.function_call_arguments.delta\",",
        "\"item_id\":\"fc_1\",\"output_index\":2,\"delta\":\"{\\\"path\\\":\"}\n\n",
        "event: response.function_call_arguments.delta\ndata: {\"type\":\"response.function_call_arguments.delta\",",
        "\"item_id\":\"fc_1\",\"output_index\":2,\"delta\":\"\\\"a.md\\\"}\"}\n\n",
        "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":2,\"item\":",
        "{\"type\":\"function_call\",\"call_id\":\"call_1\",\"name\":\"react__write\",\"arguments\":\"{\\\"path\\\":\\\"a.md\\\"}\"}}\n\n",
        "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":3,\"item\":",
        "{\"type\":\"function_call\",\"call_id\":\"call_2\",\"name\":\"now\",\"arguments\":\"{}\"}}\n\n",
        "event: response.from_the_future\ndata: {\"type\":\"response.from_the_future\",\"x\":[1]}\n\n",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"status\":\"completed\",",
        "\"error\":null,\"incomplete_details\":null,\"usage\":{\"input_tokens\":3210,\"input_tokens_details\":",
        "{\"cached_tokens\":3000,\"cache_write_tokens\":200},\"output_tokens\":89,\"output_tokens_details\":{\"reasoning_tokens\":40}}}}\n\n",
    );

    fn names() -> ToolNames {
        let tool = |name: &str| annals_core::view::ToolSchema {
            name: name.into(),
            description: String::new(),
            parameters: serde_json::json!({}),
        };
        ToolNames::of(&[tool("react.write"), tool("now")])
    }

    fn events(body: &str) -> Vec<Result<Event, ModelError>> {
        replay(ResponsesDecoder::new(names()), [body.as_bytes()])
    }

    fn ending(event: &str) -> Vec<Result<Event, ModelError>> {
        events(&format!("data: {event}\n\n"))
    }

    #[test]
    fn a_stream_with_everything_in_it() {
        let signature = ReasoningItem {
            id: Some("rs_1".into()),
            summary: vec![super::super::Summary::SummaryText {
                text: "Über den Plan".into(),
            }],
            encrypted_content: "gAAA".into(),
        }
        .signature();
        let started = |index, id: &str, tool: &str| Event::CallStarted {
            index,
            id: Some(id.into()),
            tool: tool.into(),
        };
        let arguments = |index, json: &str| Event::CallArguments {
            index,
            json: json.into(),
        };
        let usage = Usage {
            input_tokens: 3_210,
            cache_read_tokens: 3_000,
            cache_write_tokens: 200,
            output_tokens: 89,
        };
        let expected = [
            Event::Thinking("Über den Plan".into()),
            Event::ThinkingSignature(signature),
            Event::Text("Ich schreibe 🦀".into()),
            started(0, "call_1", "react.write"),
            arguments(0, "{\"path\":"),
            arguments(0, "\"a.md\"}"),
            started(1, "call_2", "now"),
            arguments(1, "{}"),
            Event::Finished {
                stop: StopReason::ToolUse,
                usage,
            },
        ];
        assert_eq!(events(STREAM), expected.map(Ok));
    }

    #[test]
    fn every_way_to_stop_has_its_meaning() {
        let stop = |event: &str| match ending(event).pop() {
            Some(Ok(Event::Finished { stop, .. })) => stop.as_str().to_owned(),
            Some(Err(error)) => error.kind().to_owned(),
            other => format!("{other:?}"),
        };
        for (event, expected) in [
            (r#"{"type":"response.completed","response":{}}"#, "end_turn"),
            (
                r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
                "max_tokens",
            ),
            (
                r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}"#,
                "refusal",
            ),
            (
                r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}"#,
                "rate_limit",
            ),
            (
                r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"long"}}}"#,
                "context_limit",
            ),
            (
                r#"{"type":"error","code":"server_error","message":"oops"}"#,
                "overloaded",
            ),
            (
                r#"{"type":"response.output_text.delta","delta":"half"}"#,
                "cut_off",
            ),
        ] {
            assert_eq!(stop(event), expected, "{event}");
        }
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(places in proptest::collection::vec(0usize..4_000, 0..40)) {
            let whole = events(STREAM);
            let chunks = cut(STREAM.as_bytes(), &places);
            prop_assert_eq!(replay(ResponsesDecoder::new(names()), chunks), whole);
        }
    }
}
