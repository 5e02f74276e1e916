//! Why content could not be read or rendered, and which bound it met.

use std::time::Duration;

use annals_core::code::Code;
use annals_sandbox::OpenError;
#[cfg(feature = "local")]
use annals_sandbox::helper::Ending;

#[cfg(feature = "local")]
use crate::limits::Limits;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// No helper process can be started on this machine, or by this program.
    #[error("the helper process for content cannot be started: {0}")]
    NoHelper(#[from] OpenError),
    /// It needed too much memory.
    #[error("it needed more than {} MB of memory: make it smaller or simpler", limit_bytes >> 20)]
    Memory { limit_bytes: u64 },
    /// It took too long.
    #[error("it took longer than {} s: make it smaller or simpler", limit.as_secs_f64())]
    Deadline { limit: Duration },
    /// It used the processor too long.
    #[error("it used more than {} s of processor time: make it smaller or simpler", limit.as_secs_f64())]
    Cpu { limit: Duration },
    /// It nests too deeply.
    #[error("it nests deeper than a stack of {} MB holds: make it flatter", limit_bytes >> 20)]
    Nesting {
        /// The stack of the thread that parses.
        limit_bytes: usize,
    },
    /// The result is too large.
    #[error("the result has more than {limit_bytes} bytes: ask for less")]
    Output { limit_bytes: u64 },
    /// Too much was handed in.
    #[error("it has {bytes} bytes, more than the {limit_bytes} that are read")]
    Input {
        /// What it has.
        bytes: u64,
        limit_bytes: u64,
    },
    /// All helpers were busy until the deadline.
    #[error("too many documents are being read: try again later")]
    Busy,
    /// The parser broke.
    #[error("its reader broke: {reason}")]
    Broken {
        /// What is known of it.
        reason: String,
    },
    /// It is not what it should be.
    #[error("{0}")]
    Unreadable(String),
    /// The document could not be rendered.
    #[cfg(feature = "documents")]
    #[error(transparent)]
    Render(annals_render::RenderError),
    /// The program was built without the reader.
    #[error("this program was built without the feature `{feature}`, which reads it")]
    NotBuilt { feature: &'static str },
}

impl ContentError {
    /// A stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoHelper(_) => Code::ContentHelperMissing.as_str(),
            Self::Memory { .. } | Self::Cpu { .. } | Self::Nesting { .. } => Code::ContentLimit.as_str(),
            Self::Output { .. } | Self::Input { .. } => Code::DocumentTooLarge.as_str(),
            Self::Deadline { .. } => Code::Timeout.as_str(),
            Self::Busy => Code::Busy.as_str(),
            Self::Broken { .. } | Self::Unreadable(_) => Code::Unreadable.as_str(),
            #[cfg(feature = "documents")]
            Self::Render(_) => Code::RenderingFailed.as_str(),
            Self::NotBuilt { .. } => Code::FeatureMissing.as_str(),
        }
    }

    #[cfg(feature = "local")]
    /// What the end of a helper in the middle of a task means.
    pub(crate) fn from_ending(ending: &Ending, limits: &Limits, memory_bytes: u64) -> Self {
        let says = |words: &str| ending.last_words.contains(words);
        match ending.signal {
            _ if ending.is_over_memory => Self::Memory {
                limit_bytes: memory_bytes,
            },
            Some(libc::SIGXCPU) => Self::Cpu { limit: limits.cpu },
            // A cgroup that is full kills; an allocation that fails aborts with these words.
            Some(libc::SIGKILL) => Self::Memory {
                limit_bytes: memory_bytes,
            },
            _ if says("memory allocation of") || says("out of memory") => Self::Memory {
                limit_bytes: memory_bytes,
            },
            Some(libc::SIGSEGV | libc::SIGBUS) => Self::Nesting {
                limit_bytes: limits.stack_bytes,
            },
            _ if says("overflowed its stack") => Self::Nesting {
                limit_bytes: limits.stack_bytes,
            },
            signal => Self::Broken {
                reason: match signal {
                    Some(signal) => format!("its process was ended by signal {signal}"),
                    None => "its process ended".to_owned(),
                },
            },
        }
    }
}
