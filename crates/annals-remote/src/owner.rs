//! Names of things: calls, and this process, so that the sandboxes of a process that died can be told from those in use.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

/// An id that no other call has.
pub(crate) fn call_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let (first, second) = (RandomState::new(), RandomState::new());
    format!("{:016x}{:016x}", first.hash_one(number), second.hash_one(number))
}

/// The first 40 hex digits of a digest: what metadata can hold, which have at most 63 letters, digits, `-`, `_` and `.`.
pub(crate) fn label(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest[..20].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `<boot and process namespace>.<pid>.<start time>`; none where the kernel does not tell.
pub(crate) fn this_process() -> Option<&'static str> {
    static THIS: OnceLock<Option<String>> = OnceLock::new();
    let this = THIS.get_or_init(|| {
        let pid = std::process::id();
        Some(format!("{}.{pid}.{}", place()?, started(pid)?))
    });
    this.as_deref()
}

/// True only for a process of this machine's present boot that certainly runs no more.
pub(crate) fn is_gone(process: &str) -> bool {
    let mut parts = process.split('.');
    let (Some(there), Some(pid), Some(start)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let Ok(pid) = pid.parse() else { return false };
    place().as_deref() == Some(there) && started(pid).is_none_or(|now| now.to_string() != start)
}

fn place() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(label(&format!("{} {}", boot.trim(), namespace.display()))[..16].to_owned())
}

/// When a process began, in ticks since boot.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22; counted from behind the name, which may hold spaces and parentheses.
    stat[stat.rfind(')')? + 1..]
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_not_gone_and_one_that_ended_is() {
        let this = this_process().unwrap();
        assert!(this.len() <= 63 && !is_gone(this), "{this}");
        let (there, rest) = this.split_once('.').unwrap();
        let (pid, _) = rest.split_once('.').unwrap();
        // The same number, begun at another time: the number was used again.
        assert!(is_gone(&format!("{there}.{pid}.1")));
        assert!(is_gone(&format!("{there}.4294967295.1")));
        // Of another machine nothing is known.
        assert!(!is_gone(&format!("0000000000000000.{pid}.1")));
        assert!(!is_gone("odd"));
    }

    #[test]
    fn ids_differ() {
        assert_ne!(call_id(), call_id());
        assert_eq!(call_id().len(), 32);
    }
}
