//! The first process of one command, and the command until it becomes its program.
//!
//! Init starts the command, collects what ends, and exits when the command has ended or Annals has let go of the
//! control socket. With a process namespace the kernel then ends everything else in it; without one, init does.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};

use super::supervisor::Supervisor;
use super::wire::{LaunchStep, Moment, OpenRequest, Report, RunRequest};
use super::{identity, rootfs, syscalls, tree};
use crate::limits::Limits;
use crate::spec::Layer;

/// Never returns: this process is init until the command ends.
pub(super) fn run(supervisor: &mut Supervisor, run: RunRequest, stdio: [OwnedFd; 3], control: OwnedFd) -> ! {
    let status = match start(supervisor, run, stdio, &control) {
        Ok((command, children)) => watch(command, &children, &control),
        Err((step, error)) => {
            report_failure(&control, step, &error);
            None
        }
    };
    // Before the report, so that its reader knows that nothing is left.
    if supervisor.request.has(Layer::Pid) {
        tree::kill_namespace()
    } else {
        tree::kill_descendants()
    }
    if let Some(status) = status {
        send(&control, Report::Ended { status });
    }
    syscalls::exit_now(0)
}

/// Tells Annals that a step failed; if nobody listens, nobody needs to know.
pub(super) fn report_failure(control: &OwnedFd, step: LaunchStep, error: &io::Error) {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    send(control, Report::Failed { step, errno });
}

pub(super) fn send(control: &OwnedFd, report: Report) {
    let _ = rustix::net::send(control, &report.to_bytes(), rustix::net::SendFlags::NOSIGNAL);
}

fn start(
    supervisor: &mut Supervisor,
    run: RunRequest,
    stdio: [OwnedFd; 3],
    control: &OwnedFd,
) -> Result<(libc::pid_t, OwnedFd), (LaunchStep, io::Error)> {
    let failed = |step| move |error| (step, error);
    if supervisor.request.has(Layer::Pid) {
        if supervisor.request.has(Layer::Mount) {
            rootfs::mount_proc(Path::new("/proc")).map_err(failed(LaunchStep::Proc))?;
        }
    } else {
        // Orphans come to init instead of escaping it.
        syscalls::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).map_err(failed(LaunchStep::Fork))?;
    }
    if !supervisor.request.layers.is_empty() && !supervisor.drops_late {
        syscalls::drop_capabilities().map_err(failed(LaunchStep::Identity))?;
    }
    let children = syscalls::child_signal().map_err(failed(LaunchStep::Fork))?;
    let pid = syscalls::spawn_borrowing(&mut || {
        let (step, error) = become_program(supervisor, &run, &stdio);
        report_failure(control, step, &error);
    });
    // What the child has of the pipes is its own; ours would keep them open.
    drop(stdio);
    Ok((pid.map_err(failed(LaunchStep::Fork))?, children))
}

/// Until the command ends, with its status, or Annals lets go.
fn watch(command: libc::pid_t, children: &OwnedFd, control: &OwnedFd) -> Option<i32> {
    loop {
        let mut ready = [
            PollFd::new(children, PollFlags::IN),
            PollFd::new(control, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
        if !ready[0].revents().is_empty() {
            syscalls::drain_signal(children);
            while let Ok(Some((pid, status))) = syscalls::reap() {
                if pid == command {
                    return Some(status);
                }
            }
        }
        // Annals never writes here: anything to see means that it let go.
        if !ready[1].revents().is_empty() {
            return None;
        }
    }
}

/// Applies the last isolation layers to this process and becomes the program; returns only what failed.
fn become_program(
    supervisor: &mut Supervisor,
    run: &RunRequest,
    stdio: &[OwnedFd; 3],
) -> (LaunchStep, io::Error) {
    match prepare(supervisor, run, stdio) {
        Ok(()) if run.not_after.is_some_and(Moment::has_passed) => {
            (LaunchStep::Late, io::ErrorKind::TimedOut.into())
        }
        Ok(()) => (LaunchStep::Exec, exec(supervisor, run)),
        Err(failed) => failed,
    }
}

fn prepare(
    supervisor: &mut Supervisor,
    run: &RunRequest,
    stdio: &[OwnedFd; 3],
) -> Result<(), (LaunchStep, io::Error)> {
    let failed = |step| move |error| (step, error);
    rustix::process::setsid().map_err(|errno| (LaunchStep::Identity, errno.into()))?;
    let [stdin, stdout, stderr] = stdio;
    rustix::stdio::dup2_stdin(stdin)
        .and_then(|()| rustix::stdio::dup2_stdout(stdout))
        .and_then(|()| rustix::stdio::dup2_stderr(stderr))
        .map_err(|errno| (LaunchStep::Fork, errno.into()))?;
    if let Some(limits) = &supervisor.request.limits {
        limit(limits, &supervisor.request, supervisor.is_full()).map_err(failed(LaunchStep::Limits))?;
    }
    if supervisor.drops_late {
        syscalls::become_user(identity::NOBODY, identity::NOBODY).map_err(failed(LaunchStep::Identity))?;
        let _ = syscalls::drop_capabilities();
    }
    if !supervisor.request.layers.is_empty() {
        syscalls::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(failed(LaunchStep::Identity))?;
    }
    rustix::process::chdir(&run.cwd).map_err(|errno| (LaunchStep::Cwd, errno.into()))?;
    if let Some(landlock) = supervisor.landlock.take() {
        landlock.restrict_self().map_err(failed(LaunchStep::Landlock))?;
    }
    syscalls::close_on_exec_from(3).map_err(failed(LaunchStep::Fork))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    syscalls::reset_signals();
    Ok(())
}

fn limit(limits: &Limits, request: &OpenRequest, is_full: bool) -> io::Result<()> {
    syscalls::set_limit(libc::RLIMIT_CORE, 0)?;
    syscalls::set_limit(libc::RLIMIT_CPU, limits.cpu_seconds)?;
    // In a workspace that is full already files can be removed, not written.
    syscalls::set_limit(libc::RLIMIT_FSIZE, if is_full { 0 } else { limits.file_bytes })?;
    syscalls::set_limit(libc::RLIMIT_NOFILE, limits.open_files)?;
    syscalls::set_limit(libc::RLIMIT_DATA, limits.memory_bytes)?;
    syscalls::set_limit(libc::RLIMIT_MEMLOCK, 64 << 10)?;
    syscalls::set_limit(libc::RLIMIT_MSGQUEUE, 0)?;
    if request.has(Layer::User) {
        // Counted per user and namespace; without an own namespace it would count the host's processes.
        syscalls::set_limit(libc::RLIMIT_NPROC, limits.processes)?;
    }
    let address_space = request.helper.as_ref().map(|helper| helper.address_space_bytes);
    if let Some(Some(bytes)) = address_space {
        syscalls::set_limit(libc::RLIMIT_AS, bytes)?;
    } else if !request.cgroup_bounds_memory {
        // Shared memory is in no other per-process bound. Interpreters reserve far more addresses than they use.
        syscalls::set_limit(libc::RLIMIT_AS, limits.memory_bytes.saturating_mul(2))?;
    }
    Ok(())
}

fn exec(supervisor: &mut Supervisor, run: &RunRequest) -> io::Error {
    let argv: Result<Vec<_>, _> = run
        .argv
        .iter()
        .map(|argument| CString::new(argument.as_bytes()))
        .collect();
    let env: Result<Vec<_>, _> = run
        .env
        .iter()
        .map(|(name, value)| CString::new(format!("{name}={value}")))
        .collect();
    let (Ok(argv), Ok(env)) = (argv, env) else {
        return io::ErrorKind::InvalidInput.into();
    };
    let path = run
        .env
        .iter()
        .find(|(name, _)| name == "PATH")
        .map_or("", |(_, path)| path);
    let candidates = candidates(&run.argv[0], path);
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings
            .iter()
            .map(|string| string.as_ptr())
            .chain([std::ptr::null()])
            .collect()
    };
    let (argv, env) = (pointers(&argv), pointers(&env));
    // Last, for it forbids some of what came before.
    if let Some(filter) = &supervisor.filter
        && let Err(error) = filter.apply()
    {
        return error;
    }
    // As shells do: a file that may not be executed is a better reason than a name that was not found.
    let mut reason = io::Error::from_raw_os_error(libc::ENOENT);
    for candidate in &candidates {
        let error = syscalls::exec(candidate, &argv, &env);
        if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR)) {
            reason = error;
        }
    }
    reason
}

fn candidates(program: &str, path: &str) -> Vec<CString> {
    if program.contains('/') {
        return CString::new(program).into_iter().collect();
    }
    let join = |directory: &str| CString::new(Path::new(directory).join(program).as_os_str().as_bytes()).ok();
    path.split(':')
        .filter(|directory| !directory.is_empty())
        .filter_map(join)
        .collect()
}
