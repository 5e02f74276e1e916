//! Servers that are published as packages: `npx …` and `uvx …` would fetch them at each start. A sandbox has no network, and
//! what runs should be what was looked at, so such a package is installed once, in one version, and its program is started
//! instead of the runner.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::private_file;

/// Where a package comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Registry {
    /// By `npm`.
    Npm,
    /// By `uv`, or `pip` where there is no `uv`.
    Pypi,
}

/// What a command line has installed and run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Where it comes from.
    pub registry: Registry,
    /// What is installed, in the installer's own spelling; the server first, then what it needs beside.
    pub specs: Vec<String>,
    /// The program, if it is not the package's own.
    pub program: Option<String>,
    /// The version of Python that was asked for.
    pub python: Option<String>,
    /// What the program is told.
    pub args: Vec<String>,
}

impl Package {
    /// The package of a command line that runs one; none if it runs something else, or in a way that is not known here.
    pub fn of(argv: &[String]) -> Option<Self> {
        let words: Vec<&str> = argv.iter().map(String::as_str).collect();
        let (first, rest) = words.split_first()?;
        match (Path::new(first).file_name()?.to_str()?, rest) {
            ("npx", rest) | ("npm", ["exec" | "x", rest @ ..]) => Self::of_npx(rest),
            ("uvx", rest) | ("uv", ["tool", "run", rest @ ..]) => Self::of_uvx(rest),
            _ => None,
        }
    }

    fn of_npx(words: &[&str]) -> Option<Self> {
        let mut words = Words(words);
        let mut specs = Vec::new();
        while let Some(option) = words.option() {
            match option {
                ("-y" | "--yes" | "-q" | "--quiet", None) => {}
                ("-p" | "--package", value) => specs.push(words.value(value)?),
                _ => return None,
            }
        }
        let (named, args) = words.positional()?;
        let program = match specs.is_empty() {
            true => {
                specs.push(named.to_owned());
                None
            }
            false => Some(named.to_owned()),
        };
        Some(Package {
            registry: Registry::Npm,
            specs,
            program,
            python: None,
            args,
        })
    }

    fn of_uvx(words: &[&str]) -> Option<Self> {
        let mut words = Words(words);
        let (mut from, mut with, mut python) = (None, Vec::new(), None);
        while let Some(option) = words.option() {
            match option {
                ("-q" | "--quiet" | "--isolated", None) => {}
                ("--from", value) => from = Some(words.value(value)?),
                ("--with", value) => with.push(words.value(value)?),
                ("-p" | "--python", value) => python = Some(words.value(value)?),
                _ => return None,
            }
        }
        let (named, args) = words.positional()?;
        let (program, spec) = match (from, named.split_once('@')) {
            (Some(from), _) => (Some(named), from),
            (None, None) => (None, named.to_owned()),
            (None, Some((name, "latest"))) => (Some(name), name.to_owned()),
            (None, Some((name, version))) => (Some(name), format!("{name}=={version}")),
        };
        Some(Package {
            registry: Registry::Pypi,
            specs: std::iter::once(spec).chain(with).collect(),
            program: program.map(str::to_owned),
            python,
            args,
        })
    }

    /// The package that has the server, as it is asked for.
    pub fn spec(&self) -> &str {
        self.specs.first().map_or("", String::as_str)
    }
}

/// A runner's options, then what it runs and with which arguments.
struct Words<'w>(&'w [&'w str]);

impl<'w> Words<'w> {
    /// The next option, with its value if it is written as `--name=value`. After `--` there are none.
    fn option(&mut self) -> Option<(&'w str, Option<&'w str>)> {
        let (first, rest) = self.0.split_first()?;
        if *first == "--" {
            self.0 = rest;
            return None;
        }
        first.starts_with('-').then(|| {
            self.0 = rest;
            match first.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (*first, None),
            }
        })
    }

    /// The value of an option: the one it has, or the next word.
    fn value(&mut self, given: Option<&str>) -> Option<String> {
        if let Some(given) = given {
            return Some(given.to_owned());
        }
        let (next, rest) = self.0.split_first()?;
        self.0 = rest;
        Some((*next).to_owned())
    }

    fn positional(&self) -> Option<(&'w str, Vec<String>)> {
        let (first, rest) = self.0.split_first()?;
        (!first.is_empty()).then(|| (*first, rest.iter().map(ToString::to_string).collect()))
    }
}

/// A package that was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledPackage {
    /// Where it came from.
    pub registry: Registry,
    /// What was asked for; something else is something that is not installed.
    pub specs: Vec<String>,
    /// Which program was asked for, if it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Its name.
    pub name: String,
    /// The version that came.
    pub version: String,
    /// What is started.
    pub argv: Vec<String>,
    /// What the program reads of this machine.
    pub read: Vec<PathBuf>,
}

impl InstalledPackage {
    /// Whether it is what a command line asks for.
    pub fn is(&self, package: &Package) -> bool {
        let asked = (package.registry, &package.specs, &package.program);
        (self.registry, &self.specs, &self.program) == asked
    }
}

/// Where the packages of a home are: a folder for each server, in it one for each installation, and what is started.
#[derive(Debug, Clone)]
pub struct PackageFolder(PathBuf);

impl PackageFolder {
    /// Of this home.
    pub fn of_home(home: &Path) -> Self {
        PackageFolder(home.join("mcp").join("packages"))
    }

    pub(crate) fn of_server(&self, namespace: &str) -> PathBuf {
        self.0.join(namespace)
    }

    fn record(&self, namespace: &str) -> PathBuf {
        self.of_server(namespace).join("installed.json")
    }

    /// What was installed for a server.
    pub fn installed(&self, namespace: &str) -> io::Result<Option<InstalledPackage>> {
        let bytes = private_file::read(&self.record(namespace))?;
        let read = bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        read.map_err(io::Error::other)
    }

    /// From now on this is started. Earlier installations go.
    pub(crate) fn put(&self, namespace: &str, installed: &InstalledPackage, folder: &Path) -> io::Result<()> {
        private_file::write_json(&self.record(namespace), installed)?;
        for entry in std::fs::read_dir(self.of_server(namespace))? {
            let entry = entry?;
            let is_new = folder.file_name() == Some(&entry.file_name());
            if entry.file_type()?.is_dir() && !is_new {
                std::fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes what was installed for a server.
    pub fn forget(&self, namespace: &str) -> io::Result<()> {
        match std::fs::remove_dir_all(self.of_server(namespace)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Package> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Package::of(&words)
    }

    #[test]
    fn the_package_of_a_runners_command_line_is_found() {
        for (line, specs, program, args) in [
            ("npx -y @a/srv", "@a/srv", None, ""),
            (
                "/usr/bin/npx --yes @a/srv@1.2.0 stdio --x",
                "@a/srv@1.2.0",
                None,
                "stdio --x",
            ),
            (
                "npx -p @a/srv --package=left-pad srv go",
                "@a/srv left-pad",
                Some("srv"),
                "go",
            ),
            ("npm exec -y -- @a/srv -y", "@a/srv", None, "-y"),
            ("uvx srv --local x", "srv", None, "--local x"),
            ("uvx srv@1.0 a", "srv==1.0", Some("srv"), "a"),
            ("uvx srv@latest", "srv", Some("srv"), ""),
            (
                "uv tool run --from git+https://h.example/r srv a",
                "git+https://h.example/r",
                Some("srv"),
                "a",
            ),
            ("uvx --python 3.12 --with tz srv", "srv tz", None, ""),
        ] {
            let package = of(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(package.specs.join(" "), specs, "{line}");
            assert_eq!(package.program.as_deref(), program, "{line}");
            assert_eq!(package.args.join(" "), args, "{line}");
        }
    }

    #[test]
    fn what_runs_no_package_or_is_not_understood_is_left_as_it_is() {
        for line in [
            "node x.js",
            "npx",
            "npx -y",
            "npx -c srv",
            "npm install x",
            "uv run srv",
            "uvx --env-file x srv",
            "npx-like a",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn an_installation_takes_the_place_of_the_one_before() {
        let home = tempfile::tempdir().unwrap();
        let packages = PackageFolder::of_home(home.path());
        assert_eq!(packages.installed("srv").unwrap(), None);
        let installed = |version: &str| InstalledPackage {
            registry: Registry::Npm,
            specs: vec!["a".to_owned()],
            program: None,
            name: "a".to_owned(),
            version: version.to_owned(),
            argv: vec!["node".to_owned()],
            read: Vec::new(),
        };
        for version in ["1", "2"] {
            let folder = packages.of_server("srv").join(version);
            std::fs::create_dir_all(&folder).unwrap();
            packages.put("srv", &installed(version), &folder).unwrap();
        }
        assert_eq!(packages.installed("srv").unwrap(), Some(installed("2")));
        assert!(!packages.of_server("srv").join("1").exists());
        packages.forget("srv").unwrap();
        packages.forget("srv").unwrap();
        assert_eq!(packages.installed("srv").unwrap(), None);
    }
}
