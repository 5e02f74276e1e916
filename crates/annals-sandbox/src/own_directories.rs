//! Workspaces that nobody placed: directories that live as long as their sandbox.

use std::io;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "annals-workspace-";

/// Makes one, and removes those whose maker was killed.
pub(crate) fn make() -> io::Result<TempDir> {
    let parent = std::env::temp_dir();
    remove_abandoned(&parent);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    TempDir::with_prefix_in(prefix, parent)
}

fn remove_abandoned(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if maker.is_some_and(|maker| !Path::new("/proc").join(maker).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_maker_leaves_nothing_for_long() {
        let parent = tempfile::tempdir().unwrap();
        // No process has this number: it is beyond the kernel's largest.
        let abandoned = parent.path().join(format!("{PREFIX}4194305-x"));
        let living = parent.path().join(format!("{PREFIX}{}-x", std::process::id()));
        std::fs::create_dir_all(abandoned.join("deep")).unwrap();
        std::fs::create_dir(&living).unwrap();
        remove_abandoned(parent.path());
        assert!(!abandoned.exists() && living.exists());
    }
}
