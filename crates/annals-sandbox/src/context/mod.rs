//! The context service: programs inside read what their conversation holds.
//!
//! The port says only that a path gives bytes ([`ContextService`]); how a program inside reaches it is the backend's
//! business. On this machine it is a socket that the sandbox itself makes ([`server`] answers it), so nothing of it
//! lies in the host's file system. The modules that programs import are [`FILES`].

#[cfg(feature = "local")]
pub(crate) mod server;

use async_trait::async_trait;

use crate::tree::ByteStream;

/// Answers programs inside. It can be asked only for content, and changes nothing.
#[async_trait]
pub trait ContextService: Send + Sync {
    /// What a logical path names, whole, as a stream.
    async fn fetch(&self, path: &str) -> Result<Fetched, ContextError>;
}

/// Content on its way to a program inside.
pub struct Fetched {
    /// The canonical path.
    pub path: String,
    /// What the bytes are.
    pub mime: String,
    /// Whether they are UTF-8 text.
    pub is_text: bool,
    /// How many there are.
    pub size_bytes: u64,
    /// The bytes.
    pub body: ByteStream,
}

/// Why a path gave nothing, as the program inside is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ContextError {
    /// A stable code.
    pub code: String,
    /// One sentence.
    pub message: String,
}

impl ContextError {
    /// An error of this code.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        ContextError {
            code: code.into(),
            message: message.into(),
        }
    }
}

/// A file that programs inside find below the folder of the context service.
#[derive(Debug, Clone, Copy)]
pub struct ContextFile {
    /// Where, below that folder.
    pub path: &'static str,
    /// What it holds.
    pub text: &'static str,
    /// Whether it is a program.
    pub executable: bool,
}

/// What every backend lays out for programs inside.
pub const FILES: [ContextFile; 3] = [
    ContextFile {
        path: "tools/context_tools.py",
        text: include_str!("context_tools.py"),
        executable: false,
    },
    ContextFile {
        path: "tools/context_tools.js",
        text: include_str!("context_tools.js"),
        executable: false,
    },
    ContextFile {
        path: "tools/bin/annals-ctx",
        text: include_str!("annals-ctx.sh"),
        executable: true,
    },
];

/// The socket's name in that folder, where a backend offers one.
#[cfg(feature = "local")]
pub(crate) const SOCKET: &str = "context.sock";

/// The variables by which programs find the folder at `at`; `path` is the search path they would have without it.
pub fn environment(at: &str, path: &str) -> [(String, String); 3] {
    let tools = format!("{at}/tools");
    [
        ("PATH".to_owned(), format!("{tools}/bin:{path}")),
        ("PYTHONPATH".to_owned(), tools.clone()),
        ("NODE_PATH".to_owned(), tools),
    ]
}
