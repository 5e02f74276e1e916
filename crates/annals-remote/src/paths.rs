//! Paths below a workspace, by their text alone; links are looked at inside.

use std::path::{Component, Path};

use annals_sandbox::{Failure, FailureKind};

/// The path of a workspace inside a sandbox, without a slash at its end, if it can be one.
pub(crate) fn workspace_path(text: &str) -> Option<&str> {
    let path = text.trim_end_matches('/');
    let is_plain = !path.split('/').any(|part| matches!(part, "." | ".."));
    (path.starts_with('/') && is_plain && !path.contains('\0')).then_some(path)
}

/// The path relative to the workspace.
pub(crate) fn relative(workspace: &Path, path: &str) -> Result<String, Failure> {
    let violation = |why: &str| {
        let message = format!("path `{}` {why}", path.escape_debug());
        Failure::new(FailureKind::PathViolation, message)
    };
    if path.is_empty() {
        return Err(violation("is empty; use `.` for the workspace itself"));
    }
    if path.contains('\0') {
        return Err(violation("contains a NUL character"));
    }
    let below = match Path::new(path).strip_prefix(workspace) {
        Ok(below) => below,
        Err(_) if path.starts_with('/') => {
            return Err(violation("is absolute; name files relative to the workspace"));
        }
        Err(_) => Path::new(path),
    };
    let mut parts = Vec::new();
    for component in below.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => parts.push(name.to_string_lossy()),
            _ => return Err(violation("leads upwards; name files below the workspace")),
        }
    }
    Ok(if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_the_workspace_or_refused() {
        let inside = |path: &str| relative(Path::new("/inside"), path).map_err(|failure| failure.kind);
        assert_eq!(inside("a/./b"), Ok("a/b".to_owned()));
        assert_eq!(inside("/inside/a"), Ok("a".to_owned()));
        assert_eq!(inside("."), Ok(".".to_owned()));
        for path in [
            "",
            "..",
            "a/../b",
            "/etc/passwd",
            "//etc",
            "a\0b",
            "/inside/../etc",
        ] {
            assert_eq!(inside(path), Err(FailureKind::PathViolation), "{path}");
        }
    }
}
