//! A program that keeps running and talks over its standard streams, in a sandbox of its own.
//!
//! A [`Sandbox`](crate::Sandbox) runs commands to their end; this is for servers that outlive a call. The program sees its
//! own folder, the paths it was given, and nothing else of the user; when it is dropped, everything it started is killed.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use crate::limits::Limits;
use crate::local::{self, Bind, Isolated, Limited};
use crate::process::client::{self, Report, SupervisorHandle};
use crate::process::wire::RunRequest;
use crate::sandbox::{LocalTree, OpenError, Opening};
use crate::spec::{SandboxName, SandboxSpec};

/// How much of the end of its standard error is kept.
const LAST_WORDS_BYTES: usize = 8 << 10;

/// How long a service that closed its streams may take to be gone before it is killed.
const ENDING: Duration = Duration::from_millis(500);

/// How long the kernel may take to end what was killed.
const KILLING: Duration = Duration::from_secs(10);

/// Whether a service is isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Behind every isolation layer, with no network but a loopback of its own.
    Sandboxed,
    /// A process of the user, as if started from a shell. Only because somebody asked for it by name.
    Host,
}

/// What a service is made of.
#[derive(Debug, Clone)]
pub struct ServiceSpec {
    /// The program, looked up in `PATH`, and its arguments.
    pub argv: Vec<String>,
    /// Its environment beside `PATH`, `HOME` and `LANG`.
    pub env: BTreeMap<String, String>,
    /// The folder of this machine where it starts, may write, and has its home; made if it is missing.
    pub folder: PathBuf,
    /// Where it starts instead: an absolute path that it may read.
    pub cwd: Option<PathBuf>,
    /// Absolute paths of this machine that it may read, at the same place inside.
    pub readable: Vec<PathBuf>,
    /// Absolute paths of this machine that it may change, at the same place inside.
    pub writable: Vec<PathBuf>,
    /// Whether it is isolated.
    pub trust: Trust,
    /// A port of an isolated one's own loopback, on which the caller listens: see [`Service::take_listener`].
    pub listens_on: Option<u16>,
    /// Bounds of an isolated one.
    pub limits: Limits,
}

/// A running service. Dropping it kills everything in it.
#[derive(Debug)]
pub struct Service {
    control: UnixStream,
    _supervisor: SupervisorHandle,
    request: RunRequest,
    last_words: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    listener: Option<TcpListener>,
}

/// The end of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceEnd {
    /// In one sentence; none if it was killed here.
    pub how: Option<String>,
    /// What it wrote last to its standard error.
    pub last_words: String,
}

/// The streams of a service: what it reads, what it writes.
pub type ServiceStreams = (pipe::Receiver, pipe::Sender);

impl Service {
    /// Starts it. That the program exists shows when its streams end: see [`ended`](Self::ended).
    pub async fn start(spec: ServiceSpec) -> Result<(Self, ServiceStreams), OpenError> {
        let failed = |error: io::Error| OpenError::Launcher {
            reason: error.to_string(),
        };
        if spec.argv.first().is_none_or(String::is_empty) {
            return Err(OpenError::Spec {
                reason: "the command is empty; name a program".to_owned(),
            });
        }
        let ServiceSpec { argv, env, cwd, .. } = spec.clone();
        let prepared = tokio::task::spawn_blocking(move || prepare(spec)).await;
        let prepared = prepared.map_err(|error| failed(io::Error::other(error)))??;
        let inside = prepared.inside().to_owned();
        let built = prepared.opened;
        let mut environment = local::base_env(&built.layers, &built.scratch);
        if !built.layers.is_empty() {
            environment.insert("HOME".to_owned(), inside.to_string_lossy().into_owned());
        }
        environment.extend(env);
        let pipe_owner = local::pipe_owner(&built.layers);
        let supervisor = SupervisorHandle::new(built.socket).map_err(failed)?;
        let request = RunRequest {
            argv,
            env: environment.into_iter().collect(),
            cwd: cwd.unwrap_or(inside),
            source: None,
            not_after: None,
        };
        let ends = Ends::open(pipe_owner).map_err(failed)?;
        let control =
            supervisor
                .start(&request, ends.theirs)
                .await
                .map_err(|failure| OpenError::Launcher {
                    reason: failure.message,
                })?;
        let last_words = Arc::default();
        let reader = tokio::spawn(keep_last_words(ends.stderr, Arc::clone(&last_words)));
        let service = Service {
            control,
            _supervisor: supervisor,
            request,
            last_words,
            reader,
            listener: built.listener,
        };
        Ok((service, (ends.stdout, ends.stdin)))
    }

    /// The socket that listens on the port that [`ServiceSpec::listens_on`] asked for. What the program, and nothing but it,
    /// connects to there is accepted here: the way out that its network lacks, if the caller makes it one.
    pub fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    /// How it ended; one that still runs is killed.
    pub async fn ended(mut self) -> ServiceEnd {
        let how = match tokio::time::timeout(ENDING, client::read_reports(&self.control)).await {
            Ok(reports) => self.told(reports),
            Err(_) => {
                let _ = rustix::net::shutdown(&self.control, rustix::net::Shutdown::Write);
                let _ = tokio::time::timeout(KILLING, client::read_reports(&self.control)).await;
                None
            }
        };
        // What it wrote may be on its way still. A process that outlives it may hold the pipe open.
        let _ = tokio::time::timeout(ENDING, &mut self.reader).await;
        let kept = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        let last_words = String::from_utf8_lossy(&kept).into_owned();
        ServiceEnd { how, last_words }
    }

    fn told(&self, mut reports: Vec<Report>) -> Option<String> {
        // One that was never begun ends, too, and that says nothing.
        let begun = reports
            .iter()
            .position(|report| matches!(report, Report::Failed { .. }));
        let told = begun.or_else(|| reports.len().checked_sub(1))?;
        Some(self.describe(reports.swap_remove(told)))
    }

    fn describe(&self, report: Report) -> String {
        match report {
            Report::Failed { step, errno } => client::explain(step, errno, &self.request).message,
            Report::Exceeded(bound) => format!("it was ended for using too much ({bound:?})"),
            Report::Ended { status } if libc::WIFSIGNALED(status) => {
                format!("it was killed by signal {}", libc::WTERMSIG(status))
            }
            Report::Ended { status } => format!("it exited with code {}", libc::WEXITSTATUS(status)),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The pipes of a service: this process's ends, and those that travel to it.
struct Ends {
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    theirs: [OwnedFd; 3],
}

impl Ends {
    fn open(owner: Option<u32>) -> io::Result<Self> {
        let pipe = || -> io::Result<(OwnedFd, OwnedFd)> { Ok(pipe_with(PipeFlags::CLOEXEC)?) };
        let (their_stdin, stdin) = pipe()?;
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        for ours in [&stdin, &stdout, &stderr] {
            rustix::io::ioctl_fionbio(ours, true)?;
        }
        if let Some(owner) = owner {
            let owner = Some(rustix::fs::Uid::from_raw(owner));
            for theirs in [&their_stdin, &their_stdout, &their_stderr] {
                rustix::fs::fchown(theirs, owner, None)?;
            }
        }
        Ok(Ends {
            stdin: pipe::Sender::from_owned_fd(stdin)?,
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
            theirs: [their_stdin, their_stdout, their_stderr],
        })
    }
}

/// Reads standard error to its end, so that no program waits for somebody to read its log.
async fn keep_last_words(mut stderr: pipe::Receiver, kept: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let excess = kept.len().saturating_sub(LAST_WORDS_BYTES);
        kept.drain(..excess);
    }
}

/// Builds the sandbox. Blocking.
fn prepare(spec: ServiceSpec) -> Result<local::Prepared, OpenError> {
    let sandbox = SandboxSpec {
        limits: spec.limits,
        // Its conversation is nobody's: services are not fenced.
        ..SandboxSpec::new(SandboxName::new("service", 0))
    };
    let binds = |paths: Vec<PathBuf>| -> Vec<Bind> {
        let same = |path: PathBuf| Bind {
            inside: path.clone(),
            host: path,
        };
        paths.into_iter().map(same).collect()
    };
    let isolated = match spec.trust {
        Trust::Sandboxed => Isolated {
            layers: sandbox.isolation.layers(),
            limited: Limited::Yes,
            read_only: binds(spec.readable),
            writable: binds(spec.writable),
            listens_on: spec.listens_on,
        },
        Trust::Host => Isolated {
            layers: std::collections::BTreeSet::new(),
            limited: Limited::No,
            read_only: Vec::new(),
            writable: Vec::new(),
            listens_on: spec.listens_on,
        },
    };
    local::prepare(Opening::new(sandbox).local(LocalTree::at(spec.folder)), isolated)
}
