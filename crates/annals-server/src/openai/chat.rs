//! Chat Completions on the wire: what is asked, the answer whole, the answer in chunks.

use annals_core::turn::TurnUsage;
use annals_runtime::ClientFunction;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client_tools::{self, ClientCall};
use super::error::{ApiError, Wrapped, finish_reason};
use super::input::{Content, RawMessage};
use super::pieces::{Citation, Lane, Piece, TextId};

/// A request. Fields that mean nothing to an agent are taken and ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct ChatRequest {
    pub(crate) model: Option<String>,
    #[serde(default)]
    messages: Vec<ChatMessage>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    n: Option<u32>,
    #[serde(default)]
    modalities: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
    #[serde(default)]
    response_format: Option<Value>,
    /// Not OpenAI's: a conversation of the agent's, of which `messages` is only what is new.
    #[serde(default)]
    pub(crate) conversation: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct ChatMessage {
    role: String,
    #[serde(default = "nothing")]
    content: Content,
    #[serde(default)]
    tool_call_id: Option<String>,
}

fn nothing() -> Content {
    Content::Nothing(())
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

impl ChatRequest {
    /// The messages, or why they cannot be taken.
    pub(crate) fn messages(&mut self) -> Result<Vec<RawMessage>, ApiError> {
        if self.n.is_some_and(|n| n != 1) {
            let message = "an agent gives one answer: leave `n` out";
            return Err(ApiError::invalid("n", "unsupported_value", message));
        }
        if self.modalities.iter().flatten().any(|kind| kind != "text") {
            let message = "only text is answered: leave `modalities` out";
            return Err(ApiError::invalid("modalities", "unsupported_value", message));
        }
        let read = std::mem::take(&mut self.messages).into_iter();
        let read = read.map(|message| {
            let call = message.tool_call_id.as_deref();
            RawMessage::read(&message.role, message.content, call)
        });
        read.filter_map(Result::transpose).collect()
    }

    /// What the client performs itself.
    pub(crate) fn functions(&self) -> Result<Vec<ClientFunction>, ApiError> {
        let tools = self.tools.as_deref().unwrap_or_default();
        client_tools::functions(tools, self.tool_choice.as_ref())
    }

    /// The schema that the answer must fit.
    pub(crate) fn schema(&self) -> Result<Option<Value>, ApiError> {
        const PARAM: &str = "response_format";
        let Some(format) = &self.response_format else {
            return Ok(None);
        };
        super::input::schema_of(PARAM, format, &format["json_schema"])
    }

    pub(crate) fn includes_usage(&self) -> bool {
        self.stream_options
            .as_ref()
            .is_some_and(|options| options.include_usage)
    }
}

/// Tokens in the words of Chat Completions. Those from the provider's cache count among the prompt's.
pub(crate) fn usage(usage: &TurnUsage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
    })
}

/// One answer on its way out.
pub(crate) struct ChatAnswer {
    pub(crate) id: String,
    pub(crate) created: i64,
    pub(crate) model: String,
    pub(crate) includes_usage: bool,
    content: String,
    reasoning: String,
    /// The text that content was last added to, to part it from the next, and where it began, in characters.
    last: Option<(TextId, usize)>,
    /// What the content cites.
    annotations: Vec<Value>,
}

impl ChatAnswer {
    pub(crate) fn new(id: String, created: i64, model: String, includes_usage: bool) -> Self {
        ChatAnswer {
            id,
            created,
            model,
            includes_usage,
            content: String::new(),
            reasoning: String::new(),
            last: None,
            annotations: Vec::new(),
        }
    }

    /// The first chunk.
    pub(crate) fn first(&self) -> Value {
        self.chunk(json!({"role": "assistant", "content": ""}), None)
    }

    /// The chunks that a piece becomes; the last piece is the end.
    pub(crate) fn chunks(&mut self, piece: &Piece) -> Vec<Value> {
        match piece {
            Piece::More { id, text, .. } if id.lane == Lane::Message => {
                let text = self.add(*id, text);
                vec![self.chunk(json!({"content": text}), None)]
            }
            Piece::More { text, .. } => {
                self.reasoning.push_str(text);
                vec![self.chunk(json!({"reasoning_content": text}), None)]
            }
            Piece::Whole { id, citations, .. } => {
                let began = self
                    .last
                    .filter(|(last, _)| last == id)
                    .map_or(0, |(_, began)| began);
                let annotations: Vec<Value> =
                    citations.iter().map(|cited| annotation(cited, began)).collect();
                if annotations.is_empty() {
                    return Vec::new();
                }
                let chunk = self.chunk(json!({"annotations": annotations}), None);
                self.annotations.extend(annotations);
                vec![chunk]
            }
            Piece::Calls { calls, usage, .. } => {
                let mut chunks = vec![self.chunk(json!({"tool_calls": tool_calls(calls, true)}), None)];
                chunks.extend(self.finished(Some("tool_calls"), usage));
                chunks
            }
            Piece::Ended(report, _) => match ApiError::of_turn(report) {
                Some(error) => vec![json!(Wrapped { error: &error.body })],
                None => self.finished(finish_reason(report.outcome), &report.usage),
            },
        }
    }

    fn add(&mut self, id: TextId, text: &str) -> String {
        let parting = match self.last {
            Some((last, _)) if last != id => "\n\n",
            _ => "",
        };
        self.content.push_str(parting);
        if self.last.is_none_or(|(last, _)| last != id) {
            self.last = Some((id, self.content.chars().count()));
        }
        self.content.push_str(text);
        format!("{parting}{text}")
    }

    fn finished(&self, reason: Option<&str>, spent: &TurnUsage) -> Vec<Value> {
        let mut chunks = vec![self.chunk(json!({}), reason)];
        if self.includes_usage {
            let mut last = self.chunk(json!({}), None);
            last["choices"] = json!([]);
            last["usage"] = usage(spent);
            chunks.push(last);
        }
        chunks
    }

    fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> Value {
        let mut chunk = json!({
            "id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": null}],
        });
        if self.includes_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// The whole answer, with its last piece; none when that is not the last.
    pub(crate) fn whole(&self, last: &Piece, metadata: &Value) -> Option<Result<Value, ApiError>> {
        let mut message = json!({"role": "assistant", "content": self.content, "refusal": null, "annotations": self.annotations});
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = json!(self.reasoning);
        }
        let (reason, spent) = match last {
            Piece::More { .. } | Piece::Whole { .. } => return None,
            Piece::Calls { calls, usage, .. } => {
                message["tool_calls"] = tool_calls(calls, false);
                if self.content.is_empty() {
                    message["content"] = Value::Null;
                }
                (Some("tool_calls"), usage)
            }
            Piece::Ended(report, _) => match ApiError::of_turn(report) {
                Some(error) => return Some(Err(error)),
                None => (finish_reason(report.outcome), &report.usage),
            },
        };
        Some(Ok(json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": null}],
            "usage": usage(spent), "metadata": metadata,
            "service_tier": "default", "system_fingerprint": null,
        })))
    }
}

/// A citation of a text that begins there in the content.
fn annotation(cited: &Citation, began: usize) -> Value {
    let url_citation = json!({
        "start_index": began + cited.start, "end_index": began + cited.end, "url": cited.url, "title": cited.title,
    });
    json!({"type": "url_citation", "url_citation": url_citation})
}

/// Calls for the client, as a message has them; in a chunk each says which it is.
fn tool_calls(calls: &[ClientCall], is_chunk: bool) -> Value {
    let calls = calls.iter().enumerate().map(|(index, call)| {
        let function = json!({"name": call.name, "arguments": call.arguments});
        let mut value = json!({"id": call.id, "type": "function", "function": function});
        if is_chunk {
            value["index"] = json!(index);
        }
        value
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use annals_core::turn::{TurnEnd, TurnReport};

    use super::*;

    #[test]
    fn annotations_point_into_the_whole_content() {
        let mut answer = ChatAnswer::new("c".into(), 0, "m".into(), false);
        let text = "Siehe [1](https://a.example).";
        for step in [1, 2] {
            let id = TextId {
                step,
                lane: Lane::Message,
            };
            let text = text.to_owned();
            answer.chunks(&Piece::More {
                id,
                after: 0,
                text: text.clone(),
            });
            let citation = Citation {
                start: 6,
                end: 28,
                url: "https://a.example".into(),
                title: "A".into(),
            };
            let chunks = answer.chunks(&Piece::Whole {
                id,
                text,
                citations: vec![citation],
            });
            assert_eq!(
                chunks[0]["choices"][0]["delta"]["annotations"][0]["type"],
                "url_citation"
            );
        }
        let end = Piece::Ended(TurnReport::empty(TurnEnd::Complete, None), 0);
        let whole = answer.whole(&end, &json!({})).unwrap().ok().unwrap();
        let message = &whole["choices"][0]["message"];
        let content: Vec<char> = message["content"].as_str().unwrap().chars().collect();
        let linked = |at: usize| -> String {
            let cited = &message["annotations"][at]["url_citation"];
            let place = |name: &str| cited[name].as_u64().unwrap() as usize;
            content[place("start_index")..place("end_index")].iter().collect()
        };
        assert_eq!([linked(0), linked(1)], ["[1](https://a.example)"; 2]);
    }
}
