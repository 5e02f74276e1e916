//! The launcher: forks a supervisor for each sandbox, and removes its cgroups when it has ended.
//!
//! It outlives Annals by a moment, so that those are removed also when Annals was killed.
//!
//! Must stay single-threaded: its children go on with ordinary code after the fork.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};

use super::wire::{self, OpenRequest, Opened, Refusal, ToLauncher};
use super::{identity, probe, supervisor, syscalls};
use crate::spec::Layer;

/// Cgroup directories of each living supervisor.
type Cgroups = HashMap<libc::pid_t, Vec<PathBuf>>;

/// Serves requests until Annals is gone, then waits for the supervisors, which see that as well.
pub(crate) fn serve(socket: &UnixStream) {
    let mut cgroups = Cgroups::new();
    answer(socket, &mut cgroups);
    while let Ok((pid, _)) = syscalls::wait() {
        remove(cgroups.remove(&pid));
    }
}

fn remove(directories: Option<Vec<PathBuf>>) {
    for directory in directories.into_iter().flatten() {
        let _ = std::fs::remove_dir(directory);
    }
}

fn answer(socket: &UnixStream, cgroups: &mut Cgroups) {
    let Ok(children) = syscalls::child_signal() else {
        return;
    };
    loop {
        let mut ready = [
            PollFd::new(socket, PollFlags::IN),
            PollFd::new(&children, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        let (asked, ended) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
        if ended {
            syscalls::drain_signal(&children);
            while let Ok(Some((pid, _))) = syscalls::reap() {
                remove(cgroups.remove(&pid));
            }
        }
        if asked {
            match wire::receive(socket) {
                Ok(Some((ToLauncher::Open(request), fds))) => open(request, fds, cgroups),
                Ok(Some((ToLauncher::Probe, mut fds))) => {
                    if let Some(reply) = fds.pop() {
                        let _ = wire::send(&UnixStream::from(reply), &probe::layers(), &[]);
                    }
                }
                Ok(None) | Err(_) => return,
            }
        }
    }
}

fn open(mut request: OpenRequest, fds: Vec<OwnedFd>, cgroups: &mut Cgroups) {
    let mut fds = fds.into_iter();
    let Some(reply) = fds.next().map(UnixStream::from) else {
        return;
    };
    let entries: Vec<OwnedFd> = fds.collect();
    let directories = std::mem::take(&mut request.cgroups);
    let host_ids = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    match syscalls::fork_into(identity::first_namespaces(&request, host_ids.0)) {
        Ok(syscalls::Forked::Child) => supervisor::supervise(request, host_ids, reply, entries),
        Ok(syscalls::Forked::Parent(pid)) => drop(cgroups.insert(pid, directories)),
        Err(error) => {
            remove(Some(directories));
            let refusal = blame(&request, error);
            let _ = wire::send(&reply, &Opened::Refused(refusal), &[]);
        }
    }
}

/// The kernel does not say which namespace it refused; trying them one by one does.
fn blame(request: &OpenRequest, error: std::io::Error) -> Refusal {
    let missing = probe::layers()
        .into_iter()
        .find(|fact| request.has(fact.layer) && fact.missing.is_some());
    match missing {
        Some(fact) => Refusal {
            layer: Some(fact.layer),
            reason: fact.missing.unwrap_or_default(),
        },
        None => Refusal::of(Layer::User, "could not create namespaces", error),
    }
}
