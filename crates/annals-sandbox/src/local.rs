//! The default backend: processes of this machine behind all the walls the kernel has.
//!
//! What each wall is for, and what none of them holds, is in `docs/sandbox.md`.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::files::Workspace;
use crate::host::{self, HostSandbox};
use crate::interpreters;
use crate::language::Language;
use crate::process::cgroup::{self, Group};
use crate::process::client::{self, KeeperHandle};
use crate::process::wire::{OpenRequest, Opened, Refusal};
use crate::sandbox::{Backend, Capabilities, OpenError, Sandbox};
use crate::spec::{Layer, SandboxSpec};

/// Where the workspace appears inside: says nothing about the host.
pub const WORKSPACE: &str = "/workspace";

/// The identity of a sandbox that root opened, as the host sees it.
const NOBODY: u32 = 65534;

/// Isolated processes of this machine.
#[derive(Debug, Default, Clone, Copy)]
pub struct Local;

impl Local {
    /// The backend; it holds nothing.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Backend for Local {
    fn name(&self) -> &str {
        "local"
    }

    async fn open(&self, spec: SandboxSpec) -> Result<Arc<dyn Sandbox>, OpenError> {
        let layers = spec.isolation.layers();
        let walls = Walls {
            layers,
            limited: Limited::Yes,
        };
        open(spec, walls).await
    }
}

/// Which walls a backend asks for.
pub(crate) struct Walls {
    pub(crate) layers: std::collections::BTreeSet<Layer>,
    pub(crate) limited: Limited,
}

/// Whether resource limits are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limited {
    Yes,
    No,
}

pub(crate) async fn open(spec: SandboxSpec, walls: Walls) -> Result<Arc<dyn Sandbox>, OpenError> {
    let prepared = tokio::task::spawn_blocking(move || prepare(spec, walls)).await;
    let prepared = prepared.map_err(|error| OpenError::Launcher {
        reason: error.to_string(),
    })??;
    Ok(Arc::new(prepared.into_sandbox()?))
}

/// Everything blocking that opening takes is done.
struct Prepared {
    spec: SandboxSpec,
    root: PathBuf,
    workspace: Workspace,
    socket: std::os::unix::net::UnixStream,
    layers: std::collections::BTreeSet<Layer>,
    scratch: PathBuf,
}

fn prepare(spec: SandboxSpec, walls: Walls) -> Result<Prepared, OpenError> {
    let refused = |error: io::Error| OpenError::Workspace {
        path: spec.workspace.clone(),
        reason: error.to_string(),
    };
    let root = std::fs::canonicalize(&spec.workspace).map_err(refused)?;
    let has_own_root = walls.layers.contains(&Layer::Mount);
    let inside = if has_own_root {
        PathBuf::from(WORKSPACE)
    } else {
        root.clone()
    };
    let workspace = Workspace::open(&root, &inside, spec.writable_subdirs.clone()).map_err(refused)?;
    check(&spec, &root)?;

    let mut layers = walls.layers;
    let (group, entries) = make_group(&mut layers, &spec)?;
    let prefixes = interpreters::all()
        .flat_map(|interpreter| interpreter.prefixes.iter().cloned())
        .collect();
    let request = OpenRequest {
        workspace: root.clone(),
        inside,
        owner: workspace.owner(),
        writable_subdirs: spec.writable_subdirs.clone(),
        read_only: spec.read_only.clone(),
        sockets: spec.sockets.clone(),
        prefixes,
        layers,
        limits: (walls.limited == Limited::Yes).then(|| spec.limits.clone()),
        cgroups: group
            .as_ref()
            .map(|group| group.directories().to_vec())
            .unwrap_or_default(),
    };
    let asked = client::ask_to_open(request, &entries)?;
    // The launcher has heard of them and removes them when the sandbox has ended.
    group.map(Group::into_directories);
    match asked.answer()? {
        (Opened::Ready { layers, scratch }, socket) => Ok(Prepared {
            spec,
            root,
            workspace,
            socket,
            layers,
            scratch,
        }),
        (
            Opened::Refused(Refusal {
                layer: Some(layer),
                reason,
            }),
            _,
        ) => Err(OpenError::LayerMissing { layer, reason }),
        (Opened::Refused(Refusal { layer: None, reason }), _) => Err(OpenError::Spec { reason }),
    }
}

/// What can be said about a spec without building anything.
fn check(spec: &SandboxSpec, root: &Path) -> Result<(), OpenError> {
    let wrong = |reason: String| Err(OpenError::Spec { reason });
    for bind in spec.read_only.iter().chain(&spec.sockets) {
        if !bind.inside.is_absolute() || bind.inside.components().any(|part| part.as_os_str() == "..") {
            return wrong(format!(
                "`{}` must be an absolute path inside",
                bind.inside.display()
            ));
        }
        if !bind.host.exists() {
            return wrong(format!("`{}` does not exist", bind.host.display()));
        }
    }
    for subdir in spec.writable_subdirs.iter().flatten() {
        let plain = subdir
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        if !plain || !root.join(subdir).is_dir() {
            return wrong(format!(
                "`{}` must be a directory below the workspace",
                subdir.display()
            ));
        }
    }
    Ok(())
}

/// Cgroups are used where the machine grants them; where not, the layer is taken off the list.
fn make_group(
    layers: &mut std::collections::BTreeSet<Layer>,
    spec: &SandboxSpec,
) -> Result<(Option<Group>, Vec<OwnedFd>), OpenError> {
    if !layers.contains(&Layer::Cgroup) {
        return Ok((None, Vec::new()));
    }
    let Ok(hierarchy) = cgroup::hierarchy() else {
        layers.remove(&Layer::Cgroup);
        return Ok((None, Vec::new()));
    };
    let (group, entries) = Group::make(hierarchy, &spec.limits).map_err(|error| OpenError::LayerMissing {
        layer: Layer::Cgroup,
        reason: error.to_string(),
    })?;
    Ok((Some(group), entries))
}

impl Prepared {
    fn into_sandbox(self) -> Result<HostSandbox, OpenError> {
        let keeper = KeeperHandle::new(self.socket).map_err(|error| OpenError::Launcher {
            reason: error.to_string(),
        })?;
        let isolated = self.layers.contains(&Layer::Mount);
        let becomes_nobody =
            rustix::process::geteuid().is_root() && self.layers.contains(&Layer::UnprivilegedUid);
        let programs = host::programs();
        let capabilities = Capabilities {
            workspace: self.workspace.inside().to_owned(),
            languages: programs.keys().copied().collect(),
            layers: self.layers,
        };
        let mut env = if isolated {
            isolated_env(&self.scratch)
        } else {
            host_env(&self.scratch)
        };
        env.extend(self.spec.env.clone());
        let shell = programs
            .get(&Language::Bash)
            .cloned()
            .unwrap_or_else(|| PathBuf::from("/bin/sh"));
        Ok(HostSandbox {
            spec: self.spec,
            root: self.root,
            workspace: Arc::new(self.workspace),
            keeper,
            capabilities,
            env,
            programs,
            shell,
            pipe_owner: becomes_nobody.then_some(NOBODY),
            file_slots: HostSandbox::file_slots(),
            closed: CancellationToken::new(),
        })
    }
}

/// `PATH`, `HOME`, `LANG`, and that Python leaves no caches among the user's files; nothing of the host.
fn isolated_env(scratch: &Path) -> BTreeMap<String, String> {
    let own = interpreters::all().filter_map(|interpreter| interpreter.program.parent());
    let system = [
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
        "/usr/local/sbin",
        "/usr/sbin",
        "/sbin",
    ]
    .map(Path::new);
    let mut path: Vec<&str> = Vec::new();
    for directory in own
        .filter(|directory| !system.contains(directory))
        .chain(system)
        .filter_map(Path::to_str)
    {
        if !path.contains(&directory) {
            path.push(directory);
        }
    }
    [
        ("PATH", path.join(":")),
        ("HOME", scratch.to_string_lossy().into_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The same variables with the host's values.
fn host_env(scratch: &Path) -> BTreeMap<String, String> {
    let mut env = isolated_env(scratch);
    for name in ["PATH", "HOME", "LANG"] {
        if let Ok(value) = std::env::var(name) {
            env.insert(name.to_owned(), value);
        }
    }
    env
}
