//! As streams of Messages events, made from the forms that Anthropic publishes.

use annals::model::Anthropic;
use annals::prelude::*;
use serde_json::Value;

use crate::loopback::{Reply, Server};
use crate::{same, scripted, timeline};

const KEY: &str = "sk-ant-a-key-of-the-tests";

/// The same steps with what only Anthropic's streams carry: signed reasoning, an answer of several calls without words.
fn script() -> Value {
    let mut script = crate::script();
    script["steps"][0]["thinking"] = json!("Two files, said \"the user\" → a.md, b.md");
    script["steps"][0]["thinking_signature"] = json!("c2lnbmVk+/==");
    script["steps"][2]["thinking"] = json!("Done.");
    script["steps"][2]["thinking_signature"] = json!("bW9yZQ==");
    script
}

/// One step as the events of a stream, its texts in pieces of `piece` characters.
fn events(step: &Value, piece: usize) -> String {
    let mut stream = Stream {
        piece,
        ..Stream::default()
    };
    stream.event(json!({"type": "message_start", "message": {
        "id": "msg_01", "type": "message", "role": "assistant", "model": "played", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": 10, "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 3_000, "output_tokens": 1}}}));
    stream.event(json!({"type": "ping"}));
    if let Some(thinking) = step["thinking"].as_str() {
        let signature = json!({"type": "signature_delta", "signature": step["thinking_signature"]});
        stream.block(
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            thinking,
            |piece| json!({"type": "thinking_delta", "thinking": piece}),
            Some(signature),
        );
    }
    if let Some(text) = step["text"].as_str() {
        let block = json!({"type": "text", "text": ""});
        stream.block(
            block,
            text,
            |piece| json!({"type": "text_delta", "text": piece}),
            None,
        );
    }
    let calls = step["tool_calls"].as_array().cloned().unwrap_or_default();
    for call in &calls {
        let name = call["tool"].as_str().unwrap().replace('.', "__");
        let block = json!({"type": "tool_use", "id": call["id"], "name": name, "input": {}});
        stream.block(
            block,
            &call["params"].to_string(),
            |piece| json!({"type": "input_json_delta", "partial_json": piece}),
            None,
        );
    }
    let reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
    stream.event(
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
               "usage": {"output_tokens": 89}}),
    );
    stream.event(json!({"type": "message_stop"}));
    stream.text
}

#[derive(Default)]
struct Stream {
    piece: usize,
    blocks: usize,
    text: String,
}

impl Stream {
    fn event(&mut self, data: Value) {
        let name = data["type"].as_str().unwrap();
        self.text.push_str(&format!("event: {name}\ndata: {data}\n\n"));
    }

    /// One block of content: its start, its text in pieces, what closes it.
    fn block(&mut self, start: Value, text: &str, delta: impl Fn(&str) -> Value, last: Option<Value>) {
        let index = self.blocks;
        self.blocks += 1;
        self.event(json!({"type": "content_block_start", "index": index, "content_block": start}));
        let chars: Vec<char> = text.chars().collect();
        let pieces = chars
            .chunks(self.piece)
            .map(|piece| delta(&piece.iter().collect::<String>()));
        for delta in pieces.chain(last) {
            self.event(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        self.event(json!({"type": "content_block_stop", "index": index}));
    }
}

#[tokio::test]
async fn the_timeline_is_the_same_from_streams_of_anthropics_event_forms() {
    let script = script();
    let scripted = scripted(&script).await;
    assert!(scripted.contains("Both are written."), "{scripted}");
    for (piece, packet) in [(1, 7), (5, 64), (10_000, 1_000_000)] {
        let steps = script["steps"].as_array().unwrap().iter();
        let replies = steps.map(|step| {
            let bytes = events(step, piece).into_bytes();
            Reply::stream(&bytes.chunks(packet).collect::<Vec<_>>())
        });
        let server = Server::playing(replies.collect()).await;
        let model = Anthropic::builder("played")
            .base_url(&server.base_url)
            .key(KEY)
            .build()
            .unwrap();
        let streamed = timeline(model).await;
        same(
            &format!("pieces of {piece}, packets of {packet}"),
            &streamed,
            &scripted,
        );
    }
}
