//! Which layers this machine has: each is tried in a process of its own, and the kernel's answer kept.

use std::io;

use super::{identity, syscalls};
use crate::facts::LayerFact;
use crate::spec::Layer;

/// One fact for each layer. Runs in the launcher, which is single-threaded.
pub(super) fn layers() -> Vec<LayerFact> {
    Layer::ALL
        .into_iter()
        .map(|layer| LayerFact {
            layer,
            missing: missing(layer),
        })
        .collect()
}

fn missing(layer: Layer) -> Option<String> {
    match layer {
        Layer::User | Layer::Mount | Layer::Pid | Layer::Ipc | Layer::Uts | Layer::Net => namespace(layer),
        Layer::Seccomp => seccomp(),
        Layer::Landlock => {
            (syscalls::landlock_version() == 0).then(|| "the kernel has no Landlock".to_owned())
        }
        Layer::UnprivilegedUid => None,
        Layer::Cgroup => super::cgroup::missing(),
    }
}

fn namespace(layer: Layer) -> Option<String> {
    // An ordinary user may make the others only inside a user namespace of its own.
    let flags = identity::namespace_flag(layer) | libc::CLONE_NEWUSER;
    match syscalls::fork_into(flags) {
        Ok(syscalls::Forked::Child) => syscalls::exit_now(0),
        Ok(syscalls::Forked::Parent(pid)) => {
            // SAFETY: waits for the child made above.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            None
        }
        Err(error) => Some(explain(&error)),
    }
}

fn explain(error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "; unprivileged user namespaces may be switched off (sysctl kernel.unprivileged_userns_clone, \
             kernel.apparmor_restrict_unprivileged_userns) or forbidden by a container"
        }
        Some(libc::ENOSPC | libc::EUSERS) => "; see sysctl user.max_user_namespaces",
        Some(libc::EINVAL) => "; the kernel was built without it",
        _ => "",
    };
    format!("{error}{hint}")
}

fn seccomp() -> Option<String> {
    const SECCOMP_GET_ACTION_AVAIL: libc::c_ulong = 2;
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads one word.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    (result != 0).then(|| format!("the kernel has no seccomp filter: {}", io::Error::last_os_error()))
}
