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

    /// The bounds on one process, which every system of the Unix kind keeps.
    pub fn bounds_of_processes(&self) -> Vec<Bound> {
        vec![
            Bound::new("processor time of a process", seconds(self.cpu_seconds)),
            Bound::new("open files of a process", self.open_files.to_string()),
            Bound::new("one file", bytes(self.file_bytes)),
        ]
    }

    /// All bounds, where the backend keeps them all.
    pub fn bounds(&self) -> Vec<Bound> {
        let mut bounds = self.bounds_of_operations();
        bounds.extend(self.bounds_of_processes());
        bounds.extend([
            Bound::new("memory", bytes(self.memory_bytes)),
            Bound::new("processes", self.processes.to_string()),
            Bound::new("workspace", bytes(self.workspace_bytes)),
            Bound::new("files in the workspace", self.workspace_files.to_string()),
            Bound::new("temporary space", bytes(self.scratch_bytes)),
        ]);
        bounds
    }

    /// Sets the limit that people know by this name, in the unit that its name ends with.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), LimitError> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            return Err(LimitError::Unknown(name.to_owned()));
        };
        let scaled = value.checked_mul(setting.unit);
        match scaled.filter(|scaled| value >= setting.least && i64::try_from(*scaled).is_ok()) {
            Some(scaled) => {
                (setting.set)(self, scaled);
                Ok(())
            }
            None => Err(LimitError::OutOfRange {
                name: setting.name,
                given: value,
                least: setting.least,
                most: i64::MAX as u64 / setting.unit,
            }),
        }
    }
}

/// A limit as people set it.
struct Setting {
    name: &'static str,
    /// What its unit is in that of the field.
    unit: u64,
    /// With less nothing works.
    least: u64,
    set: fn(&mut Limits, u64),
}

const fn setting(name: &'static str, unit: u64, least: u64, set: fn(&mut Limits, u64)) -> Setting {
    Setting {
        name,
        unit,
        least,
        set,
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What `[sandbox.limits]` of a configuration may name.
static SETTINGS: [Setting; 13] = [
    setting("timeout_seconds", 1, 1, |limits, value| {
        limits.timeout = Duration::from_secs(value)
    }),
    setting("memory_mib", MIB, 32, |limits, value| limits.memory_bytes = value),
    setting("cpu_seconds", 1, 1, |limits, value| limits.cpu_seconds = value),
    setting("processes", 1, 8, |limits, value| limits.processes = value),
    setting("file_mib", MIB, 1, |limits, value| limits.file_bytes = value),
    setting("open_files", 1, 32, |limits, value| limits.open_files = value),
    setting("scratch_mib", MIB, 1, |limits, value| {
        limits.scratch_bytes = value
    }),
    setting("workspace_mib", MIB, 1, |limits, value| {
        limits.workspace_bytes = value
    }),
    setting("workspace_files", 1, 16, |limits, value| {
        limits.workspace_files = value
    }),
    setting("output_kept_kib", KIB, 1, |limits, value| {
        limits.output_kept_bytes = usize::try_from(value).unwrap_or(usize::MAX);
    }),
    setting("output_total_mib", MIB, 1, |limits, value| {
        limits.output_total_bytes = value
    }),
    setting("read_mib", MIB, 1, |limits, value| limits.read_bytes = value),
    setting("list_entries", 1, 1, |limits, value| {
        limits.list_entries = usize::try_from(value).unwrap_or(usize::MAX);
    }),
];

/// A limit that cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// No limit has this name.
    #[error("there is no limit `{0}`; limits are {names}", names = names())]
    Unknown(String),
    /// Nothing works with less, and no number is larger.
    #[error("`{name} = {given}` cannot be kept; give {least} to {most}")]
    OutOfRange {
        /// The limit.
        name: &'static str,
        /// What was given.
        given: u64,
        /// The least that works.
        least: u64,
        /// The most that can be counted.
        most: u64,
    },
}

fn names() -> String {
    let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    names.join(", ")
}

fn seconds(seconds: u64) -> String {
    match seconds {
        seconds if seconds >= 120 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

fn bytes(bytes: u64) -> String {
    match bytes {
        bytes if bytes < MIB => format!("{} KiB", bytes / KIB),
        bytes if bytes >= 1024 * MIB && bytes.is_multiple_of(1024 * MIB) => {
            format!("{} GiB", bytes / (1024 * MIB))
        }
        bytes => format!("{} MiB", bytes / MIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_json(limits: &Limits) -> serde_json::Map<String, serde_json::Value> {
        match serde_json::to_value(limits).unwrap() {
            serde_json::Value::Object(map) => map,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn every_limit_is_set_by_its_name_and_no_other() {
        for setting in &SETTINGS {
            let mut limits = Limits::default();
            limits.set(setting.name, setting.least + 1).unwrap();
            let (before, after) = (as_json(&Limits::default()), as_json(&limits));
            let changed = before.iter().filter(|(name, value)| after[*name] != **value);
            assert_eq!(changed.count(), 1, "{}", setting.name);
        }
        let all = as_json(&Limits::default()).len();
        assert_eq!(SETTINGS.len(), all, "every limit can be set");
    }

    #[test]
    fn limits_that_cannot_be_kept_are_refused_by_name() {
        let mut limits = Limits::default();
        let refused = |outcome: Result<(), LimitError>| outcome.unwrap_err().to_string();
        assert!(
            refused(limits.set("memory", 1)).contains("`memory`; limits are timeout_seconds, memory_mib")
        );
        assert!(refused(limits.set("memory_mib", 31)).contains("`memory_mib = 31` cannot be kept; give 32"));
        assert!(refused(limits.set("memory_mib", u64::MAX)).contains("cannot be kept"));
        assert_eq!(limits, Limits::default());
        limits.set("memory_mib", 64).unwrap();
        limits.set("output_kept_kib", 8).unwrap();
        let bounds = limits.bounds();
        assert!(bounds.contains(&Bound::new("memory", "64 MiB")));
        assert!(bounds.contains(&Bound::new("output kept of a stream", "8 KiB")));
    }
}
