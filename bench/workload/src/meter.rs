//! What the measured part of a workload cost: time on the wall, time on processors, memory, disk.

use std::path::Path;
use std::time::Instant;

use serde::Serialize;

/// One run's figures, as they are printed.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) payload_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_flight: Option<u64>,
    /// How many turns were started in a second, where that is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_per_second: Option<u64>,
    /// Latencies, where a workload is about them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p95_ns: Option<u64>,
}

/// Runs from its making to [`Meter::stop`].
pub(crate) struct Meter {
    wall: Instant,
    cpu_ns: u64,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Meter {
            cpu_ns: cpu_ns(),
            wall: Instant::now(),
        }
    }

    pub(crate) fn stop(self) -> Figures {
        Figures {
            wall_ns: self.wall.elapsed().as_nanos() as u64,
            cpu_ns: cpu_ns() - self.cpu_ns,
            ..Figures::default()
        }
    }
}

/// User and system time of this process and of its children that have ended.
fn cpu_ns() -> u64 {
    let of = |who| {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel fills the structure it is given, which is zero where it does not.
        let usage = unsafe {
            libc::getrusage(who, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        ns(usage.ru_utime) + ns(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

/// Resident memory after the allocator gave back what is free.
pub(crate) fn rss_bytes() -> u64 {
    // SAFETY: takes any pad and only gives free pages back.
    unsafe { libc::malloc_trim(0) };
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4_096
}

/// What lies below a directory.
pub(crate) fn disk_bytes(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => disk_bytes(&entry.path()),
        Ok(facts) => facts.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
