//! `cargo xtask fresh`: proves that a fresh machine is enough. The commands of the README's first block run in a minimal
//! Debian root from a clean clone, as root and as an ordinary user.
//!
//! The root has a C compiler and nothing else that Debian does not install by itself; the toolchain is bound in read-only,
//! and crates come from a copy of this machine's registry cache. All mounts live in a mount namespace that ends with the
//! command, so an interruption leaves only a folder, and that is removed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use annals_requirements::Requirement;
use anyhow::{Context as _, ensure};

use crate::debian::{self, PRIVATE_MOUNTS};
use crate::flags::Flags;
use crate::process;
use crate::repository::{root, sysroot, target};
use crate::stage::Stages;

const LIMIT: Duration = Duration::from_secs(2 * 3_600);
const ENTER: &str = include_str!("fresh/enter.sh");
/// What the README says is needed besides Rust, and certificates for the registry.
const PACKAGES: &str = "gcc,libc6-dev,ca-certificates";
/// Certificates that an administrator added, as Debian keeps them.
const OWN_CERTIFICATES: &str = "/usr/local/share/ca-certificates";
/// All certificates, as Debian keeps them. Python and Node bring a list of their own otherwise.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
const PATH: &str = "/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How this machine reaches the registries: variables and files of installers, where they are set. The root reaches them
/// the same way.
const INSTALLER_VARIABLES: [&str; 10] = [
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "npm_config_registry",
];
const INSTALLER_FILES: [&str; 2] = [".config/pip/pip.conf", ".npmrc"];
const USERS: [User; 2] = [
    User { name: "root", id: 0 },
    User {
        name: "builder",
        id: 1000,
    },
];

struct User {
    name: &'static str,
    id: u32,
}

/// Runs the README's commands, or those given, in a fresh root.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut flags = Flags::new(arguments);
    let only = flags.value("--as")?;
    let built = flags.value("--target")?.map(PathBuf::from);
    let keeps = flags.switch("--keep");
    let commands = match flags.values("--command")? {
        given if given.is_empty() => first_commands(&std::fs::read_to_string(root().join("README.md"))?)?,
        given => given,
    };
    flags.done()?;
    let users: Vec<&User> = USERS
        .iter()
        .filter(|user| only.as_deref().is_none_or(|only| only == user.name))
        .collect();
    ensure!(!users.is_empty(), "`--as` is `root` or `builder`");
    debian::need(
        "fresh",
        &[
            ("mmdebstrap", "mmdebstrap"),
            ("git", "git"),
            ("unshare", "util-linux"),
        ],
    )?;
    process::catch_interrupts();
    let machine = Machine::create(keeps)?;
    let mut stages = Stages::new(1 + users.len() * (1 + commands.len()));
    let has_root = users.iter().any(|user| user.id == 0);
    stages.stage("root", "mmdebstrap", || machine.bootstrap(has_root))?;
    for user in users {
        stages.stage("clone", user.name, || machine.clone_for(user, built.as_deref()))?;
        for command in &commands {
            stages.stage("command", &format!("as {}: {command}", user.name), || {
                machine.enter(user, command)
            })?;
        }
    }
    stages.summary();
    println!("a fresh machine is enough");
    Ok(())
}

/// The commands of the README's first block of code, without their comments.
fn first_commands(readme: &str) -> anyhow::Result<Vec<String>> {
    let block = readme
        .split("```sh\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let lines = block.context("the README has no block of commands")?.lines();
    let commands: Vec<String> = lines
        .map(|line| line.split(" #").next().unwrap_or_default().trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    ensure!(!commands.is_empty(), "the README's first block has no command");
    Ok(commands)
}

/// The root folder of the fresh machine, removed at the end.
struct Machine {
    folder: PathBuf,
    is_kept: bool,
}

impl Machine {
    fn create(is_kept: bool) -> anyhow::Result<Machine> {
        let fresh = target()?.join("fresh");
        let folder = fresh.join(std::process::id().to_string());
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
        Ok(Machine { folder, is_kept })
    }

    /// Where root runs the commands, they install what the tests need. An ordinary user cannot, so where there is no other,
    /// the machine comes with it.
    fn bootstrap(&self, has_root: bool) -> anyhow::Result<()> {
        let needed = Requirement::ALL
            .into_iter()
            .filter(|_| !has_root)
            .flat_map(Requirement::packages);
        let packages: Vec<&str> = [PACKAGES].into_iter().chain(needed.copied()).collect();
        debian::bootstrap(&self.folder, &packages.join(","), LIMIT)?;
        for (file, line) in [
            ("passwd", "builder:x:1000:1000::/build/builder:/bin/sh\n"),
            ("group", "builder:x:1000:\n"),
        ] {
            let file = self.folder.join("etc").join(file);
            let text = std::fs::read_to_string(&file)?;
            std::fs::write(&file, text + line)?;
        }
        for file in ["resolv.conf", "hosts", "pip.conf"] {
            copy_if_there(&Path::new("/etc").join(file), &self.folder.join("etc").join(file))?;
        }
        std::fs::create_dir_all(self.folder.join("opt/rust"))?;
        self.trust()
    }

    /// The root trusts whom this machine trusts: the way to the registries may lead through a proxy with a certificate of
    /// its own.
    fn trust(&self) -> anyhow::Result<()> {
        let ours = Path::new(OWN_CERTIFICATES);
        if !ours.is_dir() {
            return Ok(());
        }
        copy(
            &ours.join("."),
            &self.folder.join(OWN_CERTIFICATES.trim_start_matches('/')),
        )?;
        let mut update = Command::new("chroot");
        update.arg(&self.folder).arg("update-ca-certificates");
        process::succeed(update, LIMIT)
    }

    /// A clean clone of what is committed, and a registry cache of the user's own.
    fn clone_for(&self, user: &User, built: Option<&Path>) -> anyhow::Result<()> {
        let home = self.folder.join("build").join(user.name);
        let cargo = home.join("cargo");
        std::fs::create_dir_all(&cargo)?;
        let mut clone = Command::new("git");
        clone
            .args(["clone", "--quiet", "--no-hardlinks"])
            .arg(root())
            .arg(home.join("annals"));
        process::succeed(clone, LIMIT)?;
        let ours = cargo_home()?;
        for name in ["registry", "config.toml"] {
            copy_if_there(&ours.join(name), &cargo.join(name))?;
        }
        if let Some(ours) = std::env::var_os("HOME").map(PathBuf::from) {
            for name in INSTALLER_FILES {
                copy_if_there(&ours.join(name), &home.join(name))?;
            }
        }
        if let Some(built) = built {
            copy(built, &home.join("annals/target"))?;
        }
        let mut owner = Command::new("chown");
        owner.args(["-R", &format!("{0}:{0}", user.id)]).arg(&home);
        process::succeed(owner, LIMIT)
    }

    fn enter(&self, user: &User, line: &str) -> anyhow::Result<()> {
        let home = Path::new("/build").join(user.name);
        let passed_on = INSTALLER_VARIABLES
            .into_iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut command = Command::new("unshare");
        command
            .env_clear()
            .envs(passed_on)
            .env("PATH", PATH)
            .env("CARGO_HOME", home.join("cargo"))
            .env("HOME", home)
            .env("USER", user.name)
            .env("LANG", "C.UTF-8")
            .env("CI", std::env::var_os("CI").unwrap_or_else(|| "true".into()))
            .env("RUST_BACKTRACE", "1")
            .envs(["PIP_CERT", "NODE_EXTRA_CA_CERTS"].map(|name| (name, CERTIFICATES)))
            .args(PRIVATE_MOUNTS)
            .args(["--pid", "--fork", "--kill-child"])
            .args(["sh", "-c", ENTER, "enter"])
            .arg(&self.folder)
            .arg(sysroot()?)
            .args([user.name, "sh", "-c", line]);
        process::succeed(command, LIMIT)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let shown = self.folder.display();
        // Mounts end with their namespace; if one were here all the same, removing would reach through it.
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let is_mounted = mounts.contains(&*self.folder.to_string_lossy());
        if self.is_kept || is_mounted {
            println!("kept: {shown}");
        } else if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            println!("cannot remove `{shown}`: {error}");
        }
    }
}

fn copy_if_there(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    // What a link leads to, since it may lead out of what is copied.
    let mut command = Command::new("cp");
    command
        .args(["-a", "--dereference", "--reflink=auto"])
        .args([from, to]);
    process::succeed(command, LIMIT)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("cp");
    command.args(["-a", "--reflink=auto"]).args([from, to]);
    process::succeed(command, LIMIT)
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let usual = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    set.or(usual)
        .context("neither `CARGO_HOME` nor `HOME` is set: where is the registry cache?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_those_of_the_readme() {
        let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
        assert_eq!(
            first_commands(&readme).unwrap(),
            ["cargo run -- demo", "cargo xtask test"]
        );
        assert!(first_commands("no block").is_err());
    }
}
