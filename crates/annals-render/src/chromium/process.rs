//! The browser's process: found, started, and never left behind.
//!
//! The child is started by the thread that reads its pipe, because the kernel ties "die with your parent" to
//! the parent *thread*: a browser started from a worker would die with that worker.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, SyncSender};

use super::ChromiumError;
use super::pipe::Pipe;

/// Where the browser's side of the pipes must be.
const CHILD_READS: RawFd = 3;
const CHILD_WRITES: RawFd = 4;

const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

const PROFILE_PREFIX: &str = "annals-chromium-";

/// `ANNALS_CHROMIUM`, else the first known name on the search path.
pub(super) fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ANNALS_CHROMIUM").filter(|named| !named.is_empty()) {
        return Some(PathBuf::from(named)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// The program itself, where a distribution puts a script before it that reads configuration an isolated process does not
/// see.
fn find_program() -> Option<PathBuf> {
    const BEHIND_SCRIPTS: [&str; 3] = [
        "/usr/lib/chromium/chromium",
        "/usr/lib/chromium-browser/chromium-browser",
        "/usr/lib64/chromium-browser/chromium-browser",
    ];
    let found = find()?;
    let is_named = std::env::var_os("ANNALS_CHROMIUM").is_some_and(|named| !named.is_empty());
    let behind = || {
        BEHIND_SCRIPTS
            .iter()
            .map(PathBuf::from)
            .find(|file| file.is_file())
    };
    if is_named {
        Some(found)
    } else {
        behind().or(Some(found))
    }
}

/// What each process that this one starts may take, if that is bounded.
pub(super) fn memory_bound_bytes() -> Option<u64> {
    let mut bound = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: plain system call on a structure of the right type.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_DATA, &mut bound) } == 0;
    (is_known && bound.rlim_cur != libc::RLIM_INFINITY).then_some(bound.rlim_cur)
}

/// A running browser.
pub(super) struct Browser {
    pub(super) pipe: Pipe,
    group: libc::pid_t,
    alive: mpsc::Receiver<()>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(super) fn start(is_isolated: bool) -> Result<Self, ChromiumError> {
        // SAFETY: plain system call.
        if !is_isolated && unsafe { libc::geteuid() } == 0 {
            // Chromium refuses to sandbox itself as root, and root must not render without a sandbox.
            return Err(ChromiumError::Root);
        }
        let program = if is_isolated { find_program() } else { find() };
        let program = program.ok_or(ChromiumError::Absent)?;
        sweep_profiles();
        let prefix = format!("{PROFILE_PREFIX}{}-", std::process::id());
        let profile = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir()
            .map_err(ChromiumError::Start)?;
        let (child_reads, writer) = std::io::pipe().map_err(ChromiumError::Start)?;
        let (reader, child_writes) = std::io::pipe().map_err(ChromiumError::Start)?;
        let mut command = command(&program, profile.path(), child_reads, child_writes);
        if is_isolated {
            // It cannot make namespaces inside those it is in.
            command.arg("--no-sandbox");
        }
        command.arg("about:blank");
        let (started, group) = mpsc::sync_channel(1);
        let (messages, received) = mpsc::channel();
        let (life, alive) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("chromium".to_owned());
        thread
            .spawn(move || keep(command, reader, &started, &messages, &life))
            .map_err(ChromiumError::Start)?;
        let group = group
            .recv()
            .map_err(|_| ChromiumError::Gone("its thread ended".to_owned()))?;
        let group = group.map_err(ChromiumError::Start)?;
        Ok(Self {
            pipe: Pipe::new(writer, received),
            group,
            alive,
            _profile: profile,
        })
    }

    pub(super) fn is_alive(&self) -> bool {
        matches!(self.alive.try_recv(), Err(mpsc::TryRecvError::Empty))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // SAFETY: plain system call; the group is that of our own child, which its thread has not yet reaped
        // unless it is gone, and then the signal goes nowhere.
        unsafe { libc::kill(-self.group, libc::SIGKILL) };
        // The profile can be removed once nobody writes to it any more.
        let _ = self.alive.recv_timeout(std::time::Duration::from_secs(5));
    }
}

/// Starts the child, hands its messages on, and reaps it.
fn keep(
    mut command: Command,
    reader: PipeReader,
    started: &SyncSender<std::io::Result<libc::pid_t>>,
    messages: &mpsc::Sender<Vec<u8>>,
    _life: &SyncSender<()>,
) {
    let mut child: Child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    // Our copies of the child's ends must go, or the pipe never ends.
    drop(command);
    let _ = started.send(Ok(child.id() as libc::pid_t));
    let mut reader = BufReader::new(reader);
    loop {
        let mut message = Vec::new();
        match reader.read_until(0, &mut message) {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                message.pop();
                // The receiver goes with the browser; read on, so that the child is never stuck.
                let _ = messages.send(message);
            }
        }
    }
    let _ = child.wait();
}

fn command(program: &Path, profile: &Path, child_reads: PipeReader, child_writes: PipeWriter) -> Command {
    let mut command = Command::new(program);
    command
        .args([
            "--headless",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--no-default-browser-check",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-default-apps",
            "--disable-sync",
            "--disable-breakpad",
            "--disable-features=Translate,MediaRouter,OptimizationHints",
            "--metrics-recording-only",
            "--mute-audio",
            "--hide-scrollbars",
            "--font-render-hinting=none",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--proxy-server=http://127.0.0.1:1",
            "--proxy-bypass-list=<-loopback>",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .env_clear()
        .env("HOME", profile)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TMPDIR", profile)
        .env("LANG", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir(profile)
        .process_group(0);
    // SAFETY: between fork and exec only async-signal-safe calls are made; the pipe ends live in the closure.
    unsafe { command.pre_exec(move || hand_over(child_reads.as_raw_fd(), child_writes.as_raw_fd())) };
    command
}

/// In the child: puts the pipes where Chromium expects them and ties its life to ours.
fn hand_over(reads: RawFd, writes: RawFd) -> std::io::Result<()> {
    let check = |result: libc::c_int| {
        if result < 0 {
            Err(std::io::Error::last_os_error())
        } else {
            Ok(result)
        }
    };
    // SAFETY: plain system calls on descriptors this process owns. Copies above the targets first: the pipes
    // may themselves sit on 3 or 4.
    unsafe {
        let reads = check(libc::fcntl(reads, libc::F_DUPFD_CLOEXEC, 10))?;
        let writes = check(libc::fcntl(writes, libc::F_DUPFD_CLOEXEC, 10))?;
        check(libc::dup2(reads, CHILD_READS))?;
        check(libc::dup2(writes, CHILD_WRITES))?;
        #[cfg(target_os = "linux")]
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
    }
    Ok(())
}

/// Removes profiles of processes that ended without cleaning up.
fn sweep_profiles() {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PROFILE_PREFIX)) else {
            continue;
        };
        let owner = rest
            .split('-')
            .next()
            .and_then(|pid| pid.parse::<libc::pid_t>().ok());
        // SAFETY: plain system call; signal 0 only asks whether the process exists.
        let gone = owner.is_some_and(|pid| unsafe { libc::kill(pid, 0) } != 0);
        if gone && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
