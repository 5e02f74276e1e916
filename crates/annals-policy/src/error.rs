//! Why a file of rules cannot be used, with the line and what to do.

/// A file of rules that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{file}`, line {line}: {message}")]
pub struct PolicyError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what to do about it.
    pub message: String,
}
