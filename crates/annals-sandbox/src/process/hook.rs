//! How this executable becomes the launcher: a constructor that runs before `main`.
//!
//! The launcher must be a fresh, single-threaded process, and a library has no executable of its own. So the
//! executable it is linked into starts itself again under a name only this module uses. In every other process the
//! constructor reads that name from `/proc/self/cmdline`, finds another, and is done within microseconds.

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// The zeroth argument of a launcher.
pub(super) const LAUNCHER_NAME: &str = "annals-sandbox-launcher";

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    if is_launcher() {
        // SAFETY: the parent put its socket at descriptor 0, and nothing else in this process knows of it yet.
        let socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(0) });
        super::launcher::serve(&socket);
        // SAFETY: ends the process without running destructors of a `main` that never began.
        unsafe { libc::_exit(0) };
    }
}

fn is_launcher() -> bool {
    let mut start = [0u8; LAUNCHER_NAME.len() + 1];
    // Raw calls and a fixed buffer: this runs in every start of every program that links the crate.
    // SAFETY: the path is a C string, the buffer has the length given, and the descriptor is closed here.
    let read = unsafe {
        let fd = libc::open(c"/proc/self/cmdline".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return false;
        }
        let read = libc::read(fd, start.as_mut_ptr().cast(), start.len());
        libc::close(fd);
        read
    };
    read == start.len() as isize && start.strip_suffix(&[0]) == Some(LAUNCHER_NAME.as_bytes())
}
