//! What a turn came to: its answer, how it ended, what it cost, which files it made.

use std::fmt;

use annals_core::block::{BlobDigest, BlockKind, Visibility};
use annals_core::ids::TurnId;
use annals_core::path::LogicalPath;
use annals_core::timeline::Timeline;
use annals_core::turn::{TurnEnd, TurnReport, TurnUsage};

use crate::error::RunError;
use crate::session::Session;

/// A turn that has ended, with the session it ran in.
#[derive(Debug)]
pub struct Turn {
    pub(crate) session: Session,
    pub(crate) ended: Ended,
}

/// What is kept of a turn that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    id: TurnId,
    answer: String,
    report: TurnReport,
    files: Vec<TurnFile>,
}

/// A file that a turn made or changed, in its last version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFile {
    /// Its logical path, valid in every later turn.
    pub path: LogicalPath,
    /// Its media type.
    pub mime: String,
    /// Its size, if it is known.
    pub size_bytes: Option<u64>,
    /// Where its bytes are in the artifact store, if it is hosted.
    pub digest: Option<BlobDigest>,
}

impl Turn {
    /// Its id.
    pub fn id(&self) -> &TurnId {
        &self.ended.id
    }

    /// The answer, or the questions that the turn ended with; empty when it has neither.
    pub fn answer(&self) -> &str {
        &self.ended.answer
    }

    /// How it ended.
    pub fn end(&self) -> TurnEnd {
        self.ended.report.outcome
    }

    /// Why, when it did not end well.
    pub fn reason(&self) -> Option<&str> {
        self.ended.report.error.as_deref()
    }

    /// The tokens of all its model calls.
    pub fn usage(&self) -> TurnUsage {
        self.ended.report.usage
    }

    /// How many rounds and model calls it took, the tokens of each, and how long it ran.
    pub fn report(&self) -> &TurnReport {
        &self.ended.report
    }

    /// The files it made or changed for the person, in the order in which they appeared.
    pub fn files(&self) -> &[TurnFile] {
        &self.ended.files
    }

    /// The session it ran in.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Gives the session back for the next turn.
    pub fn into_session(self) -> Session {
        self.session
    }
}

impl Ended {
    /// Reads off the timeline what became of a turn.
    pub(crate) fn of(timeline: &Timeline, id: &TurnId) -> Option<Self> {
        let turn = timeline.turn(id)?;
        let blocks = timeline.turn_blocks(turn);
        let report = timeline.report(turn)?;
        let answer = blocks.iter().rev().find(|block| {
            matches!(
                block.kind,
                BlockKind::AssistantCompletion | BlockKind::StageClarification
            )
        });
        let answer = answer.and_then(|block| block.text()).unwrap_or_default();
        let mut files: Vec<TurnFile> = Vec::new();
        for block in blocks.iter().filter(|block| block.kind == BlockKind::ToolResult) {
            let (Some(path), Some(file)) = (&block.path, &block.meta().file) else {
                continue;
            };
            let is_shown =
                |digest: &annals_core::block::SafeDigest| digest.visibility == Visibility::External;
            let is_of_turn = path.turn() == Some(id.as_str()) && path.is_file();
            if !is_of_turn || !file.digest.as_ref().is_some_and(is_shown) {
                continue;
            }
            files.retain(|earlier| earlier.path != *path);
            files.push(TurnFile {
                path: path.clone(),
                mime: block.mime.to_string(),
                size_bytes: file.size_bytes,
                digest: file.content_digest,
            });
        }
        Some(Ended {
            id: id.clone(),
            answer: answer.to_owned(),
            report,
            files,
        })
    }

    pub(crate) fn end(&self) -> TurnEnd {
        self.report.outcome
    }
}

/// A turn that could not be run or written down. The session is not lost.
pub struct RunFailed {
    /// What went wrong.
    pub error: RunError,
    /// The session, to try again or to go on with.
    pub session: Session,
}

impl fmt::Debug for RunFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunFailed")
            .field("error", &self.error)
            .field("session", &self.session.id())
            .finish()
    }
}

impl fmt::Display for RunFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for RunFailed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<RunFailed> for RunError {
    fn from(failed: RunFailed) -> Self {
        failed.error
    }
}
