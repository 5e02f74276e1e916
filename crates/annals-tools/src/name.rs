//! A tool's name, and the name providers know it by.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// `[a-z][a-z0-9_]*`, optionally with one namespace: `add_one`, `react.write`.
///
/// Its wire name has at most 64 bytes, because providers take no longer one. Two different names never share a
/// wire name within one table: the table refuses that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolName(Arc<str>);

/// A text that is not a tool's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a tool's name: use `[a-z][a-z0-9_]*`, optionally with one namespace such as `notes.add`, at most 64 bytes"
)]
pub struct ToolNameError(String);

/// What stands for the dot of a namespace where providers allow none.
pub(crate) const WIRE_DOT: &str = "__";
pub(crate) const WIRE_MAX_BYTES: usize = 64;

impl ToolName {
    /// Reads a tool's name.
    pub fn parse(text: &str) -> Result<Self, ToolNameError> {
        let word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        let well_formed = match text.split_once('.') {
            Some((namespace, rest)) => word(namespace) && word(rest) && text.len() < WIRE_MAX_BYTES,
            None => word(text) && text.len() <= WIRE_MAX_BYTES,
        };
        if well_formed {
            Ok(ToolName(text.into()))
        } else {
            Err(ToolNameError(text.to_owned()))
        }
    }

    /// The name as the timeline and people spell it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as providers spell it: `.` becomes `__`.
    pub fn wire(&self) -> String {
        self.0.replace('.', WIRE_DOT)
    }

    /// What stands before the dot.
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('.').map(|(namespace, _)| namespace)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for ToolName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_becomes_two_underscores_on_the_wire() {
        let name = ToolName::parse("react.search_files").unwrap();
        assert_eq!(
            (name.wire().as_str(), name.namespace()),
            ("react__search_files", Some("react"))
        );
    }

    #[test]
    fn what_providers_refuse_is_refused_here() {
        let long = "x".repeat(65);
        for bad in [
            "", ".", "a.", ".a", "a.b.c", "A", "1a", "a-b", "a b", "ä", "_a", &long,
        ] {
            assert!(ToolName::parse(bad).is_err(), "{bad:?}");
        }
        assert!(ToolName::parse(&"x".repeat(64)).is_ok());
        assert!(
            ToolName::parse(&format!("a.{}", "x".repeat(62))).is_err(),
            "its wire name has 65 bytes"
        );
    }
}
