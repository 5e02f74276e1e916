//! A prompt that has everything in it, and a way to look at a request's body, for tests of both wire forms.

use std::fmt::Write as _;

use annals_core::block::{Blob, BlobDigest};
use annals_core::ids::CallId;
use annals_core::view::prompt::{
    AssistantPiece, CachePoint, Call, Message, Piece, Prompt, ToolReply, ToolSchema,
};
use serde_json::{Value, json};

use crate::model::Request;

/// Two turns: a picture, a document, a failed and a broken call, parallel replies with a picture, a tail.
pub(crate) fn request() -> Request {
    let (png, pdf) = (b"png".as_slice(), b"pdf".as_slice());
    let prompt = Prompt {
        system: "Be brief.".into(),
        tools: [tool("add_one"), tool("react.write")].into(),
        messages: vec![
            Message::User(vec![Piece::text("[TURN turn_1]"), Piece::text("\n\nDraw it.")]),
            Message::Assistant(vec![AssistantPiece::Text(marked(
                Piece::text("Drawn."),
                CachePoint::PrevTurn,
            ))]),
            Message::User(vec![
                Piece::text("Look:"),
                Piece::media("image/png".into(), Blob::of(png)),
                Piece::media("application/pdf".into(), Blob::of(pdf)),
                Piece::media("image/png".into(), Blob::of(b"lost")),
            ]),
            Message::Assistant(vec![
                AssistantPiece::Thinking {
                    text: "why".into(),
                    signature: "sig".into(),
                },
                AssistantPiece::Text(Piece::text("Writing.")),
                call("tc_1", "react.write", r#"{"path": "a.md", "content": "x"}"#),
                call("tc_2", "add_one", "{not json"),
            ]),
            Message::Tool(vec![
                reply(
                    "tc_1",
                    vec![
                        Piece::text("written"),
                        Piece::media("image/png".into(), Blob::of(png)),
                    ],
                ),
                ToolReply {
                    is_error: true,
                    ..reply("tc_2", vec![marked(Piece::text(""), CachePoint::Tail)])
                },
            ]),
            Message::User(vec![Piece::text("ANNOUNCE 2/15")]),
        ]
        .into(),
    };
    let mut request = Request::new(prompt, 4_096);
    request.media.insert(BlobDigest::of(png), png.into());
    request.media.insert(BlobDigest::of(pdf), pdf.into());
    request
}

fn tool(name: &str) -> ToolSchema {
    let parameters = json!({ "type": "object", "properties": { "x": { "type": "integer" } } });
    ToolSchema {
        name: name.into(),
        description: format!("Does {name}."),
        parameters,
    }
}

pub(crate) fn marked(piece: Piece, point: CachePoint) -> Piece {
    Piece {
        cache_point: Some(point),
        ..piece
    }
}

pub(crate) fn call(id: &str, tool: &str, arguments: &str) -> AssistantPiece {
    let (id, tool) = (CallId::parse(id).unwrap(), tool.into());
    AssistantPiece::Call(Call {
        id,
        tool,
        arguments: arguments.into(),
        cache_point: None,
    })
}

pub(crate) fn reply(id: &str, pieces: Vec<Piece>) -> ToolReply {
    ToolReply {
        call: CallId::parse(id).unwrap(),
        is_error: false,
        pieces,
    }
}

/// A body, one line a field, a tool or a block.
pub(crate) fn shape(body: &impl serde::Serialize) -> String {
    let body = serde_json::to_value(body).unwrap();
    let mut shape = String::new();
    for (key, value) in body.as_object().unwrap() {
        match value {
            Value::Array(items) => {
                for item in items {
                    push_item(&mut shape, key, item);
                }
            }
            value => writeln!(shape, "{key}: {value}").unwrap(),
        }
    }
    shape
}

fn push_item(shape: &mut String, key: &str, item: &Value) {
    match (item["role"].as_str(), item["content"].as_array()) {
        (Some(role), Some(blocks)) => {
            writeln!(shape, "{role}:").unwrap();
            for block in blocks {
                writeln!(shape, "  {block}").unwrap();
            }
        }
        _ => writeln!(shape, "{key}: {item}").unwrap(),
    }
}
