//! What keeps Annals from keeping a promise. A tool's failure is not among it: that is data for the model.

use annals_core::ids::{ConversationId, RequestId, Seq, TurnId};
use annals_core::timeline::FoldError;
use annals_store::LogError;
use annals_tools::ToolTableError;

use crate::attach::AttachmentError;

/// Why an agent cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no model.
    #[error("an agent needs a model: give one with `.model(…)`")]
    NoModel,
    /// There is no store.
    #[error(
        "an agent needs a place for its data: give one with `.home(…)`, or `.log(…)` and `.artifacts(…)`"
    )]
    NoStore,
    /// The build lacks what was asked for.
    #[error("{what} is not part of this build: build `annals` with the feature `{feature}`")]
    NotBuiltIn {
        /// What was asked for.
        what: &'static str,
        /// What to build with.
        feature: &'static str,
    },
    /// The tools cannot be offered.
    #[error(transparent)]
    Tools(#[from] ToolTableError),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A folder or the artifact store cannot be opened.
    #[error("cannot open `{what}`: {reason}")]
    Open {
        /// Which.
        what: String,
        /// Why not.
        reason: String,
    },
    /// The model's window holds no prompt.
    #[error(transparent)]
    Window(#[from] annals_core::turn::WindowTooSmall),
    /// The settings contradict themselves.
    #[error(transparent)]
    Settings(#[from] annals_core::settings::SettingsError),
}

/// Why a turn could not be run or written down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The log refused.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log holds what no log may hold.
    #[error("conversation `{conversation}` cannot be folded: {source}")]
    Fold {
        /// Which.
        conversation: ConversationId,
        /// Why not.
        source: FoldError,
    },
    /// A file of the conversation cannot be kept.
    #[error("cannot keep a file: {0}")]
    Artifact(String),
    /// What a model was offered cannot be read again.
    #[error("what the model was offered cannot be read: {0}")]
    Offering(String),
    /// The id is not one.
    #[error("`{0}` is not a conversation id: use letters, digits, `-` and `_`, at most 64")]
    BadConversationId(String),
    /// The prompt is too long.
    #[error("the prompt has {given} bytes, at most {most} are taken: attach it as a file instead")]
    PromptTooLong {
        /// Its length.
        given: usize,
        /// The limit.
        most: usize,
    },
    /// The prompt says nothing.
    #[error("the prompt is empty: say what to do, or attach a file")]
    PromptEmpty,
    /// The turn id is taken.
    #[error("turn `{0}` exists already in this conversation: choose another id")]
    TurnExists(TurnId),
    /// There is no turn to go on with.
    #[error("conversation `{0}` has no unfinished turn: start a new one with a prompt")]
    NothingToResume(ConversationId),
    /// No turn runs or waits.
    #[error("no turn of conversation `{0}` runs or waits: start one with a prompt")]
    TurnEnded(ConversationId),
    /// Nothing waits for such a decision.
    #[error("nothing waits for a decision about `{0}`: it was decided, or its turn has ended")]
    NothingToDecide(RequestId),
    /// The schema of the answer is none.
    #[error("the schema of the answer cannot be used: {0}")]
    Schema(String),
    /// What a client offers cannot be a tool, or there is no room for it.
    #[error("the client's tools cannot be offered: {0}")]
    ClientTools(String),
    /// The rules in force cannot be read.
    #[error(transparent)]
    Policy(#[from] crate::policy::PolicyFault),
    /// The answer is not what was asked for.
    #[error("the answer to `{id}` does not fit what was asked: {why}")]
    InputMisfit {
        /// The request.
        id: RequestId,
        /// What is wrong with it.
        why: String,
    },
    /// An attachment was refused.
    #[error(transparent)]
    Attachment(#[from] AttachmentError),
    /// There is no such tool.
    #[error("there is no tool `{0}`: see `annals tool list`")]
    NoSuchTool(String),
    /// The program ended while the turn ran.
    #[error("the turn was stopped because the program ends: what was written is kept, resume it later")]
    Stopped,
    /// Something in this program panicked while the turn ran.
    #[error("the turn was stopped by a panic: {0}; what was written is kept, resume it later")]
    Panicked(String),
    /// Another process may have taken the conversation.
    #[error(
        "the lease of conversation `{0}` was lost while the turn ran: what was written is kept, open it again"
    )]
    LeaseLost(ConversationId),
    /// The log has gone back: it lacks blocks that it had confirmed.
    #[error(
        "the log lost {lost} blocks of conversation `{conversation}`, from block {first} on: what is there was read again, \
         see what is missing before going on"
    )]
    BlocksLost {
        /// Which.
        conversation: ConversationId,
        /// How many.
        lost: u64,
        /// The first of them.
        first: Seq,
    },
    /// A working tree cannot be removed.
    #[error("the files in `{tree}` cannot be removed: {why}; nothing else was, so try again")]
    Removal {
        /// Where it is.
        tree: String,
        /// Why not.
        why: String,
    },
    /// What was posted to the conversation cannot be read now.
    #[error("what was posted to the conversation cannot be read now: {0}; nothing was begun, try again")]
    Inbox(String),
    /// A host may add blocks of some types only.
    #[error("a block of type `{0}` cannot be contributed: only `stage.*`, `system.message` and `x.*` can")]
    MayNotContribute(String),
}

/// Whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The same request may succeed later: somebody else was writing, or a machine was away.
    Retry,
    /// The request is wrong; another one may succeed.
    Request,
    /// Something about the machine or the stored data has to be repaired first.
    Broken,
}

impl RunError {
    /// Whether trying again can help.
    pub fn class(&self) -> ErrorClass {
        match self {
            RunError::Log(LogError::Held { .. } | LogError::Conflict { .. } | LogError::Busy { .. })
            | RunError::Stopped
            | RunError::Inbox(_)
            | RunError::BlocksLost { .. }
            | RunError::LeaseLost(_) => ErrorClass::Retry,
            RunError::Log(
                LogError::NotFound { .. } | LogError::Exists { .. } | LogError::NoSuchBlock { .. },
            )
            | RunError::BadConversationId(_)
            | RunError::TurnEnded(_)
            | RunError::NothingToDecide(_)
            | RunError::InputMisfit { .. }
            | RunError::PromptTooLong { .. }
            | RunError::PromptEmpty
            | RunError::TurnExists(_)
            | RunError::NothingToResume(_)
            | RunError::Attachment(_)
            | RunError::Schema(_)
            | RunError::ClientTools(_)
            | RunError::NoSuchTool(_)
            | RunError::MayNotContribute(_) => ErrorClass::Request,
            RunError::Policy(_)
            | RunError::Removal { .. }
            | RunError::Log(_)
            | RunError::Fold { .. }
            | RunError::Artifact(_)
            | RunError::Offering(_)
            | RunError::Panicked(_) => ErrorClass::Broken,
        }
    }
}
