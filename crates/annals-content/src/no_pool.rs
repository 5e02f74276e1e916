//! The pool of a program that was built without helper processes: every task is refused.

use std::sync::Arc;

use annals_sandbox::Isolation;

use crate::error::ContentError;
use crate::limits::Limits;
use crate::source::Source;
use crate::task::{Answer, Task};

/// Gives the bytes behind a reference that a document names.
pub(crate) type Pictures = Arc<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;

pub(crate) enum Kind {
    Reader,
    Browser,
}

pub(crate) struct Pool;

#[expect(dead_code, reason = "nobody is there to read a task")]
pub(crate) struct Given<'a> {
    pub(crate) task: Task,
    pub(crate) content: Source<'a>,
    pub(crate) pictures: Option<Pictures>,
}

impl Pool {
    pub(crate) fn new(_kind: Kind, _limits: Limits, _isolation: Isolation) -> Arc<Self> {
        Arc::new(Self)
    }

    pub(crate) fn start_ahead(self: &Arc<Self>) {}

    pub(crate) async fn perform(
        self: &Arc<Self>,
        given: Given<'_>,
    ) -> Result<(Answer, Vec<Vec<u8>>), ContentError> {
        let Given {
            task: _,
            content: _,
            pictures: _,
        } = given;
        Err(ContentError::NotBuilt {
            feature: "local-sandbox",
        })
    }
}
