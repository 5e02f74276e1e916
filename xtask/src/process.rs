//! A program run to its end, or to its deadline, with everything it started.
//!
//! It gets a process group of its own, so that a deadline and Ctrl-C end all of it, and it dies with this process. Its
//! processor time comes from the kernel.

use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// Somebody pressed Ctrl-C or asked this process to end.
#[derive(Debug)]
pub(crate) struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted; what was running has been ended")
    }
}

impl std::error::Error for Interrupted {}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited(i32),
    Killed(i32),
    OverTime,
}

/// A program that has ended.
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) wall: Duration,
    /// User and system time, with that of the children it waited for.
    pub(crate) cpu: Duration,
    pub(crate) output: Vec<String>,
    pub(crate) complaint: String,
}

impl Ended {
    pub(crate) fn ended_well(&self) -> bool {
        self.end == End::Exited(0)
    }

    /// The last words, for a message.
    pub(crate) fn last_words(&self) -> &str {
        let lines = || self.complaint.lines().rev().map(str::trim);
        lines().find(|line| !line.is_empty()).unwrap_or("it said nothing")
    }
}

/// What becomes of a program's lines while it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    /// Its output is shown as it comes, and its complaints go where ours go.
    Shown,
    /// Both are kept.
    Kept,
    /// Its output is kept, and its complaints go where ours go.
    OutputKept,
    /// The command says itself where they go.
    Elsewhere,
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The group to end when somebody interrupts; 0 when nothing runs.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// From now on an interruption ends what is running and comes back as [`Interrupted`]; a second one ends this process.
pub(crate) fn catch_interrupts() {
    extern "C" fn on_signal(_: libc::c_int) {
        let group = RUNNING.load(Ordering::SeqCst);
        // SAFETY: `kill` and `_exit` may be called in a handler.
        unsafe {
            if group > 0 {
                libc::kill(-group, libc::SIGKILL);
            }
            if INTERRUPTED.swap(true, Ordering::SeqCst) {
                libc::_exit(130);
            }
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only touches atomics and calls what handlers may call.
        unsafe { libc::signal(signal, on_signal as *const () as libc::sighandler_t) };
    }
}

/// Fails if somebody has interrupted.
pub(crate) fn check_interrupted() -> anyhow::Result<()> {
    match INTERRUPTED.load(Ordering::SeqCst) {
        true => Err(Interrupted.into()),
        false => Ok(()),
    }
}

/// Runs a program. An error means that it could not be started, or that somebody interrupted.
pub(crate) fn run(mut command: Command, limit: Duration, echo: Echo) -> anyhow::Result<Ended> {
    check_interrupted()?;
    let line = crate::stage::shown(&command);
    command.stdin(Stdio::null()).process_group(0);
    if echo != Echo::Elsewhere {
        command.stdout(Stdio::piped());
    }
    if echo == Echo::Kept {
        command.stderr(Stdio::piped());
    }
    // SAFETY: `prctl` may be called between fork and exec.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let started = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let group = child.id() as libc::pid_t;
    RUNNING.store(group, Ordering::SeqCst);
    let output = child.stdout.take().map(|from| lines(from, echo));
    let complaint = child.stderr.take().map(|from| lines(from, Echo::Kept));
    let (done, watched) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        let is_over = watched.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
        if is_over {
            end_group(group);
        }
        is_over
    });
    let reaped = reap(group);
    let wall = started.elapsed();
    drop(done);
    // Whatever it left behind must not hold its pipes, nor the machine.
    end_group(group);
    RUNNING.store(0, Ordering::SeqCst);
    let is_over = watchdog.join().unwrap_or(false);
    let join = |lines: Option<thread::JoinHandle<Vec<String>>>| {
        lines.and_then(|lines| lines.join().ok()).unwrap_or_default()
    };
    let (output, complaint) = (join(output), join(complaint).join("\n"));
    check_interrupted()?;
    let (end, cpu) = reaped.with_context(|| format!("cannot wait for `{line}`"))?;
    Ok(Ended {
        end: if is_over { End::OverTime } else { end },
        wall,
        cpu,
        output,
        complaint,
    })
}

/// Runs a program whose output is for people, and fails if it fails.
pub(crate) fn succeed(command: Command, limit: Duration) -> anyhow::Result<()> {
    let line = crate::stage::shown(&command);
    let ended = run(command, limit, Echo::Shown)?;
    if !ended.ended_well() {
        bail!("`{line}` ended with {:?}", ended.end);
    }
    Ok(())
}

fn lines(from: impl Read + Send + 'static, echo: Echo) -> thread::JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if echo == Echo::Shown {
                eprintln!("{line}");
            }
            kept.push(line);
        }
        kept
    })
}

fn end_group(group: libc::pid_t) {
    // SAFETY: sends a signal to the group that was made for the child; none is there when all have ended.
    unsafe { libc::kill(-group, libc::SIGKILL) };
}

/// Waits for a child and says how it ended and what it used.
fn reap(pid: libc::pid_t) -> std::io::Result<(End, Duration)> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both places are ours, and the kernel fills them.
        let reaped = unsafe { libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()) };
        match reaped {
            -1 if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            -1 => return Err(std::io::Error::last_os_error()),
            _ => break,
        }
    }
    // SAFETY: zero is a valid value of every field, and the kernel has written over it.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    let end = match libc::WIFEXITED(status) {
        true => End::Exited(libc::WEXITSTATUS(status)),
        false => End::Killed(libc::WTERMSIG(status)),
    };
    Ok((end, time(usage.ru_utime) + time(usage.ru_stime)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Ended {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, limit, Echo::Kept).unwrap()
    }

    #[test]
    fn a_program_is_run_to_its_end_and_heard() {
        let ended = shell("echo one; echo two; echo no >&2; exit 3", Duration::from_secs(60));
        assert_eq!(ended.end, End::Exited(3));
        assert_eq!(ended.output, ["one", "two"]);
        assert_eq!(ended.last_words(), "no");
    }

    #[test]
    fn a_deadline_ends_a_program_and_what_it_started() {
        let ended = shell("sleep 1000 & echo $!; wait", Duration::from_millis(300));
        assert_eq!(ended.end, End::OverTime);
        let child = &ended.output[0];
        let is_running = || {
            let state = std::fs::read_to_string(format!("/proc/{child}/stat"));
            state.is_ok_and(|state| !state.contains(") Z ") && state.contains("(sleep)"))
        };
        // A killed process is gone only when the kernel gets to it.
        let killed = Instant::now();
        while is_running() && killed.elapsed() < Duration::from_secs(30) {
            thread::yield_now();
        }
        assert!(!is_running(), "`sleep` still runs as {child}");
    }
}
