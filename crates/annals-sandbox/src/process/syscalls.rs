//! The few system calls that neither `std` nor `rustix` offers, each behind a safe function.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Which side of a fork this is.
pub(crate) enum Forked {
    Child,
    Parent(libc::pid_t),
}

/// Forks into new namespaces. Only for single-threaded processes: the child goes on with ordinary code.
pub(crate) fn fork_into(namespaces: libc::c_int) -> io::Result<Forked> {
    // The kernel's `struct clone_args`, first version: 8 words.
    let mut args = [0u64; 8];
    args[0] = namespaces as u64;
    args[4] = libc::SIGCHLD as u64;
    // SAFETY: no stack is given and memory is not shared, so this is a fork; the size matches the array.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, args.as_mut_ptr(), size_of_val(&args)) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Ok(Forked::Parent(pid as libc::pid_t)),
    }
}

/// Starts a child that borrows this process' memory until it becomes another program or exits; this process waits for
/// that. Saves copying the memory. `child` must not return, and must not unwind.
pub(crate) fn spawn_borrowing(child: &mut dyn FnMut()) -> io::Result<libc::pid_t> {
    const STACK_BYTES: usize = 256 << 10;

    extern "C" fn enter(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the parent, suspended until this child is gone from its memory, keeps the closure alive.
        let child = unsafe { &mut *argument.cast::<&mut dyn FnMut()>() };
        child();
        exit_now(127)
    }

    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    let mut child = child;
    let argument = (&raw mut child).cast();
    // SAFETY: the stack grows downwards from its aligned end and, like the closure, outlives the child's use of it:
    // `CLONE_VFORK` returns only when the child has let go of this memory. The process is single-threaded.
    let pid = unsafe {
        let top = stack.as_mut_ptr_range().end.cast();
        libc::clone(
            enter,
            top,
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            argument,
        )
    };
    if pid < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(pid)
    }
}

/// Leaves this process at once: no destructors, no exit handlers of the program it was forked from.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: always sound; that nothing is cleaned up is the point.
    unsafe { libc::_exit(code) }
}

/// Moves this process into new namespaces.
pub(crate) fn unshare(namespaces: libc::c_int) -> io::Result<()> {
    // SAFETY: takes only flags; the process is single-threaded.
    check(unsafe { libc::unshare(namespaces) })
}

/// A `prctl` whose arguments are plain numbers.
pub(crate) fn prctl(option: libc::c_int, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the callers' options take numbers only.
    check(unsafe { libc::prctl(option, argument, 0, 0, 0) })
}

/// Gives up every capability in every set.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    prctl(
        libc::PR_CAP_AMBIENT,
        libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong,
    )?;
    for capability in 0..64 {
        // Fails past the last one the kernel knows, and where there is none left to drop.
        if prctl(libc::PR_CAPBSET_DROP, capability).is_err() {
            break;
        }
    }
    const LINUX_CAPABILITY_VERSION_3: u32 = 0x2008_0522;
    let header = [LINUX_CAPABILITY_VERSION_3, 0];
    let none = [0u32; 6];
    // SAFETY: header and data have the layout of version 3: two words, and two triples of words.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) } as libc::c_int)
}

/// Becomes this user and group, with no supplementary groups, for good.
pub(crate) fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: plain calls; an empty group list may be a null pointer.
    unsafe {
        check(libc::setgroups(0, std::ptr::null()))?;
        check(libc::setresgid(gid, gid, gid))?;
        check(libc::setresuid(uid, uid, uid))
    }
}

/// Sets soft and hard limit.
pub(crate) fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    // A process may lower its hard limit but not raise it; the smaller of the two is what was meant.
    let mut current = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls get a valid `rlimit`.
    unsafe {
        check(libc::getrlimit(resource, &mut current))?;
        let value = value.min(current.rlim_max);
        check(libc::setrlimit(
            resource,
            &libc::rlimit {
                rlim_cur: value,
                rlim_max: value,
            },
        ))
    }
}

/// Changes attributes of a mount and all below it, as `struct mount_attr`: set, clear, propagation, user namespace.
pub(crate) fn mount_setattr(tree: BorrowedFd<'_>, attributes: [u64; 4], depth: Depth) -> io::Result<()> {
    let recursive = match depth {
        Depth::Recursive => libc::AT_RECURSIVE,
        Depth::Single => 0,
    };
    // SAFETY: an empty path with `AT_EMPTY_PATH` means the descriptor itself; the size matches the array.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    } as libc::c_int)
}

/// Whether an attribute change reaches the mounts below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Single,
    Recursive,
}

/// `close_range` that marks every descriptor from `first` on to be closed at exec.
pub(crate) fn close_on_exec_from(first: libc::c_uint) -> io::Result<()> {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: only sets a flag on this process' descriptors.
    check(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            CLOSE_RANGE_CLOEXEC,
        )
    } as libc::c_int)
}

/// Blocks `SIGCHLD` and returns a descriptor that becomes readable when a child ends.
pub(crate) fn child_signal() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised before use, and the descriptor is new and ours.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()))?;
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        check(fd)?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Forgets pending signals of a [`child_signal`] descriptor.
pub(crate) fn drain_signal(signal: &OwnedFd) {
    let mut buffer = [0u8; 512];
    while rustix::io::read(signal, &mut buffer).is_ok_and(|read| read > 0) {}
}

/// Default handlers and nothing blocked, as a program expects to start.
pub(crate) fn reset_signals() {
    // SAFETY: plain calls on this process; errors for signals that cannot be changed do not matter.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &set, std::ptr::null_mut());
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// One ended child, if there is one: its id and wait status.
pub(crate) fn reap() -> io::Result<Option<(libc::pid_t, i32)>> {
    let mut status = 0;
    // SAFETY: writes one integer.
    match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some((pid, status))),
    }
}

/// The next child that ends: its id and wait status. An error when there is no child.
pub(crate) fn wait() -> io::Result<(libc::pid_t, i32)> {
    let mut status = 0;
    // SAFETY: writes one integer.
    match unsafe { libc::waitpid(-1, &mut status, 0) } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok((pid, status)),
    }
}

/// Becomes another program; returns only when that fails.
pub(crate) fn exec(program: &CStr, argv: &[*const libc::c_char], env: &[*const libc::c_char]) -> io::Error {
    // SAFETY: both arrays end with a null pointer and point to C strings that outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // SAFETY: `ifreq` is plain data; the kernel reads name and flags from it.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request))
    }
}

/// The version of Landlock this kernel has; 0 when it has none or it is switched off.
pub(crate) fn landlock_version() -> i32 {
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with this flag the kernel reads no memory.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).unwrap_or(0).max(0)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
