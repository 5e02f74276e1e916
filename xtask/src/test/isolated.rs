//! The tests on a machine that has no `cargo-nextest`, which no registry ships as a program: each in a process of its own, so
//! that environment variables, memory and time are not shared, with the retries and time limits of `.config/nextest.toml`.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::process::{self, Echo, End};
use crate::repository::{cargo, messages, sysroot, target};
use crate::stage::seconds;

/// How often a test is run before it counts as failed.
const ATTEMPTS: usize = 3;
/// Programs of tests about faults, crashes, races and order, which run once: what goes wrong once in three runs is wrong.
const ONCE: [&str; 13] = [
    "cluster",
    "collection",
    "crash",
    "failover",
    "faults",
    "faulty_store",
    "fencing",
    "order",
    "power_loss",
    "sandbox_ownership",
    "schedules",
    "wire_faults",
    "worker",
];
/// After this long a test hangs.
const LIMIT: Duration = Duration::from_secs(600);
const LIST_LIMIT: Duration = Duration::from_secs(60);

/// Builds all tests and runs them, some at a time, up to the first that fails.
pub(crate) fn run(left_out: &Path, threads: usize) -> anyhow::Result<()> {
    let mut build = cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--examples"]);
    build.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let binaries: Vec<Binary> = messages(build)?.iter().filter_map(binary).collect();
    let outputs = target()?.join("test-output");
    fs::create_dir_all(&outputs)?;
    let library = sysroot()?.join("lib");
    let environment = vec![
        (annals_requirements::LEFT_OUT_FILE, left_out.to_owned()),
        // Tests of procedural macros link the compiler's library.
        ("LD_LIBRARY_PATH", library),
    ];
    run_all(&binaries, &environment, &outputs, threads, LIMIT)
}

/// A program of tests.
struct Binary {
    /// The package's folder, in which cargo runs it.
    folder: PathBuf,
    name: String,
    program: PathBuf,
}

/// What cargo says of a program that it built for tests.
fn binary(message: &Value) -> Option<Binary> {
    message["profile"]["test"].as_bool().filter(|is_test| *is_test)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.file_name()?.to_string_lossy();
    Some(Binary {
        name: format!("{package}::{}", message["target"]["name"].as_str()?),
        program: message["executable"].as_str()?.into(),
        folder: folder.to_owned(),
    })
}

type Environment = [(&'static str, PathBuf)];

impl Binary {
    /// How often one of its tests is run before it counts as failed.
    fn attempts(&self) -> usize {
        let name = self.name.rsplit("::").next().unwrap_or_default();
        match ONCE.contains(&name) {
            true => 1,
            false => ATTEMPTS,
        }
    }

    fn command(&self, environment: &Environment) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn tests(&self, environment: &Environment) -> anyhow::Result<Vec<String>> {
        let mut list = self.command(environment);
        list.args(["--list", "--format", "terse"]);
        let ended = process::run(list, LIST_LIMIT, Echo::Kept)?;
        ensure!(
            ended.ended_well(),
            "`{}` does not list its tests: {}",
            self.name,
            ended.last_words()
        );
        let names = ended.output.iter().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }
}

fn run_all(
    binaries: &[Binary],
    environment: &Environment,
    outputs: &Path,
    threads: usize,
    limit: Duration,
) -> anyhow::Result<()> {
    let mut tests = VecDeque::new();
    for binary in binaries {
        tests.extend(binary.tests(environment)?.into_iter().map(|test| (binary, test)));
    }
    let total = tests.len();
    let (waiting, done) = (Mutex::new(tests), AtomicUsize::new(0));
    let (failed, flaky) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let work = |worker: usize| -> anyhow::Result<()> {
        let output = outputs.join(format!("{worker}.txt"));
        let next = || locked(&waiting).pop_front();
        while let Some((binary, test)) = next() {
            let (name, attempts) = (format!("{} {test}", binary.name), binary.attempts());
            for attempt in 1..=attempts {
                let (passed, took) = attempt_test(binary, &test, environment, &output, limit)?;
                if passed {
                    let done = done.fetch_add(1, Ordering::SeqCst) + 1;
                    println!("PASS [{done}/{total}] {:>9}  {name}", seconds(took));
                    if attempt > 1 {
                        locked(&flaky).push(name);
                    }
                    break;
                }
                println!(
                    "FAIL attempt {attempt} of {attempts} {:>9}  {name}",
                    seconds(took)
                );
                if attempt == attempts {
                    println!("{}", fs::read_to_string(&output).unwrap_or_default());
                    locked(&failed).push(name.clone());
                    locked(&waiting).clear();
                }
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("a thread that runs tests ended early"),
        })
    })?;
    let flaky = locked(&flaky);
    if !flaky.is_empty() {
        println!("flaky, a defect to be fixed: {}", flaky.join(", "));
    }
    let failed = locked(&failed);
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    println!("{total} tests passed");
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs one test. What it writes goes to a file: a process that it left behind could hold a pipe for ever.
fn attempt_test(
    binary: &Binary,
    test: &str,
    environment: &Environment,
    output: &Path,
    limit: Duration,
) -> anyhow::Result<(bool, Duration)> {
    let file = File::create(output).with_context(|| format!("cannot write `{}`", output.display()))?;
    let mut command = binary.command(environment);
    command
        .args(["--exact", test, "--nocapture"])
        .stdout(file.try_clone()?)
        .stderr(file);
    let ended = process::run(command, limit, Echo::Elsewhere)?;
    if ended.end == End::OverTime {
        println!("TIME {} {test}: ended after {}", binary.name, seconds(limit));
    }
    Ok((ended.ended_well(), ended.wall))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A program that answers like one of tests, with a script for each.
    fn program(folder: &Path, script: &str) -> Binary {
        let program = folder.join("program");
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = --list ] && {{ echo 'one: test'; echo 'two: test'; exit 0; }}\n{script}\n"
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Binary {
            name: "it".into(),
            folder: folder.to_owned(),
            program,
        }
    }

    fn outcome(script: &str, limit: Duration) -> (anyhow::Result<()>, String) {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("annals-xtask-isolated-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let outcome = run_all(&[program(&folder, script)], &[], &folder, 2, limit);
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        fs::remove_dir_all(&folder).unwrap();
        (outcome, log)
    }

    #[test]
    fn each_test_is_a_process_of_its_own() {
        let (outcome, log) = outcome("echo $$ $2 >>log", Duration::from_secs(60));
        outcome.unwrap();
        let mut lines: Vec<(&str, &str)> = log.lines().filter_map(|line| line.split_once(' ')).collect();
        lines.sort_by_key(|(_, test)| *test);
        let [(first, "one"), (second, "two")] = lines[..] else {
            panic!("{log}");
        };
        assert_ne!(first, second);
    }

    #[test]
    fn a_test_is_tried_again_and_one_that_never_passes_is_named() {
        let (once_broken, log) = outcome(
            "echo $2 >>log; [ $(grep -c $2 log) -gt 1 ]",
            Duration::from_secs(60),
        );
        once_broken.unwrap();
        assert_eq!(log.lines().count(), 4);
        let (broken, log) = outcome("echo $2 >>log; [ $2 = two ]", Duration::from_secs(60));
        assert_eq!(broken.unwrap_err().to_string(), "failed: it one");
        assert_eq!(log.lines().filter(|line| *line == "one").count(), ATTEMPTS);
    }

    #[test]
    fn tests_of_faults_are_run_once_here_and_by_nextest() {
        let named = |name: &str| Binary {
            name: name.into(),
            folder: PathBuf::new(),
            program: PathBuf::new(),
        };
        assert_eq!(named("annals-cli::cluster").attempts(), 1);
        assert_eq!(named("annals-cli::cli").attempts(), ATTEMPTS);
        let settings = include_str!("../../../.config/nextest.toml");
        let (_, filter) = settings.split_once("filter = \"\"\"").unwrap();
        let (filter, rest) = filter.split_once("\"\"\"").unwrap();
        assert!(rest.trim_start().starts_with("retries = 0"), "{rest}");
        let names: Vec<&str> = filter
            .split('|')
            .filter_map(|name| name.trim().strip_prefix("binary(")?.strip_suffix(')'))
            .collect();
        assert_eq!(names, ONCE);
    }

    #[test]
    fn a_test_that_hangs_is_ended_and_what_it_left_behind_delays_nobody() {
        let (outcome, _) = outcome(
            "[ $2 = two ] && exit 0; setsid sleep 60 & wait",
            Duration::from_secs(2),
        );
        assert_eq!(outcome.unwrap_err().to_string(), "failed: it one");
    }

    #[test]
    fn only_programs_of_tests_are_run() {
        let message = |is_test: bool| {
            serde_json::json!({
                "manifest_path": "/r/crates/annals-core/Cargo.toml", "executable": "/t/laws-1",
                "target": { "name": "laws" }, "profile": { "test": is_test },
            })
        };
        assert_eq!(
            binary(&message(true)).map(|found| found.name).as_deref(),
            Some("annals-core::laws")
        );
        assert!(binary(&message(false)).is_none());
    }
}
