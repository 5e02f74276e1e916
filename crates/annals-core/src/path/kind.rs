//! What a logical path names, as a borrowed view of its parts.

use super::SidSet;

/// What a logical path names. Borrows from the path; ids inside are known to be well formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathKind<'a> {
    /// `fi:<turn>.files/<rel>`: a file a tool produced.
    File {
        /// The turn it belongs to.
        turn: &'a str,
        /// Its path below the turn's `files`.
        rel: &'a str,
    },
    /// `fi:<turn>.user.attachments/<name>`: a file the user gave.
    Attachment {
        /// The turn it came with.
        turn: &'a str,
        /// Its name.
        name: &'a str,
    },
    /// `fi:<turn>.code.<call>`: the code of an exec call.
    Code {
        /// The turn of the call.
        turn: &'a str,
        /// The call.
        call: &'a str,
    },
    /// `ar:<turn>.<dotted name>`: a record of the turn, such as `user.prompt`.
    Named {
        /// The turn it belongs to.
        turn: &'a str,
        /// Its dotted name.
        name: &'a str,
    },
    /// `tc:<turn>.<call>.(call|result|notice)`: a part of a tool call.
    Call {
        /// The turn of the call.
        turn: &'a str,
        /// The call.
        call: &'a str,
        /// Which part of it.
        part: CallPart,
    },
    /// `so:sources_pool[<sel>]`: rows of the sources pool.
    Sources(SidSet),
    /// `su:<turn>.conv.range.summary`: the summary written in that turn.
    Summary {
        /// The turn it was written in.
        turn: &'a str,
    },
    /// `sk:<name>`: a skill.
    Skill {
        /// Its name.
        name: &'a str,
    },
}

/// A part of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallPart {
    /// What was asked.
    Call,
    /// What came back.
    Result,
    /// What went wrong or was changed.
    Notice,
}

impl CallPart {
    /// The last word of the path.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Result => "result",
            Self::Notice => "notice",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "call" => Some(Self::Call),
            "result" => Some(Self::Result),
            "notice" => Some(Self::Notice),
            _ => None,
        }
    }
}
