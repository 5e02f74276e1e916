//! The DevTools protocol over two pipes: JSON messages, each ended by a zero byte.

use std::collections::VecDeque;
use std::io::{PipeWriter, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use serde_json::{Value, json};

use super::ChromiumError;

/// Events kept until somebody asks for them; a page cannot make us keep more.
const MAX_EVENTS: usize = 256;

/// Both directions of the conversation.
pub(super) struct Pipe {
    writer: PipeWriter,
    messages: Receiver<Vec<u8>>,
    events: VecDeque<Value>,
    next_id: u64,
}

impl Pipe {
    pub(super) fn new(writer: PipeWriter, messages: Receiver<Vec<u8>>) -> Self {
        Self {
            writer,
            messages,
            events: VecDeque::new(),
            next_id: 1,
        }
    }

    /// Sends a command and waits for its answer; events that come meanwhile are kept.
    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &'static str,
        params: Value,
        deadline: Instant,
    ) -> Result<Value, ChromiumError> {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.writer
            .write_all(&bytes)
            .map_err(|error| ChromiumError::Gone(error.to_string()))?;
        loop {
            let mut message = self.receive(deadline)?;
            if message["id"] == json!(id) {
                if let Some(reason) = message["error"]["message"].as_str() {
                    return Err(ChromiumError::Refused {
                        method,
                        reason: reason.to_owned(),
                    });
                }
                return Ok(message["result"].take());
            }
            self.keep(message);
        }
    }

    /// Waits for an event of a page; not seeing it in time is no error, the page is taken as it is.
    pub(super) fn wait_for_event(
        &mut self,
        session: &str,
        method: &str,
        until: Instant,
    ) -> Result<(), ChromiumError> {
        let is_it = |event: &Value| event["method"] == method && event["sessionId"] == session;
        if self.events.iter().any(is_it) {
            return Ok(());
        }
        loop {
            match self.receive(until) {
                Ok(message) if is_it(&message) => return Ok(()),
                Ok(message) => self.keep(message),
                Err(ChromiumError::Late) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn forget_events(&mut self) {
        self.events.clear();
    }

    fn keep(&mut self, event: Value) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn receive(&mut self, deadline: Instant) -> Result<Value, ChromiumError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let bytes = self.messages.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => ChromiumError::Late,
            RecvTimeoutError::Disconnected => ChromiumError::Gone("its pipe closed".to_owned()),
        })?;
        serde_json::from_slice(&bytes).map_err(|error| ChromiumError::Gone(error.to_string()))
    }
}
