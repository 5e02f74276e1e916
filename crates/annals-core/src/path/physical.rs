//! Where a file lies below OUT_DIR.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::{PathError, UnsafePath};
use super::{LogicalPath, RelPath, relative};
use crate::ids::{TurnId, deserialize_parsed, is_turn_id, shown};

/// The folder of a turn that a file lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Folder {
    /// `files`: what tools produced.
    Files,
    /// `attachments`: what the user gave.
    Attachments,
}

impl Folder {
    /// Its name on disk.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Attachments => "attachments",
        }
    }
}

/// `<turn>/files/<rel>` or `<turn>/attachments/<name>`, relative to OUT_DIR.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalPath {
    text: Arc<str>,
    turn_end: u8,
    folder: Folder,
}

const FORM: &str = "`<turn>/files/<path>` or `<turn>/attachments/<name>`";

impl PhysicalPath {
    /// Where a file of `turn` lies.
    pub fn file(turn: &TurnId, rel: &RelPath) -> Self {
        Self::build(turn.as_str(), Folder::Files, rel.as_str())
    }

    /// Where an attachment of `turn` lies.
    pub fn attachment(turn: &TurnId, name: &RelPath) -> Self {
        Self::build(turn.as_str(), Folder::Attachments, name.as_str())
    }

    /// Both parts are already known to be well formed.
    pub(super) fn build(turn: &str, folder: Folder, rel: &str) -> Self {
        debug_assert!(is_turn_id(turn) && relative::check(rel).is_ok());
        Self {
            text: Arc::from(format!("{turn}/{}/{rel}", folder.as_str())),
            turn_end: turn.len() as u8,
            folder,
        }
    }

    /// Reads a physical path.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let Some((turn, folder, rel)) = split(text) else {
            return Err(PathError::malformed(text, FORM));
        };
        relative::check(rel).map_err(|why| PathError::unsafe_path(text, why))?;
        Ok(Self {
            text: Arc::from(text),
            turn_end: turn.len() as u8,
            folder,
        })
    }

    /// The path as text, relative to OUT_DIR.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The turn whose folder it is.
    pub fn turn(&self) -> &str {
        &self.text[..usize::from(self.turn_end)]
    }

    /// The turn whose folder it is, as an id of its own.
    pub fn turn_id(&self) -> TurnId {
        TurnId::checked(self.turn())
    }

    /// Which folder of the turn.
    pub fn folder(&self) -> Folder {
        self.folder
    }

    /// The path below that folder.
    pub fn rel(&self) -> RelPath {
        RelPath::checked(self.rel_str())
    }

    fn rel_str(&self) -> &str {
        &self.text[usize::from(self.turn_end) + self.folder.as_str().len() + 2..]
    }

    /// The name the model uses for the same file.
    pub fn logical(&self) -> LogicalPath {
        LogicalPath::from_physical(self.turn(), self.folder, self.rel_str())
    }
}

/// Splits `<turn>/<folder>/<rest>` without judging the rest; none when it does not begin like that.
pub(super) fn split(text: &str) -> Option<(&str, Folder, &str)> {
    let (turn, rest) = text.split_once('/')?;
    let (folder, rel) = rest.split_once('/').unwrap_or((rest, ""));
    let folder = match folder {
        "files" => Folder::Files,
        "attachments" => Folder::Attachments,
        _ => return None,
    };
    is_turn_id(turn).then_some((turn, folder, rel))
}

/// Splits off a leading `<turn>/<folder>/` and refuses one with nothing after it.
pub(super) fn strip(text: &str) -> Result<Option<(&str, Folder, &str)>, PathError> {
    match split(text) {
        Some((_, _, "")) => Err(PathError::Unsafe {
            given: shown(text),
            why: UnsafePath::Empty,
        }),
        found => Ok(found),
    }
}

impl fmt::Display for PhysicalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for PhysicalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PhysicalPath({})", self.text)
    }
}

impl FromStr for PhysicalPath {
    type Err = PathError;
    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

impl Serialize for PhysicalPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for PhysicalPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_parsed(deserializer, FORM, Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_physical_path_and_its_logical_path_name_each_other() {
        for (physical, logical) in [
            (
                "turn_1/files/reports/summary.md",
                "fi:turn_1.files/reports/summary.md",
            ),
            (
                "turn_1/attachments/menu.pdf",
                "fi:turn_1.user.attachments/menu.pdf",
            ),
        ] {
            let path = PhysicalPath::parse(physical).unwrap();
            assert_eq!(path.logical().as_str(), logical);
            assert_eq!(path.logical().physical(), Some(path));
        }
    }

    #[test]
    fn only_the_two_folders_of_a_turn_are_physical() {
        for bad in [
            "turn_1",
            "turn_1/files",
            "turn_1/files/",
            "turn_1/other/x",
            "x/files/y",
            "/turn_1/files/x",
        ] {
            assert!(PhysicalPath::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(
            PhysicalPath::parse("turn_1/files/../x").unwrap_err().code(),
            "unsafe_path"
        );
    }
}
