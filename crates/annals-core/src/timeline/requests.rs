//! The index of requests: what the current turn asked a person or a client for, and what came.
//!
//! A request is *pending* until it has its decision or its call is settled. Only the current turn can wait, so that is
//! all that is kept.

use super::calls::Calls;
use crate::block::payload::{
    ApprovalDecision, ApprovalRequest, Decision, InputRequest, InputResponse, PayloadError,
};
use crate::block::{Block, BlockKind};
use crate::ids::{CallId, RequestId, Seq};
use crate::time::Timestamp;

/// Something that the current turn asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Names it.
    pub id: RequestId,
    /// The call that waits for it.
    pub call: CallId,
    /// The block that asks.
    pub seq: Seq,
    /// When it lapses.
    pub expires: Option<Timestamp>,
    /// What is asked and what came.
    pub ask: Ask,
}

/// What a request is about, and its answer once there is one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Ask {
    /// May the call run?
    Approval {
        /// What the person is asked.
        request: Box<ApprovalRequest>,
        /// What the person decided.
        decision: Option<Box<ApprovalDecision>>,
    },
    /// Something to give.
    Input {
        /// What is wanted.
        request: Box<InputRequest>,
        /// What was given.
        response: Option<Box<InputResponse>>,
    },
}

impl Request {
    /// Whether nobody has answered yet.
    pub fn is_unanswered(&self) -> bool {
        match &self.ask {
            Ask::Approval { decision, .. } => decision.is_none(),
            Ask::Input { response, .. } => response.is_none(),
        }
    }

    /// What a person decided about it, if it is an approval.
    pub fn decision(&self) -> Option<&ApprovalDecision> {
        match &self.ask {
            Ask::Approval { decision, .. } => decision.as_deref(),
            Ask::Input { .. } => None,
        }
    }

    /// What was given for it, if it is an input.
    pub fn response(&self) -> Option<&InputResponse> {
        match &self.ask {
            Ask::Input { response, .. } => response.as_deref(),
            Ask::Approval { .. } => None,
        }
    }
}

#[derive(Clone, Default)]
pub(crate) struct Requests {
    list: Vec<Request>,
}

impl Requests {
    pub(crate) fn list(&self) -> &[Request] {
        &self.list
    }

    /// A new turn begins: nothing of the old one is waited for any more.
    pub(crate) fn forget(&mut self) {
        self.list.clear();
    }

    pub(crate) fn pending<'a>(&'a self, calls: &'a Calls) -> impl Iterator<Item = &'a Request> {
        let waits =
            |request: &&Request| request.is_unanswered() && calls.open().any(|call| call.id == request.call);
        self.list.iter().filter(waits)
    }

    /// The call whose refusal ends the turn.
    pub(crate) fn stopped_by(&self) -> Option<&CallId> {
        let stops = |request: &&Request| {
            request
                .decision()
                .is_some_and(|decision| decision.decision == Decision::DenyAndStop)
        };
        self.list.iter().find(stops).map(|request| &request.call)
    }

    pub(crate) fn push(&mut self, block: &Block) -> Result<(), PayloadError> {
        match &block.kind {
            BlockKind::ApprovalRequest => {
                let request: Box<ApprovalRequest> = block.payload()?;
                self.list.push(Request {
                    id: request.approval_id.clone(),
                    call: request.call_id.clone(),
                    seq: block.seq,
                    expires: request.expires,
                    ask: Ask::Approval {
                        request,
                        decision: None,
                    },
                });
            }
            BlockKind::InputRequest => {
                let request: Box<InputRequest> = block.payload()?;
                self.list.push(Request {
                    id: request.input_id.clone(),
                    call: request.call_id.clone(),
                    seq: block.seq,
                    expires: request.expires,
                    ask: Ask::Input {
                        request,
                        response: None,
                    },
                });
            }
            BlockKind::ApprovalDecision => self.decide(block.payload()?),
            BlockKind::InputResponse => self.respond(block.payload()?),
            _ => {}
        }
        Ok(())
    }

    /// The first decision holds: a later one for the same request changes nothing.
    fn decide(&mut self, decided: Box<ApprovalDecision>) {
        let asked = self
            .list
            .iter_mut()
            .find(|request| request.id == decided.approval_id);
        if let Some(Request {
            ask: Ask::Approval { decision, .. },
            ..
        }) = asked
        {
            decision.get_or_insert(decided);
        }
    }

    fn respond(&mut self, given: Box<InputResponse>) {
        let asked = self.list.iter_mut().find(|request| request.id == given.input_id);
        if let Some(Request {
            ask: Ask::Input { response, .. },
            ..
        }) = asked
        {
            response.get_or_insert(given);
        }
    }
}
