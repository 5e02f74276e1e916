//! Named points at which a test may kill the process, as a power cut or `kill -9` would.
//!
//! Without the feature `failpoints` nothing of this is compiled in. With it, the variable
//! `ANNALS_FAILPOINT=<name>:<n>` kills the process when it passes that point for the n-th time.

/// Every point, in the order in which a write passes them.
pub const NAMES: &[&str] = &[
    "artifact.created",
    "artifact.written",
    "artifact.synced",
    "artifact.renamed",
    "artifact.folder_synced",
    "log.begin",
    "log.written",
    "log.commit",
    "log.committed",
    "index.begin",
    "index.written",
    "index.committed",
    "workspace.written",
    "workspace.renamed",
];

/// Passes a point.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn failpoint(_name: &str) {}

/// Passes a point.
#[cfg(feature = "failpoints")]
pub(crate) fn failpoint(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ARMED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    static PASSED: AtomicU64 = AtomicU64::new(0);
    debug_assert!(NAMES.contains(&name), "`{name}` is not in the list of failpoints");
    let armed = ARMED.get_or_init(|| {
        let value = std::env::var("ANNALS_FAILPOINT").ok()?;
        let (name, count) = value.split_once(':')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    if let Some((armed, count)) = armed
        && armed == name
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *count
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        // The signal is on its way; no further byte may be written.
        loop {
            std::thread::park();
        }
    }
}
