//! `cargo xtask cgroup2`: the memory bound of an ordinary user with a delegated cgroup of version 2.
//!
//! A controller belongs to one hierarchy at a time, so a machine that mounts `memory` in version 1 cannot try version 2. This
//! starts another machine: Debian's own kernel and a minimal root in memory, emulated by QEMU, with version 2 only. In it runs
//! the same test that every machine runs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::debian;
use crate::flags::Flags;
use crate::process::{self, Echo};
use crate::repository::{cargo, programs, target};
use crate::stage::Stages;

const LIMIT: Duration = Duration::from_secs(900);
const INIT: &str = include_str!("cgroup2/init.sh");
/// Stands for the newest kernel without drivers that a virtual machine has no use for.
const KERNEL: &str = "linux-image-cloud-amd64";
const PASSED: &str = "test ended with 0";

/// Runs the test in a machine of its own.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    Flags::new(arguments).done()?;
    debian::need(
        "cgroup2",
        &[
            ("mmdebstrap", "mmdebstrap"),
            ("unshare", "util-linux"),
            ("cpio", "cpio"),
            ("qemu-system-x86_64", "qemu-system-x86"),
        ],
    )?;
    process::catch_interrupts();
    let machine = Machine {
        folder: target()?.join("cgroup2").join(std::process::id().to_string()),
    };
    let mut stages = Stages::new(4);
    let mut test = None;
    stages.stage("build", "the test of a delegated cgroup", || {
        test = Some(built_test()?);
        Ok(())
    })?;
    let test = test.context("cargo built no test")?;
    stages.stage("root", "mmdebstrap", || machine.bootstrap(&test))?;
    stages.stage("kernel", KERNEL, || machine.download_kernel())?;
    stages.stage("machine", "emulated by QEMU", || machine.boot())?;
    stages.summary();
    Ok(())
}

fn built_test() -> anyhow::Result<PathBuf> {
    let command = cargo(&[
        "test",
        "--no-run",
        "-p",
        "annals-sandbox",
        "--test",
        "bounds",
        "--message-format=json-render-diagnostics",
    ]);
    let found = programs(command, "test")?;
    let test = found.into_iter().find(|(name, _)| name == "bounds");
    test.map(|(_, file)| file).context("cargo built no test `bounds`")
}

/// The folder of the machine's parts, removed at the end.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    fn bootstrap(&self, test: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        let root = self.root();
        debian::bootstrap(&root, "python3", LIMIT)?;
        std::fs::copy(test, root.join("test"))?;
        let init = root.join("init");
        std::fs::write(&init, INIT)?;
        let mut executable = Command::new("chmod");
        executable.arg("755").arg(init);
        process::succeed(executable, LIMIT)
    }

    fn download_kernel(&self) -> anyhow::Result<()> {
        let depends = output("apt-cache", &["depends", KERNEL])?;
        let package = depends
            .lines()
            .find_map(|line| line.trim().strip_prefix("Depends: "))
            .with_context(|| format!("apt knows no package `{KERNEL}`: run `apt-get update`"))?;
        let fetch = "apt-get download -q \"$1\" && dpkg-deb -x ./*.deb kernel";
        let mut command = Command::new("sh");
        command
            .args(["-ec", fetch, "sh", package])
            .current_dir(&self.folder);
        process::succeed(command, LIMIT)
    }

    fn kernel(&self) -> anyhow::Result<PathBuf> {
        let files = std::fs::read_dir(self.folder.join("kernel/boot"))?.flatten();
        let mut kernels = files.filter(|file| file.file_name().to_string_lossy().starts_with("vmlinuz"));
        Ok(kernels.next().context("the package has no kernel")?.path())
    }

    fn boot(&self) -> anyhow::Result<()> {
        let pack = "cd \"$1\" && find . -xdev -not -path './usr/share/*' | cpio -o -H newc --quiet | gzip -1 > \"$2\"";
        let archive = self.folder.join("root.gz");
        let mut command = Command::new("sh");
        command.args(["-ec", pack, "sh"]).arg(self.root()).arg(&archive);
        process::succeed(command, LIMIT)?;
        let mut command = Command::new("qemu-system-x86_64");
        command
            .args([
                "-accel",
                "tcg,thread=multi",
                "-cpu",
                "max",
                "-smp",
                "2",
                "-m",
                "4096",
            ])
            .args(["-nic", "none", "-nographic", "-no-reboot"])
            .args(["-append", "console=ttyS0 panic=-1 quiet"])
            .arg("-kernel")
            .arg(self.kernel()?)
            .arg("-initrd")
            .arg(&archive);
        let ended = process::run(command, LIMIT, Echo::Kept)?;
        for line in &ended.output {
            println!("  {}", line.trim_end());
        }
        ensure!(
            ended.output.iter().any(|line| line.trim_end() == PASSED),
            "the test failed in the machine, see above"
        );
        Ok(())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            println!("cannot remove `{}`: {error}", self.folder.display());
        }
    }
}

fn output(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let ended = process::run(command, LIMIT, Echo::Kept)?;
    ensure!(ended.ended_well(), "`{program}` failed: {}", ended.last_words());
    Ok(ended.output.join("\n"))
}
