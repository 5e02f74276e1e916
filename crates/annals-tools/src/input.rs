//! What a call needs from a person or a client before it can go on.
//!
//! A tool asks by [`ToolCx::ask`]. Without an answer the call ends there, the turn waits, in no process at all if need be,
//! and the call is run again from its beginning once the answer is on the timeline.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use annals_core::block::payload::{InputAction, InputResponse};
use annals_core::code::Code;
use annals_core::turn::outcome::Outcome;
use annals_policy::Reach;
use async_trait::async_trait;
use serde_json::Value;

use crate::cx::ToolCx;
use crate::failure::ToolFailure;
use crate::serialise;
use crate::spec::{Effect, SpecError, ToolSpec};
use crate::tool::Tool;

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct InputAsk {
    /// What the person reads.
    pub message: String,
    /// JSON Schema that the answer must fit.
    pub schema: Option<Value>,
    /// A page that the person is to open.
    pub url: Option<String>,
    /// After this time the question lapses, and the turn ends.
    pub expires_in: Option<Duration>,
    /// Whether a program answers it, namely the client that the turn belongs to: then it is asked also where no person is.
    pub is_for_client: bool,
}

impl InputAsk {
    /// A question that takes any answer and does not lapse.
    pub fn new(message: impl Into<String>) -> Self {
        InputAsk {
            message: message.into(),
            schema: None,
            url: None,
            expires_in: None,
            is_for_client: false,
        }
    }

    /// Wants the person to open this page.
    #[must_use]
    pub fn url(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    /// Wants an answer that fits this JSON Schema.
    #[must_use]
    pub fn schema(mut self, schema: Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Lapses after this time.
    #[must_use]
    pub fn expires_in(mut self, time: Duration) -> Self {
        self.expires_in = Some(time);
        self
    }
}

/// The questions of one run of a call, and the answers there are.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    answers: Vec<InputResponse>,
    asked: AtomicUsize,
    open: Mutex<Option<InputAsk>>,
}

impl Inputs {
    pub(crate) fn answered(answers: Vec<InputResponse>) -> Self {
        Inputs {
            answers,
            ..Inputs::default()
        }
    }

    pub(crate) fn ask(&self, ask: InputAsk) -> Result<InputResponse, ToolFailure> {
        let at = self.asked.fetch_add(1, Ordering::Relaxed);
        match self.answers.get(at) {
            Some(answer) => Ok(answer.clone()),
            None => {
                let failure = ToolFailure::new(Code::InputRequired, ask.message.clone());
                self.open
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert(ask);
                Err(failure)
            }
        }
    }

    /// What a call asks that came to this outcome. One that went on without an answer asks nothing.
    pub(crate) fn open(&self, outcome: &Outcome) -> Option<InputAsk> {
        let is_asking = outcome
            .error
            .as_ref()
            .is_some_and(|error| error.code == Code::InputRequired);
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        open.filter(|_| is_asking)
    }
}

/// A client that has not given a result by then has gone away, and its turn ends.
const CLIENT_ANSWERS_IN: Duration = Duration::from_secs(24 * 60 * 60);

/// A tool that the conversation's client performs: each call waits until the client has given its result.
pub struct ClientTool(ToolSpec);

impl ClientTool {
    /// A tool with this name, description and JSON Schema of an object.
    pub fn new(name: &str, description: &str, schema: Value) -> Result<Self, SpecError> {
        let spec = ToolSpec::builder(name)
            .description(description)
            .parameters(schema)
            // What happens, happens at the client; here its result is read from the timeline, any number of times.
            .effect(Effect::Replayable)
            // The client offered it and does it, so nothing leaves the sandbox on this side.
            .reaches([Reach::Read])
            .independent();
        spec.build().map(ClientTool)
    }
}

#[async_trait]
impl Tool for ClientTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn run(&self, cx: &ToolCx, _: Value) -> Outcome {
        let name = self.0.name();
        let mut ask = InputAsk::new(format!("the client performs `{name}`")).expires_in(CLIENT_ANSWERS_IN);
        ask.is_for_client = true;
        let answer = match cx.ask(ask) {
            Ok(answer) => answer,
            Err(asks) => return serialise::failed(&asks),
        };
        let result = match answer.action {
            InputAction::Accept => Ok(answer.content.unwrap_or(Value::Null)),
            _ => Err(ToolFailure::new(
                Code::ClientDeclined,
                format!("the client did not perform `{name}`"),
            )),
        };
        match result {
            // A client gives text as it is to be read.
            Ok(Value::String(text)) => crate::ToolOutput::text(text).outcome(cx, &self.0).await,
            result => serialise::answer(cx, &self.0, result).await,
        }
    }
}
