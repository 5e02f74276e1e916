//! What Annals, launcher, supervisors and inits say to each other: JSON with a length before it, and file descriptors.

use std::collections::BTreeSet;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::local::Bind;
use crate::spec::Layer;

/// Most descriptors one message carries.
const MAX_FDS: usize = 8;

/// Largest message: code and arguments travel in it.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// Asked of the launcher.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToLauncher {
    /// Open a sandbox. Descriptors: the supervisor's socket, then the cgroup membership files to enter.
    Open(OpenRequest),
    /// Say which layers this machine has. Descriptor: a socket for the [`crate::facts::LayerFact`]s.
    Probe,
}

/// How to build one sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpenRequest {
    /// Absent for a helper process, which has none.
    pub(crate) workspace: Option<PathBuf>,
    /// Where the workspace appears; the same as `workspace` when there is no mount layer.
    pub(crate) inside: PathBuf,
    /// User and group that own the workspace.
    pub(crate) owner: (u32, u32),
    pub(crate) writable_subdirs: Option<Vec<PathBuf>>,
    pub(crate) read_only: Vec<Bind>,
    /// Directories beside the workspace that programs may change. Their files belong to the workspace's owner.
    pub(crate) writable: Vec<Bind>,
    /// Whether programs inside get the context service; its listening socket comes back with [`Opened::Ready`].
    pub(crate) has_context: bool,
    /// A port of the sandbox's own loopback; the socket that listens there comes back with [`Opened::Ready`].
    pub(crate) listens_on: Option<u16>,
    pub(crate) prefixes: Vec<PathBuf>,
    pub(crate) layers: BTreeSet<Layer>,
    /// Whether a cgroup bounds the memory of the whole; where none does, it is counted.
    pub(crate) cgroup_bounds_memory: bool,
    /// Absent for a sandbox without any isolation.
    pub(crate) limits: Option<Limits>,
    /// Directories of the sandbox's cgroups, to be removed when it has ended.
    pub(crate) cgroups: Vec<PathBuf>,
    /// Present for a helper process: its program is the launcher's own.
    pub(crate) helper: Option<HelperLimits>,
}

/// Bounds that only helper processes have.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct HelperLimits {
    pub(crate) address_space_bytes: Option<u64>,
}

impl OpenRequest {
    /// The parts of a request that a helper process has no use for.
    pub(crate) fn without_workspace() -> Self {
        Self {
            workspace: None,
            inside: PathBuf::from("/"),
            owner: (0, 0),
            writable_subdirs: None,
            read_only: Vec::new(),
            writable: Vec::new(),
            has_context: false,
            listens_on: None,
            prefixes: Vec::new(),
            layers: BTreeSet::new(),
            cgroup_bounds_memory: false,
            limits: None,
            cgroups: Vec::new(),
            helper: None,
        }
    }

    pub(crate) fn has(&self, layer: Layer) -> bool {
        self.layers.contains(&layer)
    }
}

/// A supervisor's only message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Opened {
    /// These layers are in force. Descriptors: the listening socket of the context service, then that of the loopback,
    /// as far as they were asked for.
    Ready {
        layers: BTreeSet<Layer>,
        /// Private directory that programs may write to.
        scratch: PathBuf,
        /// Folder of the context service as programs see it.
        context: Option<PathBuf>,
        /// Whether the loopback's listening socket comes along.
        is_listening: bool,
    },
    Refused(Refusal),
}

/// Why an isolation layer could not be set up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Refusal {
    /// The layer to blame, if it is one.
    pub(crate) layer: Option<Layer>,
    pub(crate) reason: String,
}

impl Refusal {
    pub(crate) fn of(layer: Layer, doing: &str, error: impl Into<io::Error>) -> Self {
        Self {
            layer: Some(layer),
            reason: format!("{doing}: {}", error.into()),
        }
    }

    pub(crate) fn plain(doing: &str, error: impl Into<io::Error>) -> Self {
        Self {
            layer: None,
            reason: format!("{doing}: {}", error.into()),
        }
    }
}

/// Asked of a supervisor. Descriptors: standard input, output, error, and the command's control socket.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunRequest {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: PathBuf,
    /// Source to put into a private file, whose path becomes the last argument.
    pub(crate) source: Option<Source>,
    /// Not to begin after this.
    pub(crate) not_after: Option<Moment>,
}

/// A moment by the clock that all processes of this machine share, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Moment(u64);

impl Moment {
    fn now() -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
    }

    pub(crate) fn of(instant: Instant) -> Self {
        let left = instant.saturating_duration_since(Instant::now()).as_nanos();
        Moment(Self::now().saturating_add(u64::try_from(left).unwrap_or(u64::MAX)))
    }

    pub(crate) fn has_passed(self) -> bool {
        Self::now() >= self.0
    }
}

/// Code on its way to an interpreter.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) file_name: String,
    pub(crate) text: String,
}

/// What an init, or its command before it becomes the program, reports on the control socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// A step before the program could start failed.
    Failed { step: LaunchStep, errno: i32 },
    /// The command ended with this wait status.
    Ended { status: i32 },
    /// The sandbox is beyond a bound, and the command is being ended for it.
    Exceeded(Exceeded),
}

/// A bound on the sandbox as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Exceeded {
    Memory = 1,
    WorkspaceBytes,
    WorkspaceFiles,
}

impl Exceeded {
    const ALL: [Self; 3] = [Self::Memory, Self::WorkspaceBytes, Self::WorkspaceFiles];
}

/// The steps between a request and a running program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum LaunchStep {
    Fork = 1,
    Proc,
    Identity,
    Cwd,
    Limits,
    Landlock,
    Filter,
    Exec,
    Source,
    /// It came too late.
    Late,
}

impl LaunchStep {
    const ALL: [Self; 10] = [
        Self::Fork,
        Self::Proc,
        Self::Identity,
        Self::Cwd,
        Self::Limits,
        Self::Landlock,
        Self::Filter,
        Self::Exec,
        Self::Source,
        Self::Late,
    ];
}

impl Report {
    pub(crate) const BYTES: usize = 12;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let (tag, first, second) = match self {
            Self::Failed { step, errno } => (1, step as i32, errno),
            Self::Ended { status } => (2, status, 0),
            Self::Exceeded(bound) => (3, bound as i32, 0),
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&i32::to_le_bytes(tag));
        bytes[4..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        match (word(0)?, word(4)?, word(8)?) {
            (1, step, errno) => {
                let step = LaunchStep::ALL.into_iter().find(|known| *known as i32 == step)?;
                Some(Self::Failed { step, errno })
            }
            (2, status, _) => Some(Self::Ended { status }),
            (3, bound, _) => {
                let bound = Exceeded::ALL.into_iter().find(|known| *known as i32 == bound)?;
                Some(Self::Exceeded(bound))
            }
            _ => None,
        }
    }
}

/// A message as it travels.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the request is too large",
        ));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// Sends the first part of an encoded message, with descriptors; returns how much went.
pub(crate) fn send_first(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors in one message",
        ));
    }
    Ok(rustix::net::sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?)
}

/// Sends a message over a blocking socket.
pub(crate) fn send(socket: &UnixStream, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = encode(message)?;
    let sent = send_first(socket, &bytes, fds)?;
    let mut writer = socket;
    writer.write_all(&bytes[sent..])
}

/// Receives a message from a blocking socket; `None` when the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: &UnixStream) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut length = [0; 4];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut length)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    let fds = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut reader = socket;
    reader.read_exact(&mut length[received.bytes..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message too large"));
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    Ok(Some((serde_json::from_slice(&bytes)?, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_survives_the_trip_and_noise_is_no_report() {
        for report in [
            Report::Ended { status: 256 },
            Report::Exceeded(Exceeded::WorkspaceFiles),
            Report::Failed {
                step: LaunchStep::Exec,
                errno: libc::ENOENT,
            },
            Report::Failed {
                step: LaunchStep::Source,
                errno: 1,
            },
        ] {
            assert_eq!(Report::parse(&report.to_bytes()), Some(report));
        }
        assert_eq!(Report::parse(&[9; Report::BYTES]), None);
        assert_eq!(Report::parse(&[1]), None);
    }

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (here, there) = UnixStream::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let request = RunRequest {
            argv: vec!["x".repeat(300_000)],
            env: vec![("A".into(), "b".into())],
            cwd: "/".into(),
            source: None,
            not_after: None,
        };
        let sender = std::thread::spawn(move || send(&here, &request, &[null.as_fd()]));
        let (received, fds) = receive::<RunRequest>(&there).unwrap().unwrap();
        sender.join().unwrap().unwrap();
        assert_eq!((received.argv[0].len(), fds.len()), (300_000, 1));
        assert!(receive::<RunRequest>(&there).unwrap().is_none());
    }
}
