//! The context service's part inside: its files, and a socket that only this sandbox's programs can reach.
//!
//! The socket is made here and its listening end handed to Annals, so that it exists nowhere but in the sandbox and
//! ends with it, also when Annals is killed.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use crate::context::{FILES, SOCKET};

/// Where the folder appears in a root of the sandbox's own.
pub(super) const FOLDER: &str = "/run/annals";

/// A folder with a socket that listens.
pub(super) struct ContextSocket {
    /// As programs see it.
    pub(super) folder: PathBuf,
    pub(super) listener: UnixListener,
}

/// Lays the folder out at `at`, which programs will see as `seen_at`.
pub(super) fn make(at: &Path, seen_at: &Path) -> io::Result<ContextSocket> {
    for file in FILES {
        let path = at.join(file.path);
        std::fs::create_dir_all(path.parent().unwrap_or(at))?;
        std::fs::write(&path, file.text)?;
        let mode = if file.executable { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, Permissions::from_mode(mode))?;
    }
    let socket = at.join(SOCKET);
    let listener = UnixListener::bind(&socket)?;
    // Programs inside are somebody else, and connecting takes the right to write.
    std::fs::set_permissions(&socket, Permissions::from_mode(0o666))?;
    Ok(ContextSocket {
        folder: seen_at.to_owned(),
        listener,
    })
}
