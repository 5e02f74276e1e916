//! Which process holds a lease, so that the lease of a dead one need not be waited for.
//!
//! SQLite's write-ahead log lives in shared memory, so every process of a database runs on this machine, and a
//! process of an earlier boot is certainly gone. Where the kernel does not tell, nothing is ever proved.

use std::fs;
use std::sync::OnceLock;

/// `<boot>:<pid namespace>:<pid>:<start time>`; where the kernel does not tell, a text that no other process has.
pub(super) fn this() -> &'static str {
    static THIS: OnceLock<String> = OnceLock::new();
    THIS.get_or_init(|| identity().unwrap_or_else(unknown))
}

fn unknown() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    format!(
        "unknown-{}-{:016x}",
        std::process::id(),
        RandomState::new().hash_one(())
    )
}

fn identity() -> Option<String> {
    let pid = std::process::id();
    Some(format!("{}:{}:{pid}:{}", boot()?, namespace()?, started(pid)?))
}

fn boot() -> Option<String> {
    Some(
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()?
            .trim()
            .to_owned(),
    )
}

fn namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_str()?.chars().filter(char::is_ascii_digit).collect())
}

/// When a process began, in ticks since boot; none when it is gone or only waits to be reaped.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold spaces and parentheses itself.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    const START_TIME_AFTER_STATE: usize = 18;
    let start = fields.nth(START_TIME_AFTER_STATE)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
}

/// True only when the process that called itself `process` certainly runs no more.
pub(super) fn is_gone(process: &str) -> bool {
    // Asked at every append, nearly always about this process: the kernel need not be asked.
    process != this() && is_gone_as_seen_from(process, this())
}

fn is_gone_as_seen_from(process: &str, this: &str) -> bool {
    let parts = |text: &str| -> Option<(String, String, u32, u64)> {
        let mut parts = text.split(':');
        let (boot, namespace) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        Some((
            boot,
            namespace,
            parts.next()?.parse().ok()?,
            parts.next()?.parse().ok()?,
        ))
    };
    let (Some((boot, namespace, pid, start)), Some(ours)) = (parts(process), parts(this)) else {
        return false;
    };
    if boot != ours.0 {
        return true;
    }
    namespace == ours.1 && started(pid) != Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_not_gone() {
        assert!(!this().is_empty());
        assert!(!is_gone(this()));
    }

    #[test]
    fn only_what_is_certain_counts_as_gone() {
        let this = this();
        let parts: Vec<&str> = this.split(':').collect();
        let [boot, namespace, pid, start] = parts[..] else {
            panic!("{this}")
        };
        let later_start = start.parse::<u64>().unwrap() + 1;
        assert!(
            is_gone(&format!("{boot}:{namespace}:{pid}:{later_start}")),
            "the pid was used again"
        );
        assert!(
            is_gone(&format!("other:{namespace}:{pid}:{start}")),
            "the machine was started again"
        );
        assert!(
            !is_gone(&format!("{boot}:1:{pid}:{later_start}")),
            "another container cannot be judged"
        );
        assert!(!is_gone(""), "an unknown process cannot be judged");
        assert!(!is_gone(&unknown()), "an unknown process cannot be judged");
        assert_ne!(unknown(), unknown());
    }

    #[test]
    fn a_process_that_ended_is_gone_even_before_it_is_reaped() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let [boot, namespace, ..] = this().split(':').collect::<Vec<_>>()[..] else {
            panic!()
        };
        let pid = child.id();
        let name = format!("{boot}:{namespace}:{pid}:{}", started(pid).unwrap());
        assert!(!is_gone(&name));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_gone(&name));
    }
}
