//! The default backend: processes of this machine, isolated by all the layers the kernel has.
//!
//! What each layer is for, and what none of them holds, is in `docs/sandbox.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_files::Links;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::context::{self, ContextService, server};
use crate::files::FileOps;
use crate::host::{self, HostSandbox};
use crate::interpreters;
use crate::language::Language;
use crate::limits::{Bound, Limits};
use crate::own_directories;
use crate::owners::Claim;
use crate::process::cgroup::{self, Group, Hierarchy};
use crate::process::client::{self, SupervisorHandle};
use crate::process::wire::OpenRequest;
use crate::sandbox::{Backend, Capabilities, LocalTree, OpenError, Opening, Sandbox};
use crate::spec::{Layer, SandboxSpec};

/// Where the workspace appears inside: says nothing about the host.
pub const WORKSPACE: &str = "/workspace";

/// The identity of a sandbox that root opened, as the host sees it.
const NOBODY: u32 = 65534;

/// A directory or file of this machine and where it appears inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bind {
    pub(crate) host: PathBuf,
    pub(crate) inside: PathBuf,
}

/// Isolated processes of this machine.
#[derive(Debug, Default, Clone)]
pub struct Local {
    read_only: Vec<Bind>,
}

impl Local {
    /// The backend; it holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a directory or file of this machine in every sandbox, at the absolute path `inside`, read-only.
    #[must_use]
    pub fn read_only(mut self, host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> Self {
        self.read_only.push(Bind {
            host: host.into(),
            inside: inside.into(),
        });
        self
    }
}

#[async_trait]
impl Backend for Local {
    fn name(&self) -> &str {
        "local"
    }

    fn isolates(&self) -> bool {
        true
    }

    fn bounds(&self, limits: &Limits) -> Vec<Bound> {
        limits.bounds()
    }

    async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        let isolated = Isolated {
            layers: opening.spec.isolation.layers(),
            limited: Limited::Yes,
            read_only: self.read_only.clone(),
            writable: Vec::new(),
            listens_on: None,
        };
        open(opening, isolated).await
    }
}

/// How a backend of this machine isolates.
pub(crate) struct Isolated {
    pub(crate) layers: BTreeSet<Layer>,
    pub(crate) limited: Limited,
    pub(crate) read_only: Vec<Bind>,
    /// Directories beside the workspace that programs may change.
    pub(crate) writable: Vec<Bind>,
    /// A port of the sandbox's own loopback to listen on.
    pub(crate) listens_on: Option<u16>,
}

/// Whether resource limits are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limited {
    Yes,
    No,
}

pub(crate) async fn open(opening: Opening, isolated: Isolated) -> Result<Arc<dyn Sandbox>, OpenError> {
    let closed = CancellationToken::new();
    let claim = Claim::enter(&opening.spec.name, &closed)?;
    let context = opening.context.clone();
    let prepared = tokio::task::spawn_blocking(move || prepare(opening, isolated)).await;
    let prepared = prepared.map_err(|error| OpenError::Launcher {
        reason: error.to_string(),
    })??;
    Ok(Arc::new(prepared.into_sandbox(claim, closed, context)?))
}

/// Everything blocking that opening takes is done.
pub(crate) struct Prepared {
    spec: SandboxSpec,
    files: FileOps,
    own_directory: Option<TempDir>,
    pub(crate) opened: client::Built,
}

pub(crate) fn prepare(opening: Opening, isolated: Isolated) -> Result<Prepared, OpenError> {
    let Opening { spec, local, context } = opening;
    let refused = |error: io::Error| OpenError::Workspace {
        reason: error.to_string(),
    };
    check(&spec, isolated.read_only.iter().chain(&isolated.writable))?;
    let own_directory = match &local {
        Some(tree) => std::fs::create_dir_all(tree.directory()).map(|()| None),
        None => own_directories::make().map(Some),
    };
    let own_directory = own_directory.map_err(refused)?;
    let root = own_directory
        .as_ref()
        .map(TempDir::path)
        .or(local.as_ref().map(LocalTree::directory))
        .unwrap_or(Path::new("."));
    let root = std::fs::canonicalize(root).map_err(refused)?;
    let inside = if isolated.layers.contains(&Layer::Mount) {
        PathBuf::from(WORKSPACE)
    } else {
        root.clone()
    };
    let writable: Option<Vec<PathBuf>> = spec
        .writable_subdirs
        .as_ref()
        .map(|subdirs| subdirs.iter().map(PathBuf::from).collect());
    let files = FileOps::open(&root, &inside, writable.clone()).map_err(refused)?;
    make_writable(&files, writable.iter().flatten())?;

    let mut layers = isolated.layers;
    let (group, entries) = make_group(&mut layers, &spec.limits)?;
    let prefixes = interpreters::all()
        .flat_map(|interpreter| interpreter.prefixes.iter().cloned())
        .collect();
    let request = OpenRequest {
        workspace: Some(root),
        inside,
        owner: files.root.owner(),
        writable_subdirs: writable,
        read_only: isolated.read_only,
        writable: isolated.writable,
        has_context: context.is_some(),
        listens_on: isolated.listens_on,
        prefixes,
        layers,
        cgroup_bounds_memory: group.is_some() && cgroup::hierarchy().is_ok_and(Hierarchy::bounds_memory),
        limits: (isolated.limited == Limited::Yes).then(|| spec.limits.clone()),
        cgroups: group
            .as_ref()
            .map(|group| group.directories().to_vec())
            .unwrap_or_default(),
        helper: None,
    };
    let asked = client::ask_to_open(request, &entries)?;
    // The launcher has heard of them and removes them when the sandbox has ended.
    group.map(Group::into_directories);
    Ok(Prepared {
        spec,
        files,
        own_directory,
        opened: asked.answer()?,
    })
}

/// What can be said about a spec without building anything.
fn check<'b>(spec: &SandboxSpec, binds: impl Iterator<Item = &'b Bind>) -> Result<(), OpenError> {
    let wrong = |reason: String| Err(OpenError::Spec { reason });
    for bind in binds {
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
        let mut parts = Path::new(subdir).components();
        let is_plain = parts.all(|part| matches!(part, std::path::Component::Normal(_)));
        if subdir.is_empty() || !is_plain {
            return wrong(format!("`{subdir}` must be a relative path below the workspace"));
        }
    }
    Ok(())
}

fn make_writable<'d>(files: &FileOps, subdirs: impl Iterator<Item = &'d PathBuf>) -> Result<(), OpenError> {
    for subdir in subdirs {
        files
            .root
            .make_dir(subdir, Links::Never)
            .map_err(|errno| OpenError::Workspace {
                reason: format!("`{}`: {}", subdir.display(), io::Error::from(errno)),
            })?;
    }
    Ok(())
}

/// Cgroups are used where the machine grants them; where not, the layer is taken off the list.
pub(crate) fn make_group(
    layers: &mut BTreeSet<Layer>,
    limits: &Limits,
) -> Result<(Option<Group>, Vec<OwnedFd>), OpenError> {
    if !layers.contains(&Layer::Cgroup) {
        return Ok((None, Vec::new()));
    }
    let Ok(hierarchy) = cgroup::hierarchy() else {
        layers.remove(&Layer::Cgroup);
        return Ok((None, Vec::new()));
    };
    let (group, entries) = Group::make(hierarchy, limits).map_err(|error| OpenError::LayerMissing {
        layer: Layer::Cgroup,
        reason: error.to_string(),
    })?;
    Ok((Some(group), entries))
}

/// The environment of every program in a sandbox with these layers, before its own.
pub(crate) fn base_env(layers: &BTreeSet<Layer>, scratch: &Path) -> BTreeMap<String, String> {
    if layers.contains(&Layer::Mount) {
        isolated_env(scratch)
    } else {
        host_env(scratch)
    }
}

/// Who must own the pipes of a program, where it runs under another identity than this process.
pub(crate) fn pipe_owner(layers: &BTreeSet<Layer>) -> Option<u32> {
    let becomes_nobody = rustix::process::geteuid().is_root() && layers.contains(&Layer::UnprivilegedUid);
    becomes_nobody.then_some(NOBODY)
}

impl Prepared {
    /// The workspace as programs see it.
    pub(crate) fn inside(&self) -> &Path {
        self.files.inside()
    }

    fn into_sandbox(
        self,
        claim: Claim,
        closed: CancellationToken,
        context: Option<Arc<dyn ContextService>>,
    ) -> Result<HostSandbox, OpenError> {
        let failed = |error: io::Error| OpenError::Launcher {
            reason: error.to_string(),
        };
        let client::Built {
            socket,
            layers,
            scratch,
            context: inside,
            listener: _,
        } = self.opened;
        let supervisor = SupervisorHandle::new(socket).map_err(failed)?;
        let mut env = base_env(&layers, &scratch);
        if let (Some((folder, listener)), Some(service)) = (inside, context) {
            server::serve(listener, service, closed.clone()).map_err(failed)?;
            add_context(&folder, &mut env);
        }
        env.extend(self.spec.env.clone());
        let programs = host::programs();
        let shell = programs
            .get(&Language::Bash)
            .cloned()
            .unwrap_or_else(|| PathBuf::from("/bin/sh"));
        let pipe_owner = pipe_owner(&layers);
        let capabilities = Capabilities {
            workspace: self.files.inside().to_owned(),
            works_in_place: self.own_directory.is_none(),
            read_only_parts: layers.contains(&Layer::Mount) || layers.contains(&Layer::Landlock),
            languages: programs.keys().copied().collect(),
            layers,
        };
        Ok(HostSandbox {
            spec: self.spec,
            files: Arc::new(self.files),
            _own_directory: self.own_directory,
            _claim: claim,
            supervisor,
            capabilities,
            env,
            programs,
            shell,
            pipe_owner,
            file_slots: HostSandbox::file_slots(),
            closed,
        })
    }
}

/// The variables by which programs find the context service in `folder`.
fn add_context(folder: &Path, env: &mut BTreeMap<String, String>) {
    let path = env.get("PATH").cloned().unwrap_or_default();
    env.extend(context::environment(&folder.to_string_lossy(), &path));
    let socket = folder.join(context::SOCKET);
    env.insert(
        "ANNALS_CTX_SOCKET".to_owned(),
        socket.to_string_lossy().into_owned(),
    );
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
