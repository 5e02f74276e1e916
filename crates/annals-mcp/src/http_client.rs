//! Requests to a server behind an address: every byte that comes back is counted before anybody parses it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt as _};
use http::{HeaderName, HeaderValue, StatusCode, header};
use reqwest::{RequestBuilder, Response};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::transport::auth::WWWAuthenticateParams;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use url::Url;

use crate::auth::{self, Authorizer, LoginNeeded, NoToken};
use crate::hidden;
use crate::limits;
use crate::text;
use crate::transport::{self, Flow};

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// A client of one server.
#[derive(Clone)]
pub(crate) struct BoundedHttp {
    client: reqwest::Client,
    url: Url,
    door: Door,
    flow: Arc<Flow>,
}

/// How a server knows who asks.
#[derive(Clone)]
pub(crate) enum Door {
    /// By what the configuration says: these tokens.
    OwnToken(Arc<[String]>),
    /// By a login, if it wants one and there is a place to keep it.
    Login(Option<Arc<Authorizer>>),
}

/// Stands in place of a token of the configuration.
const HIDDEN: &str = "[secret:mcp-token]";

impl Door {
    /// What a server said, without the tokens that it was sent. Everything it says comes by here: results, definitions,
    /// resources, questions, what it logs.
    fn hidden(&self, said: Vec<u8>) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(&said) else {
            return said;
        };
        let hidden = match self {
            Door::OwnToken(tokens) => hidden::without_in_json(text, tokens, HIDDEN),
            Door::Login(Some(authorizer)) => authorizer.hidden_in_json(text),
            Door::Login(None) => return said,
        };
        match hidden {
            Cow::Owned(hidden) => hidden.into_bytes(),
            Cow::Borrowed(_) => said,
        }
    }
}

impl BoundedHttp {
    pub(crate) fn new(client: reqwest::Client, url: Url, door: Door, flow: Arc<Flow>) -> Self {
        BoundedHttp {
            client,
            url,
            door,
            flow,
        }
    }

    /// Sends a request. A token that is over or refused is renewed once; what only a person can do is noted.
    async fn sent(&self, request: RequestBuilder, bearer: Option<String>) -> Result<Response, Failure> {
        let authorizer = match &self.door {
            Door::OwnToken(_) => return Ok(with_token(request, bearer).send().await?),
            Door::Login(authorizer) => authorizer.as_deref(),
        };
        let token = match authorizer {
            Some(authorizer) => authorizer.token().await.map_err(|none| self.shut(none))?,
            None => None,
        };
        // Messages are whole in memory, so every request can be made again.
        let again = request.try_clone();
        let mut response = with_token(request, token.clone()).send().await?;
        let mut sent = token;
        if response.status() == StatusCode::UNAUTHORIZED
            && let (Some(authorizer), Some(token), Some(again)) = (authorizer, &sent, again)
        {
            let renewed = authorizer.renewed(token).await.map_err(|none| self.shut(none))?;
            response = with_token(again, Some(renewed.clone())).send().await?;
            sent = Some(renewed);
        }
        match response.status() {
            StatusCode::UNAUTHORIZED => {
                let challenge = transport::challenge(response.headers());
                if let Some(authorizer) = authorizer {
                    authorizer.refused(sent.as_deref(), challenge.as_deref()).await;
                }
                let reason = match sent {
                    Some(_) => "it refuses the login, also a renewed one",
                    None => "it answers no request without one",
                };
                Err(self.shut(NoToken::Login(LoginNeeded {
                    reason: reason.to_owned(),
                    scopes: Vec::new(),
                })))
            }
            StatusCode::FORBIDDEN => match self.further_scopes(&response) {
                Some(scopes) => Err(self.shut(NoToken::Login(LoginNeeded {
                    reason: "what was granted is not enough for this".to_owned(),
                    scopes,
                }))),
                None => Ok(response),
            },
            _ => Ok(response),
        }
    }

    /// The scopes that a refusal asks for beside those that were granted.
    fn further_scopes(&self, response: &Response) -> Option<Vec<String>> {
        let challenge = transport::challenge(response.headers())?;
        let is_about_scopes = WWWAuthenticateParams::parse(&challenge, &self.url).is_insufficient_scope();
        is_about_scopes.then(|| auth::scopes_wanted(&challenge, &self.url))
    }

    /// Notes why there is no token: on the way to the caller only an error's text is kept.
    fn shut(&self, none: NoToken) -> Failure {
        let why = match &none {
            NoToken::Login(needed) => needed.reason.clone(),
            NoToken::Failed(why) => why.clone(),
        };
        self.flow.shut(none);
        StreamableHttpError::UnexpectedServerResponse(Cow::Owned(why))
    }

    /// A body within the bound of a message.
    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await? {
            self.flow.bytes(piece.len());
            body.extend_from_slice(&piece);
            if body.len() > limits::MESSAGE_MAX_BYTES {
                self.flow.message_too_long();
            }
            if let Some(reason) = self.flow.reason() {
                return Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(
                    reason.to_owned(),
                )));
            }
        }
        Ok(self.door.hidden(body))
    }

    /// The events of a stream; it fails beyond a bound.
    fn events(&self, response: Response) -> Events {
        let (of_bytes, of_events) = (self.flow.clone(), self.flow.clone());
        let mut line_bytes = 0;
        let pieces = response.bytes_stream().map(move |piece| {
            let piece = piece.map_err(io::Error::other)?;
            of_bytes.bytes(piece.len());
            line_bytes = match piece.iter().rposition(|byte| *byte == b'\n') {
                Some(at) => piece.len() - at,
                None => line_bytes + piece.len(),
            };
            if line_bytes > limits::MESSAGE_MAX_BYTES {
                of_bytes.message_too_long();
            }
            match of_bytes.reason() {
                Some(reason) => Err(io::Error::other(reason.to_owned())),
                None => Ok(piece),
            }
        });
        let door = self.door.clone();
        let counted = move |event: Result<Sse, SseError>| {
            of_events.message();
            event.map(|mut event| {
                let said = event.data.map(|data| door.hidden(data.into_bytes()));
                event.data = said.map(|data| String::from_utf8_lossy(&data).into_owned());
                event
            })
        };
        SseStream::from_bytes_stream(pieces).map(counted).boxed()
    }
}

fn with_token(request: RequestBuilder, token: Option<String>) -> RequestBuilder {
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

fn media_type(response: &Response) -> Option<&str> {
    response.headers().get(header::CONTENT_TYPE)?.to_str().ok()
}

fn is_of(response: &Response, expected: &str) -> bool {
    media_type(response).is_some_and(|given| given.starts_with(expected))
}

/// Whether a server of an earlier revision refused to be asked what it knows.
fn refused_discovery(message: &ClientJsonRpcMessage, status: StatusCode) -> bool {
    let is_discovery = matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::DiscoverRequest(_)));
    let is_about_token = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    is_discovery && status.is_client_error() && !is_about_token
}

/// What a refusal means. Of its words only a line is kept.
fn refused(
    message: &ClientJsonRpcMessage,
    status: StatusCode,
    body: &[u8],
) -> Result<StreamableHttpPostResponse, Failure> {
    let error = match serde_json::from_slice(body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    let words = text::one_line(&String::from_utf8_lossy(body), 200);
    if let ClientJsonRpcMessage::Request(request) = message
        && refused_discovery(message, status)
    {
        let error = error.map(|error| error.error);
        let error =
            error.unwrap_or_else(|| ErrorData::invalid_request(format!("HTTP {status}: {words}"), None));
        let told = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(told, None));
    }
    match error {
        Some(error) => Ok(StreamableHttpPostResponse::Json(
            ServerJsonRpcMessage::Error(error),
            None,
        )),
        None => {
            let why = Cow::Owned(format!("HTTP {status}: {words}"));
            Err(StreamableHttpError::UnexpectedServerResponse(why))
        }
    }
}

impl StreamableHttpClient for BoundedHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let mut request = self
            .client
            .post(&*uri)
            .header(header::ACCEPT, format!("{EVENTS}, {JSON}"))
            .headers(custom_headers.into_iter().collect());
        let has_session = session_id.is_some();
        if let Some(session) = session_id {
            request = request.header(SESSION, &*session);
        }
        let response = self.sent(request.json(&message), auth_header).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return refused(&message, status, &self.body(response).await?);
        }
        let session = response.headers().get(SESSION);
        let session = session.and_then(|id| id.to_str().ok()).map(str::to_owned);
        if is_of(&response, EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        let wants_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        if !is_of(&response, JSON) {
            let media_type = media_type(&response).map(|given| text::one_line(given, 80));
            return match wants_answer {
                true => Err(StreamableHttpError::UnexpectedContentType(media_type)),
                false => Ok(StreamableHttpPostResponse::Accepted),
            };
        }
        match serde_json::from_slice(&self.body(response).await?) {
            Ok(told) => Ok(StreamableHttpPostResponse::Json(told, session)),
            // Nobody waits for an answer to what is none.
            Err(_) if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
            Err(error) => {
                let why = Cow::Owned(format!("its answer cannot be read: {error}"));
                Err(StreamableHttpError::UnexpectedServerResponse(why))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        let token = match &self.door {
            Door::OwnToken(_) => auth_header,
            // A session that is not ended now ends by itself; nothing is renewed for that.
            Door::Login(Some(authorizer)) => authorizer.known_token(),
            Door::Login(None) => None,
        };
        self.client
            .delete_session(uri, session_id, token, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, Failure> {
        let mut request = self
            .client
            .get(&*uri)
            .header(header::ACCEPT, EVENTS)
            .headers(custom_headers.into_iter().collect());
        if let Some(session) = session_id {
            request = request.header(SESSION, &*session);
        }
        if let Some(last) = last_event_id {
            request = request.header("last-event-id", last);
        }
        let response = self.sent(request, auth_header).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => {
                let why = Cow::Owned(format!("HTTP {status}"));
                Err(StreamableHttpError::UnexpectedServerResponse(why))
            }
            _ if is_of(&response, EVENTS) => Ok(self.events(response)),
            _ => {
                let media_type = media_type(&response).map(|given| text::one_line(given, 80));
                Err(StreamableHttpError::UnexpectedContentType(media_type))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_the_configuration_is_hidden_in_what_the_server_says() {
        let door = Door::OwnToken(["token-0123456789".to_owned()].into());
        let said = br#"{"text": "you sent token-\u0030123456789"}"#.to_vec();
        let hidden = String::from_utf8(door.hidden(said)).unwrap();
        assert_eq!(hidden, r#"{"text":"you sent [secret:mcp-token]"}"#);
    }
}
