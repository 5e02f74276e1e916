//! Sets of packages from PyPI and npm, each installed into a folder of its own: the list, where a set lies, whether what
//! lies there is what the list says.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::permitted_without;

/// Where sets are installed instead of `outside` below the target folder, for instance a folder that CI keeps.
pub const OUTSIDE_FOLDER: &str = "ANNALS_OUTSIDE";

const LIST: &str = include_str!("../packages.txt");
/// Says with which packages a folder was filled; written last.
const STAMP: &str = "installed.txt";
/// The set whose programs `node` and `npm` serve all npm sets.
const NODE: &str = "node";

/// Where packages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// Python packages, in a virtual environment.
    Pypi,
    /// Node packages, in a folder with `node_modules`.
    Npm,
}

/// A named set of pinned packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSet {
    /// Its name in `packages.txt`, and its folder's.
    pub name: &'static str,
    /// Where its packages come from.
    pub registry: Registry,
    /// The packages with their versions, as the registry's installer takes them.
    pub packages: Vec<&'static str>,
}

/// A set that is installed.
#[derive(Clone, Debug)]
pub struct Installed {
    folder: PathBuf,
    registry: Registry,
}

impl PackageSet {
    /// All sets, in the order of the list.
    pub fn all() -> Vec<PackageSet> {
        parse(LIST)
    }

    /// The set that installs and runs the npm sets.
    pub fn node() -> PackageSet {
        Self::named(NODE)
    }

    /// A set of the list.
    ///
    /// # Panics
    /// If the list has no such set.
    pub fn named(name: &str) -> PackageSet {
        let found = Self::all().into_iter().find(|set| set.name == name);
        found.unwrap_or_else(|| panic!("`packages.txt` has no set `{name}`; add a line for it"))
    }

    /// Where it is installed.
    pub fn folder(&self) -> PathBuf {
        let folder = outside().join(self.name);
        // A sandbox that is given the folder does not see where a link on the way to it leads.
        folder.canonicalize().unwrap_or(folder)
    }

    /// Whether its folder holds what the list says.
    pub fn is_ready(&self) -> bool {
        let stamp = std::fs::read_to_string(self.folder().join(STAMP));
        stamp.is_ok_and(|stamp| stamp == self.stamp())
            && (self.registry == Registry::Pypi || Self::node().is_ready())
    }

    /// Notes that the folder now holds what the list says.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub fn mark_ready(&self) -> std::io::Result<()> {
        let mut file = std::fs::File::create(self.folder().join(STAMP))?;
        file.write_all(self.stamp().as_bytes())
    }

    fn stamp(&self) -> String {
        self.packages
            .iter()
            .map(|package| format!("{package}\n"))
            .collect()
    }
}

impl Installed {
    /// A program of the set; `python` and `node` run its scripts.
    pub fn program(&self, name: &str) -> PathBuf {
        match self.registry {
            Registry::Pypi => self.folder.join("bin").join(name),
            Registry::Npm if name == NODE => PackageSet::node().folder().join("bin").join(NODE),
            Registry::Npm => self.folder.join("node_modules/.bin").join(name),
        }
    }

    /// The set's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a script that imports the set's packages.
    ///
    /// # Panics
    /// If the script cannot be read or, for npm, cannot be put beside `node_modules`, which is where Node resolves the
    /// imports of a module from.
    pub fn script(&self, file: &Path) -> Command {
        if self.registry == Registry::Pypi {
            let mut command = Command::new(self.program("python"));
            command.arg(file);
            return command;
        }
        let name = file.file_name().expect("a script has a name").to_string_lossy();
        let beside = self.folder.join(name.as_ref());
        let draft = self.folder.join(format!(".{name}.{}", std::process::id()));
        std::fs::copy(file, &draft)
            .and_then(|_| std::fs::rename(&draft, &beside))
            .unwrap_or_else(|error| {
                panic!("`{}` cannot be put beside its packages: {error}", file.display())
            });
        let mut command = Command::new(self.program(NODE));
        command.arg(beside);
        command
    }
}

/// A set that a test uses, or nothing where it is not installed; fails in CI then.
///
/// # Panics
/// In CI, if the set is not installed and `exceptions.txt` has no reason for that; and if there is no such set.
pub fn installed(name: &str) -> Option<Installed> {
    let set = PackageSet::named(name);
    if !set.is_ready() {
        permitted_without(
            name,
            &format!("`cargo xtask setup --packages {name}` installs it"),
        );
        return None;
    }
    Some(Installed {
        folder: set.folder(),
        registry: set.registry,
    })
}

/// The folder of all sets.
fn outside() -> PathBuf {
    if let Some(folder) = std::env::var_os(OUTSIDE_FOLDER) {
        return folder.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap_or(root);
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join("outside")
}

fn parse(list: &'static str) -> Vec<PackageSet> {
    let lines = list
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let set = |line: &'static str| {
        let (name, rest) = line.split_once(": ")?;
        let mut words = rest.split(' ');
        let registry = match words.next()? {
            "pypi" => Registry::Pypi,
            "npm" => Registry::Npm,
            _ => return None,
        };
        let packages = words.collect();
        Some(PackageSet {
            name,
            registry,
            packages,
        })
    };
    lines
        .map(|line| set(line).unwrap_or_else(|| panic!("`packages.txt` has no set in the line `{line}`")))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_package_of_the_list_is_pinned_and_every_name_is_there_once() {
        let sets = PackageSet::all();
        let names: BTreeSet<&str> = sets.iter().map(|set| set.name).collect();
        assert_eq!(names.len(), sets.len());
        for set in &sets {
            assert!(!set.packages.is_empty(), "{}", set.name);
            for package in &set.packages {
                let version = match set.registry {
                    Registry::Pypi => package.split_once("==").map(|(_, version)| version),
                    Registry::Npm => package
                        .rsplit_once('@')
                        .filter(|(name, _)| !name.is_empty())
                        .map(|(_, v)| v),
                };
                let exact = version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()));
                assert!(exact, "`{package}` of `{}` names no exact version", set.name);
            }
        }
    }

    #[test]
    fn a_changed_list_makes_a_set_unready() {
        let [one, other] = ["a: pypi x==1 y==2", "a: pypi x==1 y==3"].map(|line| parse(line).remove(0));
        assert_eq!(one.folder(), other.folder());
        assert_ne!(one.stamp(), other.stamp());
    }
}
