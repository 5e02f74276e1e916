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
    reach: Reach,
}

/// How code reaches the kit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// At a place of its own inside the sandbox.
    Inside,
    /// Where it lies: the sandbox has no root of its own.
    InPlace,
    /// Not at all: the code runs on another machine.
    Nowhere,
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
        let reach = match backend {
            "local" if spec.isolation.layers().contains(&Layer::Mount) => Reach::Inside,
            "local" | "trusted-host" => Reach::InPlace,
            _ => Reach::Nowhere,
        };
        Ok(Kit { folder, reach })
    }

    /// Where the socket lies on this machine.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join(SOCKET)
    }

    /// Where the kit appears to the code.
    fn seen_at(&self) -> &Path {
        match self.reach {
            Reach::Inside => Path::new(INSIDE),
            Reach::InPlace | Reach::Nowhere => self.folder.path(),
        }
    }

    /// Makes the kit part of a sandbox. The socket must exist by now.
    pub(super) fn add_to(&self, spec: &mut SandboxSpec) {
        if self.reach == Reach::Inside {
            let tools = Bind::new(self.folder.path().join("tools"), self.seen_at().join("tools"));
            spec.read_only.push(tools);
            spec.sockets
                .push(Bind::new(self.socket(), self.seen_at().join(SOCKET)));
        }
    }

    /// The variables by which code finds the kit.
    pub(super) fn env(&self, language: Language) -> BTreeMap<String, String> {
        if self.reach == Reach::Nowhere {
            return BTreeMap::new();
        }
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let tools = text(self.seen_at().join("tools"));
        let mut env = BTreeMap::from([
            ("ANNALS_CTX_SOCKET".to_owned(), text(self.seen_at().join(SOCKET))),
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
        if self.reach == Reach::InPlace
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
