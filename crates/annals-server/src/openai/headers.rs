//! What requests and answers of this API say beside their bodies.

use annals_core::ids::ConversationId;
use annals_runtime::{ClientFunction, TurnTerms};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::Value;

use super::ask::{Names, Started};
use super::error::ApiError;
use super::part::Part;
use crate::app::App;
use crate::idempotency::REPLAYED;

const CONVERSATION: HeaderName = HeaderName::from_static("x-annals-conversation");
const TURN: HeaderName = HeaderName::from_static("x-annals-turn");
const TOOLS: HeaderName = HeaderName::from_static("x-annals-tools");
const ATTENDED: HeaderName = HeaderName::from_static("x-annals-attended");

/// The value of `x-annals-tools` that wants the client's own tools offered, and says that they are.
const CLIENT_TOOLS: &str = "client";

/// Names that chat clients give to a chat: Open WebUI, LibreChat and others by configuration, opencode, Codex.
const HINTS: [HeaderName; 4] = [
    HeaderName::from_static("x-openwebui-chat-id"),
    HeaderName::from_static("x-conversation-id"),
    HeaderName::from_static("x-session-id"),
    HeaderName::from_static("session-id"),
];

/// What became of the tools that a client sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolsUse {
    /// It sent none.
    None,
    /// The agent uses its own.
    Ignored,
    /// The model may call them.
    Offered,
}

impl ToolsUse {
    pub(super) fn of(terms: &TurnTerms, sent: usize) -> Self {
        match (sent, terms.client_tools.is_empty()) {
            (0, _) => ToolsUse::None,
            (_, true) => ToolsUse::Ignored,
            (_, false) => ToolsUse::Offered,
        }
    }
}

pub(super) fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

fn conversation_id(param: &'static str, text: &str) -> Result<ConversationId, ApiError> {
    ConversationId::parse(text).map_err(|error| ApiError::invalid(param, "invalid_conversation", error))
}

/// What a request says of its conversation.
pub(super) fn names(
    headers: &HeaderMap,
    conversation: Option<&Value>,
    previous: Option<&str>,
    metadata: Option<&Value>,
) -> Result<Names, ApiError> {
    let given = conversation.and_then(|value| value.as_str().or_else(|| value["id"].as_str()));
    let named = text_of(headers, &CONVERSATION).or_else(|| {
        metadata
            .and_then(|metadata| metadata["conversation"].as_str())
            .map(str::to_owned)
    });
    Ok(Names {
        conversation: given.map(|id| conversation_id("conversation", id)).transpose()?,
        after: previous.map(Part::parse).transpose()?,
        named: named.map(|id| conversation_id("conversation", &id)).transpose()?,
        hint: HINTS.iter().find_map(|name| text_of(headers, name)),
    })
}

/// What holds for a turn. A chat client shows no approvals: unless it says that somebody looks at them elsewhere, what a
/// person would have to allow is denied instead of waited for. Its own tools are offered where the server or the request says
/// so; by itself an agent uses its own.
pub(super) fn terms(
    app: &App,
    headers: &HeaderMap,
    schema: Option<Value>,
    functions: Vec<ClientFunction>,
) -> TurnTerms {
    let offers = match text_of(headers, &TOOLS).as_deref() {
        Some(choice) => choice == CLIENT_TOOLS,
        None => app.outside.offers_client_tools,
    };
    TurnTerms {
        unattended: text_of(headers, &ATTENDED).as_deref() != Some("true"),
        schema,
        client_tools: if offers { functions } else { Vec::new() },
        request: None,
    }
}

/// Where this server is reached.
pub(super) fn origin(app: &App, headers: &HeaderMap) -> String {
    match &app.door.public {
        Some(public) => public.origin.clone(),
        None => format!("http://{}", text_of(headers, &header::HOST).unwrap_or_default()),
    }
}

/// The headers that tell a client where its turn is.
pub(super) fn places(started: &Started, tools: ToolsUse) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = |text: &str| HeaderValue::from_str(text).ok();
    headers.extend(value(started.part.conversation.as_str()).map(|value| (CONVERSATION, value)));
    headers.extend(value(started.part.turn.as_str()).map(|value| (TURN, value)));
    match tools {
        ToolsUse::None => {}
        ToolsUse::Ignored => drop(headers.insert(TOOLS, HeaderValue::from_static("ignored"))),
        ToolsUse::Offered => drop(headers.insert(TOOLS, HeaderValue::from_static(CLIENT_TOOLS))),
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if started.is_replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    headers
}
