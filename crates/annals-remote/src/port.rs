//! What a wire implements: the server of sandboxes, and the service inside one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals_sandbox::{CodeResult, Failure, FailureKind, Language, Limits};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;

use crate::error::ApiError;
use crate::http::Download;

/// Where a sandbox is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// On its way, or in a state that nobody knows yet.
    Starting,
    /// It can be used.
    Running,
    /// It sleeps and can be woken.
    Paused,
    /// It is being ended; something may still run in it.
    Ending,
    /// Nothing runs in it any more.
    Ended,
    /// It could not be started.
    Failed,
}

impl Phase {
    /// Whether it will never be used again.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Ending | Self::Ended | Self::Failed)
    }
}

/// A phase, and what the server says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The phase.
    pub phase: Phase,
    /// The server's own words.
    pub told: String,
}

/// A sandbox as a server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The server's id of it.
    pub id: String,
    /// Where it is in its life.
    pub phase: Phase,
    /// What it was made with.
    pub metadata: BTreeMap<String, String>,
    /// When it was made; orders sandboxes of one owner.
    pub created_at: Option<String>,
}

/// The server that makes, finds, renews and deletes sandboxes. What changes nothing when it is repeated is repeated until
/// it is answered; only [`create`](Self::create) is not.
#[async_trait]
pub trait ControlPlane: Send + Sync {
    /// Sandboxes that carry these metadata, all of them.
    async fn list(&self, metadata: &BTreeMap<String, String>) -> Result<Vec<Record>, ApiError>;

    /// Makes a sandbox within these limits, as far as the server takes any, and gives its id. An error that is transient
    /// leaves open whether one was made.
    async fn create(&self, metadata: &BTreeMap<String, String>, limits: &Limits) -> Result<String, ApiError>;

    /// How it is; [`ApiError::is_not_found`] when there is none.
    async fn status(&self, id: &str) -> Result<Status, ApiError>;

    /// Deletes it; deleting what is gone is a success.
    async fn delete(&self, id: &str) -> Result<(), ApiError>;

    /// Wakes one that is paused.
    async fn wake(&self, id: &str) -> Result<(), ApiError>;

    /// Lets it live for `ttl` from now on.
    async fn renew(&self, id: &str, ttl: Duration) -> Result<(), ApiError>;

    /// The service inside a sandbox that runs; none as long as it does not answer.
    async fn connect(&self, id: &str) -> Result<Option<Arc<dyn Daemon>>, ApiError>;

    /// What the server is asked to bound of a sandbox with these limits, by its own names.
    fn resources(&self, limits: &Limits) -> BTreeMap<String, String> {
        let _ = limits;
        BTreeMap::new()
    }

    /// The server's version, where it tells one.
    async fn version(&self) -> Option<String> {
        None
    }
}

/// A command line for the sandbox's shell.
#[derive(Debug, Clone, Default)]
pub struct Command {
    /// The line.
    pub line: String,
    /// Variables beside those of the sandbox.
    pub env: BTreeMap<String, String>,
    /// When the service ends it by itself.
    pub timeout: Option<Duration>,
}

/// What a command does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandEvent {
    /// It runs, under this name.
    Begun(String),
    /// It wrote a line to standard output.
    Line(String),
}

/// What a command does, until its end. Dropping it does not end the command.
pub type CommandEvents = BoxStream<'static, Result<CommandEvent, ApiError>>;

/// A body on its way into a sandbox; an error in it breaks the request off.
pub type UploadBody = BoxStream<'static, Result<Bytes, std::io::Error>>;

/// A file to be written.
#[derive(Debug, Clone, Copy)]
pub struct Upload<'a> {
    /// Absolute path inside; missing folders are made.
    pub path: &'a str,
    /// Permission bits.
    pub mode: u32,
    /// The content.
    pub bytes: &'a [u8],
}

/// Code for a kernel, and the bounds it runs under.
#[derive(Debug, Clone, Copy)]
pub struct CodeRequest<'a> {
    /// Its language.
    pub language: Language,
    /// The code.
    pub code: &'a str,
    /// Absolute path of its working directory.
    pub cwd: &'a str,
    /// Variables.
    pub env: &'a BTreeMap<String, String>,
    /// How long it may take.
    pub timeout: Duration,
    /// Bytes of each output that are kept.
    pub kept_bytes: usize,
}

/// The service inside one sandbox. Nothing is repeated here.
#[async_trait]
pub trait Daemon: Send + Sync {
    /// Starts a command.
    async fn start(&self, command: &Command) -> Result<CommandEvents, ApiError>;

    /// Asks a command to end, by the name it began under.
    async fn interrupt(&self, command: &str) -> Result<(), ApiError>;

    /// Writes files whose bytes are at hand.
    async fn upload(&self, files: &[Upload<'_>]) -> Result<(), ApiError>;

    /// Writes one file from a stream.
    async fn upload_stream(&self, path: &str, mode: u32, body: UploadBody) -> Result<(), ApiError>;

    /// Renames a file, replacing what is there.
    async fn rename(&self, from: &str, to: &str) -> Result<(), ApiError>;

    /// The bytes of a file from `offset` on.
    async fn download(&self, path: &str, offset: u64) -> Result<Download, ApiError>;

    /// Runs code of a language that the sandbox has no program for, if the service has a kernel of it. Never repeated.
    async fn run_code(&self, request: &CodeRequest<'_>) -> Result<CodeResult, Failure> {
        let (language, program) = (request.language, request.language.program());
        let message = format!("the sandbox has no `{program}`, so it runs no {language}");
        Err(Failure::new(FailureKind::Unsupported, message))
    }
}
