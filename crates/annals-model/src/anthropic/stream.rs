//! A stream of Messages events as our events.
//!
//! Unknown events, blocks and deltas are ignored: the vendor says that there will be some. The answer is whole once a
//! stop reason came, even if the last event is lost on the way.

use std::collections::{HashMap, VecDeque};

use serde::Deserialize;
use serde_json::Value;

use crate::event::{Event, StopReason};
use crate::thinking;
use crate::usage::Usage;
use crate::wire::decode::{DecodeError, Decoder, parse};
use crate::wire::fault::Fault;
use crate::wire::names::ToolNames;
use crate::wire::sse::SseEvent;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireEvent {
    MessageStart {
        message: MessageStart,
    },
    ContentBlockStart {
        index: u64,
        content_block: ContentBlock,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: MessageDelta,
        #[serde(default)]
        usage: Option<WireUsage>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct MessageStart {
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        #[serde(default)]
        id: Option<String>,
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the vendor's names")]
enum Delta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    InputJsonDelta {
        partial_json: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct MessageDelta {
    #[serde(default)]
    stop_reason: Option<String>,
}

/// Counts are running totals; those that are absent stay as they were.
#[derive(Clone, Copy, Default, Deserialize)]
struct WireUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
}

impl WireUsage {
    fn update(&mut self, newer: WireUsage) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.cache_read_input_tokens = newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens = newer
            .cache_creation_input_tokens
            .or(self.cache_creation_input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
    }
}

impl From<WireUsage> for Usage {
    /// The vendor's `input_tokens` leave out what the cache had or took.
    fn from(wire: WireUsage) -> Self {
        let cache_read_tokens = wire.cache_read_input_tokens.unwrap_or(0);
        let cache_write_tokens = wire.cache_creation_input_tokens.unwrap_or(0);
        Usage {
            input_tokens: wire.input_tokens.unwrap_or(0) + cache_read_tokens + cache_write_tokens,
            cache_read_tokens,
            cache_write_tokens,
            output_tokens: wire.output_tokens.unwrap_or(0),
        }
    }
}

/// A content block that has begun.
enum OpenBlock {
    Thinking {
        signature: String,
    },
    Call {
        index: usize,
        whole_input: Option<String>,
    },
}

/// Reads Messages events.
pub(crate) struct MessagesDecoder {
    names: ToolNames,
    open: HashMap<u64, OpenBlock>,
    calls: usize,
    usage: WireUsage,
    stop: Option<StopReason>,
    is_finished: bool,
}

impl MessagesDecoder {
    pub(crate) fn new(names: ToolNames) -> Self {
        MessagesDecoder {
            names,
            open: HashMap::new(),
            calls: 0,
            usage: WireUsage::default(),
            stop: None,
            is_finished: false,
        }
    }

    fn start_block(&mut self, at: u64, block: ContentBlock, out: &mut VecDeque<Event>) {
        match block {
            ContentBlock::Text { text } => push_text(out, Event::Text, text),
            ContentBlock::Thinking { thinking, signature } => {
                push_text(out, Event::Thinking, thinking);
                self.open.insert(at, OpenBlock::Thinking { signature });
            }
            ContentBlock::RedactedThinking { data } => {
                out.push_back(Event::ThinkingSignature(thinking::redacted(&data)));
            }
            ContentBlock::ToolUse { id, name, input } => {
                let index = self.calls;
                self.calls += 1;
                let id = id.filter(|id| !id.is_empty());
                out.push_back(Event::CallStarted {
                    index,
                    id,
                    tool: self.names.tool_id(&name),
                });
                // Some gateways send the whole input here and no deltas.
                let has_fields = input.as_object().is_some_and(|fields| !fields.is_empty());
                let whole_input = has_fields.then(|| input.to_string());
                self.open.insert(at, OpenBlock::Call { index, whole_input });
            }
            ContentBlock::Unknown => {}
        }
    }

    fn delta(&mut self, at: u64, delta: Delta, out: &mut VecDeque<Event>) {
        match delta {
            Delta::TextDelta { text } => push_text(out, Event::Text, text),
            Delta::ThinkingDelta { thinking } => push_text(out, Event::Thinking, thinking),
            Delta::SignatureDelta { signature: more } => {
                if let Some(OpenBlock::Thinking { signature }) = self.open.get_mut(&at) {
                    signature.push_str(&more);
                }
            }
            Delta::InputJsonDelta { partial_json } => match self.open.get_mut(&at) {
                Some(OpenBlock::Call { .. }) if partial_json.is_empty() => {}
                Some(OpenBlock::Call { index, whole_input }) => {
                    *whole_input = None;
                    out.push_back(Event::CallArguments {
                        index: *index,
                        json: partial_json,
                    });
                }
                // The input of a server's own tool, whose block is unknown here, is nobody's arguments.
                _ => {}
            },
            Delta::Unknown => {}
        }
    }

    fn stop_block(&mut self, at: u64, out: &mut VecDeque<Event>) {
        match self.open.remove(&at) {
            Some(OpenBlock::Thinking { signature }) if !signature.is_empty() => {
                out.push_back(Event::ThinkingSignature(signature));
            }
            Some(OpenBlock::Call {
                index,
                whole_input: Some(json),
            }) => {
                out.push_back(Event::CallArguments { index, json });
            }
            _ => {}
        }
    }

    fn finish(&mut self, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        let stop = self.stop.take().ok_or(DecodeError::CutOff)?;
        out.push_back(Event::Finished {
            stop,
            usage: self.usage.into(),
        });
        self.is_finished = true;
        Ok(())
    }
}

impl Decoder for MessagesDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        if event.data.trim().is_empty() {
            return Ok(());
        }
        match parse(&event.data)? {
            WireEvent::MessageStart { message } => self.usage.update(message.usage.unwrap_or_default()),
            WireEvent::ContentBlockStart { index, content_block } => {
                self.start_block(index, content_block, out)
            }
            WireEvent::ContentBlockDelta { index, delta } => self.delta(index, delta, out),
            WireEvent::ContentBlockStop { index } => self.stop_block(index, out),
            WireEvent::MessageDelta { delta, usage } => {
                self.usage.update(usage.unwrap_or_default());
                self.stop = delta.stop_reason.map(stop_reason).or(self.stop.take());
            }
            WireEvent::MessageStop => self.finish(out)?,
            WireEvent::Error { error } => return Err(DecodeError::Fault(Fault::from_value(&error))),
            WireEvent::Unknown => {}
        }
        Ok(())
    }

    fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), DecodeError> {
        if self.is_finished {
            Ok(())
        } else {
            self.finish(out)
        }
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

fn push_text(out: &mut VecDeque<Event>, event: fn(String) -> Event, text: String) {
    if !text.is_empty() {
        out.push_back(event(text));
    }
}

fn stop_reason(reason: String) -> StopReason {
    match reason.as_str() {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        // The second one: the window was full before the answer reached its own limit.
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Other(reason),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::answer::Assembler;
    use crate::error::ModelError;
    use crate::wire::decode::tests::{cut, replay};

    fn body(events: &[&str]) -> String {
        events
            .iter()
            .map(|event| format!("event: x\ndata: {event}\n\n"))
            .collect()
    }

    fn read(events: &[&str]) -> Result<crate::Answer, ModelError> {
        let body = body(events);
        let mut assembler = Assembler::new();
        for event in replay(MessagesDecoder::new(ToolNames::default()), [body.as_bytes()]) {
            assembler.push(&event?);
        }
        assembler.finish()
    }

    const STOP: &str =
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#;

    #[test]
    fn several_thoughts_one_of_them_encrypted_can_be_sent_back_as_they_came() {
        let answer = read(&[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"1"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            STOP,
        ])
        .unwrap();
        let thought = answer.thinking.unwrap();
        assert_eq!(
            thinking::split(&thought.text, &thought.signature.unwrap()),
            [
                thinking::SignedBlock::Plain {
                    text: "a".into(),
                    signature: "s1".into()
                },
                thinking::SignedBlock::Redacted("xyz".into()),
            ]
        );
    }

    #[test]
    fn a_whole_input_at_the_start_of_a_call_is_taken_if_no_pieces_follow() {
        let start = |index: u8| {
            format!(
                r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"","name":"a__b","input":{{"x":1}}}}}}"#
            )
        };
        let answer = read(&[
            &start(0),
            r#"{"type":"content_block_stop","index":0}"#,
            &start(1),
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"x\":2}"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            STOP,
        ])
        .unwrap();
        let calls: Vec<_> = answer
            .calls
            .iter()
            .map(|call| (call.id.clone(), &*call.tool, &*call.arguments))
            .collect();
        assert_eq!(calls, [(None, "a.b", r#"{"x":1}"#), (None, "a.b", r#"{"x":2}"#)]);
        assert_eq!(answer.stop, StopReason::ToolUse);
    }

    #[test]
    fn a_call_cut_at_the_longest_length_keeps_its_broken_arguments() {
        let answer = read(&[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"now","input":{}}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#,
        ])
        .unwrap();
        assert_eq!(
            (answer.calls[0].arguments.as_str(), answer.stop),
            ("", StopReason::MaxTokens)
        );
    }

    #[test]
    fn what_the_vendor_may_add_one_day_is_ignored() {
        let answer = read(&[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{}}}"#,
            r#"{"type":"news"}"#,
            STOP,
        ])
        .unwrap();
        assert!(answer.calls.is_empty() && answer.text.is_empty());
    }

    #[test]
    fn a_stop_without_a_reason_is_cut_off() {
        assert_eq!(read(&[r#"{"type":"message_stop"}"#]), Err(ModelError::CutOff));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(places in prop::collection::vec(any::<usize>(), 0..6)) {
            let body = body(&[
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"für 🦀"}}"#,
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"now","input":{}}}"#,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"é"}}"#,
                STOP,
            ]);
            let decoder = || MessagesDecoder::new(ToolNames::default());
            let whole = replay(decoder(), [body.as_bytes()]);
            prop_assert!(whole.last().is_some_and(|last| last.as_ref().is_err_and(|error| error.kind() == "overloaded")));
            prop_assert_eq!(replay(decoder(), cut(body.as_bytes(), &places)), whole);
        }
    }
}
