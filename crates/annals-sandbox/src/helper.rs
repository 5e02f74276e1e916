//! A helper process in a sandbox of its own: this program in another [`Role`](crate::launcher::Role), behind the same
//! isolation layers as a command, without a workspace, and with a socket to the program that started it.
//!
//! For work on what strangers wrote. The helper has no network, no file of the user, an identity of its own and hard
//! limits; when it is dropped, everything in it is killed.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::launcher::{GREETING, Helper};
use crate::limits::Limits;
use crate::local;
use crate::process::cgroup::{self, Group, Hierarchy};
use crate::process::client::{self, SupervisorHandle};
use crate::process::rootfs::HELPER;
use crate::process::wire::{Exceeded, HelperLimits, OpenRequest, RunRequest};
use crate::sandbox::OpenError;
use crate::spec::{Isolation, Layer};

/// What a helper may write to its standard error before the rest is ignored: the last words of a runtime that aborts.
const LAST_WORDS_BYTES: usize = 8 << 10;

/// How long a helper may take to its first byte.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long a helper that was told to end may take to do so.
const ENDING: Duration = Duration::from_secs(10);

/// What a helper process is made of.
#[derive(Debug, Clone)]
pub struct HelperSpec {
    /// The role it serves.
    pub role: &'static str,
    /// Bounds. The memory bound holds for each process of the helper, and where there are cgroups for all together.
    pub limits: Limits,
    /// Bound of the address space, where it must differ from the usual one (programs that reserve far more than they
    /// use).
    pub address_space_bytes: Option<u64>,
    /// Isolation layers.
    pub isolation: Isolation,
    /// Its environment beside `PATH`, `HOME` and `LANG`.
    pub env: BTreeMap<String, String>,
}

/// A running helper process. Dropping it kills everything in it.
#[derive(Debug)]
pub struct HelperProcess {
    socket: UnixStream,
    stderr: pipe::Receiver,
    control: UnixStream,
    _supervisor: SupervisorHandle,
}

/// How a helper process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ending {
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// Its exit code, if it exited.
    pub exit_code: Option<i32>,
    /// Whether it was ended because its processes held too much memory together.
    pub is_over_memory: bool,
    /// The end of what it wrote to its standard error.
    pub last_words: String,
}

impl HelperProcess {
    /// Starts a helper and waits until it serves.
    pub async fn start(spec: HelperSpec) -> Result<Self, OpenError> {
        let failed = |error: io::Error| OpenError::Launcher {
            reason: error.to_string(),
        };
        let (role, env) = (spec.role, spec.env.clone());
        let opened = tokio::task::spawn_blocking(move || open(spec)).await;
        let (built, program) = opened.map_err(|error| failed(io::Error::other(error)))??;
        let supervisor = SupervisorHandle::new(built.socket).map_err(failed)?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let socket = UnixStream::from_std(ours).map_err(failed)?;
        let (stderr, their_stderr) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
        rustix::io::ioctl_fionbio(&stderr, true).map_err(|errno| failed(errno.into()))?;
        let null = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/null")
            .map_err(failed)?;
        let arguments = Helper::arguments(role).map(|argument| argument.to_string_lossy().into_owned());
        let mut environment: BTreeMap<String, String> = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", built.scratch.to_string_lossy().into_owned()),
            ("TMPDIR", built.scratch.to_string_lossy().into_owned()),
            ("LANG", "C.UTF-8".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        environment.extend(env);
        let request = RunRequest {
            argv: std::iter::once(program).chain(arguments).collect(),
            env: environment.into_iter().collect(),
            cwd: PathBuf::from("/"),
            source: None,
            not_after: None,
        };
        let stdio = [OwnedFd::from(theirs), OwnedFd::from(null), their_stderr];
        let control = supervisor
            .start(&request, stdio)
            .await
            .map_err(|failure| OpenError::Launcher {
                reason: failure.message,
            })?;
        let mut helper = Self {
            socket,
            stderr: pipe::Receiver::from_owned_fd(stderr).map_err(failed)?,
            control,
            _supervisor: supervisor,
        };
        if helper.greeted().await {
            return Ok(helper);
        }
        let ending = helper.ended().await;
        Err(OpenError::Launcher {
            reason: format!(
                "the helper in the role `{role}` did not start: {}",
                ending.describe()
            ),
        })
    }

    async fn greeted(&mut self) -> bool {
        let mut first = [0; 1];
        let read = tokio::time::timeout(START_LIMIT, self.socket.read_exact(&mut first)).await;
        matches!(read, Ok(Ok(_))) && first == GREETING
    }

    /// The socket to it.
    pub fn socket(&mut self) -> &mut UnixStream {
        &mut self.socket
    }

    /// Whether it still runs, as far as can be told without asking it.
    pub fn is_alive(&self) -> bool {
        // Nothing is reported while it runs.
        let mut byte = [0; 1];
        matches!(self.control.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Kills it, if it still runs, and says how it ended.
    pub async fn ended(mut self) -> Ending {
        // One that is dying may say why; one that is not is killed by letting go of it.
        let dying =
            tokio::time::timeout(Duration::from_millis(200), client::read_reports(&self.control)).await;
        let reports = match dying {
            Ok(reports) => reports,
            Err(_) => {
                let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Write);
                let reports = tokio::time::timeout(ENDING, client::read_reports(&self.control)).await;
                reports.unwrap_or_default()
            }
        };
        let mut ending = Ending {
            last_words: self.last_words().await,
            ..Ending::default()
        };
        for report in reports {
            ending.note(report);
        }
        ending
    }

    async fn last_words(&mut self) -> String {
        let mut kept = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let read = tokio::time::timeout(Duration::from_secs(1), self.stderr.read(&mut buffer)).await;
            match read {
                Ok(Ok(read @ 1..)) => kept.extend_from_slice(&buffer[..read]),
                _ => break,
            }
            let excess = kept.len().saturating_sub(LAST_WORDS_BYTES);
            kept.drain(..excess);
        }
        String::from_utf8_lossy(&kept).into_owned()
    }
}

impl Ending {
    fn note(&mut self, report: client::Report) {
        match report {
            client::Report::Failed { step, errno } => {
                let error = io::Error::from_raw_os_error(errno);
                self.last_words = format!("step {step:?}: {error}");
            }
            client::Report::Exceeded(bound) => self.is_over_memory |= bound == Exceeded::Memory,
            client::Report::Ended { status } if libc::WIFSIGNALED(status) => {
                self.signal = Some(libc::WTERMSIG(status));
            }
            client::Report::Ended { status } => self.exit_code = Some(libc::WEXITSTATUS(status)),
        }
    }

    fn describe(&self) -> String {
        let how = match (self.signal, self.exit_code) {
            (Some(signal), _) => format!("signal {signal}"),
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => "no answer".to_owned(),
        };
        match self.last_words.trim() {
            "" => how,
            words => format!("{how}: {words}"),
        }
    }
}

/// Builds the sandbox. Blocking.
fn open(spec: HelperSpec) -> Result<(client::Built, String), OpenError> {
    let mut layers = spec.isolation.layers();
    let (group, entries) = local::make_group(&mut layers, &spec.limits)?;
    let program = if layers.contains(&Layer::Mount) {
        HELPER
    } else {
        "/proc/self/exe"
    };
    let request = OpenRequest {
        helper: Some(HelperLimits {
            address_space_bytes: spec.address_space_bytes,
        }),
        layers,
        cgroup_bounds_memory: group.is_some() && cgroup::hierarchy().is_ok_and(Hierarchy::bounds_memory),
        limits: Some(spec.limits),
        cgroups: group
            .as_ref()
            .map(|group| group.directories().to_vec())
            .unwrap_or_default(),
        ..OpenRequest::without_workspace()
    };
    let asked = client::ask_to_open(request, &entries)?;
    group.map(Group::into_directories);
    Ok((asked.answer()?, program.to_owned()))
}
