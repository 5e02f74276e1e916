//! A cgroup that root hands over to somebody, as a session manager does: version 2 where it has the memory controller,
//! else version 1.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

/// Removed when dropped.
pub(crate) struct Delegated {
    /// The deepest first.
    directories: Vec<PathBuf>,
    entrances: Vec<String>,
}

impl Delegated {
    pub(crate) fn to(user: u32) -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let own = fs::read_to_string("/proc/self/cgroup").expect("cgroups");
        let point = |kind: &str, option: &str| {
            mounts.lines().find_map(|line| {
                let fields: Vec<&str> = line.split(' ').collect();
                let fits = fields[2] == kind && fields[3].split(',').any(|one| one == option);
                fits.then(|| PathBuf::from(fields[1]))
            })
        };
        let name = format!("annals-test-{}", std::process::id());
        match point("cgroup2", "rw").filter(|root| controllers(root).contains("memory")) {
            Some(root) => Self::version_2(&root.join(&name), &root, user),
            None => {
                let trees = ["memory", "pids"].map(|controller| {
                    let root = point("cgroup", controller).expect("a hierarchy of version 1");
                    let group = own
                        .lines()
                        .find_map(|line| line.split_once(&format!(":{controller}:")));
                    root.join(group.expect("a group").1.trim_start_matches('/'))
                        .join(&name)
                });
                Self::version_1(&trees, user)
            }
        }
    }

    fn version_1(trees: &[PathBuf], user: u32) -> Self {
        for tree in trees {
            hand_over(tree, &["cgroup.procs", "tasks"], user);
        }
        Self {
            directories: trees.to_vec(),
            entrances: trees.iter().map(|tree| entrance(tree)).collect(),
        }
    }

    /// Processes are in a leaf, and groups are made beside it.
    fn version_2(tree: &Path, root: &Path, user: u32) -> Self {
        let pass_on = |group: &Path| {
            fs::write(group.join("cgroup.subtree_control"), "+memory +pids")
                .expect("controllers are passed on");
        };
        pass_on(root);
        hand_over(tree, &["cgroup.procs", "cgroup.subtree_control"], user);
        pass_on(tree);
        let leaf = tree.join("own");
        hand_over(&leaf, &["cgroup.procs"], user);
        Self {
            entrances: vec![entrance(&leaf)],
            directories: vec![leaf, tree.to_owned()],
        }
    }

    /// The files through which a process enters.
    pub(crate) fn entrances(&self) -> &[String] {
        &self.entrances
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        for directory in &self.directories {
            // What the launcher of the test left is gone with its last process, which may take a moment.
            for _ in 0..500 {
                for below in fs::read_dir(directory).into_iter().flatten().flatten() {
                    let _ = fs::remove_dir(below.path());
                }
                if fs::remove_dir(directory).is_ok() || !directory.exists() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}

fn controllers(group: &Path) -> String {
    fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default()
}

fn hand_over(group: &Path, files: &[&str], user: u32) {
    fs::create_dir(group).expect("root makes a group");
    chown(group, Some(user), Some(user)).expect("the group changes hands");
    for file in files {
        chown(group.join(file), Some(user), Some(user)).expect("the file changes hands");
    }
}

fn entrance(group: &Path) -> String {
    group.join("cgroup.procs").display().to_string()
}
