//! Other systems from the package registry, installed into an environment of their own below the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use annals_requirements::program;
use anyhow::{Context as _, bail};

use super::workload::System;
use crate::process::{self, Echo};
use crate::repository::root;

const INSTALL_LIMIT: Duration = Duration::from_secs(15 * 60);

/// An environment with the peers in it.
pub(crate) struct Peers {
    python: PathBuf,
    /// Packages and their versions, and Python's.
    pub(crate) versions: Vec<(String, String)>,
}

impl Peers {
    /// Uses the environment that is there, if it holds what `requirements.txt` asks for; else makes a new one.
    pub(crate) fn install(target: &Path) -> anyhow::Result<Peers> {
        let folder = root().join("bench/peers");
        let wanted = folder.join("requirements.txt");
        let asked = std::fs::read_to_string(&wanted)
            .with_context(|| format!("cannot read `{}`", wanted.display()))?;
        let environment = target.join("bench/peers");
        let (python, stamp) = (
            environment.join("bin/python"),
            environment.join("requirements.txt"),
        );
        let is_right = std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == asked);
        if !is_right || !python.is_file() {
            eprintln!("peers: installing into {}", environment.display());
            make_environment(&environment)?;
            let mut pip = Command::new(&python);
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
            ])
            .arg(&wanted);
            process::succeed(pip, INSTALL_LIMIT).context(
                "the peers could not be installed: pip needs a package index (PyPI, or the one `pip config` names)",
            )?;
            std::fs::write(&stamp, &asked)?;
        }
        let versions = versions(&python, &asked)?;
        let shown: Vec<String> = versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        eprintln!("peers: {}", shown.join(", "));
        Ok(Peers { python, versions })
    }

    /// OpenRath and LangGraph.
    pub(crate) fn systems(&self) -> [System; 2] {
        let system = |name: &'static str, import: &str| {
            let script = root().join(format!("bench/peers/on_{name}.py"));
            System {
                name,
                program: self.python.clone(),
                arguments: vec![script.display().to_string()],
                start: (self.python.clone(), vec!["-c".to_owned(), import.to_owned()]),
            }
        };
        [
            system("openrath", "import rath.session, rath.flow"),
            system(
                "langgraph",
                "import langgraph.graph, langgraph.prebuilt, langgraph.checkpoint.sqlite",
            ),
        ]
    }
}

fn make_environment(environment: &Path) -> anyhow::Result<()> {
    let Some(python) = program("python3") else {
        bail!("other systems need Python, which is not here: apt-get install python3 python3-venv");
    };
    let _ = std::fs::remove_dir_all(environment);
    let mut venv = Command::new(python);
    venv.args(["-m", "venv"]).arg(environment);
    let ended = process::run(venv, INSTALL_LIMIT, Echo::Kept)?;
    if !ended.ended_well() {
        let said = [ended.output.join("\n"), ended.complaint].concat();
        bail!(
            "python3 makes no virtual environment: apt-get install python3-venv\n{}",
            said.trim()
        );
    }
    Ok(())
}

fn versions(python: &Path, asked: &str) -> anyhow::Result<Vec<(String, String)>> {
    let names: Vec<&str> = asked
        .lines()
        .filter_map(|line| Some(line.split_once("==")?.0.trim()))
        .collect();
    let script = "import sys, platform, importlib.metadata as m\n\
                  print('python', platform.python_version())\n\
                  for name in sys.argv[1:]: print(name, m.version(name))";
    let mut command = Command::new(python);
    command.args(["-c", script]).args(names);
    let ended = process::run(command, Duration::from_secs(60), Echo::Kept)?;
    if !ended.ended_well() {
        bail!(
            "the environment of the peers is broken ({}): delete it and run again",
            ended.last_words()
        );
    }
    let pairs = ended.output.iter().filter_map(|line| line.split_once(' '));
    Ok(pairs
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect())
}
