//! What a sandbox uses, counted while its commands run, for the bounds that the kernel does not keep by itself.
//!
//! - **Memory** where no cgroup bounds it: what all processes hold, with their page tables and the kernel's records of their
//!   mappings, what lies in the private `/tmp` and `/dev/shm`, and a charge for every socket, whose buffers belong to no
//!   process. The seccomp filter refuses the other kinds of memory without an owner (see [`super::seccomp`]).
//! - **The workspace**: bytes and files, always. Between two walks the file system's own free space tells whether
//!   another one is due, so a program cannot outrun the interval by writing fast.
//!
//! Counting is bounded by time: the next look is due when the last one is at most a twentieth of the time passed. But a
//! program can make looks at memory slow, so for those the pause is bounded as well.

use std::collections::HashSet;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use annals_files::{Root, Walk};

use super::wire::Exceeded;
use crate::limits::Limits;

/// Buffers of one socket, both ways, at the kernel's default sizes (for TCP see [`TCP_BUFFERS`]).
const SOCKET_BYTES: u64 = 512 << 10;

/// What the kernel keeps of a closed TCP connection for a minute.
const CLOSED_BYTES: u64 = 1 << 10;

const SOCKET_TABLES: [&str; 5] = ["unix", "udp", "udp6", "raw", "netlink"];
const TCP_TABLES: [&str; 2] = ["tcp", "tcp6"];

/// Where the network namespace bounds the queues of a TCP socket, and to what: smallest, first and largest size. Without that
/// they grow by themselves, up to 10 MB a socket.
pub(super) const TCP_BUFFERS: [(&str, &str); 2] = [
    ("sys/net/ipv4/tcp_rmem", "4096 131072 131072"),
    ("sys/net/ipv4/tcp_wmem", "4096 16384 131072"),
];

/// What the kernel keeps of one mapping: its record, its place in the tree of them, and who shares its pages.
const MAPPING_BYTES: u64 = 512;

const PAGE_BYTES: u64 = 4096;

/// Shortest time between two looks at memory, and at the workspace.
const MEMORY_EVERY: Duration = Duration::from_millis(20);
const WORKSPACE_EVERY: Duration = Duration::from_millis(200);

/// How much longer than a look the pause after it is, and for memory how long at most.
const PAUSE_FACTOR: u32 = 20;
const MEMORY_PAUSE_MAX: Duration = Duration::from_millis(250);

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
            self.memory_due = now() + (took * PAUSE_FACTOR).clamp(MEMORY_EVERY, MEMORY_PAUSE_MAX);
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
/// first, and mappings by how many there can be at most, which is quick; only when that is too much are pages divided among
/// those who share them, and mappings counted.
fn memory_beyond(limit_bytes: u64) -> bool {
    let sockets = sockets() + tcp_sockets();
    let scratch = tmpfs_used("/tmp") + tmpfs_used("/dev/shm");
    let is_beyond = |held: &Held| {
        // A mapped file of /dev/shm is the same memory as that file.
        sockets + held.private + held.tables + held.mappings * MAPPING_BYTES + held.shared.max(scratch)
            > limit_bytes
    };
    let mappings_max = mappings_max();
    let mut quickly = Held::default();
    processes().for_each(|pid| quickly.add(&Held::at_most(pid, mappings_max)));
    if !is_beyond(&quickly) {
        return false;
    }
    let mut exactly = Held::default();
    processes().any(|pid| {
        exactly.add(&Held::exactly(pid, limit_bytes / MAPPING_BYTES));
        is_beyond(&exactly)
    })
}

/// What one process, or all of them, hold.
#[derive(Default)]
struct Held {
    /// Memory of its own, bytes.
    private: u64,
    /// Memory that it shares, bytes.
    shared: u64,
    /// Page tables, bytes.
    tables: u64,
    mappings: u64,
}

impl Held {
    fn add(&mut self, other: &Held) {
        self.private += other.private;
        self.shared += other.shared;
        self.tables += other.tables;
        self.mappings += other.mappings;
    }

    /// By its status alone. A mapping has at least one page.
    fn at_most(pid: u32, mappings_max: u64) -> Self {
        let status = read(pid, "status");
        Held {
            private: bytes_of(&status, &["RssAnon:", "VmSwap:"]),
            shared: bytes_of(&status, &["RssShmem:"]),
            tables: bytes_of(&status, &["VmPTE:"]),
            mappings: (bytes_of(&status, &["VmSize:"]) / PAGE_BYTES).min(mappings_max),
        }
    }

    /// Its part of what others hold too, and its mappings, of which no more than this many are counted.
    fn exactly(pid: u32, mappings_max: u64) -> Self {
        let mut held = Held::at_most(pid, 0);
        let parts = read(pid, "smaps_rollup");
        if !parts.is_empty() {
            held.private = bytes_of(&parts, &["Pss_Anon:", "SwapPss:"]);
            held.shared = bytes_of(&parts, &["Pss_Shmem:"]);
        }
        held.mappings = mappings(pid, mappings_max);
        held
    }
}

fn read(pid: u32, file: &str) -> String {
    let path = Path::new("/proc").join(pid.to_string()).join(file);
    // A process that is gone holds nothing.
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The sum of these lines, which are in KiB.
fn bytes_of(text: &str, names: &[&str]) -> u64 {
    let kib = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        names.contains(&name).then(|| words.next()?.parse::<u64>().ok())?
    };
    text.lines().filter_map(kib).sum::<u64>() << 10
}

/// How many mappings a process may have on this machine.
fn mappings_max() -> u64 {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    most.trim().parse().unwrap_or(u64::MAX)
}

/// The mappings of a process, read piece by piece and not beyond `most`: a program can have very many of them.
fn mappings(pid: u32, most: u64) -> u64 {
    let Ok(mut file) = std::fs::File::open(Path::new("/proc").join(pid.to_string()).join("maps")) else {
        return 0;
    };
    let (mut buffer, mut lines) = (vec![0; 1 << 16], 0);
    while let Ok(read @ 1..) = file.read(&mut buffer) {
        lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
        if lines > most {
            break;
        }
    }
    lines
}

/// What all sockets but those of TCP are charged with.
fn sockets() -> u64 {
    let count = |table: &&str| {
        let text = std::fs::read(Path::new("/proc/self/net").join(table)).unwrap_or_default();
        (text.iter().filter(|byte| **byte == b'\n').count() as u64).saturating_sub(1)
    };
    SOCKET_TABLES.iter().map(count).sum::<u64>() * SOCKET_BYTES
}

/// What those of TCP are charged with. Where the network namespace could not be told to bound their queues, a long queue is
/// charged with twice its bytes.
fn tcp_sockets() -> u64 {
    let of_table = |table: &&str| {
        let text = std::fs::read_to_string(Path::new("/proc/self/net").join(table)).unwrap_or_default();
        text.lines().skip(1).map(tcp_bytes).sum::<u64>()
    };
    TCP_TABLES.iter().map(of_table).sum()
}

fn tcp_bytes(line: &str) -> u64 {
    const CLOSED: &str = "06";
    let mut words = line.split_whitespace().skip(3);
    if words.next() == Some(CLOSED) {
        return CLOSED_BYTES;
    }
    let queues = words.next().unwrap_or_default().split(':');
    let queued: u64 = queues
        .filter_map(|queue| u64::from_str_radix(queue, 16).ok())
        .sum();
    SOCKET_BYTES.max(queued * 2)
}

fn tmpfs_used(at: &str) -> u64 {
    rustix::fs::statvfs(at).map_or(0, |stat| {
        (stat.f_blocks - stat.f_bfree.min(stat.f_blocks)).saturating_mul(stat.f_frsize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tcp_socket_is_charged_by_its_state_and_its_queues() {
        let line = |state: &str, queues: &str| {
            format!("  78: 0100007F:97FF 0100007F:E5E0 {state} {queues} 04:0000000F 00000000 0 0 524831 2")
        };
        assert_eq!(tcp_bytes(&line("01", "00000000:0001BA00")), SOCKET_BYTES);
        assert_eq!(tcp_bytes(&line("01", "00400000:00100000")), 10 << 20);
        assert_eq!(tcp_bytes(&line("06", "00000000:00000000")), CLOSED_BYTES);
    }
}
