//! Memory and process count of a sandbox as a whole, through cgroups: version 2, else 1, else not at all.
//!
//! A group is made beside or below the group Annals runs in, wherever that is permitted. The launcher removes its
//! directories when the sandbox has ended; those of a launcher that was killed are removed by the next Annals.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::Limits;

const PREFIX: &str = "annals-";

/// Processes of the sandbox itself, on top of what its commands may have: the supervisor and some inits.
const OWN_PROCESSES: u64 = 64;

/// Where groups can be made on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    /// One tree for all.
    V2 { parent: PathBuf },
    /// A tree for each resource; at least one of them can be used.
    V1 {
        memory: Option<PathBuf>,
        pids: Option<PathBuf>,
    },
}

impl Hierarchy {
    /// Whether a group made here bounds memory.
    pub(crate) fn bounds_memory(&self) -> bool {
        match self {
            Self::V2 { .. } => true,
            Self::V1 { memory, .. } => memory.is_some(),
        }
    }

    /// 1 or 2.
    pub(crate) fn version(&self) -> u8 {
        match self {
            Self::V2 { .. } => 2,
            Self::V1 { .. } => 1,
        }
    }
}

/// This machine's hierarchy, found once per process; the error says why there is none.
pub(crate) fn hierarchy() -> Result<&'static Hierarchy, &'static str> {
    static FOUND: OnceLock<Result<Hierarchy, String>> = OnceLock::new();
    FOUND.get_or_init(find).as_ref().map_err(String::as_str)
}

/// Why there are no cgroups to use, if so.
pub(crate) fn missing() -> Option<String> {
    hierarchy().err().map(str::to_owned)
}

fn find() -> Result<Hierarchy, String> {
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
    let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    if let Some(parent) = find_v2(&mounts, &own) {
        return Ok(Hierarchy::V2 { parent });
    }
    let (memory, pids) = (find_v1(&mounts, &own, "memory"), find_v1(&mounts, &own, "pids"));
    if memory.is_some() || pids.is_some() {
        return Ok(Hierarchy::V1 { memory, pids });
    }
    Err("no cgroup can be created by this user; memory of the whole is counted instead".to_owned())
}

fn find_v2(mounts: &str, own: &str) -> Option<PathBuf> {
    let mount = mount_points(mounts, "cgroup2").next()?.0;
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = Path::new(mount).join(group.trim_start_matches('/'));
    // Below itself where controllers are passed on; else beside itself, as a user's session manager permits.
    [own.as_path(), own.parent()?]
        .into_iter()
        .find(|parent| offers(parent, "memory") && can_make(parent))
        .map(Path::to_owned)
}

fn offers(group: &Path, controller: &str) -> bool {
    let passed_on = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    passed_on.split_whitespace().any(|name| name == controller)
}

fn find_v1(mounts: &str, own: &str, controller: &str) -> Option<PathBuf> {
    let has = |options: &str| options.split(',').any(|option| option == controller);
    let (mount, _) = mount_points(mounts, "cgroup").find(|(_, options)| has(options))?;
    let group = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        fields
            .next()?
            .split(',')
            .any(|name| name == controller)
            .then(|| fields.next())?
    })?;
    let parent = Path::new(mount).join(group.trim_start_matches('/'));
    can_make(&parent).then_some(parent)
}

fn mount_points<'a>(mounts: &'a str, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    mounts.lines().filter_map(move |line| {
        let mut fields = line.split(' ').skip(1);
        let (point, found, options) = (fields.next()?, fields.next()?, fields.next()?);
        (found == kind).then_some((point, options))
    })
}

/// Makes a group and removes it again, and with it those whose maker is gone.
fn can_make(parent: &Path) -> bool {
    remove_abandoned(parent);
    let trial = parent.join(group_name());
    fs::create_dir(&trial).is_ok() && fs::remove_dir(&trial).is_ok()
}

fn group_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(
        "{PREFIX}{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if maker.is_some_and(|maker| !Path::new("/proc").join(maker).exists()) {
            // Fails while anything lives in it; then it is not abandoned.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The groups of one sandbox. Removed when dropped, unless somebody else has taken that over.
#[derive(Debug)]
pub(crate) struct Group {
    directories: Vec<PathBuf>,
}

impl Group {
    /// Makes groups with these limits and returns the files through which a process enters them.
    pub(crate) fn make(hierarchy: &Hierarchy, limits: &Limits) -> io::Result<(Self, Vec<OwnedFd>)> {
        let name = group_name();
        let memory = limits.memory_bytes.to_string();
        let processes = (limits.processes + OWN_PROCESSES).to_string();
        let mut group = Self {
            directories: Vec::new(),
        };
        match hierarchy {
            Hierarchy::V2 { parent } => {
                let directory = group.add(parent.join(&name))?;
                fs::write(directory.join("memory.max"), &memory)?;
                // Absent where there is no swap, or no such controller: then there is nothing to bound.
                let _ = fs::write(directory.join("memory.swap.max"), "0");
                let _ = fs::write(directory.join("memory.oom.group"), "0");
                let _ = fs::write(directory.join("pids.max"), &processes);
            }
            Hierarchy::V1 {
                memory: memories,
                pids,
            } => {
                if let Some(parent) = memories {
                    let directory = group.add(parent.join(&name))?;
                    fs::write(directory.join("memory.limit_in_bytes"), &memory)?;
                    let _ = fs::write(directory.join("memory.memsw.limit_in_bytes"), &memory);
                    // Queues of TCP are an account of their own there, which is kept once it has a bound.
                    let _ = fs::write(directory.join("memory.kmem.tcp.limit_in_bytes"), &memory);
                }
                if let Some(parent) = pids {
                    let directory = group.add(parent.join(&name))?;
                    fs::write(directory.join("pids.max"), &processes)?;
                }
            }
        }
        let enter = |directory: &PathBuf| {
            fs::OpenOptions::new()
                .write(true)
                .open(directory.join("cgroup.procs"))
        };
        let entries = group
            .directories
            .iter()
            .map(|directory| enter(directory).map(OwnedFd::from));
        let entries = entries.collect::<io::Result<_>>()?;
        Ok((group, entries))
    }

    fn add(&mut self, directory: PathBuf) -> io::Result<&Path> {
        fs::create_dir(&directory)?;
        self.directories.push(directory);
        Ok(self.directories.last().expect("just pushed"))
    }

    /// The directories; removing them is the caller's part from here on.
    pub(crate) fn into_directories(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.directories)
    }

    /// The directories, while removing them is still this value's part.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in &self.directories {
            let _ = fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_each_version_is_found_in_the_kernels_tables() {
        let mounts = "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                      cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let v1: Vec<_> = mount_points(mounts, "cgroup").collect();
        assert_eq!(v1[0], ("/sys/fs/cgroup/memory", "rw,relatime,memory"));
        assert_eq!(
            mount_points(mounts, "cgroup2").next(),
            Some(("/sys/fs/cgroup/unified", "rw"))
        );
        assert_eq!(find_v1(mounts, "4:memory:/nowhere/at/all\n", "memory"), None);
        assert_eq!(find_v1(mounts, "4:cpu:/\n", "memory"), None);
    }
}
