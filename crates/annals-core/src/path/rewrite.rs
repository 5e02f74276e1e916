//! Where a tool that writes may write: always below the current turn's `files`.
//!
//! Models name files in many ways; all of them end in one relative path. A path of another turn is not an
//! error, it is rewritten, and the caller tells the model so with `protocol_violation.path_rewritten`.

use super::kind::PathKind;
use super::physical::{self, Folder};
use super::{LogicalPath, PathError, RelPath};
use crate::ids::{TurnId, shown};

/// A file of the current turn that a tool may write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteTarget {
    /// The path below the current turn's `files`.
    pub rel: RelPath,
    /// What the model wrote, if that names another place and the model must be told.
    pub rewritten_from: Option<String>,
}

impl WriteTarget {
    /// The logical path of the file in `current`.
    pub fn logical(&self, current: &TurnId) -> LogicalPath {
        LogicalPath::file(current, &self.rel)
    }
}

/// The file that `input` means for a tool that writes in the turn `current`.
///
/// Takes a plain relative path, one below `files/`, a physical path or an `fi:` path. `files/` never nests and
/// `./` means nothing. The current turn's own files give no notice; another turn's namespace, and attachments
/// of any turn (they are the user's), are rewritten. Unsafe paths and paths of other families are refused.
pub fn target(input: &str, current: &TurnId) -> Result<WriteTarget, PathError> {
    let mut moved = false;
    let plain = if is_logical(input) {
        let path = LogicalPath::parse(input)?;
        match path.kind() {
            PathKind::File { turn, rel } => {
                moved = turn != current.as_str();
                rel.to_owned()
            }
            PathKind::Attachment { name, .. } => {
                moved = true;
                name.to_owned()
            }
            _ => return Err(PathError::NotWritable { given: shown(input) }),
        }
    } else {
        without_dots(input)
    };

    let mut rest = plain.as_str();
    loop {
        if let Some((turn, folder, rel)) = physical::strip(rest)? {
            moved |= turn != current.as_str() || folder == Folder::Attachments;
            rest = rel;
        } else if let Some(below) = rest.strip_prefix("files/") {
            rest = below;
        } else {
            break;
        }
    }
    Ok(WriteTarget {
        rel: RelPath::parse(rest)?,
        rewritten_from: moved.then(|| input.to_owned()),
    })
}

fn is_logical(input: &str) -> bool {
    ["fi:", "ar:", "tc:", "so:", "su:", "sk:"]
        .iter()
        .any(|family| input.starts_with(family))
}

/// Drops `.` parts, which people and shells write freely.
fn without_dots(input: &str) -> String {
    let absolute = input.starts_with('/');
    let kept: Vec<&str> = input.split('/').filter(|part| *part != ".").collect();
    let joined = kept.join("/");
    // Dropping a part must not make a relative path absolute (`.//etc`), nor hide that it was.
    if !absolute && joined.starts_with('/') {
        input.to_owned()
    } else {
        joined
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(input: &str) -> String {
        let current = TurnId::parse("turn_999").unwrap();
        match target(input, &current) {
            Ok(WriteTarget {
                rel,
                rewritten_from: None,
            }) => rel.to_string(),
            Ok(WriteTarget {
                rel,
                rewritten_from: Some(from),
            }) => {
                assert_eq!(from, input);
                format!("{rel} (rewritten)")
            }
            Err(error) => error.code().to_owned(),
        }
    }

    #[test]
    fn every_way_to_name_a_file_ends_below_the_current_turn() {
        let cases = [
            "draft.md",
            "files/draft.md",
            "files/files/draft.md",
            "./a/./b.md",
            "turn_999/files/draft.md",
            "turn_999/files/files/draft.md",
            "fi:turn_999.files/a/b.md",
            "fi:turn_999.files/files/b.md",
            "turn_123/files/output.csv",
            "files/turn_123/files/output.csv",
            "fi:turn_123.files/output.csv",
            "turn_123/attachments/menu.pdf",
            "fi:turn_123.user.attachments/menu.pdf",
            "turn_999/attachments/menu.pdf",
            "ar:turn_123.artifacts.notes.md",
            "turn_123/notes.md",
            "filesystem/a",
            "../x",
            "/etc/passwd",
            ".//etc/passwd",
            "files/",
            "turn_123/files/../../x",
            "turn_123/files",
            "a\\b",
            "",
            ".",
            "fi:turn_123.code.c1",
            "tc:turn_123.c1.result",
            "so:sources_pool[1]",
            "fi:../x",
        ];
        let table: Vec<String> = cases
            .iter()
            .map(|input| format!("{input:34} -> {}", shape(input)))
            .collect();
        insta::assert_snapshot!(table.join("\n"), @r"
        draft.md                           -> draft.md
        files/draft.md                     -> draft.md
        files/files/draft.md               -> draft.md
        ./a/./b.md                         -> a/b.md
        turn_999/files/draft.md            -> draft.md
        turn_999/files/files/draft.md      -> draft.md
        fi:turn_999.files/a/b.md           -> a/b.md
        fi:turn_999.files/files/b.md       -> b.md
        turn_123/files/output.csv          -> output.csv (rewritten)
        files/turn_123/files/output.csv    -> output.csv (rewritten)
        fi:turn_123.files/output.csv       -> output.csv (rewritten)
        turn_123/attachments/menu.pdf      -> menu.pdf (rewritten)
        fi:turn_123.user.attachments/menu.pdf -> menu.pdf (rewritten)
        turn_999/attachments/menu.pdf      -> menu.pdf (rewritten)
        ar:turn_123.artifacts.notes.md     -> notes.md (rewritten)
        turn_123/notes.md                  -> turn_123/notes.md
        filesystem/a                       -> filesystem/a
        ../x                               -> unsafe_path
        /etc/passwd                        -> unsafe_path
        .//etc/passwd                      -> unsafe_path
        files/                             -> unsafe_path
        turn_123/files/../../x             -> unsafe_path
        turn_123/files                     -> unsafe_path
        a\b                                -> unsafe_path
                                           -> unsafe_path
        .                                  -> unsafe_path
        fi:turn_123.code.c1                -> invalid_path
        tc:turn_123.c1.result              -> invalid_path
        so:sources_pool[1]                 -> invalid_path
        fi:../x                            -> invalid_path
        ");
    }

    proptest! {
        #[test]
        fn a_target_is_safe_and_rewriting_it_again_changes_nothing(
            input in "(fi:)?(turn_[19]{1,3}[./])?(files/|user\\.attachments/|attachments/|\\./|\\.\\./){0,3}[a-z./]{0,8}"
        ) {
            let current = TurnId::parse("turn_999").unwrap();
            if let Ok(first) = target(&input, &current) {
                let logical = first.logical(&current);
                prop_assert!(logical.as_str().starts_with("fi:turn_999.files/"));
                for again in [first.rel.as_str(), logical.as_str(), logical.physical().unwrap().as_str()] {
                    let expected = WriteTarget { rel: first.rel.clone(), rewritten_from: None };
                    prop_assert_eq!(target(again, &current), Ok(expected));
                }
            }
        }
    }
}
