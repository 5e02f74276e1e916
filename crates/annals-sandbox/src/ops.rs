//! The operations a sandbox performs and what they return: plain data, no behaviour.
//!
//! The model never sees these types; tools translate between its arguments and them. Paths are text as seen
//! from inside: relative to the workspace, or absolute below the place where it appears.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::capture::Captured;
use crate::language::Language;

/// One side effect, asked of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Run a program or a shell line.
    CommandRun(CommandRun),
    /// Read one file.
    FilesRead(FilesRead),
    /// Replace or create one file, atomically.
    FilesWrite(FilesWrite),
    /// List one directory.
    FilesList(FilesList),
    /// Ask whether a path exists.
    FilesExists(FilesExists),
    /// Run source code in its interpreter.
    CodeRun(CodeRun),
}

impl Op {
    /// Lets no program of it begin after this moment. Sandboxes of this machine look at the clock right before it begins, in a
    /// process of their own: the one that asks may have stood still since.
    #[must_use]
    pub fn not_after(mut self, moment: Instant) -> Self {
        match &mut self {
            Op::CommandRun(run) => run.not_after = Some(moment),
            Op::CodeRun(run) => run.not_after = Some(moment),
            Op::FilesRead(_) | Op::FilesWrite(_) | Op::FilesList(_) | Op::FilesExists(_) => {}
        }
        self
    }
}

/// What to execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Cmd {
    /// A line for the shell (`bash`, or `sh` where there is no bash).
    Shell(String),
    /// A program, looked up in `PATH`, and its arguments.
    Argv(Vec<String>),
}

/// Run a program or a shell line; everything it starts dies with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandRun {
    /// What to execute.
    pub cmd: Cmd,
    /// Added to the sandbox's own environment; the host's is never passed on.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where to start; the workspace if absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Bytes for standard input; empty if absent.
    #[serde(default)]
    pub stdin: Option<Vec<u8>>,
    /// How long it may take; [`crate::Limits::timeout`] if absent.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// Nothing begins after this moment; any time if absent. Another process may act in the caller's place from then on.
    #[serde(skip)]
    pub not_after: Option<Instant>,
}

impl CommandRun {
    /// A line for the shell.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(Cmd::Shell(line.into()))
    }

    /// A program and its arguments, no shell between.
    pub fn argv<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> Self {
        Self::new(Cmd::Argv(argv.into_iter().map(Into::into).collect()))
    }

    fn new(cmd: Cmd) -> Self {
        Self {
            cmd,
            env: BTreeMap::new(),
            cwd: None,
            stdin: None,
            timeout: None,
            not_after: None,
        }
    }

    /// Sets one environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Starts in this directory.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Feeds these bytes to standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Ends it, and all it started, after this long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// How file bytes come back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// As text; a file that is not UTF-8 is a failure. Line ends are kept.
    #[default]
    Utf8,
    /// As they are.
    Bytes,
}

/// Read one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesRead {
    /// Path seen from inside.
    pub path: String,
    /// How the bytes come back.
    #[serde(default)]
    pub encoding: Encoding,
}

impl FilesRead {
    /// Reads text.
    pub fn text(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            encoding: Encoding::Utf8,
        }
    }

    /// Reads bytes.
    pub fn bytes(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            encoding: Encoding::Bytes,
        }
    }
}

/// Replace or create one file; missing directories on the way are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesWrite {
    /// Path seen from inside.
    pub path: String,
    /// The whole new content.
    pub data: Vec<u8>,
    /// Permission bits of the file, `0o644` unless said otherwise.
    #[serde(default = "FilesWrite::default_mode")]
    pub mode: u32,
}

impl FilesWrite {
    /// Permission bits of a written file when nothing else is said.
    pub const DEFAULT_MODE: u32 = 0o644;

    /// Writes these bytes with the default mode.
    pub fn new(path: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            data: data.into(),
            mode: Self::DEFAULT_MODE,
        }
    }

    /// Sets the permission bits.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    fn default_mode() -> u32 {
        Self::DEFAULT_MODE
    }
}

/// List one directory, not what lies below it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesList {
    /// Path seen from inside.
    pub path: String,
}

impl FilesList {
    /// Lists this directory.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into() }
    }
}

/// Ask whether a path exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesExists {
    /// Path seen from inside.
    pub path: String,
}

impl FilesExists {
    /// Asks for this path.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into() }
    }
}

/// Run source code, byte for byte as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeRun {
    /// The source.
    pub code: String,
    /// What it is written in.
    pub language: Language,
    /// How long it may take; [`crate::Limits::timeout`] if absent.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// Added to the sandbox's own environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where to start; the workspace if absent.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Bytes for standard input; empty if absent.
    #[serde(default)]
    pub stdin: Option<Vec<u8>>,
    /// Nothing begins after this moment; any time if absent. Another process may act in the caller's place from then on.
    #[serde(skip)]
    pub not_after: Option<Instant>,
}

impl CodeRun {
    /// Code in this language, all else by default.
    pub fn new(language: Language, code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            language,
            not_after: None,
            timeout: None,
            env: BTreeMap::new(),
            cwd: None,
            stdin: None,
        }
    }

    /// Ends it, and all it started, after this long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets one environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }
}

/// What an operation returned when it did what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", content = "value", rename_all = "snake_case")]
pub enum OpResult {
    /// Of [`Op::CommandRun`].
    Command(CommandResult),
    /// Of [`Op::FilesRead`].
    File(FileContent),
    /// Of [`Op::FilesList`].
    Entries(FileEntries),
    /// Of [`Op::FilesWrite`].
    Written(FileWriteResult),
    /// Of [`Op::CodeRun`].
    Code(CodeResult),
    /// Of [`Op::FilesExists`].
    Exists(bool),
}

/// A command that ran to its end, well or badly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResult {
    /// Its exit code; `128 + signal` when a signal ended it, as shells say it.
    pub exit_code: i32,
    /// The signal that ended it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// Wall time from the request to the death of the last process.
    pub elapsed_ms: u64,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileContent {
    /// The content, as asked.
    pub data: FileData,
}

/// Bytes of a file in the encoding asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileData {
    /// Valid UTF-8, line ends untouched.
    Text(String),
    /// Anything.
    Bytes(Vec<u8>),
}

impl FileData {
    /// The bytes, whichever way they came.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// The text; bytes that are not UTF-8 become replacement characters.
    pub fn to_text(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes),
        }
    }
}

/// A directory's entries, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntries {
    /// The entries; at most [`crate::Limits::list_entries`] of them.
    pub entries: Vec<FileEntry>,
    /// How many there are.
    pub total: usize,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name, without the directory.
    pub name: String,
    /// What it is; links are not followed.
    pub kind: EntryKind,
    /// Size of a regular file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// What a directory entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A socket, pipe or device.
    Other,
}

/// A file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileWriteResult {
    /// How many bytes it now has.
    pub bytes_written: u64,
}

/// Code that ran to its end, well or badly.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeResult {
    /// The interpreter's exit code, as in [`CommandResult::exit_code`].
    pub exit_code: i32,
    /// Value of the last expression, where a backend's interpreter has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// Why it failed: the last line of the traceback, or the exit code. None when it ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Wall time from the request to the death of the last process.
    pub elapsed_ms: u64,
}
