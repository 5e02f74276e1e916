//! A prompt as Messages, with breakpoints for the cache.
//!
//! Four breakpoints are allowed. One closes tools and instructions; the other three are the prompt's own cache
//! points, the last ones if there are more. A breakpoint on something that cannot carry it (empty text, reasoning)
//! moves to the block before it; one inside a tool result closes the whole result. Neighbouring messages of one role
//! become one, so that all results of an answer, and the text after them, share a message.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock};

use annals_core::block::BlobDigest;
use annals_core::view::prompt::{
    AssistantPiece, CachePoint, Call, Message, Piece, PieceBody, Prompt, ToolReply, ToolSchema,
};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{CacheLife, Reasoning};
use crate::model::{Layout, Request};
use crate::thinking::{self, SignedBlock};
use crate::wire::media::{self, Shown};
use crate::wire::names::{ToolNames, wire_call_id};
use crate::wire::text::as_object;

/// Breakpoints in messages; the fourth is the header's.
const MESSAGE_BREAKPOINTS_MAX: usize = 3;
const REASONING_MIN_TOKENS: u32 = 1_024;

#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<WireMessage<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Thinking {
    Adaptive,
    Enabled { budget_tokens: u32 },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ToolChoice {
    None,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl From<CacheLife> for CacheControl {
    fn from(life: CacheLife) -> Self {
        CacheControl {
            kind: "ephemeral",
            ttl: match life {
                CacheLife::FiveMinutes => None,
                CacheLife::OneHour => Some("1h"),
            },
        }
    }
}

/// What the user chose for all requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) reasoning: Reasoning,
    pub(crate) cache_life: CacheLife,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
struct Block<'a> {
    #[serde(flatten)]
    body: BlockBody<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockBody<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source,
    },
    Document {
        source: Source,
    },
    Thinking {
        thinking: String,
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        content: Vec<BlockBody<'a>>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source {
    Base64 { media_type: String, data: String },
}

impl BlockBody<'_> {
    fn can_be_breakpoint(&self) -> bool {
        !matches!(
            self,
            BlockBody::Thinking { .. } | BlockBody::RedactedThinking { .. }
        )
    }
}

/// The body of a request.
pub(crate) fn body<'a>(
    model: &'a str,
    options: Options,
    request: &'a Request,
    names: &'a ToolNames,
) -> Body<'a> {
    let prompt = &*request.prompt;
    let cache = CacheControl::from(options.cache_life);
    let mut lowering = Lowering {
        cache,
        media: &request.media,
        names,
        messages: Vec::new(),
    };
    for message in &prompt.messages {
        lowering.push(message);
    }
    let messages = lowering.finish();
    let offered: &[ToolSchema] = if request.layout == Layout::Timeline {
        &[]
    } else {
        &prompt.tools
    };
    let mut tools: Vec<Tool<'a>> = offered
        .iter()
        .map(|tool| Tool {
            name: names.wire_name(&tool.name),
            description: &tool.description,
            input_schema: &tool.parameters,
            cache_control: None,
        })
        .collect();
    let mut tool_choice = None;
    if tools.is_empty() {
        tools = past_tools(prompt, names);
        tool_choice = (!tools.is_empty()).then_some(ToolChoice::None);
    }
    let mut system = Vec::new();
    if !is_blank(&prompt.system) {
        let body = BlockBody::Text {
            text: Cow::Borrowed(&prompt.system),
        };
        system.push(Block {
            body,
            cache_control: Some(cache),
        });
    } else if let Some(last) = tools.last_mut() {
        last.cache_control = Some(cache);
    }
    let thinking = match options.reasoning {
        Reasoning::Off => None,
        Reasoning::Adaptive => Some(Thinking::Adaptive),
        Reasoning::Budget { tokens } => {
            let budget_tokens = tokens.max(REASONING_MIN_TOKENS);
            (request.max_tokens > budget_tokens).then_some(Thinking::Enabled { budget_tokens })
        }
    };
    Body {
        model,
        max_tokens: request.max_tokens,
        stream: true,
        thinking,
        tool_choice,
        tools,
        system,
        messages,
    }
}

/// A prompt with calls in it is refused unless their tools are declared, even when none may be called again.
fn past_tools<'a>(prompt: &'a Prompt, names: &'a ToolNames) -> Vec<Tool<'a>> {
    static ANY: LazyLock<Value> = LazyLock::new(|| json!({ "type": "object" }));
    let calls = prompt.messages.iter().flat_map(|message| match message {
        Message::Assistant(pieces) => pieces.as_slice(),
        Message::User(_) | Message::Tool(_) => &[],
    });
    let used: BTreeSet<&str> = calls
        .filter_map(|piece| match piece {
            AssistantPiece::Call(call) => Some(&*call.tool),
            AssistantPiece::Thinking { .. } | AssistantPiece::Text(_) => None,
        })
        .collect();
    used.into_iter()
        .map(|tool| Tool {
            name: names.wire_name(tool),
            description: "",
            input_schema: &ANY,
            cache_control: None,
        })
        .collect()
}

struct Lowering<'a> {
    cache: CacheControl,
    media: &'a HashMap<BlobDigest, Arc<[u8]>>,
    names: &'a ToolNames,
    messages: Vec<WireMessage<'a>>,
}

impl<'a> Lowering<'a> {
    fn push(&mut self, message: &'a Message) {
        match message {
            Message::User(pieces) => {
                for piece in pieces {
                    let body = self.piece(piece);
                    self.push_block(Role::User, body, piece.cache_point);
                }
            }
            Message::Assistant(pieces) => pieces.iter().for_each(|piece| self.push_assistant(piece)),
            Message::Tool(replies) => replies.iter().for_each(|reply| self.push_reply(reply)),
        }
    }

    fn push_assistant(&mut self, piece: &'a AssistantPiece) {
        match piece {
            AssistantPiece::Thinking { text, signature } => {
                for block in thinking::split(text, signature) {
                    let body = match block {
                        // Another vendor's, which this one would refuse.
                        SignedBlock::Plain { signature, .. } if thinking::is_of_responses(&signature) => {
                            continue;
                        }
                        SignedBlock::Plain { text, signature } => BlockBody::Thinking {
                            thinking: text,
                            signature,
                        },
                        SignedBlock::Redacted(data) => BlockBody::RedactedThinking { data },
                    };
                    self.push_block(Role::Assistant, Some(body), None);
                }
            }
            AssistantPiece::Text(piece) => {
                let body = self.piece(piece);
                self.push_block(Role::Assistant, body, piece.cache_point);
            }
            AssistantPiece::Call(call) => {
                let body = self.call(call);
                self.push_block(Role::Assistant, Some(body), call.cache_point);
            }
        }
    }

    fn call(&self, call: &'a Call) -> BlockBody<'a> {
        let input =
            RawValue::from_string(as_object(&call.arguments).into_owned()).expect("it was made an object");
        BlockBody::ToolUse {
            id: wire_call_id(call.id.as_str()),
            name: self.names.wire_name(&call.tool),
            input,
        }
    }

    fn push_reply(&mut self, reply: &'a ToolReply) {
        let mut content: Vec<BlockBody<'a>> = reply
            .pieces
            .iter()
            .filter_map(|piece| self.piece(piece))
            .collect();
        if content.is_empty() {
            // An error without content is refused.
            content.push(BlockBody::Text {
                text: Cow::Borrowed("(no output)"),
            });
        }
        let tool_use_id = wire_call_id(reply.call.as_str());
        let mark = reply.pieces.iter().rev().find_map(|piece| piece.cache_point);
        let body = BlockBody::ToolResult {
            tool_use_id,
            is_error: reply.is_error,
            content,
        };
        self.push_block(Role::User, Some(body), mark);
    }

    fn piece(&self, piece: &'a Piece) -> Option<BlockBody<'a>> {
        let body = match &piece.body {
            PieceBody::Text(text) if is_blank(text) => return None,
            PieceBody::Text(text) => BlockBody::Text {
                text: Cow::Borrowed(text),
            },
            PieceBody::Media { mime, blob } => match media::show(mime, blob, self.media) {
                Shown::Image { mime, base64 } => BlockBody::Image {
                    source: Source::Base64 {
                        media_type: mime,
                        data: base64,
                    },
                },
                Shown::Pdf { base64 } => {
                    let media_type = "application/pdf".to_owned();
                    BlockBody::Document {
                        source: Source::Base64 {
                            media_type,
                            data: base64,
                        },
                    }
                }
                Shown::Note(note) => BlockBody::Text { text: note.into() },
            },
        };
        Some(body)
    }

    fn push_block(&mut self, role: Role, body: Option<BlockBody<'a>>, mark: Option<CachePoint>) {
        if let Some(body) = body {
            if self.messages.last().is_none_or(|last| last.role != role) {
                self.messages.push(WireMessage {
                    role,
                    content: Vec::new(),
                });
            }
            let content = &mut self.messages.last_mut().expect("just pushed").content;
            content.push(Block {
                body,
                cache_control: None,
            });
        }
        if mark.is_some() {
            let blocks = self
                .messages
                .iter_mut()
                .rev()
                .flat_map(|message| message.content.iter_mut().rev());
            if let Some(block) = blocks.into_iter().find(|block| block.body.can_be_breakpoint()) {
                block.cache_control = Some(self.cache);
            }
        }
    }

    /// The messages, with no more breakpoints than are allowed, beginning with the user as they must.
    fn finish(mut self) -> Vec<WireMessage<'a>> {
        let blocks = self
            .messages
            .iter_mut()
            .rev()
            .flat_map(|message| message.content.iter_mut().rev());
        for block in blocks
            .filter(|block| block.cache_control.is_some())
            .skip(MESSAGE_BREAKPOINTS_MAX)
        {
            block.cache_control = None;
        }
        if self.messages.first().is_none_or(|first| first.role != Role::User) {
            let body = BlockBody::Text {
                text: Cow::Borrowed("(the conversation goes on)"),
            };
            let content = vec![Block {
                body,
                cache_control: None,
            }];
            self.messages.insert(
                0,
                WireMessage {
                    role: Role::User,
                    content,
                },
            );
        }
        self.messages
    }
}

/// The vendor refuses text without a visible character.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fixture;

    fn shape_of(request: &Request, reasoning: Reasoning) -> String {
        let names = ToolNames::of(&request.prompt.tools);
        let options = Options {
            reasoning,
            ..Options::default()
        };
        fixture::shape(&body("m", options, request, &names))
    }

    fn with(prompt: Prompt) -> Request {
        Request {
            prompt: prompt.into(),
            ..fixture::request()
        }
    }

    #[test]
    fn an_hour_of_cache_is_asked_for_at_every_breakpoint_and_nowhere_else() {
        let request = fixture::request();
        let names = ToolNames::of(&request.prompt.tools);
        let json = |cache_life| {
            let options = Options {
                cache_life,
                ..Options::default()
            };
            serde_json::to_string(&body("m", options, &request, &names)).unwrap()
        };
        let (short, long) = (json(CacheLife::FiveMinutes), json(CacheLife::OneHour));
        assert!(!short.contains("ttl"));
        let hour = "\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}";
        assert_eq!(long.matches(hour).count(), short.matches("cache_control").count());
        assert_eq!(long.replace(",\"ttl\":\"1h\"", ""), short);
    }

    #[test]
    fn a_prompt_with_everything_in_it() {
        insta::assert_snapshot!(shape_of(&fixture::request(), Reasoning::Off), @r##"
        model: "m"
        max_tokens: 4096
        stream: true
        tools: {"name":"add_one","description":"Does add_one.","input_schema":{"type":"object","properties":{"x":{"type":"integer"}}}}
        tools: {"name":"react__write","description":"Does react.write.","input_schema":{"type":"object","properties":{"x":{"type":"integer"}}}}
        system: {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}
        user:
          {"type":"text","text":"[TURN turn_1]"}
          {"type":"text","text":"\n\nDraw it."}
        assistant:
          {"type":"text","text":"Drawn.","cache_control":{"type":"ephemeral"}}
        user:
          {"type":"text","text":"Look:"}
          {"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}
          {"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"cGRm"}}
          {"type":"text","text":"[image/png is not shown: its bytes were not found]"}
        assistant:
          {"type":"thinking","thinking":"why","signature":"sig"}
          {"type":"text","text":"Writing."}
          {"type":"tool_use","id":"tc_1","name":"react__write","input":{"path":"a.md","content":"x"}}
          {"type":"tool_use","id":"tc_2","name":"add_one","input":{"invalid_arguments":"{not json"}}
        user:
          {"type":"tool_result","tool_use_id":"tc_1","content":[{"type":"text","text":"written"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"cG5n"}}]}
          {"type":"tool_result","tool_use_id":"tc_2","is_error":true,"content":[{"type":"text","text":"(no output)"}],"cache_control":{"type":"ephemeral"}}
          {"type":"text","text":"ANNOUNCE 2/15"}
        "##);
    }

    #[test]
    fn without_tools_the_ones_called_before_are_declared_and_none_may_be_called() {
        let request = with(Prompt {
            tools: [].into(),
            ..(*fixture::request().prompt).clone()
        });
        let shape = shape_of(&request, Reasoning::Off);
        let header: Vec<&str> = shape
            .lines()
            .take_while(|line| !line.starts_with("user"))
            .collect();
        insta::assert_snapshot!(header.join("\n"), @r##"
        model: "m"
        max_tokens: 4096
        stream: true
        tool_choice: {"type":"none"}
        tools: {"name":"add_one","input_schema":{"type":"object"}}
        tools: {"name":"react__write","input_schema":{"type":"object"}}
        system: {"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}
        "##);
    }

    #[test]
    fn no_more_than_four_breakpoints_are_sent_and_the_last_ones_win() {
        let marked = |n: usize| fixture::marked(Piece::text(format!("piece {n}")), CachePoint::Tail);
        let messages = vec![Message::User((0..6).map(marked).collect())].into();
        let request = with(Prompt {
            messages,
            ..(*fixture::request().prompt).clone()
        });
        let shape = shape_of(&request, Reasoning::Off);
        let breakpoints: Vec<&str> = shape
            .lines()
            .filter(|line| line.contains("cache_control"))
            .collect();
        assert_eq!(breakpoints.len(), 4);
        assert!(
            breakpoints[0].starts_with("system") && breakpoints[1].contains("piece 3"),
            "{shape}"
        );
    }

    #[test]
    fn a_breakpoint_moves_off_what_cannot_carry_it() {
        let messages = vec![
            Message::User(vec![Piece::text("stable")]),
            Message::Assistant(vec![
                AssistantPiece::Thinking {
                    text: "t".into(),
                    signature: "s".into(),
                },
                AssistantPiece::Text(fixture::marked(Piece::text(" \n"), CachePoint::Tail)),
            ]),
        ];
        let request = with(Prompt {
            messages: messages.into(),
            system: "".into(),
            ..(*fixture::request().prompt).clone()
        });
        let shape = shape_of(&request, Reasoning::Off);
        let breakpoints: Vec<&str> = shape
            .lines()
            .filter(|line| line.contains("cache_control"))
            .collect();
        assert!(
            breakpoints[0].starts_with("tools: {\"name\":\"react__write\""),
            "{shape}"
        );
        assert!(breakpoints[1].contains("stable"), "{shape}");
        assert_eq!(breakpoints.len(), 2);
    }

    #[test]
    fn a_budget_for_reasoning_stays_below_the_length_of_the_answer() {
        let thinking = |reasoning| {
            let shape = shape_of(&fixture::request(), reasoning);
            shape
                .lines()
                .find_map(|line| line.strip_prefix("thinking: "))
                .map(str::to_owned)
        };
        let budget = |tokens| thinking(Reasoning::Budget { tokens });
        assert_eq!(
            budget(2_000).as_deref(),
            Some(r#"{"type":"enabled","budget_tokens":2000}"#)
        );
        assert_eq!(
            budget(10).as_deref(),
            Some(r#"{"type":"enabled","budget_tokens":1024}"#)
        );
        assert_eq!(budget(5_000), None);
        assert_eq!(
            thinking(Reasoning::Adaptive).as_deref(),
            Some(r#"{"type":"adaptive"}"#)
        );
    }

    #[test]
    fn the_same_history_is_sent_byte_for_byte_whatever_comes_after_it() {
        let mut prompt = (*fixture::request().prompt).clone();
        let bytes = |prompt: &Prompt| {
            let request = with(prompt.clone());
            let names = ToolNames::of(&request.prompt.tools);
            serde_json::to_string(&body("m", Options::default(), &request, &names).messages[..4]).unwrap()
        };
        let before = bytes(&prompt);
        prompt
            .messages
            .push(Message::Assistant(vec![AssistantPiece::Text(Piece::text(
                "Done.",
            ))]));
        assert_eq!(bytes(&prompt), before);
    }
}
