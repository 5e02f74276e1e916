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

/// One bound that holds in a sandbox, for people who look at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// What is bounded.
    pub what: String,
    /// How much of it there may be, with its unit.
    pub most: String,
}

impl Bound {
    /// This much of that.
    pub fn new(what: impl Into<String>, most: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            most: most.into(),
        }
    }
}

impl Limits {
    /// The bounds that every backend keeps: those on one operation and on what it says.
    pub fn bounds_of_operations(&self) -> Vec<Bound> {
        vec![
            Bound::new("time of a command", seconds(self.timeout.as_secs())),
            Bound::new("output kept of a stream", bytes(self.output_kept_bytes as u64)),
            Bound::new("output of a command", bytes(self.output_total_bytes)),
            Bound::new("file that is read", bytes(self.read_bytes)),
            Bound::new("entries of a listing", self.list_entries.to_string()),
        ]
    }

    /// All bounds, where the backend keeps them all.
    pub fn bounds(&self) -> Vec<Bound> {
        let mut bounds = vec![
            Bound::new("memory", bytes(self.memory_bytes)),
            Bound::new("processor time of a process", seconds(self.cpu_seconds)),
            Bound::new("processes", self.processes.to_string()),
            Bound::new("open files of a process", self.open_files.to_string()),
            Bound::new("one file", bytes(self.file_bytes)),
            Bound::new("workspace", bytes(self.workspace_bytes)),
            Bound::new("files in the workspace", self.workspace_files.to_string()),
            Bound::new("temporary space", bytes(self.scratch_bytes)),
        ];
        bounds.splice(0..0, self.bounds_of_operations());
        bounds
    }
}

fn seconds(seconds: u64) -> String {
    match seconds {
        seconds if seconds >= 120 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

fn bytes(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        bytes if bytes >= 1024 * MIB && bytes.is_multiple_of(1024 * MIB) => {
            format!("{} GiB", bytes / (1024 * MIB))
        }
        bytes => format!("{} MiB", bytes / MIB),
    }
}
