//! What executed code finds beside its workspace: the modules that talk to the conversation, and their socket.
//!
//! The files lie in a folder of their own for the duration of one call and appear inside read-only. In a sandbox
//! without a root of its own they are used where they lie.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use annals_sandbox::{Bind, Language, Layer, SandboxSpec, interpreters};
use tempfile::TempDir;

/// Where the kit appears inside.
const INSIDE: &str = "/run/annals";
const SOCKET: &str = "context.sock";

/// A kit on disk; removed when dropped.
pub(super) struct Kit {
    folder: TempDir,
    /// Where it appears to the code.
    seen_at: PathBuf,
}

impl Kit {
    /// Lays the files out for a sandbox of this spec.
    pub(super) fn lay_out(spec: &SandboxSpec, backend: &str) -> io::Result<Self> {
        let folder = TempDir::with_prefix("annals-kit-")?;
        let bin = folder.path().join("tools/bin");
        std::fs::create_dir_all(&bin)?;
        std::fs::write(
            folder.path().join("tools/context_tools.py"),
            include_str!("context_tools.py"),
        )?;
        std::fs::write(
            folder.path().join("tools/context_tools.js"),
            include_str!("context_tools.js"),
        )?;
        let command = bin.join("annals-ctx");
        std::fs::write(&command, include_str!("annals-ctx.sh"))?;
        std::fs::set_permissions(&command, std::fs::Permissions::from_mode(0o755))?;
        let has_own_root = backend != "trusted-host" && spec.isolation.layers().contains(&Layer::Mount);
        let seen_at = if has_own_root {
            PathBuf::from(INSIDE)
        } else {
            folder.path().to_owned()
        };
        Ok(Kit { folder, seen_at })
    }

    /// Where the socket lies on this machine.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    /// Makes the kit part of a sandbox. The socket must exist by now.
    pub(super) fn add_to(&self, spec: &mut SandboxSpec) {
        if self.seen_at != self.folder.path() {
            spec.read_only.push(Bind::new(
                self.folder.path().join("tools"),
                self.seen_at.join("tools"),
            ));
            spec.sockets
                .push(Bind::new(self.socket(), self.seen_at.join(SOCKET)));
        }
    }

    /// The variables by which code finds the kit.
    pub(super) fn env(&self, language: Language) -> BTreeMap<String, String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let tools = text(self.seen_at.join("tools"));
        let mut env = BTreeMap::from([
            ("ANNALS_CTX_SOCKET".to_owned(), text(self.seen_at.join(SOCKET))),
            ("PATH".to_owned(), format!("{tools}/bin:{}", self.search_path())),
        ]);
        match language {
            Language::Python => env.insert("PYTHONPATH".to_owned(), tools),
            Language::JavaScript => env.insert("NODE_PATH".to_owned(), tools),
            Language::Bash => None,
        };
        env
    }

    /// `PATH` as a sandbox has it when nobody sets it.
    fn search_path(&self) -> String {
        if self.seen_at == self.folder.path()
            && let Ok(path) = std::env::var("PATH")
        {
            return path;
        }
        let own = interpreters::all().filter_map(|interpreter| interpreter.program.parent());
        let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(Path::new);
        let mut path: Vec<String> = Vec::new();
        for directory in own.filter(|directory| !system.contains(directory)).chain(system) {
            let directory = directory.to_string_lossy().into_owned();
            if !path.contains(&directory) {
                path.push(directory);
            }
        }
        path.join(":")
    }
}
