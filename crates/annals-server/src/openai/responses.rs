//! Responses on the wire: what is asked, the response object, its events.
//!
//! Every event of a stream has a number that follows from the turn alone: which text it belongs to, and how far into it. So a
//! stream can be gone on with after any number, in the middle of a sentence, from the log.

use std::collections::BTreeMap;

use annals_core::turn::{TurnReport, TurnUsage};
use annals_runtime::ClientFunction;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::client_tools::{self, ClientCall};
use super::error::{ApiError, finish_reason};
use super::input::{Content, RawMessage};
use super::pieces::{Citation, Lane, Piece, TextId};

/// A request. What it has beyond this is shown again in the response.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ResponsesRequest {
    #[serde(default)]
    input: Option<Input>,
    #[serde(default)]
    pub(crate) instructions: Option<String>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    pub(crate) background: Option<bool>,
    #[serde(default)]
    pub(crate) conversation: Option<Value>,
    #[serde(default)]
    pub(crate) previous_response_id: Option<String>,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<Value>),
}

impl ResponsesRequest {
    /// The request of a response that is looked at again, from what was kept of it.
    pub(crate) fn kept(note: Option<Value>, is_stream: bool) -> Self {
        let kept: Option<Self> = note.and_then(|note| serde_json::from_value(note).ok());
        ResponsesRequest {
            stream: Some(is_stream),
            ..kept.unwrap_or_default()
        }
    }

    /// What is kept of it, to be shown again.
    pub(crate) fn note(&self, created: i64) -> Value {
        let shown = defaults().into_iter().filter_map(|(name, _)| {
            let given = self.rest.get(name).filter(|given| !given.is_null())?;
            Some((name.to_owned(), given.clone()))
        });
        let mut note: Map<String, Value> = shown.collect();
        note.insert("created_at".into(), json!(created));
        note.insert("instructions".into(), json!(self.instructions));
        note.insert("previous_response_id".into(), json!(self.previous_response_id));
        note.insert("background".into(), json!(self.background));
        Value::Object(note)
    }

    /// When the response was asked for, where that was kept.
    pub(crate) fn created(&self) -> Option<i64> {
        self.rest.get("created_at").and_then(Value::as_i64)
    }

    /// Refuses what cannot be shown again in a response.
    fn check(&self) -> Result<(), ApiError> {
        let metadata = self.rest.get("metadata");
        if metadata.is_some_and(|metadata| !metadata.is_object() && !metadata.is_null()) {
            let message = "`metadata` is an object: leave it out, or send names with texts";
            return Err(ApiError::invalid("metadata", "invalid_type", message));
        }
        Ok(())
    }

    /// The messages of the input, the instructions first.
    pub(crate) fn messages(&mut self) -> Result<Vec<RawMessage>, ApiError> {
        self.check()?;
        let mut messages = Vec::new();
        if let Some(text) = self.instructions.clone().filter(|text| !text.is_empty()) {
            messages.extend(RawMessage::read("system", Content::Text(text), None)?);
        }
        match self.input.take() {
            None => {}
            Some(Input::Text(text)) => messages.extend(RawMessage::read("user", Content::Text(text), None)?),
            Some(Input::Items(items)) => {
                for item in items {
                    messages.extend(message_of(item)?);
                }
            }
        }
        Ok(messages)
    }

    /// The schema that the answer must fit.
    pub(crate) fn schema(&self) -> Result<Option<Value>, ApiError> {
        let format = self.rest.get("text").map(|text| &text["format"]);
        match format {
            Some(format) => super::input::schema_of("text", format, format),
            None => Ok(None),
        }
    }

    /// What the client performs itself.
    pub(crate) fn functions(&self) -> Result<Vec<ClientFunction>, ApiError> {
        let tools = self.rest.get("tools").and_then(Value::as_array);
        let tools = tools.map(Vec::as_slice).unwrap_or_default();
        client_tools::functions(tools, self.rest.get("tool_choice"))
    }
}

/// A message among the items of an input, or what counts as one: a call that the agent made, and its result. Other items
/// say nothing to the agent.
fn message_of(mut item: Value) -> Result<Option<RawMessage>, ApiError> {
    match item["type"].as_str() {
        Some("function_call") => return RawMessage::read("assistant", Content::Nothing(()), None),
        Some("function_call_output") => {
            let output = content_of(item["output"].take())?;
            return RawMessage::read("tool", output, item["call_id"].as_str());
        }
        _ => {}
    }
    let is_message = item.get("type").is_none_or(|kind| kind == "message");
    let Some(role) = item["role"].as_str().map(str::to_owned).filter(|_| is_message) else {
        return Ok(None);
    };
    RawMessage::read(&role, content_of(item["content"].take())?, None)
}

fn content_of(value: Value) -> Result<Content, ApiError> {
    let message = "the content of a message is a text or a list of parts";
    serde_json::from_value(value).map_err(|_| ApiError::invalid("input", "invalid_content", message))
}

/// Tokens in the words of Responses.
fn usage(usage: &TurnUsage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    })
}

/// An event with its number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) kind: &'static str,
    pub(crate) data: Value,
}

/// One response on its way out.
pub(crate) struct ResponseAnswer {
    /// The object without what changes.
    object: Value,
    items: BTreeMap<TextId, (usize, Value)>,
    output: Vec<TextId>,
    /// Calls for the client, after all texts.
    calls: Vec<Value>,
    /// Events up to this number are known to the client.
    after: Option<u64>,
    last: u64,
}

/// Numbers of one text: the item opens, its part opens, its characters, and its closing.
const TEXT_NUMBERS: u64 = 100_000_000;
const OPENING_NUMBERS: u64 = 2;

fn base(id: TextId) -> u64 {
    (u64::from(id.step) * 3 + id.lane as u64 + 1) * TEXT_NUMBERS
}

impl ResponseAnswer {
    /// A response with this id; `request` has what is shown again.
    pub(crate) fn new(id: &str, created: i64, request: &ResponsesRequest, after: Option<u64>) -> Self {
        let mut object = Map::new();
        for (name, value) in defaults() {
            let given = request.rest.get(name).filter(|given| !given.is_null());
            object.insert(name.to_owned(), given.cloned().unwrap_or(value));
        }
        object.insert("id".into(), json!(id));
        object.insert("created_at".into(), json!(created));
        object.insert("instructions".into(), json!(request.instructions));
        object.insert("previous_response_id".into(), json!(request.previous_response_id));
        object.insert("background".into(), json!(request.background.unwrap_or(false)));
        ResponseAnswer {
            object: Value::Object(object),
            items: BTreeMap::new(),
            output: Vec::new(),
            calls: Vec::new(),
            after,
            last: 1,
        }
    }

    /// With one more entry of `metadata`.
    pub(crate) fn note(&mut self, name: &str, value: &str) {
        if let Some(metadata) = self.object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(name.to_owned(), json!(value));
        }
    }

    /// The object as it is now.
    pub(crate) fn object(&self, status: &str) -> Value {
        let mut object = self.object.clone();
        object["status"] = json!(status);
        object["output"] = self
            .output
            .iter()
            .filter_map(|id| self.items.get(id))
            .map(|(_, item)| item)
            .chain(&self.calls)
            .cloned()
            .collect();
        object
    }

    /// The first events.
    pub(crate) fn first(&self) -> Vec<Numbered> {
        let object = self.object("in_progress");
        let events = vec![
            event(0, "response.created", json!({"response": object})),
            event(1, "response.in_progress", json!({"response": object})),
        ];
        self.unknown(events)
    }

    /// The events that a piece becomes.
    pub(crate) fn events(&mut self, piece: &Piece) -> Vec<Numbered> {
        let events = match piece {
            Piece::More { id, after, text } => self.more(*id, *after, text),
            Piece::Whole { id, text, citations } => self.whole(*id, text, citations),
            Piece::Calls { calls, usage, at } => self.handed_over(calls, usage, *at),
            Piece::Ended(report, at) => vec![self.ended(report, *at)],
        };
        if let Some(last) = events.last() {
            self.last = last.number;
        }
        self.unknown(events)
    }

    /// Leaves out what the client has; of a text that it has in part, the rest stays.
    fn unknown(&self, events: Vec<Numbered>) -> Vec<Numbered> {
        let Some(after) = self.after else { return events };
        let unknown = events.into_iter().filter(|event| event.number > after);
        unknown
            .map(|mut event| {
                let is_text = event
                    .data
                    .get("content_index")
                    .or(event.data.get("summary_index"))
                    .is_some();
                if let Some(text) = event.data["delta"]
                    .as_str()
                    .filter(|_| is_text)
                    .map(str::to_owned)
                {
                    let chars = text.chars().count() as u64;
                    let known = chars.saturating_sub(event.number - after);
                    let rest: String = text.chars().skip(known as usize).collect();
                    event.data["delta"] = json!(rest);
                }
                event
            })
            .collect()
    }

    fn more(&mut self, id: TextId, after: usize, text: &str) -> Vec<Numbered> {
        let mut events = Vec::new();
        let (index, base) = match self.items.get(&id) {
            Some((index, _)) => (*index, base(id)),
            None => {
                let (index, base) = (self.output.len(), base(id));
                let item = item(id, &self.object, "in_progress", None);
                events.push(event(
                    base,
                    "response.output_item.added",
                    json!({"output_index": index, "item": item}),
                ));
                let (kind, mut data) = part_event(id, "added", index, &item);
                data["part"] = part(id, "", &[]);
                events.push(event(base + 1, kind, data));
                self.output.push(id);
                self.items.insert(id, (index, item));
                (index, base)
            }
        };
        let (kind, mut data) = text_event(id, "delta", index, &self.items[&id].1);
        data["delta"] = json!(text);
        let number = base + OPENING_NUMBERS + (after + text.chars().count()) as u64;
        events.push(event(number, kind, data));
        events
    }

    fn whole(&mut self, id: TextId, text: &str, citations: &[Citation]) -> Vec<Numbered> {
        let Some((index, open)) = self.items.get(&id).cloned() else {
            return Vec::new();
        };
        let end = base(id) + TEXT_NUMBERS - 3;
        let (text_kind, mut text_data) = text_event(id, "done", index, &open);
        text_data["text"] = json!(text);
        let (part_kind, mut part_data) = part_event(id, "done", index, &open);
        part_data["part"] = part(id, text, citations);
        let item = item(id, &self.object, "completed", Some(part(id, text, citations)));
        let item_data = json!({"output_index": index, "item": item});
        self.items.insert(id, (index, item));
        let first = end - citations.len() as u64;
        let annotated = (first..).zip(citations).enumerate().map(|(at, (number, cited))| {
            let mut data = place(id, index, &open);
            data["annotation_index"] = json!(at);
            data["annotation"] = annotation(cited);
            event(number, "response.output_text.annotation.added", data)
        });
        let done = [
            event(end, text_kind, text_data),
            event(end + 1, part_kind, part_data),
            event(end + 2, "response.output_item.done", item_data),
        ];
        annotated.chain(done).collect()
    }

    /// The calls for the client, and the end of this answer.
    fn handed_over(&mut self, calls: &[ClientCall], spent: &TurnUsage, at: i64) -> Vec<Numbered> {
        let mut events = Vec::new();
        for call in calls {
            let index = self.output.len() + self.calls.len();
            let item = function_call(call, "in_progress", "");
            let place = json!({"item_id": item["id"], "output_index": index});
            let mut push = |kind, data| {
                self.last += 1;
                events.push(event(self.last, kind, data));
            };
            push(
                "response.output_item.added",
                json!({"output_index": index, "item": item}),
            );
            let mut delta = place.clone();
            delta["delta"] = json!(call.arguments);
            // A stream that goes on after some number gets the arguments whole or not at all, as they came.
            push("response.function_call_arguments.delta", delta);
            let mut done = place;
            done["arguments"] = json!(call.arguments);
            done["name"] = json!(call.name);
            push("response.function_call_arguments.done", done);
            let item = function_call(call, "completed", &call.arguments);
            push(
                "response.output_item.done",
                json!({"output_index": index, "item": item}),
            );
            self.calls.push(item);
        }
        self.object["usage"] = usage(spent);
        self.object["completed_at"] = json!(at);
        events.push(event(
            self.last + 1,
            "response.completed",
            json!({"response": self.object("completed")}),
        ));
        events
    }

    fn ended(&mut self, report: &TurnReport, at: i64) -> Numbered {
        let (status, kind) = match finish_reason(report.outcome) {
            Some("stop") => ("completed", "response.completed"),
            Some(_) => ("incomplete", "response.incomplete"),
            None if report.outcome == annals_core::turn::TurnEnd::Cancelled => {
                ("cancelled", "response.failed")
            }
            None => ("failed", "response.failed"),
        };
        self.object["usage"] = usage(&report.usage);
        self.object["completed_at"] = json!((status == "completed").then_some(at));
        if status == "incomplete" {
            self.object["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        if status == "failed"
            && let Some(error) = ApiError::of_turn(report)
        {
            self.object["error"] = json!({"code": "server_error", "message": error.body.message});
        }
        event(self.last + 1, kind, json!({"response": self.object(status)}))
    }

    /// The object with the last piece, however the turn ended; none when that is not the last.
    pub(crate) fn last(&mut self, piece: &Piece) -> Option<Value> {
        let events = self.events(piece);
        let end = events.into_iter().next_back().filter(|_| piece.is_last())?;
        Some(end.data.get("response")?.clone())
    }

    /// The object with the last piece, or the error that the turn ended with; none when that is not the last.
    pub(crate) fn finished(&mut self, piece: &Piece) -> Option<Result<Value, ApiError>> {
        if let Piece::Ended(report, _) = piece
            && let Some(error) = ApiError::of_turn(report)
        {
            return Some(Err(error));
        }
        self.last(piece).map(Ok)
    }
}

/// The item that stands for a call of the client's tool.
fn function_call(call: &ClientCall, status: &str, arguments: &str) -> Value {
    json!({
        "id": call.id.replacen("call_", "fc_", 1), "type": "function_call", "status": status, "call_id": call.id,
        "name": call.name, "arguments": arguments,
    })
}

/// Every field that a response object must have, as it is when nobody says otherwise.
fn defaults() -> Vec<(&'static str, Value)> {
    vec![
        ("id", Value::Null),
        ("object", json!("response")),
        ("created_at", json!(0)),
        ("completed_at", Value::Null),
        ("status", json!("in_progress")),
        ("incomplete_details", Value::Null),
        ("model", json!("annals")),
        ("previous_response_id", Value::Null),
        ("instructions", Value::Null),
        ("output", json!([])),
        ("error", Value::Null),
        ("tools", json!([])),
        ("tool_choice", json!("auto")),
        ("truncation", json!("disabled")),
        ("parallel_tool_calls", json!(true)),
        ("text", json!({"format": {"type": "text"}})),
        ("top_p", json!(1.0)),
        ("presence_penalty", json!(0.0)),
        ("frequency_penalty", json!(0.0)),
        ("top_logprobs", json!(0)),
        ("temperature", json!(1.0)),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("user", Value::Null),
        ("usage", Value::Null),
        ("max_output_tokens", Value::Null),
        ("max_tool_calls", Value::Null),
        ("store", json!(true)),
        ("background", json!(false)),
        ("service_tier", json!("default")),
        ("metadata", json!({})),
        ("safety_identifier", Value::Null),
        ("prompt_cache_key", Value::Null),
    ]
}

fn event(number: u64, kind: &'static str, mut data: Value) -> Numbered {
    data["type"] = json!(kind);
    data["sequence_number"] = json!(number);
    Numbered { number, kind, data }
}

/// An output item: a message, or reasoning for what is not said to the person.
fn item(id: TextId, response: &Value, status: &str, part: Option<Value>) -> Value {
    let owner = response["id"].as_str().unwrap_or_default();
    let owner = owner.trim_start_matches("resp_");
    let parts: Vec<Value> = part.into_iter().collect();
    match id.lane {
        Lane::Message => json!({
            "id": format!("msg_{owner}_{}", id.step), "type": "message", "role": "assistant", "status": status, "content": parts,
        }),
        Lane::Thinking | Lane::Activity => json!({
            "id": format!("rs_{owner}_{}_{}", id.step, id.lane as u8), "type": "reasoning", "status": status,
            "summary": parts, "content": null, "encrypted_content": null,
        }),
    }
}

fn annotation(cited: &Citation) -> Value {
    json!({
        "type": "url_citation", "start_index": cited.start, "end_index": cited.end, "url": cited.url,
        "title": cited.title,
    })
}

fn part(id: TextId, text: &str, citations: &[Citation]) -> Value {
    match id.lane {
        Lane::Message => {
            let annotations: Vec<Value> = citations.iter().map(annotation).collect();
            json!({"type": "output_text", "text": text, "annotations": annotations, "logprobs": []})
        }
        Lane::Thinking | Lane::Activity => json!({"type": "summary_text", "text": text}),
    }
}

fn part_event(id: TextId, what: &str, index: usize, item: &Value) -> (&'static str, Value) {
    match (id.lane, what) {
        (Lane::Message, "added") => ("response.content_part.added", place(id, index, item)),
        (Lane::Message, _) => ("response.content_part.done", place(id, index, item)),
        (_, "added") => ("response.reasoning_summary_part.added", place(id, index, item)),
        (_, _) => ("response.reasoning_summary_part.done", place(id, index, item)),
    }
}

fn text_event(id: TextId, what: &str, index: usize, item: &Value) -> (&'static str, Value) {
    let mut data = place(id, index, item);
    if id.lane == Lane::Message {
        data["logprobs"] = json!([]);
    }
    match (id.lane, what) {
        (Lane::Message, "delta") => ("response.output_text.delta", data),
        (Lane::Message, _) => ("response.output_text.done", data),
        (_, "delta") => ("response.reasoning_summary_text.delta", data),
        (_, _) => ("response.reasoning_summary_text.done", data),
    }
}

fn place(id: TextId, index: usize, item: &Value) -> Value {
    let within = match id.lane {
        Lane::Message => "content_index",
        Lane::Thinking | Lane::Activity => "summary_index",
    };
    json!({"item_id": item["id"], "output_index": index, within: 0})
}

#[cfg(test)]
mod tests {
    use annals_core::turn::TurnEnd;
    use proptest::prelude::*;

    use super::*;

    fn answer(after: Option<u64>) -> ResponseAnswer {
        let request = serde_json::from_value(json!({"model": "annals", "metadata": {"a": "b"}})).unwrap();
        ResponseAnswer::new("resp_c.turn_1", 7, &request, after)
    }

    /// A turn whose texts come in pieces of these sizes.
    fn pieces(cuts: &[usize]) -> Vec<Piece> {
        let id = |step, lane| TextId { step, lane };
        let mut pieces = Vec::new();
        for (id, text) in [
            (id(1, Lane::Thinking), "hm, äh"),
            (id(1, Lane::Message), "Drafting…"),
            (id(1, Lane::Activity), "› react.write\n"),
            (id(2, Lane::Message), "Done: ✓ all of it"),
        ] {
            let chars: Vec<char> = text.chars().collect();
            let mut at = 0_usize;
            for cut in cuts.iter().chain([&usize::MAX]) {
                let end = at.saturating_add(*cut).min(chars.len());
                if end > at {
                    let text = chars[at..end].iter().collect();
                    pieces.push(Piece::More { id, after: at, text });
                    at = end;
                }
            }
            let text = text.to_owned();
            let citations = Vec::new();
            pieces.push(Piece::Whole { id, text, citations });
        }
        pieces.push(Piece::Ended(TurnReport::empty(TurnEnd::Complete, None), 9));
        pieces
    }

    fn stream(cuts: &[usize], after: Option<u64>) -> Vec<Numbered> {
        let mut answer = answer(after);
        let mut events = answer.first();
        for piece in pieces(cuts) {
            events.extend(answer.events(&piece));
        }
        events
    }

    /// What a client has of each item's text, and what it was told besides.
    fn seen(events: &[Numbered]) -> (BTreeMap<String, String>, Vec<Value>) {
        let mut texts = BTreeMap::<String, String>::new();
        let mut others = Vec::new();
        for event in events {
            match event.data["delta"].as_str() {
                Some(delta) => texts
                    .entry(event.data["item_id"].to_string())
                    .or_default()
                    .push_str(delta),
                None => others.push(event.data.clone()),
            }
        }
        (texts, others)
    }

    proptest! {
        /// Wherever a stream breaks off, and however differently it is cut the second time, going on after the last number
        /// loses nothing and repeats nothing.
        #[test]
        fn a_stream_goes_on_after_any_number(
            cuts in prop::collection::vec(1usize..5, 0..4),
            later in prop::collection::vec(1usize..5, 0..4),
            broke in 0usize..40,
        ) {
            let whole = stream(&cuts, None);
            prop_assert!(whole.windows(2).all(|pair| pair[0].number < pair[1].number), "numbers rise");
            let got = &whole[..broke.min(whole.len())];
            let rest = stream(&later, got.last().map(|event| event.number));
            let both: Vec<Numbered> = got.iter().cloned().chain(rest).collect();
            prop_assert_eq!(seen(&both), seen(&whole));
        }
    }

    #[test]
    fn the_object_has_every_required_field_and_shows_the_request_again() {
        let mut answer = answer(None);
        let ended = Piece::Ended(TurnReport::empty(TurnEnd::Complete, None), 9);
        let object = answer.finished(&ended).unwrap().unwrap();
        for (name, _) in defaults() {
            assert!(object.get(name).is_some(), "{name}");
        }
        assert_eq!(object["metadata"]["a"], "b");
        assert_eq!(object["status"], "completed");
        assert_eq!(object["completed_at"], 9);
    }

    #[test]
    fn a_call_counts_as_an_answer_and_other_items_are_left_out() {
        let mut request: ResponsesRequest =
            serde_json::from_value(json!({"instructions": "Be brief", "input": [
            {"role": "user", "content": "a"}, {"type": "reasoning", "summary": []},
            {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "b"}]}]}))
            .unwrap();
        assert_eq!(request.messages().unwrap().len(), 4);
    }
}
