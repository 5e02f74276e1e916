//! A prompt as input items of the Responses wire.
//!
//! Outputs of calls are text, so media of a reply follow in a user message, as in chat completions. Reasoning stands
//! before what it led to.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use annals_core::block::BlobDigest;
use annals_core::view::prompt::{AssistantPiece, Message, Piece, PieceBody, ToolReply, ToolSchema};
use serde::Serialize;

use super::{ReasoningItem, Summary};
use crate::model::{Layout, Request};
use crate::thinking::{self, SignedBlock};
use crate::wire::answer_schema::AnswerSchema;
use crate::wire::media::{self, Shown};
use crate::wire::names::{ToolNames, wire_call_id};
use crate::wire::text::{as_object, piece_text, set_off};

/// What the server is asked to add to a reasoning item.
const ENCRYPTED: &str = "reasoning.encrypted_content";

#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    input: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Text<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonSchema(AnswerSchema<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool<'a> {
    Function {
        name: Cow<'a, str>,
        description: &'a str,
        parameters: &'a serde_json::Value,
        strict: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Content<'a>,
    },
    Reasoning {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        summary: Vec<Summary>,
        encrypted_content: String,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: String,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Part<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { image_url: String },
    #[serde(rename = "input_file")]
    File {
        filename: &'static str,
        file_data: String,
    },
}

/// Whether the model reasons, and so has reasoning to give and to take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reasons {
    Yes,
    No,
}

/// The body of a request.
pub(crate) fn body<'a>(
    model: &'a str,
    reasons: Reasons,
    request: &'a Request,
    names: &'a ToolNames,
) -> Body<'a> {
    let prompt = &*request.prompt;
    let tools: &[ToolSchema] = match request.layout {
        Layout::Timeline => &[],
        Layout::Chat => &prompt.tools,
    };
    let lowering = Lowering {
        media: &request.media,
        names,
    };
    let mut input = Vec::with_capacity(prompt.messages.len());
    for message in &prompt.messages {
        lowering.push(message, &mut input);
    }
    Body {
        model,
        stream: true,
        store: false,
        max_output_tokens: request.max_tokens,
        prompt_cache_key: request.cache_key.as_deref(),
        include: match reasons {
            Reasons::Yes => vec![ENCRYPTED],
            Reasons::No => Vec::new(),
        },
        text: request
            .answer_schema
            .as_deref()
            .and_then(AnswerSchema::of)
            .map(|schema| Text {
                format: Format::JsonSchema(schema),
            }),
        instructions: &prompt.system,
        tools: tools.iter().map(|tool| lowering.tool(tool)).collect(),
        input,
    }
}

struct Lowering<'a> {
    media: &'a HashMap<BlobDigest, Arc<[u8]>>,
    names: &'a ToolNames,
}

impl<'a> Lowering<'a> {
    fn tool(&self, tool: &'a ToolSchema) -> Tool<'a> {
        Tool::Function {
            name: self.names.wire_name(&tool.name),
            description: &tool.description,
            parameters: &tool.parameters,
            strict: false,
        }
    }

    fn push(&self, message: &'a Message, out: &mut Vec<Item<'a>>) {
        match message {
            Message::User(pieces) => out.extend(self.user(pieces)),
            Message::Assistant(pieces) => self.push_assistant(pieces, out),
            Message::Tool(replies) => self.push_replies(replies, out),
        }
    }

    fn user(&self, pieces: &'a [Piece]) -> Option<Item<'a>> {
        let texts: Option<Vec<&str>> = pieces.iter().map(piece_text).collect();
        let content = match texts {
            Some(texts) => Content::Text(set_off(texts)),
            None => Content::Parts(pieces.iter().filter_map(|piece| self.part(piece)).collect()),
        };
        let is_empty = match &content {
            Content::Text(text) => text.is_empty(),
            Content::Parts(parts) => parts.is_empty(),
        };
        (!is_empty).then_some(Item::Message {
            role: "user",
            content,
        })
    }

    fn push_assistant(&self, pieces: &'a [AssistantPiece], out: &mut Vec<Item<'a>>) {
        let (mut texts, mut calls) = (Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                AssistantPiece::Thinking { text, signature } => out.extend(reasoning(text, signature)),
                AssistantPiece::Text(piece) => texts.extend(piece_text(piece)),
                AssistantPiece::Call(call) => calls.push(Item::FunctionCall {
                    call_id: wire_call_id(call.id.as_str()),
                    name: self.names.wire_name(&call.tool),
                    arguments: as_object(&call.arguments),
                }),
            }
        }
        let text = set_off(texts);
        if !text.is_empty() {
            out.push(Item::Message {
                role: "assistant",
                content: Content::Text(text),
            });
        }
        out.extend(calls);
    }

    fn push_replies(&self, replies: &'a [ToolReply], out: &mut Vec<Item<'a>>) {
        let mut shown_after = Vec::new();
        for reply in replies {
            let mut texts: Vec<Cow<'a, str>> = Vec::new();
            for piece in &reply.pieces {
                match (&piece.body, self.part(piece)) {
                    (_, None) => {}
                    (_, Some(Part::Text { text })) => texts.push(text),
                    (PieceBody::Text(text), Some(_)) => texts.push(Cow::Borrowed(text)),
                    (PieceBody::Media { mime, .. }, Some(part)) => {
                        texts.push(format!("\n\n[{mime}: shown after the tool results]").into());
                        shown_after.push(Part::Text {
                            text: format!("[{mime} of tool result {}]", reply.call).into(),
                        });
                        shown_after.push(part);
                    }
                }
            }
            let output = set_off(texts);
            out.push(Item::FunctionCallOutput {
                call_id: wire_call_id(reply.call.as_str()),
                output: if output.is_empty() {
                    "(no output)".to_owned()
                } else {
                    output
                },
            });
        }
        if !shown_after.is_empty() {
            out.push(Item::Message {
                role: "user",
                content: Content::Parts(shown_after),
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
                Shown::Image { mime, base64 } => Part::Image {
                    image_url: format!("data:{mime};base64,{base64}"),
                },
                Shown::Pdf { base64 } => Part::File {
                    filename: "document.pdf",
                    file_data: format!("data:application/pdf;base64,{base64}"),
                },
                Shown::Note(note) => Part::Text { text: note.into() },
            },
        })
    }
}

/// The reasoning items that came over this wire; another vendor's cannot be read here.
fn reasoning<'a>(text: &str, signature: &str) -> Vec<Item<'a>> {
    let items = thinking::split(text, signature)
        .into_iter()
        .filter_map(|block| match block {
            SignedBlock::Plain { signature, .. } => ReasoningItem::of_signature(&signature),
            SignedBlock::Redacted(_) => None,
        });
    items
        .map(|item| Item::Reasoning {
            id: item.id,
            summary: item.summary,
            encrypted_content: item.encrypted_content,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixture;

    fn shape_of(request: &Request, reasons: Reasons) -> String {
        let names = ToolNames::of(&request.prompt.tools);
        fixture::shape(&body("m", reasons, request, &names))
    }

    #[test]
    fn a_prompt_with_everything_in_it() {
        let mut request = fixture::request();
        request.cache_key = Some("conv_1".into());
        insta::assert_snapshot!(shape_of(&request, Reasons::Yes), @r##"
        model: "m"
        stream: true
        store: false
        max_output_tokens: 4096
        prompt_cache_key: "conv_1"
        include: "reasoning.encrypted_content"
        instructions: "Be brief."
        tools: {"type":"function","name":"add_one","description":"Does add_one.","parameters":{"type":"object","properties":{"x":{"type":"integer"}}},"strict":false}
        tools: {"type":"function","name":"react__write","description":"Does react.write.","parameters":{"type":"object","properties":{"x":{"type":"integer"}}},"strict":false}
        input: {"type":"message","role":"user","content":"[TURN turn_1]\n\nDraw it."}
        input: {"type":"message","role":"assistant","content":"Drawn."}
        user:
          {"type":"input_text","text":"Look:"}
          {"type":"input_image","image_url":"data:image/png;base64,cG5n"}
          {"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,cGRm"}
          {"type":"input_text","text":"[image/png is not shown: its bytes were not found]"}
        input: {"type":"message","role":"assistant","content":"Writing."}
        input: {"type":"function_call","call_id":"tc_1","name":"react__write","arguments":"{\"path\": \"a.md\", \"content\": \"x\"}"}
        input: {"type":"function_call","call_id":"tc_2","name":"add_one","arguments":"{\"invalid_arguments\":\"{not json\"}"}
        input: {"type":"function_call_output","call_id":"tc_1","output":"written\n\n[image/png: shown after the tool results]"}
        input: {"type":"function_call_output","call_id":"tc_2","output":"(no output)"}
        user:
          {"type":"input_text","text":"[image/png of tool result tc_1]"}
          {"type":"input_image","image_url":"data:image/png;base64,cG5n"}
        input: {"type":"message","role":"user","content":"ANNOUNCE 2/15"}
        "##);
    }

    #[test]
    fn reasoning_goes_back_as_it_came_and_before_what_it_led_to() {
        let item = ReasoningItem {
            id: Some("rs_1".into()),
            summary: vec![Summary::SummaryText { text: "why".into() }],
            encrypted_content: "gAAA".into(),
        };
        let signature = item.signature();
        let pieces = [
            AssistantPiece::Thinking {
                text: "why".into(),
                signature: signature.into(),
            },
            fixture::call("tc_1", "add_one", "{}"),
        ];
        let request = Request::new(
            annals_core::view::prompt::Prompt {
                system: "".into(),
                tools: [].into(),
                messages: vec![
                    Message::Assistant(pieces.into()),
                    Message::Tool(vec![fixture::reply("tc_1", vec![Piece::text("2")])]),
                ]
                .into(),
            },
            10,
        );
        insta::assert_snapshot!(shape_of(&request, Reasons::No), @r##"
        model: "m"
        stream: true
        store: false
        max_output_tokens: 10
        input: {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"why"}],"encrypted_content":"gAAA"}
        input: {"type":"function_call","call_id":"tc_1","name":"add_one","arguments":"{}"}
        input: {"type":"function_call_output","call_id":"tc_1","output":"2"}
        "##);
    }

    #[test]
    fn a_schema_is_the_format_of_the_text() {
        let schema = serde_json::json!({"type": "object", "properties": {}, "additionalProperties": false});
        let request = Request {
            answer_schema: Some(Arc::new(schema.clone())),
            ..fixture::request()
        };
        let body = serde_json::to_value(body("m", Reasons::No, &request, &ToolNames::default())).unwrap();
        let expected =
            serde_json::json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": true});
        assert_eq!(body["text"]["format"], expected);
    }
}
