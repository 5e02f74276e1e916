//! What a sandbox is made of: whose it is, what it may write, its limits, and which layers isolate it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;

/// Everything that can be written down of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Whose it is.
    pub name: SandboxName,
    /// If given, the workspace is read-only but for these directories below it, which are made if they are missing.
    #[serde(default)]
    pub writable_subdirs: Option<Vec<String>>,
    /// Added to the environment of every command.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Bounds on every command.
    #[serde(default)]
    pub limits: Limits,
    /// Which layers isolate it.
    #[serde(default)]
    pub isolation: Isolation,
}

impl SandboxSpec {
    /// A sandbox of this name, fully isolated, all else by default.
    pub fn new(name: SandboxName) -> Self {
        Self {
            name,
            writable_subdirs: None,
            env: BTreeMap::new(),
            limits: Limits::default(),
            isolation: Isolation::Full,
        }
    }
}

/// Names a sandbox: the conversation it belongs to, and the fencing token of the owner that opened it. An owner that
/// takes the conversation over has a larger token, and its sandbox replaces those of smaller ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SandboxName {
    /// The conversation, told apart from all others.
    pub conversation: String,
    /// The owner's fencing token.
    pub token: u64,
}

impl SandboxName {
    /// The sandbox of this conversation under this token.
    pub fn new(conversation: impl Into<String>, token: u64) -> Self {
        Self {
            conversation: conversation.into(),
            token,
        }
    }
}

impl fmt::Display for SandboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.conversation, self.token)
    }
}

/// Which layers isolate a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Every layer; a required one that the machine lacks is an error.
    #[default]
    Full,
    /// Every layer but those named: weaker, and only because somebody asked for it.
    WithoutLayers(Vec<Layer>),
}

impl Isolation {
    /// The layers to build.
    pub fn layers(&self) -> BTreeSet<Layer> {
        match self {
            Self::Full => Layer::ALL.into(),
            Self::WithoutLayers(gone) => Layer::ALL
                .into_iter()
                .filter(|layer| !gone.contains(layer))
                .collect(),
        }
    }
}

/// One isolation layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Layer {
    /// Own user namespace: identities and capabilities inside mean nothing outside.
    User,
    /// Own mount namespace with a root made only of what programs need.
    Mount,
    /// Own process namespace: sees only its own, and dies as one.
    Pid,
    /// Own System V and POSIX message queues and shared memory.
    Ipc,
    /// Own host name.
    Uts,
    /// Own network without any interface but a loopback of its own.
    Net,
    /// When started by root: files and processes belong to an unprivileged identity (id-mapped mounts).
    UnprivilegedUid,
    /// System calls that programs do not need are refused.
    Seccomp,
    /// A second, independent rule about which files may be touched. Used where the kernel has it.
    Landlock,
    /// Memory and process count of the sandbox as a whole. Used where the machine grants it.
    Cgroup,
}

impl Layer {
    /// All of them, outermost first.
    pub const ALL: [Self; 10] = [
        Self::User,
        Self::Mount,
        Self::Pid,
        Self::Ipc,
        Self::Uts,
        Self::Net,
        Self::UnprivilegedUid,
        Self::Seccomp,
        Self::Landlock,
        Self::Cgroup,
    ];

    /// Whether a sandbox is refused when the machine lacks it.
    pub fn is_required(self) -> bool {
        !matches!(self, Self::Landlock | Self::Cgroup)
    }

    /// Its name, as settings and messages write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Mount => "mount",
            Self::Pid => "pid",
            Self::Ipc => "ipc",
            Self::Uts => "uts",
            Self::Net => "net",
            Self::UnprivilegedUid => "unprivileged-uid",
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::Cgroup => "cgroup",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No layer has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown isolation layer `{0}`; layers are user, mount, pid, ipc, uts, net, unprivileged-uid, seccomp, landlock, cgroup"
)]
pub struct UnknownLayer(pub String);

impl FromStr for Layer {
    type Err = UnknownLayer;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|layer| layer.as_str() == name)
            .ok_or_else(|| UnknownLayer(name.to_owned()))
    }
}
