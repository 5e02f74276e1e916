//! What a sandbox uses, counted while its commands run, for the bounds that the kernel does not keep by itself.
//!
//! - **Memory** where no cgroup bounds it: what all processes hold, what lies in the private `/tmp` and `/dev/shm`, and a
//!   flat charge for every socket, whose buffers belong to no process. The seccomp filter refuses the other kinds of
//!   memory without an owner (see [`super::seccomp`]).
//! - **The workspace**: bytes and files, always. Between two walks the file system's own free space tells whether
//!   another one is due, so a program cannot outrun the interval by writing fast.
//!
//! Counting is bounded by time: the next look is due when the last one is at most a twentieth of the time passed.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use annals_files::{Root, Walk};

use super::wire::Exceeded;
use crate::limits::Limits;

/// Buffers of one socket, both ways, at the kernel's default sizes.
const SOCKET_BYTES: u64 = 512 << 10;

const SOCKET_TABLES: [&str; 7] = ["unix", "tcp", "tcp6", "udp", "udp6", "raw", "netlink"];

/// Shortest time between two looks at memory, and at the workspace.
const MEMORY_EVERY: Duration = Duration::from_millis(20);
const WORKSPACE_EVERY: Duration = Duration::from_millis(200);

/// How much longer than a look the pause after it is.
const PAUSE_FACTOR: u32 = 20;

/// Free space that may vanish before the workspace is looked at again at once.
const UNEXPLAINED_BYTES: u64 = 32 << 20;
const UNEXPLAINED_FILES: u64 = 2_000;

/// The share of a bound (one part of this many) by which a workspace that was too full may grow before a command is ended
/// for it. Such a command can write nothing (see [`Accounts::is_full`]); what still grows is accounting.
const TOLERATED_GROWTH: u64 = 8;

/// The accounts of one sandbox.
pub(super) struct Accounts {
    limits: Limits,
    counts_memory: bool,
    workspace: PathBuf,
    memory_due: Instant,
    workspace_due: Instant,
    /// What the workspace held at the last walk before a command found the sandbox idle, and at the last of all.
    at_start: Usage,
    last: Usage,
    free_at_last: Option<Free>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    bytes: u64,
    files: u64,
}

#[derive(Clone, Copy)]
struct Free {
    bytes: u64,
    files: u64,
}

impl Accounts {
    /// `counts_memory`: no cgroup does. `workspace`: where it appears to this process.
    pub(super) fn new(limits: Limits, counts_memory: bool, workspace: PathBuf) -> Self {
        let now = now();
        let free_at_last = free(&workspace);
        Self {
            limits,
            counts_memory,
            workspace,
            memory_due: now,
            workspace_due: now,
            at_start: Usage::default(),
            last: Usage::default(),
            free_at_last,
        }
    }

    /// Whether the workspace was beyond its bounds at the last look: then a command may remove files, not write any.
    pub(super) fn is_full(&self) -> bool {
        self.beyond(self.last).is_some()
    }

    /// A command starts in an idle sandbox: what it finds is not its doing.
    pub(super) fn begin(&mut self) {
        let now = now();
        self.at_start = self.last;
        self.memory_due = now + MEMORY_EVERY;
        self.workspace_due = now + MEMORY_EVERY;
    }

    /// How long nothing needs to be looked at.
    pub(super) fn pause(&self) -> Duration {
        let due = if self.counts_memory {
            self.memory_due.min(self.workspace_due)
        } else {
            self.workspace_due
        };
        // Free space is asked for at every look, so looks are frequent even when walks are not.
        due.saturating_duration_since(now())
            .clamp(Duration::from_millis(1), WORKSPACE_EVERY)
    }

    /// Looks at what is due; a bound that is broken, if one is.
    pub(super) fn check(&mut self) -> Option<Exceeded> {
        if self.counts_memory && now() >= self.memory_due {
            let (used, took) = timed(|| memory_beyond(self.limits.memory_bytes));
            self.memory_due = now() + (took * PAUSE_FACTOR).max(MEMORY_EVERY);
            if used {
                return Some(Exceeded::Memory);
            }
        }
        if now() >= self.workspace_due || self.has_unexplained_growth() {
            return self.look_at_workspace();
        }
        None
    }

    /// Looks once more when the last command has ended, if much changed or a full workspace may have been cleaned up:
    /// short commands end between two looks.
    pub(super) fn finish(&mut self) {
        if self.is_full() || self.has_unexplained_growth() {
            self.look_at_workspace();
        }
    }

    fn look_at_workspace(&mut self) -> Option<Exceeded> {
        let (used, took) = timed(|| usage(&self.workspace));
        self.workspace_due = now() + (took * PAUSE_FACTOR).max(WORKSPACE_EVERY);
        self.free_at_last = free(&self.workspace);
        self.last = used;
        // A workspace that was too full already may be cleaned up, or looked at. The last command may have written a
        // little after the last look, and the file system allocates blocks later than they are written.
        let grew = used.bytes.saturating_sub(self.at_start.bytes)
            > self.limits.workspace_bytes / TOLERATED_GROWTH
            || used.files.saturating_sub(self.at_start.files)
                > self.limits.workspace_files / TOLERATED_GROWTH;
        self.beyond(used)
            .filter(|_| grew || self.beyond(self.at_start).is_none())
    }

    fn beyond(&self, used: Usage) -> Option<Exceeded> {
        if used.bytes > self.limits.workspace_bytes {
            return Some(Exceeded::WorkspaceBytes);
        }
        (used.files > self.limits.workspace_files).then_some(Exceeded::WorkspaceFiles)
    }

    /// Whether the file system lost more than a little since the last walk. Others may have taken it; then one walk
    /// was for nothing.
    fn has_unexplained_growth(&self) -> bool {
        let (Some(before), Some(now)) = (self.free_at_last, free(&self.workspace)) else {
            return false;
        };
        before.bytes.saturating_sub(now.bytes) > UNEXPLAINED_BYTES.min(self.limits.workspace_bytes / 4)
            || before.files.saturating_sub(now.files) > UNEXPLAINED_FILES.min(self.limits.workspace_files / 4)
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "this runs in the sandbox's own process, which paces itself by a monotonic clock"
)]
fn now() -> Instant {
    Instant::now()
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = now();
    let done = work();
    (done, started.elapsed())
}

fn free(workspace: &Path) -> Option<Free> {
    let stat = rustix::fs::statvfs(workspace).ok()?;
    Some(Free {
        bytes: stat.f_bfree.saturating_mul(stat.f_frsize),
        files: stat.f_ffree,
    })
}

/// Bytes on disk and files of the workspace, with files that were removed while a process still has them open.
fn usage(workspace: &Path) -> Usage {
    let mut used = Usage::default();
    let Ok(root) = Root::open(workspace) else {
        return used;
    };
    for entry in Walk::new(&root) {
        used.files += 1;
        used.bytes += entry.disk_bytes();
    }
    let device = std::fs::metadata(workspace).map(|meta| meta.dev());
    let mut seen = HashSet::new();
    for pid in processes() {
        let folder = Path::new("/proc").join(pid.to_string()).join("fd");
        for link in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = std::fs::metadata(link.path()) else {
                continue;
            };
            let is_here = device.as_ref().is_ok_and(|device| *device == meta.dev());
            if is_here && meta.is_file() && meta.nlink() == 0 && seen.insert(meta.ino()) {
                used.files += 1;
                used.bytes += meta.blocks() * 512;
            }
        }
    }
    used
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = std::process::id();
    pids.filter(move |pid| *pid != own)
}

/// Whether everything inside holds more memory than this. Pages that processes share are counted once for each at
/// first, which is quick; only when that is too much are they divided among those who share them.
fn memory_beyond(limit_bytes: u64) -> bool {
    let kernel = sockets() * SOCKET_BYTES;
    let scratch = tmpfs_used("/tmp") + tmpfs_used("/dev/shm");
    let sum = |(private, shared): (u64, u64)| {
        // A mapped file of /dev/shm is the same memory as that file.
        kernel + private + shared.max(scratch)
    };
    sum(totals(resident)) > limit_bytes
        && sum(totals(|pid| proportional(pid).or_else(|| resident(pid)))) > limit_bytes
}

/// Sums over all processes of what `of` says of each.
fn totals(of: impl Fn(u32) -> Option<(u64, u64)>) -> (u64, u64) {
    let each = processes().filter_map(of);
    each.fold((0, 0), |sums, one| (sums.0 + one.0, sums.1 + one.1))
}

/// What a process holds: memory of its own, and shared memory.
fn resident(pid: u32) -> Option<(u64, u64)> {
    fields(pid, "status", &["RssAnon:", "VmSwap:"], "RssShmem:")
}

/// Its part of the same, where others hold it too.
fn proportional(pid: u32) -> Option<(u64, u64)> {
    fields(pid, "smaps_rollup", &["Pss_Anon:", "SwapPss:"], "Pss_Shmem:")
}

fn fields(pid: u32, file: &str, private: &[&str], shared: &str) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join(file)).ok()?;
    let mut sums = (0, 0);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let mut bytes = || words.next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10;
        if private.contains(&name) {
            sums.0 += bytes();
        } else if name == shared {
            sums.1 += bytes();
        }
    }
    Some(sums)
}

fn sockets() -> u64 {
    let count = |table: &&str| {
        let text = std::fs::read(Path::new("/proc/self/net").join(table)).unwrap_or_default();
        (text.iter().filter(|byte| **byte == b'\n').count() as u64).saturating_sub(1)
    };
    SOCKET_TABLES.iter().map(count).sum()
}

fn tmpfs_used(at: &str) -> u64 {
    rustix::fs::statvfs(at).map_or(0, |stat| {
        (stat.f_blocks - stat.f_bfree.min(stat.f_blocks)).saturating_mul(stat.f_frsize)
    })
}
