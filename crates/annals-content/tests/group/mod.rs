//! This process and everything below it.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Looks at the group until it is finished.
pub(crate) struct Watch {
    ended: Arc<AtomicBool>,
    peak_bytes: Arc<AtomicU64>,
    thread: std::thread::JoinHandle<()>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let (ended, peak_bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, peak) = (Arc::clone(&ended), Arc::clone(&peak_bytes));
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Acquire) {
                peak.fetch_max(group_bytes(), Ordering::AcqRel);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            ended,
            peak_bytes,
            thread,
        }
    }

    /// The most that was seen.
    pub(crate) fn finish(self) -> u64 {
        self.ended.store(true, Ordering::Release);
        self.thread.join().expect("it only looks");
        self.peak_bytes.load(Ordering::Acquire)
    }
}

/// What the kernel says of this process under this name.
pub(crate) fn own_bytes(field: &str) -> u64 {
    resident_bytes(std::process::id(), field)
}

/// Resident memory of this process, and the most that each process below it ever had.
fn group_bytes() -> u64 {
    let below = descendants().into_iter().map(|pid| resident_bytes(pid, "VmHWM:"));
    own_bytes("VmRSS:") + below.sum::<u64>()
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
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}
