//! Calls that wait for a person, kept open between two runs of their turn for as long as this process lives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use annals_tools::ToolCx;
use tokio::time::Instant;

use crate::call::Call;
use crate::limits;
use crate::question::Question;

/// A call that waits for an answer.
pub(crate) struct Parked {
    pub(crate) call: Call,
    /// What it waits for.
    pub(crate) question: Question,
    /// How many questions before it were answered.
    pub(crate) answered: usize,
}

/// Which call it is: of a scope, a conversation, a turn.
pub(crate) fn key(cx: &ToolCx) -> String {
    format!("{} {} {} {}", cx.scope(), cx.conversation(), cx.turn(), cx.call())
}

type Calls = HashMap<String, (Parked, Instant)>;

/// The calls of one server that wait.
#[derive(Default)]
pub(crate) struct ParkedCalls(Arc<Mutex<Calls>>);

impl ParkedCalls {
    /// Keeps a call, and ends it when nobody has answered for long.
    pub(crate) fn park(&self, key: String, parked: Parked) {
        let now = Instant::now();
        {
            let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if calls.len() >= limits::PARKED_MAX {
                let oldest = calls.iter().min_by_key(|(_, (_, since))| *since);
                if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                    calls.remove(&oldest);
                }
            }
            calls.insert(key.clone(), (parked, now));
        }
        let calls = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(limits::PARKED_TIMEOUT).await;
            let Some(calls) = calls.upgrade() else { return };
            let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
            if calls.get(&key).is_some_and(|(_, since)| *since == now) {
                calls.remove(&key);
            }
        });
    }

    /// The call that waited, which goes on now.
    pub(crate) fn take(&self, key: &str) -> Option<Parked> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.remove(key).map(|(parked, _)| parked)
    }
}
