//! The side of Annals: asks the launcher for supervisors, and supervisors for commands.

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream as StdUnixStream};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

pub(crate) use super::wire::Report;
use super::wire::{self, Exceeded, LaunchStep, OpenRequest, Opened, Refusal, RunRequest, ToLauncher};
use crate::capture::Capture;
use crate::facts::LayerFact;
use crate::failure::{Failure, FailureKind};
use crate::launcher::{Helper, SANDBOX_ROLE};
use crate::limits::Limits;
use crate::ops::CommandResult;
use crate::sandbox::OpenError;
use crate::spec::Layer;

/// How long a tree that was told to end may take; the kernel needs microseconds unless the machine is starved.
const ENDING: Duration = Duration::from_secs(10);

const READ_BYTES: usize = 64 << 10;

/// The one launcher of this process; started on first need, and again if it died.
static LAUNCHER: Mutex<Option<Launcher>> = Mutex::new(None);

struct Launcher {
    socket: StdUnixStream,
    process: Child,
}

impl Launcher {
    fn start() -> io::Result<Self> {
        let (socket, process) = Helper::find(SANDBOX_ROLE)
            .and_then(|helper| helper.start())
            .map_err(io::Error::other)?;
        Ok(Self { socket, process })
    }

    /// Sends one request. Blocks for microseconds: the launcher does nothing but receive and fork.
    fn ask(request: &ToLauncher, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut launcher = LAUNCHER.lock().unwrap_or_else(PoisonError::into_inner);
        if launcher
            .as_mut()
            .is_some_and(|launcher| !matches!(launcher.process.try_wait(), Ok(None)))
        {
            *launcher = None;
        }
        if launcher.is_none() {
            *launcher = Some(Self::start()?);
        }
        let launcher = launcher.as_ref().expect("just started");
        wire::send(&launcher.socket, request, fds)
    }
}

/// What the launcher finds out about this machine's layers.
pub(crate) fn probe() -> io::Result<Vec<LayerFact>> {
    let (socket, theirs) = StdUnixStream::pair()?;
    Launcher::ask(&ToLauncher::Probe, &[theirs.as_fd()])?;
    drop(theirs);
    let reply = wire::receive(&socket)?;
    Ok(reply
        .ok_or_else(|| io::Error::other("the launcher gave no answer"))?
        .0)
}

/// One sandbox's supervisor. Dropping it ends everything inside.
#[derive(Debug)]
pub(crate) struct SupervisorHandle {
    /// A lock, because a request must go out in one piece; held only while sending.
    socket: tokio::sync::Mutex<UnixStream>,
    /// The same socket, to close it while a sender waits.
    raw: OwnedFd,
}

/// A sandbox that was asked for.
pub(crate) struct Asked(StdUnixStream);

/// Asks for a sandbox. Blocking: call it where blocking is allowed.
pub(crate) fn ask_to_open(request: OpenRequest, cgroups: &[OwnedFd]) -> Result<Asked, OpenError> {
    let (socket, theirs) = StdUnixStream::pair().map_err(launcher_failed)?;
    let fds: Vec<_> = std::iter::once(theirs.as_fd())
        .chain(cgroups.iter().map(OwnedFd::as_fd))
        .collect();
    Launcher::ask(&ToLauncher::Open(request), &fds).map_err(launcher_failed)?;
    Ok(Asked(socket))
}

/// A sandbox that is ready for commands.
pub(crate) struct Built {
    pub(crate) socket: StdUnixStream,
    /// The layers in force.
    pub(crate) layers: BTreeSet<Layer>,
    /// Private directory that programs may write to.
    pub(crate) scratch: PathBuf,
    /// Folder of the context service as programs see it, and its socket.
    pub(crate) context: Option<(PathBuf, UnixListener)>,
    /// Listens on the sandbox's own loopback.
    pub(crate) listener: Option<TcpListener>,
}

impl Asked {
    /// Waits until the sandbox is built, or refused. Blocking.
    pub(crate) fn answer(self) -> Result<Built, OpenError> {
        let answer = wire::receive(&self.0).map_err(launcher_failed)?;
        let (opened, fds) = answer.ok_or_else(|| OpenError::Launcher {
            reason: "the sandbox ended while it was being built".to_owned(),
        })?;
        match opened {
            Opened::Ready {
                layers,
                scratch,
                context,
                is_listening,
            } => {
                let mut fds = fds.into_iter();
                let context = context.and_then(|folder| Some((folder, UnixListener::from(fds.next()?))));
                let listener = is_listening.then(|| fds.next().map(TcpListener::from)).flatten();
                Ok(Built {
                    socket: self.0,
                    layers,
                    scratch,
                    context,
                    listener,
                })
            }
            Opened::Refused(Refusal { layer, reason }) => Err(match layer {
                Some(layer) => OpenError::LayerMissing { layer, reason },
                None => OpenError::Spec { reason },
            }),
        }
    }
}

fn launcher_failed(error: io::Error) -> OpenError {
    OpenError::Launcher {
        reason: error.to_string(),
    }
}

/// A command that is to run: what, with which streams, for how long.
pub(crate) struct Running<'a> {
    pub(crate) request: RunRequest,
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) timeout: Duration,
    pub(crate) limits: &'a Limits,
    /// Who must own the pipes, so that programs can open `/dev/stdout` again.
    pub(crate) pipe_owner: Option<u32>,
}

impl SupervisorHandle {
    pub(crate) fn new(socket: StdUnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let raw = OwnedFd::from(socket.try_clone()?);
        Ok(Self {
            socket: tokio::sync::Mutex::new(UnixStream::from_std(socket)?),
            raw,
        })
    }

    /// Tells the supervisor to end everything inside.
    pub(crate) fn end(&self) {
        let _ = rustix::net::shutdown(&self.raw, rustix::net::Shutdown::Write);
    }

    /// Resolves when everything inside has ended: the supervisor, and with it the last copy of its socket, is gone.
    pub(crate) async fn ended(&self) {
        let mut socket = self.socket.lock().await;
        let _ = tokio::time::timeout(ENDING, socket.read(&mut [0])).await;
    }

    /// Runs a command to its end, its timeout, or `cancel`. Dropping the future ends it as well.
    pub(crate) async fn run(
        &self,
        running: Running<'_>,
        cancel: &CancellationToken,
        closed: &CancellationToken,
    ) -> Result<CommandResult, Failure> {
        let started = Instant::now();
        let deadline = tokio::time::sleep(running.timeout);
        let streams = Streams::open(&running).map_err(|error| Failure::os("open pipes", error))?;
        let Streams {
            stdin,
            stdout,
            stderr,
            control,
            theirs,
        } = streams;
        self.send(&running.request, &theirs.each_ref().map(OwnedFd::as_fd))
            .await?;
        drop(theirs);

        let mut outcome = Outcome::new(running.limits);
        let ended = {
            let overflow = CancellationToken::new();
            let mut work = std::pin::pin!(outcome.follow(
                (stdout, stderr),
                (stdin, running.stdin.as_deref()),
                &control,
                (running.limits, &overflow),
            ));
            tokio::pin!(deadline);
            let ended = tokio::select! {
                biased;
                () = cancel.cancelled() => Ended::Cancelled,
                () = closed.cancelled() => Ended::Closed,
                () = overflow.cancelled() => Ended::Overflow,
                () = &mut work => Ended::ByItself,
                () = &mut deadline => Ended::Timeout,
            };
            if !matches!(ended, Ended::ByItself) {
                // Init sees our side close and ends the whole tree; its own side closes when nothing is left.
                let _ = rustix::net::shutdown(&control, rustix::net::Shutdown::Write);
                let _ = tokio::time::timeout(ENDING, &mut work).await;
            }
            ended
        };
        outcome.judge(ended, &running, started)
    }

    /// Starts a command whose streams are the caller's. It runs until the returned control socket closes.
    pub(crate) async fn start(
        &self,
        request: &RunRequest,
        stdio: [OwnedFd; 3],
    ) -> Result<UnixStream, Failure> {
        let failed = |error| Failure::os("open a control socket", error);
        let (control, theirs) = StdUnixStream::pair().map_err(failed)?;
        control.set_nonblocking(true).map_err(failed)?;
        let control = UnixStream::from_std(control).map_err(failed)?;
        let [stdin, stdout, stderr] = &stdio;
        let fds = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd(), theirs.as_fd()];
        self.send(request, &fds).await?;
        Ok(control)
    }

    async fn send(&self, request: &RunRequest, fds: &[BorrowedFd<'_>]) -> Result<(), Failure> {
        let gone = |_| Failure::closed();
        let bytes = wire::encode(request).map_err(|error| Failure::os("send the command", error))?;
        let mut socket = self.socket.lock().await;
        let sent = socket
            .async_io(tokio::io::Interest::WRITABLE, || {
                wire::send_first(&*socket, &bytes, fds)
            })
            .await
            .map_err(gone)?;
        socket.write_all(&bytes[sent..]).await.map_err(gone)
    }
}

/// A command's streams: Annals' ends, and those that travel to the command.
struct Streams {
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    control: UnixStream,
    theirs: [OwnedFd; 4],
}

impl Streams {
    fn open(running: &Running<'_>) -> io::Result<Self> {
        let (stdin, their_stdin) = match running.stdin {
            Some(_) => {
                let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
                rustix::io::ioctl_fionbio(&ours, true)?;
                (Some(pipe::Sender::from_owned_fd(ours)?), theirs)
            }
            None => (None, OwnedFd::from(std::fs::File::open("/dev/null")?)),
        };
        let (stdout, their_stdout) = output()?;
        let (stderr, their_stderr) = output()?;
        if let Some(owner) = running.pipe_owner {
            let owner = Some(rustix::fs::Uid::from_raw(owner));
            for pipe in [&their_stdout, &their_stderr] {
                rustix::fs::fchown(pipe, owner, None)?;
            }
            if stdin.is_some() {
                rustix::fs::fchown(&their_stdin, owner, None)?;
            }
        }
        let (control, their_control) = StdUnixStream::pair()?;
        control.set_nonblocking(true)?;
        let control = UnixStream::from_std(control)?;
        let theirs = [their_stdin, their_stdout, their_stderr, their_control.into()];
        Ok(Self {
            stdin,
            stdout,
            stderr,
            control,
            theirs,
        })
    }
}

fn output() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((pipe::Receiver::from_owned_fd(ours)?, theirs))
}

/// How following a command came to its end.
enum Ended {
    ByItself,
    Timeout,
    Cancelled,
    Closed,
    Overflow,
}

/// What is known of a command so far.
struct Outcome {
    stdout: Capture,
    stderr: Capture,
    failed: Option<(LaunchStep, i32)>,
    status: Option<i32>,
    exceeded: Option<Exceeded>,
}

impl Outcome {
    fn new(limits: &Limits) -> Self {
        let capture = || Capture::new(limits.output_kept_bytes);
        Self {
            stdout: capture(),
            stderr: capture(),
            failed: None,
            status: None,
            exceeded: None,
        }
    }

    /// Feeds and reads until init is gone and every pipe has ended.
    async fn follow(
        &mut self,
        (stdout, stderr): (pipe::Receiver, pipe::Receiver),
        (sender, stdin): (Option<pipe::Sender>, Option<&[u8]>),
        control: &UnixStream,
        (limits, overflow): (&Limits, &CancellationToken),
    ) {
        let allowed_bytes = AtomicU64::new(limits.output_total_bytes);
        let ((), (), reports) = tokio::join!(
            read_all(stdout, &mut self.stdout, &allowed_bytes, overflow),
            read_all(stderr, &mut self.stderr, &allowed_bytes, overflow),
            async {
                // Feeding ends with the command, read or not: a program need not read its input.
                tokio::select! {
                    reports = read_reports(control) => reports,
                    never = feed(sender, stdin) => match never {},
                }
            },
        );
        for report in reports {
            match report {
                Report::Failed { step, errno } => self.failed = Some((step, errno)),
                Report::Ended { status } => self.status = Some(status),
                Report::Exceeded(bound) => self.exceeded = Some(bound),
            }
        }
    }

    fn judge(self, ended: Ended, running: &Running<'_>, started: Instant) -> Result<CommandResult, Failure> {
        let status = self.status;
        let mut result = CommandResult {
            exit_code: 0,
            signal: None,
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            elapsed_ms: started.elapsed().as_millis() as u64,
        };
        if let Some(bound) = self.exceeded {
            let message = beyond(bound, running.limits);
            return Err(Failure::new(FailureKind::ResourceLimit, message).partial(killed(result)));
        }
        match (ended, self.failed, status) {
            (Ended::ByItself, Some((step, errno)), _) => Err(explain(step, errno, &running.request)),
            (Ended::ByItself, None, Some(status)) => {
                result.signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
                result.exit_code = result
                    .signal
                    .map_or_else(|| libc::WEXITSTATUS(status), |signal| 128 + signal);
                Ok(result)
            }
            (Ended::ByItself, None, None) | (Ended::Closed, ..) => {
                Err(Failure::closed().partial(killed(result)))
            }
            (Ended::Timeout, ..) => {
                let message = format!(
                    "the command took longer than {} and was ended",
                    seconds(running.timeout)
                );
                Err(Failure::new(FailureKind::Timeout, message).partial(killed(result)))
            }
            (Ended::Cancelled, ..) => Err(Failure::cancelled().partial(killed(result))),
            (Ended::Overflow, ..) => {
                let limit = running.limits.output_total_bytes;
                let message = format!("the command wrote more than {limit} bytes and was ended");
                Err(Failure::new(FailureKind::OutputTooLarge, message).partial(killed(result)))
            }
        }
    }
}

fn beyond(bound: Exceeded, limits: &Limits) -> String {
    match bound {
        Exceeded::Memory => format!(
            "the processes of the sandbox used more than {} bytes of memory together and were ended",
            limits.memory_bytes
        ),
        Exceeded::WorkspaceBytes => format!(
            "the workspace has more than {} bytes, and the command was ended: remove files",
            limits.workspace_bytes
        ),
        Exceeded::WorkspaceFiles => format!(
            "the workspace has more than {} files, and the command was ended: remove some",
            limits.workspace_files
        ),
    }
}

fn killed(result: CommandResult) -> CommandResult {
    CommandResult {
        exit_code: 128 + libc::SIGKILL,
        signal: Some(libc::SIGKILL),
        ..result
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

async fn read_all(
    mut pipe: pipe::Receiver,
    into: &mut Capture,
    allowed_bytes: &AtomicU64,
    overflow: &CancellationToken,
) {
    let mut buffer = Vec::new();
    loop {
        // Grown on first output: most commands write little, many write nothing.
        if pipe.readable().await.is_err() {
            return;
        }
        buffer.resize(READ_BYTES, 0);
        match pipe.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                into.push(&buffer[..read]);
                let left = allowed_bytes.load(Ordering::Relaxed).saturating_sub(read as u64);
                allowed_bytes.store(left, Ordering::Relaxed);
                if left == 0 {
                    overflow.cancel();
                }
            }
        }
    }
}

async fn feed(sender: Option<pipe::Sender>, stdin: Option<&[u8]>) -> std::convert::Infallible {
    if let (Some(mut sender), Some(stdin)) = (sender, stdin) {
        // A reader that is gone is no failure of the command.
        let _ = sender.write_all(stdin).await;
    }
    std::future::pending().await
}

/// Reports until the command has ended, after which nothing of it is left, or init is gone.
pub(crate) async fn read_reports(control: &UnixStream) -> Vec<Report> {
    let mut reports = Vec::new();
    let mut bytes = Vec::new();
    let mut buffer = [0; 256];
    while !matches!(reports.last(), Some(Report::Ended { .. })) && control.readable().await.is_ok() {
        match control.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        reports = bytes.chunks(Report::BYTES).filter_map(Report::parse).collect();
    }
    reports
}

/// What a failed step means to the one who asked.
pub(crate) fn explain(step: LaunchStep, errno: i32, request: &RunRequest) -> Failure {
    let error = io::Error::from_raw_os_error(errno);
    let program = request.argv.first().map_or("", String::as_str);
    match (step, errno) {
        (LaunchStep::Cwd, libc::ENOENT) => Failure::new(
            FailureKind::FileNotFound,
            format!("there is no directory `{}`", request.cwd.display()),
        ),
        (LaunchStep::Cwd, _) => Failure::os(format_args!("start in `{}`", request.cwd.display()), error),
        (LaunchStep::Exec, libc::ENOENT) => Failure::new(
            FailureKind::FileNotFound,
            format!("there is no program `{program}` in the sandbox"),
        ),
        (LaunchStep::Exec, libc::E2BIG) => {
            Failure::new(FailureKind::Unsupported, "the arguments are too long; use a file")
        }
        (LaunchStep::Exec, _) => Failure::os(format_args!("execute `{program}`"), error),
        (LaunchStep::Fork, libc::EAGAIN) => {
            Failure::os("start a process", "the sandbox has as many as it may")
        }
        (LaunchStep::Late, _) => Failure::late(),
        (LaunchStep::Source, libc::ENOSPC) => {
            Failure::os("put the code into a file", "the private /tmp is full")
        }
        (step, _) => Failure::os("start the command", error).detail(format!("step {step:?}")),
    }
}

impl Drop for SupervisorHandle {
    fn drop(&mut self) {
        self.end();
    }
}
