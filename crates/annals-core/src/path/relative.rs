//! A relative path that is safe to join below a folder.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::{PathError, UnsafePath};
use super::lines;
use crate::ids::deserialize_parsed;
use crate::limits;

/// A safe relative path, parts separated by `/`.
///
/// It is not empty and not absolute; no part is empty, `.` or `..`; it has no backslash, NUL or control
/// character; a part has at most 255 bytes, the whole at most 1,024; it does not end like a line range.
/// Equality is by bytes: no case folding, no Unicode normalisation. Opening it still goes through a
/// directory handle that symlinks cannot leave.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Arc<str>);

impl RelPath {
    /// Reads a safe relative path; refuses everything else.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        match check(text) {
            Ok(()) => Ok(Self(Arc::from(text))),
            Err(why) => Err(PathError::unsafe_path(text, why)),
        }
    }

    /// For text that a longer path has already checked.
    pub(super) fn checked(text: &str) -> Self {
        debug_assert_eq!(check(text), Ok(()));
        Self(Arc::from(text))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its parts, at least one.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// The last part.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// What follows the last dot of the last part, unless that dot begins it.
    pub fn extension(&self) -> Option<&str> {
        match self.file_name().rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() && !extension.is_empty() => Some(extension),
            _ => None,
        }
    }

    /// The folder it lies in, if it is not at the top.
    pub fn parent(&self) -> Option<RelPath> {
        let (folder, _) = self.0.rsplit_once('/')?;
        // A folder may be called `x#L3` while the path below it is fine.
        RelPath::parse(folder).ok()
    }

    /// This path with `below` under it, if the whole is still safe.
    pub fn join(&self, below: &RelPath) -> Result<RelPath, PathError> {
        RelPath::parse(&format!("{}/{}", self.0, below.0))
    }
}

/// The rules, in one place.
pub(super) fn check(text: &str) -> Result<(), UnsafePath> {
    if text.is_empty() {
        return Err(UnsafePath::Empty);
    }
    if text.len() > limits::PATH_MAX_BYTES {
        return Err(UnsafePath::TooLong);
    }
    if text.starts_with('/') {
        return Err(UnsafePath::Absolute);
    }
    for part in text.split('/') {
        match part {
            "" => return Err(UnsafePath::EmptyPart),
            "." => return Err(UnsafePath::Dot),
            ".." => return Err(UnsafePath::Parent),
            _ if part.len() > limits::PATH_PART_MAX_BYTES => return Err(UnsafePath::PartTooLong),
            _ => {}
        }
    }
    if text.contains('\\') {
        return Err(UnsafePath::Backslash);
    }
    if text.chars().any(char::is_control) {
        return Err(UnsafePath::Control);
    }
    if lines::suffix_start(text).is_some() {
        return Err(UnsafePath::LineRange);
    }
    Ok(())
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelPath({})", self.0)
    }
}

impl FromStr for RelPath {
    type Err = PathError;
    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl Borrow<str> for RelPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for RelPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_parsed(deserializer, "a safe relative path", Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_refuses_its_own_case() {
        let long_part = "p".repeat(256);
        let long_path = format!("{}z", "dir/".repeat(256));
        let cases = [
            ("", UnsafePath::Empty),
            ("/etc/passwd", UnsafePath::Absolute),
            ("..", UnsafePath::Parent),
            ("a/../b", UnsafePath::Parent),
            ("./a", UnsafePath::Dot),
            ("a//b", UnsafePath::EmptyPart),
            ("a/", UnsafePath::EmptyPart),
            ("a\\b", UnsafePath::Backslash),
            ("a\0b", UnsafePath::Control),
            ("a\nb", UnsafePath::Control),
            ("a\u{7f}", UnsafePath::Control),
            ("a\u{85}", UnsafePath::Control),
            (long_part.as_str(), UnsafePath::PartTooLong),
            (long_path.as_str(), UnsafePath::TooLong),
            ("a.md#L3", UnsafePath::LineRange),
            ("a.md#L3-9", UnsafePath::LineRange),
        ];
        for (text, why) in cases {
            assert_eq!(check(text), Err(why), "{text:?}");
            assert_eq!(RelPath::parse(text).unwrap_err().code(), "unsafe_path");
        }
    }

    #[test]
    fn ordinary_and_odd_but_safe_names_are_kept_as_they_are() {
        for text in [
            "a",
            "...",
            "a b/c.md",
            "файл.txt",
            "c#.md",
            "#L",
            ".hidden",
            "a:b",
            &"p".repeat(255),
        ] {
            assert_eq!(RelPath::parse(text).map(|p| p.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn parts_are_read_from_the_text() {
        let path = RelPath::parse("a/b.tar.gz").unwrap();
        assert_eq!(path.parts().collect::<Vec<_>>(), ["a", "b.tar.gz"]);
        assert_eq!((path.file_name(), path.extension()), ("b.tar.gz", Some("gz")));
        assert_eq!(path.parent(), RelPath::parse("a").ok());
        assert_eq!(RelPath::parse(".env").unwrap().extension(), None);
        let joined = path
            .parent()
            .unwrap()
            .join(&RelPath::parse("c/d").unwrap())
            .unwrap();
        assert_eq!(joined.as_str(), "a/c/d");
    }
}
