//! What a sandbox may use. All numbers of this crate that bound somebody else's program live here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bounds on every command of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// How long an operation may take when it does not say.
    pub timeout: Duration,
    /// Memory of the whole sandbox: by cgroup, or counted while it runs.
    pub memory_bytes: u64,
    /// Processor time of one process.
    pub cpu_seconds: u64,
    /// Processes and threads alive at once in the sandbox.
    pub processes: u64,
    /// Size of one file.
    pub file_bytes: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Size of the private `/tmp`, and of `/dev/shm`.
    pub scratch_bytes: u64,
    /// Bytes on disk of the whole workspace.
    pub workspace_bytes: u64,
    /// Files and folders of the whole workspace.
    pub workspace_files: u64,
    /// How much of each output stream is kept: half from the start, half from the end.
    pub output_kept_bytes: usize,
    /// How much a command may write to both streams before it is ended.
    pub output_total_bytes: u64,
    /// Largest file that a read returns.
    pub read_bytes: u64,
    /// How many entries a listing returns.
    pub list_entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            timeout: Duration::from_secs(120),
            memory_bytes: 2048 * MIB,
            cpu_seconds: 600,
            processes: 256,
            file_bytes: 1024 * MIB,
            open_files: 1024,
            scratch_bytes: 512 * MIB,
            workspace_bytes: 4096 * MIB,
            workspace_files: 200_000,
            output_kept_bytes: MIB as usize,
            output_total_bytes: 4096 * MIB,
            read_bytes: 16 * MIB,
            list_entries: 10_000,
        }
    }
}
