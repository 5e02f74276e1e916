//! The Landlock ruleset of a sandbox: what may be read, and what may be changed. A second opinion beside the mounts.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};

use super::syscalls;
use super::wire::{OpenRequest, Refusal};
use crate::spec::Layer;

const KNOWN: ABI = ABI::V6;

/// Rules that are ready and bind nobody yet.
pub(super) struct LandlockRuleset(RulesetCreated);

impl LandlockRuleset {
    /// The rules for this sandbox; none, and the layer taken off the list, where the kernel has no Landlock.
    pub(super) fn build(request: &mut OpenRequest, scratch: &Path) -> Result<Option<Self>, Refusal> {
        if !request.has(Layer::Landlock) {
            return Ok(None);
        }
        if syscalls::landlock_version() == 0 {
            request.layers.remove(&Layer::Landlock);
            return Ok(None);
        }
        rules(request, scratch)
            .map(|rules| Some(Self(rules)))
            .map_err(|error| Refusal {
                layer: Some(Layer::Landlock),
                reason: error.to_string(),
            })
    }

    /// Binds this process and all its children, for good.
    pub(super) fn restrict_self(self) -> io::Result<()> {
        self.0.restrict_self().map(drop).map_err(io::Error::other)
    }
}

fn rules(request: &OpenRequest, scratch: &Path) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::from_read(KNOWN);
    let change = AccessFs::from_all(KNOWN) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?;
    for path in readable(request) {
        rules = allow(rules, &path, read)?;
    }
    for path in [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
    ]
    .map(PathBuf::from)
    {
        rules = allow(rules, &path, device)?;
    }
    for path in changeable(request, scratch) {
        rules = allow(rules, &path, change)?;
    }
    Ok(rules)
}

/// In a root of its own everything that is there may be read.
fn readable(request: &OpenRequest) -> Vec<PathBuf> {
    if request.has(Layer::Mount) {
        return vec!["/".into()];
    }
    let system = [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/etc",
        "/nix/store",
        "/proc",
        "/dev",
    ];
    let given = request.read_only.iter().map(|bind| bind.host.clone());
    let own = request.workspace.clone();
    let helper = request.helper.as_ref().map(|_| PathBuf::from("/proc/self/exe"));
    system
        .map(PathBuf::from)
        .into_iter()
        .chain(request.prefixes.clone())
        .chain(given)
        .chain(own)
        .chain(helper)
        .collect()
}

fn changeable(request: &OpenRequest, scratch: &Path) -> Vec<PathBuf> {
    let workspace: Vec<PathBuf> = match &request.writable_subdirs {
        Some(subdirs) => subdirs.iter().map(|subdir| request.inside.join(subdir)).collect(),
        None => request.workspace.iter().map(|_| request.inside.clone()).collect(),
    };
    let mut paths = vec![scratch.to_owned()];
    if request.has(Layer::Mount) {
        paths.push("/dev/shm".into());
    }
    paths.extend(workspace);
    paths.extend(request.writable.iter().map(|bind| bind.inside.clone()));
    paths
}

/// A place that does not exist needs no rule.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(handle) if path.is_dir() => rules.add_rule(PathBeneath::new(handle, access)),
        Ok(handle) => rules.add_rule(PathBeneath::new(handle, access & AccessFs::from_file(KNOWN))),
        Err(_) => Ok(rules),
    }
}
