//! One call of a server's tool, up to its result or to a question of the server's.
//!
//! Earlier revisions let a server ask while it works: the call stays open meanwhile. Since 2026-07-28 it answers that it
//! needs input, and the call is made again with what it asked for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ElicitResult, ElicitationAction,
    InputRequest, InputRequiredResult, InputResponses, ServerResult,
};
use rmcp::service::RequestHandle;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, ConnectionError, Listening, Progress, URL_ELICITATION_REQUIRED, Watch};
use crate::limits;
use crate::question::Question;

/// How far a call has come.
pub(crate) enum CallState {
    Done(CallToolResult),
    /// It goes on with [`Call::answer`].
    Asks(Question),
}

/// A call that is under way. Dropping it tells the server that nobody waits any more.
pub(crate) struct Call {
    connection: Arc<Connection>,
    tool: String,
    arguments: Map<String, Value>,
    state: State,
    rounds: usize,
}

enum State {
    /// The server works on it, or waits for what it asked.
    Open(Box<Open>),
    /// The server has answered with questions.
    Round(Round),
    Over,
}

struct Open {
    handle: RequestHandle<RoleClient>,
    signs: mpsc::Receiver<Progress>,
    _watch: Watch,
    listening: Listening,
    reply: Option<oneshot::Sender<ElicitResult>>,
}

/// Questions that an answer consists of, and what was answered.
struct Round {
    questions: VecDeque<(String, Question)>,
    responses: InputResponses,
    state: Option<String>,
    pages: Option<Pages>,
}

/// A round of an earlier revision: the server refused, with pages that a person has to open first, and has done nothing yet.
struct Pages {
    /// Why it refused.
    message: String,
    /// Somebody did not want to open one.
    is_declined: bool,
}

impl Call {
    /// Asks the server for a tool by its own name.
    pub(crate) async fn begin(
        connection: Arc<Connection>,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<Self, ConnectionError> {
        let mut call = Call {
            connection,
            tool: tool.to_owned(),
            arguments,
            state: State::Over,
            rounds: 0,
        };
        call.state = call.send(InputResponses::new(), None).await?;
        Ok(call)
    }

    /// The session it is made in.
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    async fn send(&self, responses: InputResponses, state: Option<String>) -> Result<State, ConnectionError> {
        let mut params = CallToolRequestParams::new(self.tool.clone()).with_arguments(self.arguments.clone());
        params.input_responses = (!responses.is_empty()).then_some(responses);
        params.request_state = state;
        // A quick server asks before its request has a handle.
        let listening = self.connection.listen();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = self.connection.send(request).await?;
        let (signs, watch) = self.connection.watch(handle.progress_token.clone());
        Ok(State::Open(Box::new(Open {
            handle,
            signs,
            _watch: watch,
            listening,
            reply: None,
        })))
    }

    /// Goes on until the server is done or asks something. `on_progress` hears signs of life.
    pub(crate) async fn next(
        &mut self,
        cancel: &CancellationToken,
        on_progress: impl Fn(&Progress),
    ) -> Result<CallState, ConnectionError> {
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Err(ConnectionError::Closed("the call is over".to_owned())),
                State::Round(mut round) => match round.questions.front() {
                    Some((_, question)) => {
                        let question = question.clone();
                        self.state = State::Round(round);
                        return Ok(CallState::Asks(question));
                    }
                    None => {
                        if let Some(pages) = round.pages.take() {
                            self.state = self.after_pages(pages).await?;
                            continue;
                        }
                        let responses = std::mem::take(&mut round.responses);
                        if responses.is_empty() {
                            // It asks for nothing but to be called again.
                            let pause = limits::ROUND_PAUSE * 2_u32.saturating_pow(self.rounds as u32);
                            tokio::select! {
                                () = cancel.cancelled() => return Err(ConnectionError::Cancelled),
                                () = tokio::time::sleep(pause.min(limits::ROUND_PAUSE_MAX)) => {}
                            }
                        }
                        self.state = self.send(responses, round.state).await?;
                    }
                },
                State::Open(mut open) => {
                    match self.connection.waited(&mut open, cancel, &on_progress).await {
                        Ok(Waited::Answered(ServerResult::InputRequiredResult(needs))) => {
                            self.rounds += 1;
                            if self.rounds > limits::ROUNDS_MAX {
                                return Err(ConnectionError::InputRequired);
                            }
                            self.state = State::Round(Round::of(needs)?);
                        }
                        Ok(Waited::Answered(result)) => return called(result).map(CallState::Done),
                        Ok(Waited::Asked(question, reply)) => {
                            open.reply = Some(reply);
                            self.state = State::Open(open);
                            return Ok(CallState::Asks(question));
                        }
                        Err(ConnectionError::PagesFirst { message, pages }) => {
                            self.rounds += 1;
                            if self.rounds > limits::ROUNDS_MAX {
                                return Err(ConnectionError::InputRequired);
                            }
                            self.state = State::Round(Round::of_pages(message, pages));
                        }
                        Err(stopped) => {
                            abandon(open.handle, &stopped);
                            return Err(stopped);
                        }
                    }
                }
            }
        }
    }

    /// The call once more, unless somebody would not open a page.
    async fn after_pages(&self, pages: Pages) -> Result<State, ConnectionError> {
        match pages.is_declined {
            false => self.send(InputResponses::new(), None).await,
            true => Err(ConnectionError::Refused {
                code: URL_ELICITATION_REQUIRED,
                message: pages.message,
            }),
        }
    }

    /// Nobody waits for it any more. The server is told, and has a moment to hear it.
    pub(crate) fn end(self) {
        let State::Open(open) = self.state else { return };
        let connection = self.connection;
        tokio::spawn(async move {
            let reason = ConnectionError::Cancelled.to_string();
            let telling = open.handle.cancel(Some(reason));
            let _ = tokio::time::timeout(limits::SEND_TIMEOUT, telling).await;
            tokio::time::sleep(limits::CANCEL_GRACE).await;
            drop(connection);
        });
    }

    /// Answers the question that [`next`](Self::next) gave.
    pub(crate) fn answer(&mut self, answer: ElicitResult) {
        match &mut self.state {
            State::Open(open) => {
                if let Some(reply) = open.reply.take() {
                    // A server that does not wait any more says so in its result.
                    let _ = reply.send(answer);
                }
            }
            State::Round(round) => {
                if let Some((key, _)) = round.questions.pop_front() {
                    if let Some(pages) = &mut round.pages {
                        pages.is_declined |= answer.action != ElicitationAction::Accept;
                    }
                    round
                        .responses
                        .insert(key, serde_json::to_value(answer).unwrap_or_default());
                }
            }
            State::Over => {}
        }
    }
}

enum Waited {
    Answered(ServerResult),
    Asked(Question, oneshot::Sender<ElicitResult>),
}

impl Connection {
    async fn waited(
        &self,
        open: &mut Open,
        cancel: &CancellationToken,
        on_progress: &impl Fn(&Progress),
    ) -> Result<Waited, ConnectionError> {
        let patience = self.patience();
        let total = tokio::time::sleep(patience.total);
        tokio::pin!(total);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ConnectionError::Cancelled),
                () = self.cut_off().cancelled() => return Err(self.ended().await),
                answer = &mut open.handle.rx => return self.judged(answer).await.map(Waited::Answered),
                Some((question, reply)) = open.listening.questions.recv() => {
                    return Ok(Waited::Asked(question, reply));
                }
                () = &mut total => return Err(ConnectionError::TooLong(patience.total)),
                Some(sign) = open.signs.recv() => on_progress(&sign),
                () = tokio::time::sleep(patience.idle) => return Err(ConnectionError::Silent(patience.idle)),
            }
        }
    }
}

impl Round {
    /// Pages to open. What cannot be read as one counts as declined.
    fn of_pages(message: String, pages: Vec<Value>) -> Self {
        let asked = pages.len();
        let questions: VecDeque<(String, Question)> = pages
            .into_iter()
            .filter_map(|mut page| {
                let page_object = page.as_object_mut()?;
                page_object.insert("mode".to_owned(), json!("url"));
                Some((String::new(), Question(serde_json::from_value(page).ok()?)))
            })
            .collect();
        Round {
            pages: Some(Pages {
                message,
                is_declined: questions.is_empty() || questions.len() < asked,
            }),
            questions,
            responses: InputResponses::new(),
            state: None,
        }
    }

    /// What can be answered. Nobody lends a model, and there are no roots.
    fn of(needs: InputRequiredResult) -> Result<Self, ConnectionError> {
        let requests: BTreeMap<String, InputRequest> = needs.input_requests.unwrap_or_default();
        if requests.is_empty() && needs.request_state.is_none() {
            return Err(ConnectionError::InputRequired);
        }
        let mut round = Round {
            questions: VecDeque::new(),
            responses: InputResponses::new(),
            state: needs.request_state,
            pages: None,
        };
        for (key, request) in requests {
            match request {
                InputRequest::Elicitation(request) => {
                    round.questions.push_back((key, Question(request.params)));
                }
                InputRequest::ListRoots(_) => {
                    round.responses.insert(key, json!({"roots": []}));
                }
                _ => return Err(ConnectionError::InputRequired),
            }
        }
        Ok(round)
    }
}

/// Tells the server that nobody waits any more, without waiting for it to listen.
fn abandon(handle: RequestHandle<RoleClient>, why: &ConnectionError) {
    let reason = why.to_string();
    tokio::spawn(async move {
        let _ = tokio::time::timeout(limits::SEND_TIMEOUT, handle.cancel(Some(reason))).await;
    });
}

fn called(result: ServerResult) -> Result<CallToolResult, ConnectionError> {
    match result {
        ServerResult::CallToolResult(result) => Ok(result),
        ServerResult::EmptyResult(_) => Ok(CallToolResult::success(Vec::new())),
        // Content of a kind that is not known yet must not cost the rest.
        ServerResult::CustomResult(raw) => crate::result::salvaged(&raw.0)
            .ok_or_else(|| ConnectionError::Protocol("its result has no known form".to_owned())),
        _ => Err(ConnectionError::Protocol(
            "it answered another question than the one asked".to_owned(),
        )),
    }
}
