//! A prompt as chat completions.
//!
//! Text is sent as plain strings wherever it can be, because some servers know nothing else. Tool messages carry
//! text only, so media of a reply follow in a user message. Arguments that are not a JSON object are wrapped in one:
//! servers parse them, and a model's old mistake must not break every later request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use annals_core::block::BlobDigest;
use annals_core::view::prompt::{AssistantPiece, Call, Message, Piece, PieceBody, ToolReply, ToolSchema};
use serde::Serialize;

use super::Dialect;
use crate::model::{Layout, Request};
use crate::wire::answer_schema::AnswerSchema;
use crate::wire::media::{self, Shown};
use crate::wire::names::{ToolNames, wire_call_id};
use crate::wire::text::{as_object, piece_text, set_off};

#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    messages: Vec<WireMessage<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ResponseFormat<'a> {
    JsonSchema { json_schema: AnswerSchema<'a> },
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool<'a> {
    Function { function: Function<'a> },
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters: &'a serde_json::Value,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum WireMessage<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<WireCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: String,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    File { file: File },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct File {
    filename: &'static str,
    file_data: String,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireCall<'a> {
    Function {
        id: Cow<'a, str>,
        function: CalledFunction<'a>,
    },
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

/// The body of a request.
pub(crate) fn body<'a>(
    model: &'a str,
    dialect: Dialect,
    request: &'a Request,
    names: &'a ToolNames,
) -> Body<'a> {
    let prompt = &*request.prompt;
    let tools: &[ToolSchema] = if request.layout == Layout::Timeline {
        &[]
    } else {
        &prompt.tools
    };
    let lowering = Lowering {
        dialect,
        media: &request.media,
        names,
    };
    let mut messages = Vec::with_capacity(prompt.messages.len() + 1);
    if !prompt.system.is_empty() {
        messages.push(WireMessage::System {
            content: &prompt.system,
        });
    }
    for message in &prompt.messages {
        lowering.push(message, &mut messages);
    }
    let (max_tokens, max_completion_tokens) = match dialect {
        Dialect::OpenAi => (None, Some(request.max_tokens)),
        Dialect::Compatible => (Some(request.max_tokens), None),
    };
    Body {
        model,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_tokens,
        max_completion_tokens,
        response_format: match dialect {
            Dialect::OpenAi => request.answer_schema.as_deref().and_then(AnswerSchema::of),
            // Some of them refuse a request that has it.
            Dialect::Compatible => None,
        }
        .map(|json_schema| ResponseFormat::JsonSchema { json_schema }),
        tools: tools.iter().map(|tool| lowering.tool(tool)).collect(),
        messages,
    }
}

struct Lowering<'a> {
    dialect: Dialect,
    media: &'a HashMap<BlobDigest, Arc<[u8]>>,
    names: &'a ToolNames,
}

impl<'a> Lowering<'a> {
    fn tool(&self, tool: &'a ToolSchema) -> Tool<'a> {
        let name = self.names.wire_name(&tool.name);
        Tool::Function {
            function: Function {
                name,
                description: &tool.description,
                parameters: &tool.parameters,
            },
        }
    }

    fn push(&self, message: &'a Message, out: &mut Vec<WireMessage<'a>>) {
        match message {
            Message::User(pieces) => out.extend(self.user(pieces)),
            Message::Assistant(pieces) => out.extend(self.assistant(pieces)),
            Message::Tool(replies) => self.push_replies(replies, out),
        }
    }

    fn user(&self, pieces: &'a [Piece]) -> Option<WireMessage<'a>> {
        let texts: Option<Vec<&str>> = pieces.iter().map(piece_text).collect();
        let content = match texts {
            Some(texts) => Content::Text(set_off(texts)),
            None => Content::Parts(pieces.iter().filter_map(|piece| self.part(piece)).collect()),
        };
        let is_empty = match &content {
            Content::Text(text) => text.is_empty(),
            Content::Parts(parts) => parts.is_empty(),
        };
        (!is_empty).then_some(WireMessage::User { content })
    }

    fn assistant(&self, pieces: &'a [AssistantPiece]) -> Option<WireMessage<'a>> {
        let mut texts = Vec::new();
        let mut tool_calls = Vec::new();
        for piece in pieces {
            match piece {
                AssistantPiece::Thinking { .. } => {} // this protocol has no way to send it back
                AssistantPiece::Text(piece) => texts.extend(piece_text(piece)),
                AssistantPiece::Call(call) => tool_calls.push(self.call(call)),
            }
        }
        let text = set_off(texts);
        let content = (!text.is_empty()).then_some(text);
        (content.is_some() || !tool_calls.is_empty())
            .then_some(WireMessage::Assistant { content, tool_calls })
    }

    fn call(&self, call: &'a Call) -> WireCall<'a> {
        let function = CalledFunction {
            name: self.names.wire_name(&call.tool),
            arguments: as_object(&call.arguments),
        };
        WireCall::Function {
            id: wire_call_id(call.id.as_str()),
            function,
        }
    }

    fn push_replies(&self, replies: &'a [ToolReply], out: &mut Vec<WireMessage<'a>>) {
        let mut media = Vec::new();
        for reply in replies {
            let mut texts: Vec<Cow<'a, str>> = Vec::new();
            for piece in &reply.pieces {
                match (&piece.body, self.part(piece)) {
                    (PieceBody::Text(text), _) => texts.push(Cow::Borrowed(text)),
                    (PieceBody::Media { .. }, Some(Part::Text { text })) => texts.push(text),
                    (PieceBody::Media { mime, .. }, Some(part)) => {
                        texts.push(format!("\n\n[{mime}: shown after the tool results]").into());
                        media.push(Part::Text {
                            text: format!("[{mime} of tool result {}]", reply.call).into(),
                        });
                        media.push(part);
                    }
                    (PieceBody::Media { .. }, None) => {}
                }
            }
            let mut content = set_off(texts);
            if content.is_empty() {
                content.push_str("(no output)");
            }
            out.push(WireMessage::Tool {
                tool_call_id: wire_call_id(reply.call.as_str()),
                content,
            });
        }
        if !media.is_empty() {
            out.push(WireMessage::User {
                content: Content::Parts(media),
            });
        }
    }

    fn part(&self, piece: &'a Piece) -> Option<Part<'a>> {
        Some(match &piece.body {
            PieceBody::Text(text) if text.is_empty() => return None,
            PieceBody::Text(text) => Part::Text {
                text: Cow::Borrowed(text),
            },
            PieceBody::Media { mime, blob } => match media::show(mime, blob, self.media) {
                Shown::Image { mime, base64 } => Part::ImageUrl {
                    image_url: ImageUrl {
                        url: format!("data:{mime};base64,{base64}"),
                    },
                },
                Shown::Pdf { base64 } if self.dialect == Dialect::OpenAi => {
                    let file_data = format!("data:application/pdf;base64,{base64}");
                    Part::File {
                        file: File {
                            filename: "document.pdf",
                            file_data,
                        },
                    }
                }
                Shown::Pdf { .. } => Part::Text {
                    text: media::note(mime, "this server takes no documents").into(),
                },
                Shown::Note(note) => Part::Text { text: note.into() },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixture;

    fn shape_of(request: &Request, dialect: Dialect) -> String {
        let names = ToolNames::of(&request.prompt.tools);
        fixture::shape(&body("m", dialect, request, &names))
    }

    #[test]
    fn a_prompt_with_everything_in_it() {
        insta::assert_snapshot!(shape_of(&fixture::request(), Dialect::OpenAi), @r##"
        model: "m"
        stream: true
        stream_options: {"include_usage":true}
        max_completion_tokens: 4096
        tools: {"type":"function","function":{"name":"add_one","description":"Does add_one.","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}}
        tools: {"type":"function","function":{"name":"react__write","description":"Does react.write.","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}}
        messages: {"role":"system","content":"Be brief."}
        messages: {"role":"user","content":"[TURN turn_1]\n\nDraw it."}
        messages: {"role":"assistant","content":"Drawn."}
        user:
          {"type":"text","text":"Look:"}
          {"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}
          {"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,cGRm"}}
          {"type":"text","text":"[image/png is not shown: its bytes were not found]"}
        messages: {"role":"assistant","content":"Writing.","tool_calls":[{"type":"function","id":"tc_1","function":{"name":"react__write","arguments":"{\"path\": \"a.md\", \"content\": \"x\"}"}},{"type":"function","id":"tc_2","function":{"name":"add_one","arguments":"{\"invalid_arguments\":\"{not json\"}"}}]}
        messages: {"role":"tool","tool_call_id":"tc_1","content":"written\n\n[image/png: shown after the tool results]"}
        messages: {"role":"tool","tool_call_id":"tc_2","content":"(no output)"}
        user:
          {"type":"text","text":"[image/png of tool result tc_1]"}
          {"type":"image_url","image_url":{"url":"data:image/png;base64,cG5n"}}
        messages: {"role":"user","content":"ANNOUNCE 2/15"}
        "##);
    }

    #[test]
    fn another_server_gets_a_note_instead_of_a_document_and_the_older_limit() {
        let ours = shape_of(&fixture::request(), Dialect::OpenAi);
        let theirs = shape_of(&fixture::request(), Dialect::Compatible);
        let changed: Vec<&str> = theirs
            .lines()
            .filter(|line| !ours.lines().any(|own| own == *line))
            .collect();
        insta::assert_snapshot!(changed.join("\n"), @r##"
        max_tokens: 4096
          {"type":"text","text":"[application/pdf is not shown: this server takes no documents]"}
        "##);
    }

    #[test]
    fn the_timeline_layout_offers_no_tools() {
        let request = Request {
            layout: Layout::Timeline,
            ..fixture::request()
        };
        assert!(!shape_of(&request, Dialect::OpenAi).contains("\ntools:"));
    }

    #[test]
    fn a_long_call_id_is_shortened_alike_in_the_call_and_its_reply() {
        let id = "x".repeat(64);
        let mut request = fixture::request();
        let prompt = annals_core::view::prompt::Prompt {
            messages: vec![
                Message::Assistant(vec![fixture::call(&id, "add_one", "{}")]),
                Message::Tool(vec![fixture::reply(&id, vec![Piece::text("1")])]),
            ]
            .into(),
            ..(*request.prompt).clone()
        };
        request.prompt = prompt.into();
        let body = serde_json::to_value(body("m", Dialect::OpenAi, &request, &ToolNames::default())).unwrap();
        let sent = body["messages"][1]["tool_calls"][0]["id"].as_str().unwrap();
        assert_eq!(sent.len(), 40);
        assert_eq!(body["messages"][2]["tool_call_id"], sent);
    }

    #[test]
    fn a_schema_goes_to_openai_alone() {
        let schema = serde_json::json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let request = Request {
            answer_schema: Some(Arc::new(schema.clone())),
            ..fixture::request()
        };
        let sent = |dialect| {
            let body = serde_json::to_value(body("m", dialect, &request, &ToolNames::default())).unwrap();
            body.get("response_format").cloned()
        };
        let expected = serde_json::json!({"type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": false}});
        assert_eq!(sent(Dialect::OpenAi), Some(expected));
        assert_eq!(sent(Dialect::Compatible), None);
    }
}
