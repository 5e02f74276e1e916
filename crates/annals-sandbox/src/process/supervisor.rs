//! The supervisor: sets up one sandbox's isolation layers, then forks an init for every command.
//!
//! It is the first process of the sandbox's process namespace, so its end is the end of everything inside. It ends
//! when Annals closes its socket, also by dying.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::accounting::{self, Accounts};
use super::context::{self, ContextSocket};
use super::identity::{self, HostProc};
use super::landlock::LandlockRuleset;
use super::seccomp::SeccompFilters;
use super::wire::{self, LaunchStep, OpenRequest, Opened, Refusal, Report, RunRequest, Source};
use super::{init, rootfs, syscalls, tree};
use crate::spec::Layer;

/// A sandbox whose isolation layers are in place.
pub(super) struct Supervisor {
    pub(super) request: OpenRequest,
    pub(super) landlock: Option<LandlockRuleset>,
    pub(super) filter: Option<SeccompFilters>,
    /// Whether each command becomes nobody by itself.
    pub(super) drops_late: bool,
    scratch: PathBuf,
    /// Until Annals has it.
    context: Option<ContextSocket>,
    /// Until Annals has it: the socket that listens on the loopback of this network namespace.
    listener: Option<TcpListener>,
    sources: u64,
    /// None for a sandbox without limits.
    accounts: Option<Accounts>,
    running: Vec<RunningInit>,
}

/// The init of a command that has not ended.
struct RunningInit {
    pid: libc::pid_t,
    /// Its private source file.
    source: Option<PathBuf>,
    /// Init's own end of its control socket.
    control: OwnedFd,
}

/// Never returns: this process is the supervisor until it ends.
///
/// `host_ids` are the launcher's user and group: in a new user namespace a process cannot read its own any more.
pub(super) fn supervise(
    request: OpenRequest,
    host_ids: (u32, u32),
    socket: UnixStream,
    cgroups: Vec<OwnedFd>,
) -> ! {
    close_others(&socket, &cgroups);
    match Supervisor::build(request, host_ids, cgroups) {
        Ok(mut supervisor) => {
            let (context, listener) = (supervisor.context.take(), supervisor.listener.take());
            let ready = Opened::Ready {
                layers: supervisor.request.layers.clone(),
                scratch: supervisor.scratch.clone(),
                context: context.as_ref().map(|context| context.folder.clone()),
                is_listening: listener.is_some(),
            };
            let contexts = context.iter().map(|context| context.listener.as_fd());
            let listening: Vec<_> = contexts.chain(listener.iter().map(AsFd::as_fd)).collect();
            if wire::send(&socket, &ready, &listening).is_ok() {
                drop((context, listener));
                supervisor.serve(&socket);
            }
            supervisor.clean();
        }
        Err(refusal) => {
            let _ = wire::send(&socket, &Opened::Refused(refusal), &[]);
        }
    }
    syscalls::exit_now(0)
}

/// The launcher's own descriptors are not this sandbox's business. The first three stay taken, by the null device, so
/// that none of a command's descriptors is ever one of them.
fn close_others(socket: &UnixStream, cgroups: &[OwnedFd]) {
    if let Ok(null) = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let keep: Vec<i32> = std::iter::once(socket.as_raw_fd())
        .chain(cgroups.iter().map(AsRawFd::as_raw_fd))
        .collect();
    let highest = keep.iter().copied().max().unwrap_or(2);
    for fd in (3..highest).filter(|fd| !keep.contains(fd)) {
        // SAFETY: none of these is owned by anything this process still uses.
        unsafe { libc::close(fd) };
    }
    // SAFETY: as above, for all descriptors past the ones kept.
    unsafe { libc::syscall(libc::SYS_close_range, highest + 1, libc::c_uint::MAX, 0) };
}

impl Supervisor {
    fn build(mut request: OpenRequest, host_ids: (u32, u32), cgroups: Vec<OwnedFd>) -> Result<Self, Refusal> {
        for membership in cgroups {
            rustix::io::write(&membership, b"0")
                .map_err(|error| Refusal::of(Layer::Cgroup, "could not enter the cgroup", error))?;
        }
        let staged = identity::is_staged(&request, host_ids.0);
        let proc = HostProc::open().map_err(|error| Refusal::plain("could not open /proc", error))?;
        if request.limits.is_some() {
            // The first to go when the machine runs out of memory. Raising it needs no right; failing is harmless.
            let _ = proc.write("self/oom_score_adj", "1000");
        }
        if request.has(Layer::User) && !staged {
            proc.map_self(host_ids.0, host_ids.1)
                .map_err(|error| Refusal::of(Layer::User, "could not map ids", error))?;
        }
        let mut context = match request.has(Layer::Mount) {
            true => enter_root(&request, &proc, staged)?,
            false => None,
        };
        if staged {
            identity::become_nobody(&request, &proc)?;
        }
        let listener = enter_network(&request, &proc)?;
        if request.has(Layer::Uts) {
            let _ = rustix::system::sethostname(b"sandbox");
        }
        if !request.layers.is_empty() {
            // No process inside may look into this one.
            let _ = syscalls::prctl(libc::PR_SET_DUMPABLE, 0);
        }
        let scratch = if request.has(Layer::Mount) {
            Ok(PathBuf::from(rootfs::SCRATCH))
        } else {
            host_scratch(&request, host_ids.0)
        };
        let scratch =
            scratch.map_err(|error| Refusal::plain("could not make a temporary directory", error))?;
        if request.has_context && !request.has(Layer::Mount) {
            let made = context::make(&scratch.join("context"), &scratch.join("context"));
            context = Some(made.map_err(|error| {
                Refusal::plain("could not make the socket of the context service", error)
            })?);
        }
        let landlock = LandlockRuleset::build(&mut request, &scratch)?;
        let filter = request
            .has(Layer::Seccomp)
            .then(|| SeccompFilters::build(request.cgroup_bounds_memory))
            .transpose()?;
        let drops_late = identity::drops_late(&request, host_ids.0);
        // A helper has no workspace; what it can write is its scratch directory.
        let counted = match request.workspace {
            Some(_) => request.inside.clone(),
            None => scratch.clone(),
        };
        let accounts = request
            .limits
            .clone()
            .map(|limits| Accounts::new(limits, !request.cgroup_bounds_memory, counted));
        Ok(Self {
            request,
            landlock,
            filter,
            drops_late,
            scratch,
            context,
            listener,
            sources: 0,
            accounts,
            running: Vec::new(),
        })
    }

    fn serve(&mut self, socket: &UnixStream) {
        let Ok(children) = syscalls::child_signal() else {
            return;
        };
        loop {
            let mut ready = [
                PollFd::new(socket, PollFlags::IN),
                PollFd::new(&children, PollFlags::IN),
            ];
            match poll(&mut ready, self.pause().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let (asked, ended) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
            if ended {
                syscalls::drain_signal(&children);
                self.reap();
            }
            self.keep_accounts();
            if asked {
                match wire::receive::<RunRequest>(socket) {
                    Ok(Some((run, fds))) => self.run(run, fds),
                    Ok(None) | Err(_) => return,
                }
            }
        }
    }

    fn run(&mut self, mut run: RunRequest, fds: Vec<OwnedFd>) {
        let Ok([stdin, stdout, stderr, control]) = <[OwnedFd; 4]>::try_from(fds) else {
            return;
        };
        let source = match run
            .source
            .take()
            .map(|source| self.put_source(source))
            .transpose()
        {
            Ok(source) => source,
            Err(error) => return init::report_failure(&control, LaunchStep::Source, &error),
        };
        run.argv
            .extend(source.as_ref().map(|path| path.to_string_lossy().into_owned()));
        match syscalls::fork_into(identity::command_namespaces(&self.request)) {
            Ok(syscalls::Forked::Child) => init::run(self, run, [stdin, stdout, stderr], control),
            Ok(syscalls::Forked::Parent(pid)) => {
                if self.running.is_empty()
                    && let Some(accounts) = &mut self.accounts
                {
                    accounts.begin();
                }
                self.running.push(RunningInit { pid, source, control });
            }
            Err(error) => init::report_failure(&control, LaunchStep::Fork, &error),
        }
    }

    /// A file of its own in a directory of its own, so that the language finds nothing else beside it.
    fn put_source(&mut self, source: Source) -> io::Result<PathBuf> {
        self.sources += 1;
        let directory = self.scratch.join(format!("code-{}", self.sources));
        let made = std::fs::create_dir(&directory);
        if made
            .as_ref()
            .is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        {
            // A program took the name first; it may keep it.
            return self.put_source(source);
        }
        made?;
        let path = directory.join(source.file_name);
        std::fs::write(&path, source.text)?;
        Ok(path)
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, _))) = syscalls::reap() {
            let Some(at) = self.running.iter().position(|running| running.pid == pid) else {
                continue;
            };
            let ended = self.running.swap_remove(at);
            if let Some(directory) = ended.source.as_deref().and_then(Path::parent) {
                let _ = std::fs::remove_dir_all(directory);
            }
        }
    }

    /// Whether the workspace is beyond its bounds already.
    pub(super) fn is_full(&self) -> bool {
        self.accounts.as_ref().is_some_and(Accounts::is_full)
    }

    /// How long to wait for something to happen before the accounts are due.
    fn pause(&self) -> Option<Timespec> {
        let accounts = self.accounts.as_ref().filter(|_| !self.running.is_empty())?;
        accounts.pause().try_into().ok()
    }

    /// Ends every command when the sandbox is beyond a bound, and tells why.
    fn keep_accounts(&mut self) {
        let Some(accounts) = &mut self.accounts else {
            return;
        };
        if self.running.is_empty() {
            return accounts.finish();
        }
        let Some(bound) = accounts.check() else {
            return;
        };
        for running in &self.running {
            init::send(&running.control, Report::Exceeded(bound));
            // Init takes this for Annals letting go, and ends everything that is left.
            let _ = rustix::net::shutdown(&running.control, rustix::net::Shutdown::Read);
        }
    }

    /// Leaves nothing behind. Inside a private root there are no files to leave.
    fn clean(&mut self) {
        if self.request.has(Layer::Pid) {
            tree::kill_namespace()
        } else {
            tree::kill_descendants()
        }
        if !self.request.has(Layer::Mount) {
            let _ = std::fs::remove_dir_all(&self.scratch);
        }
    }
}

/// Enters the sandbox's own root; what it shows of the host is id-mapped where this process is root.
fn enter_root(
    request: &OpenRequest,
    proc: &HostProc,
    is_staged: bool,
) -> Result<Option<ContextSocket>, Refusal> {
    let ids = is_staged.then(|| identity::mount_ids(proc, request.owner));
    let ids = ids.transpose().map_err(|error| {
        Refusal::of(
            Layer::UnprivilegedUid,
            "could not describe id-mapped mounts",
            error,
        )
    })?;
    rootfs::enter(request, ids.as_ref())
}

/// Makes the sandbox's own network usable, and listens there if that was asked for. Sockets stay in the namespace that they were
/// made in, so Annals can accept there what nobody else can reach.
fn enter_network(request: &OpenRequest, proc: &HostProc) -> Result<Option<TcpListener>, Refusal> {
    if request.has(Layer::Net) {
        // Programs may talk to themselves; a namespace without it would only break them.
        let _ = syscalls::loopback_up();
        if !request.cgroup_bounds_memory {
            for (setting, value) in accounting::TCP_BUFFERS {
                // Fails where a container's /proc is read-only: then the queues are counted.
                let _ = proc.write(setting, value);
            }
        }
    }
    let Some(port) = request.listens_on else {
        return Ok(None);
    };
    if !request.has(Layer::Net) {
        return Err(Refusal {
            layer: Some(Layer::Net),
            reason: "there is no network of its own to listen in".to_owned(),
        });
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map(Some)
        .map_err(|error| Refusal::of(Layer::Net, "could not listen on the loopback inside", error))
}

/// A directory of its own in the host's temporary directory.
fn host_scratch(request: &OpenRequest, host_uid: u32) -> io::Result<PathBuf> {
    let directory = tempfile::Builder::new()
        .prefix("annals-sandbox-")
        .tempdir_in("/tmp")?
        .keep();
    if identity::drops_late(request, host_uid) {
        std::os::unix::fs::chown(&directory, Some(identity::NOBODY), Some(identity::NOBODY))?;
    }
    Ok(directory)
}
