//! Ending a tree of processes, and knowing that it has ended.

use std::collections::HashMap;

use super::syscalls;

/// How often the tree is looked at anew; every look kills all it sees, and only a fork in between can escape it.
const LOOKS: usize = 1000;

/// Ends all processes but this one, which must be the first of its process namespace, and collects them.
pub(super) fn kill_namespace() {
    loop {
        // SAFETY: in a namespace of its own, -1 means everybody in it but the caller.
        unsafe { libc::kill(-1, libc::SIGKILL) };
        // SAFETY: waits for any child; orphans of the namespace are children of its first process.
        if unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } < 0 {
            return;
        }
    }
}

/// Kills everything that descends from this process, which must be a subreaper, and collects it.
pub(super) fn kill_descendants() {
    let own = std::process::id() as libc::pid_t;
    for _ in 0..LOOKS {
        if !collect() {
            return;
        }
        for pid in descendants(own, &parents()) {
            // SAFETY: a descendant's id stays its own until this process, or its living parent, collects it.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        std::thread::yield_now();
    }
}

/// Collects what has ended; whether any child is left.
fn collect() -> bool {
    loop {
        match syscalls::reap() {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn descendants(root: libc::pid_t, parents: &HashMap<libc::pid_t, libc::pid_t>) -> Vec<libc::pid_t> {
    let descends = |mut pid: libc::pid_t| {
        // As many steps as processes: a table read in pieces may hold a circle.
        for _ in 0..parents.len() {
            match parents.get(&pid) {
                Some(parent) if *parent == root => return true,
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    parents.keys().copied().filter(|pid| descends(*pid)).collect()
}

fn parents() -> HashMap<libc::pid_t, libc::pid_t> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return HashMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name in parentheses may itself contain parentheses and spaces.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect()
}
