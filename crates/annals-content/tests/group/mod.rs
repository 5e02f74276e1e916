//! This process and everything below it, and tests once more as somebody else.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::HashMap;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// An identity that is nobody's.
pub(crate) const ORDINARY: u32 = 65533;

/// Set where a test runs as that identity, and says what it is to do there.
pub(crate) const AS_ORDINARY: &str = "ANNALS_TEST_ORDINARY";

/// Runs tests of this program once more as somebody without rights, who has no cgroup to use. Each has a process of its own,
/// as under nextest: some look at all processes below theirs.
#[track_caller]
pub(crate) fn again_as_an_ordinary_user(tests: &[&str]) {
    for test in tests {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["--exact", test])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env(AS_ORDINARY, "yes")
            .current_dir("/")
            .uid(ORDINARY)
            .gid(ORDINARY)
            .stdin(Stdio::null());
        // What the test needs and the machine lacks fails there as it does here.
        if let Some(ci) = std::env::var_os("CI") {
            command.env("CI", ci);
        }
        let output = command.output().expect("the test runs again");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{test}: {text}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// Looks at the group until it is finished.
///
/// What it sees of a process is the most that the process ever held, so between two looks only what a process takes right
/// before its end is missed.
pub(crate) struct Watch {
    helpers: Helpers,
    ended: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: std::thread::JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    /// The most of all processes together.
    group_bytes: u64,
    /// The most of one helper, by the bound on its data: helpers with different bounds are told apart by that.
    by_bound: HashMap<u64, u64>,
}

/// What a helper is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helpers {
    /// One process.
    Readers,
    /// Several that share memory with each other.
    Browsers,
}

impl Watch {
    pub(crate) fn start(helpers: Helpers) -> Self {
        let (ended, seen) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Mutex::new(Seen::default())),
        );
        let (is_over, looked) = (Arc::clone(&ended), Arc::clone(&seen));
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Acquire) {
                look(helpers, &looked);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            helpers,
            ended,
            seen,
            thread,
        }
    }

    /// The most that a helper with this bound on its data held, since this was last asked.
    pub(crate) fn take(&self, data_bound_bytes: u64) -> Option<u64> {
        look(self.helpers, &self.seen);
        locked(&self.seen).by_bound.remove(&data_bound_bytes)
    }

    /// The most that was seen of the group.
    pub(crate) fn finish(self) -> u64 {
        self.ended.store(true, Ordering::Release);
        self.thread.join().expect("it only looks");
        locked(&self.seen).group_bytes
    }
}

fn locked(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look(helpers: Helpers, seen: &Mutex<Seen>) {
    let (mut together, mut by_bound) = (own_bytes("VmRSS:"), HashMap::new());
    for pid in descendants() {
        let most = resident_bytes(pid, "VmHWM:");
        together += most;
        // A process that is gone has a name and no memory.
        let Some(bound) = data_bound_bytes(pid).filter(|_| most > 0) else {
            continue;
        };
        let helper: &mut u64 = by_bound.entry(bound).or_default();
        match helpers {
            Helpers::Readers => *helper = most.max(*helper),
            Helpers::Browsers => *helper += own_part_bytes(pid),
        }
    }
    let mut seen = locked(seen);
    seen.group_bytes = seen.group_bytes.max(together);
    for (bound, bytes) in by_bound {
        let most = seen.by_bound.entry(bound).or_default();
        *most = bytes.max(*most);
    }
}

/// Memory of a process that is no file's; of what it shares with others, its part.
fn own_part_bytes(pid: u32) -> u64 {
    ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"]
        .into_iter()
        .map(|field| kernel_bytes(pid, "smaps_rollup", field))
        .sum()
}

/// The bound on the data of a process, if it has one.
fn data_bound_bytes(pid: u32) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max data size"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What the kernel says of this process under this name.
pub(crate) fn own_bytes(field: &str) -> u64 {
    resident_bytes(std::process::id(), field)
}

/// Every process below this one.
pub(crate) fn descendants() -> Vec<u32> {
    let parents = parents();
    let own = std::process::id();
    let descends = |mut pid: u32| {
        for _ in 0..parents.len() {
            match parents.get(&pid) {
                Some(parent) if *parent == own => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(|pid| descends(*pid)).collect()
}

fn parents() -> HashMap<u32, u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect()
}

fn resident_bytes(pid: u32, field: &str) -> u64 {
    kernel_bytes(pid, "status", field)
}

fn kernel_bytes(pid: u32, file: &str, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}
