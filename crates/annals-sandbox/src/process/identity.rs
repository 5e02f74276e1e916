//! Who a sandboxed process is: which namespaces it is born into, and how its ids map to the host's.
//!
//! An ordinary user makes all namespaces in one step and is itself inside. Root builds the mounts with its own
//! rights first, then becomes nobody for good, and only as nobody makes the user namespace: from there on both
//! cases are the same.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};

use super::syscalls;
use super::wire::{OpenRequest, Refusal};
use crate::spec::Layer;

/// User and group of a sandbox as seen from inside.
pub(super) const INSIDE_ID: u32 = 1000;

/// The identity that root gives up its own for: nobody.
pub(crate) const NOBODY: u32 = 65534;

/// Whether the sandbox is built in two steps, the first of them as root.
pub(super) fn is_staged(request: &OpenRequest, host_uid: u32) -> bool {
    host_uid == 0 && request.has(Layer::User) && request.has(Layer::UnprivilegedUid)
}

/// Whether commands must change user themselves, because no namespace did it for them.
pub(super) fn drops_late(request: &OpenRequest, host_uid: u32) -> bool {
    host_uid == 0 && !request.has(Layer::User) && request.has(Layer::UnprivilegedUid)
}

/// Namespaces the supervisor is forked into.
pub(super) fn first_namespaces(request: &OpenRequest, host_uid: u32) -> libc::c_int {
    if is_staged(request, host_uid) {
        flags(request, &[Layer::Mount, Layer::Pid])
    } else {
        flags(
            request,
            &[
                Layer::User,
                Layer::Mount,
                Layer::Pid,
                Layer::Ipc,
                Layer::Uts,
                Layer::Net,
            ],
        )
    }
}

/// Namespaces each command is forked into.
pub(super) fn command_namespaces(request: &OpenRequest) -> libc::c_int {
    // A mount namespace only to mount the process namespace's own /proc.
    if request.has(Layer::Pid) {
        flags(request, &[Layer::Pid, Layer::Mount])
    } else {
        0
    }
}

fn flags(request: &OpenRequest, layers: &[Layer]) -> libc::c_int {
    layers
        .iter()
        .filter(|layer| request.has(**layer))
        .fold(0, |flags, layer| flags | namespace_flag(*layer))
}

/// The namespace of a layer; 0 for a layer that is none.
pub(super) fn namespace_flag(layer: Layer) -> libc::c_int {
    match layer {
        Layer::User => libc::CLONE_NEWUSER,
        Layer::Mount => libc::CLONE_NEWNS,
        Layer::Pid => libc::CLONE_NEWPID,
        Layer::Ipc => libc::CLONE_NEWIPC,
        Layer::Uts => libc::CLONE_NEWUTS,
        Layer::Net => libc::CLONE_NEWNET,
        Layer::UnprivilegedUid | Layer::Seccomp | Layer::Landlock | Layer::Cgroup => 0,
    }
}

/// The host's /proc, held so that id maps can still be written after the root has changed.
pub(super) struct HostProc(OwnedFd);

impl HostProc {
    pub(super) fn open() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open("/proc", flags, Mode::empty())?))
    }

    pub(super) fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let file = openat(
            self.0.as_fd(),
            path,
            OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rustix::io::write(file, text.as_bytes())?;
        Ok(())
    }

    pub(super) fn open_file(&self, path: &str) -> io::Result<OwnedFd> {
        Ok(openat(
            self.0.as_fd(),
            path,
            OFlags::RDONLY | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    }

    /// Maps the one identity inside to `uid` and `gid` outside.
    pub(super) fn map_self(&self, uid: u32, gid: u32) -> io::Result<()> {
        self.write("self/setgroups", "deny")?;
        self.write("self/uid_map", &format!("{INSIDE_ID} {uid} 1"))?;
        self.write("self/gid_map", &format!("{INSIDE_ID} {gid} 1"))
    }
}

/// Second step of root's way: become nobody, then make the remaining namespaces as nobody.
pub(super) fn become_nobody(request: &OpenRequest, proc: &HostProc) -> Result<(), Refusal> {
    let refused =
        |doing: &'static str| move |error: io::Error| Refusal::of(Layer::UnprivilegedUid, doing, error);
    syscalls::become_user(NOBODY, NOBODY).map_err(refused("could not become nobody"))?;
    // Changing user made this process' files in /proc root's own; the id maps are among them.
    syscalls::prctl(libc::PR_SET_DUMPABLE, 1).map_err(refused("could not own /proc/self"))?;
    let namespaces = flags(
        request,
        &[Layer::User, Layer::Mount, Layer::Ipc, Layer::Uts, Layer::Net],
    );
    syscalls::unshare(namespaces)
        .map_err(|error| Refusal::of(Layer::User, "could not create namespaces as nobody", error))?;
    proc.map_self(NOBODY, NOBODY)
        .map_err(|error| Refusal::of(Layer::User, "could not map ids", error))
}

/// A user namespace that says how owners in a mount map: `owner` of the files is the sandbox's identity, all others
/// stay themselves. For id-mapped mounts only; nobody lives in it.
pub(super) fn mount_ids(proc: &HostProc, owner: (u32, u32)) -> io::Result<OwnedFd> {
    let (lifeline, kept) = rustix::pipe::pipe()?;
    match syscalls::fork_into(libc::CLONE_NEWUSER)? {
        syscalls::Forked::Child => {
            drop(kept);
            // Waits for the parent to be done with it, one way or the other.
            let _ = rustix::io::read(&lifeline, &mut [0u8; 1]);
            syscalls::exit_now(0)
        }
        syscalls::Forked::Parent(pid) => {
            let namespace = describe_mount_ids(proc, pid, owner);
            drop(kept);
            // SAFETY: waits for the child made above.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            namespace
        }
    }
}

fn describe_mount_ids(proc: &HostProc, child: libc::pid_t, owner: (u32, u32)) -> io::Result<OwnedFd> {
    // `self` of the host's /proc names this process as the host numbers it; the child's number is ours to know only
    // inside our own process namespace, whose parent sees it under another. So find it through our own children.
    let child = host_pid_of_child(proc, child)?;
    for (file, owner) in [("uid_map", owner.0), ("gid_map", owner.1)] {
        let path = format!("{child}/{file}");
        if proc.write(&path, &map_with_others(owner)).is_err() {
            // Root of a container may own fewer ids.
            proc.write(&path, &format!("{owner} {NOBODY} 1"))?;
        }
    }
    proc.open_file(&format!("{child}/ns/user"))
}

fn host_pid_of_child(proc: &HostProc, child: libc::pid_t) -> io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::from(proc.open_file("thread-self/children")?).read_to_string(&mut text)?;
    // This process has exactly one child now.
    text.split_whitespace().next().map(str::to_owned).ok_or_else(|| {
        io::Error::other(format!(
            "child {child} is not visible in /proc; the kernel needs CONFIG_PROC_CHILDREN"
        ))
    })
}

/// `owner` becomes nobody, everybody else but nobody stays.
fn map_with_others(owner: u32) -> String {
    let mut map = format!("{owner} {NOBODY} 1\n");
    let mut identity = |from: u32, to: u32| {
        if from < to {
            map.push_str(&format!("{from} {from} {}\n", to - from));
        }
    };
    let (low, high) = (owner.min(NOBODY), owner.max(NOBODY));
    identity(0, low);
    identity(low + 1, high.max(low + 1));
    identity(high + 1, u32::MAX);
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_map_gives_the_owner_to_nobody_and_leaves_all_others() {
        assert_eq!(
            map_with_others(0),
            "0 65534 1\n1 1 65533\n65535 65535 4294901760\n"
        );
        assert_eq!(
            map_with_others(1000),
            "1000 65534 1\n0 0 1000\n1001 1001 64533\n65535 65535 4294901760\n"
        );
        assert_eq!(
            map_with_others(NOBODY),
            "65534 65534 1\n0 0 65534\n65535 65535 4294901760\n"
        );
    }
}
