//! Helper processes: this program, started again under a hidden first argument.
//!
//! A sandbox is built by a small single-threaded process, and what strangers wrote is parsed in one that can be
//! killed. A library has no executable of its own for them, so the program that links it starts itself again, and
//! [`init`] at the top of its `main` sends that second process where it belongs:
//!
//! ```no_run
//! fn main() {
//!     annals_sandbox::launcher::init();
//!     // the program
//! }
//! ```
//!
//! A program that has no `main` of its own (a `cdylib`, a plug-in) names a binary that has one: in `ANNALS_HELPER`, or
//! by [`use_helper`]. The binary `annals` serves. Nothing of this runs before `main`, in any program; a test binary,
//! whose `main` is the harness's, says so with [`helpers_in_tests!`](crate::helpers_in_tests).

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The hidden first argument; the role and [`VERSION`] follow.
const MARKER: &str = "__annals-helper";

/// Helper and program speak a wire of their own, so they must be of one version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The role of the process that opens sandboxes.
pub(crate) const SANDBOX_ROLE: &str = "sandbox";

/// A helper's first byte: it is one, of the right version, and has the role.
pub(crate) const GREETING: [u8; 1] = [b'+'];

/// How long a helper may take to its first byte; it takes milliseconds unless the machine is starved.
const START_LIMIT: Duration = Duration::from_secs(20);

const EXIT_NOT_A_HELPER: i32 = 64;
const EXIT_OTHER_VERSION: i32 = 78;

/// Whether [`init`] has run in this process, so that the program can be started again.
static DISPATCHED: AtomicBool = AtomicBool::new(false);

static NAMED_HELPER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// What a helper process does.
#[derive(Debug, Clone, Copy)]
pub struct Role {
    /// Its name, the helper's second argument.
    pub name: &'static str,
    /// Serves the socket to the program that started it; the process ends when this returns.
    pub run: fn(UnixStream),
}

/// Why no helper process can be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelperError {
    /// The program cannot be started again, and no other binary was named.
    #[error(
        "this program cannot start its helper processes: call `annals::launcher::init()` first thing in `main`, or \
         name a helper binary in `ANNALS_HELPER` (the `annals` binary is one)"
    )]
    NotDispatched,
    /// The binary could not be started.
    #[error("the helper `{}` could not be started: {reason}; check the path in `ANNALS_HELPER`", program.display())]
    NotStarted {
        /// The binary.
        program: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The binary is of another version.
    #[error("the helper `{}` is not of version {VERSION}: name one that was built with this program", program.display())]
    OtherVersion {
        /// The binary.
        program: PathBuf,
    },
    /// The binary knows nothing of helpers, or not of this role.
    #[error(
        "the helper `{}` has no role `{role}`: its `main` must begin with `annals::launcher::init()`",
        program.display()
    )]
    NoSuchRole {
        /// The binary.
        program: PathBuf,
        /// What was asked of it.
        role: String,
    },
}

/// In a helper process: serves its role and never returns. In every other process: nothing but remembering that this
/// program can be started again.
///
/// Call it first thing in `main`. With `#[tokio::main]` the runtime's threads are there already; then the helper is
/// forked off once more, so that it has one thread.
pub fn init() {
    init_with(&[]);
}

/// [`init`] for a program with more roles than opening sandboxes.
pub fn init_with(roles: &[Role]) {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() == Some(OsStr::new(MARKER)) {
        let (role, version) = (arguments.next(), arguments.next());
        be_helper(role.as_deref(), version.as_deref(), roles);
    }
    DISPATCHED.store(true, Ordering::Release);
}

/// Starts helper processes from this binary, whatever `ANNALS_HELPER` says.
pub fn use_helper(program: impl Into<PathBuf>) {
    *NAMED_HELPER.lock().unwrap_or_else(PoisonError::into_inner) = Some(program.into());
}

fn be_helper(role: Option<&OsStr>, version: Option<&OsStr>, roles: &[Role]) -> ! {
    if version != Some(OsStr::new(VERSION)) {
        std::process::exit(EXIT_OTHER_VERSION);
    }
    #[cfg(not(feature = "local"))]
    let own: [Role; 0] = [];
    #[cfg(feature = "local")]
    let own = [Role {
        name: SANDBOX_ROLE,
        run: |socket| single_threaded(|| crate::process::serve(&socket)),
    }];
    let role = role.and_then(OsStr::to_str);
    let found = own.iter().chain(roles).find(|known| Some(known.name) == role);
    let (Some(role), true) = (found, stdin_is_a_socket()) else {
        std::process::exit(EXIT_NOT_A_HELPER);
    };
    // SAFETY: the parent put its socket at descriptor 0, and nothing else in this process knows of it.
    let mut socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(0) });
    if socket.write_all(&GREETING).is_ok() {
        (role.run)(socket);
    }
    std::process::exit(0);
}

fn stdin_is_a_socket() -> bool {
    rustix::fs::fstat(rustix::stdio::stdin())
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Socket)
}

/// Runs `work` in a process of one thread: this one, or a fork of it that this one waits for.
#[cfg(feature = "local")]
fn single_threaded(work: impl FnOnce()) {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads <= 1 {
        return work();
    }
    // SAFETY: the C library's own fork leaves its locks usable in the child, and the other threads are those of a
    // runtime that has nothing to do yet.
    match unsafe { libc::fork() } {
        0 => {
            work();
            crate::process::exit_now(0)
        }
        pid if pid > 0 => {
            // The child alone keeps the socket: its end must be seen by the program.
            // SAFETY: the caller's socket is not used again before the process ends.
            unsafe {
                libc::close(0);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
            crate::process::exit_now(0)
        }
        _ => {}
    }
}

/// A helper's program and how it is started in a role.
pub(crate) struct Helper {
    program: PathBuf,
    role: &'static str,
}

impl Helper {
    /// The program that helpers of this process are started from.
    pub(crate) fn find(role: &'static str) -> Result<Self, HelperError> {
        let named = NAMED_HELPER
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let named = named.or_else(|| {
            std::env::var_os("ANNALS_HELPER")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from)
        });
        let program = match named {
            Some(program) => program,
            None if DISPATCHED.load(Ordering::Acquire) => PathBuf::from("/proc/self/exe"),
            None => return Err(HelperError::NotDispatched),
        };
        Ok(Self { program, role })
    }

    /// Its arguments behind the program's name.
    pub(crate) fn arguments(role: &str) -> [OsString; 3] {
        [MARKER, role, VERSION].map(OsString::from)
    }

    /// Starts it with an empty environment; the socket is its standard input.
    pub(crate) fn start(&self) -> Result<(UnixStream, Child), HelperError> {
        let not_started = |error: io::Error| HelperError::NotStarted {
            program: self.program.clone(),
            reason: error.to_string(),
        };
        let (socket, theirs) = UnixStream::pair().map_err(not_started)?;
        let mut child = Command::new(&self.program)
            .arg0("annals-helper")
            .args(Self::arguments(self.role))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(not_started)?;
        match greeted(&socket) {
            Ok(true) => Ok((socket, child)),
            answer => {
                let _ = child.kill();
                let status = child.wait().map_err(not_started)?;
                answer.map_err(not_started)?;
                Err(self.explain(status))
            }
        }
    }

    /// What it means that the helper ended with this status instead of serving.
    fn explain(&self, status: ExitStatus) -> HelperError {
        let program = self.program.clone();
        match status.code() {
            Some(EXIT_OTHER_VERSION) => HelperError::OtherVersion { program },
            _ => HelperError::NoSuchRole {
                program,
                role: self.role.to_owned(),
            },
        }
    }
}

/// Waits for the helper's first byte: whether it came.
fn greeted(mut socket: &UnixStream) -> io::Result<bool> {
    socket.set_read_timeout(Some(START_LIMIT))?;
    let mut first = [0; 1];
    let read = socket.read(&mut first)?;
    socket.set_read_timeout(None)?;
    Ok(read == 1 && first == GREETING)
}

/// Lets a test binary start helper processes: the `main` of a test harness cannot call [`init`], so this runs it
/// before that `main`. Once at the root of the test binary; the argument is the `init` to run.
///
/// ```ignore
/// annals_sandbox::helpers_in_tests!(annals_sandbox::launcher::init);
/// ```
#[macro_export]
macro_rules! helpers_in_tests {
    ($init:path) => {
        const _: () = {
            extern "C" fn before_main() {
                $init();
            }
            #[used]
            #[unsafe(link_section = ".init_array")]
            static BEFORE_MAIN: extern "C" fn() = before_main;
        };
    };
}
