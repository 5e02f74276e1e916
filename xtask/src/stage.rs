//! Stages: one command after the other, each with a headline and its time, up to the first that fails.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

/// A row of stages.
pub(crate) struct Stages {
    total: usize,
    done: Vec<(&'static str, Duration)>,
}

impl Stages {
    /// Number of stages to come.
    pub(crate) fn new(total: usize) -> Self {
        Stages {
            total,
            done: Vec::new(),
        }
    }

    /// Runs a stage that is a command. Its output goes where ours goes.
    pub(crate) fn command(&mut self, name: &'static str, command: Command) -> anyhow::Result<()> {
        let line = shown(&command);
        self.stage(name, &line, || status(command))
    }

    /// Runs a stage.
    pub(crate) fn stage(
        &mut self,
        name: &'static str,
        what: &str,
        run: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        println!("\n[{}/{}] {name}: {what}", self.done.len() + 1, self.total);
        let started = Instant::now();
        let outcome = run();
        let took = started.elapsed();
        match outcome {
            Ok(()) => {
                println!(
                    "[{}/{}] {name}: ok in {}",
                    self.done.len() + 1,
                    self.total,
                    seconds(took)
                );
                self.done.push((name, took));
                Ok(())
            }
            Err(error) => {
                self.summary();
                println!("FAILED  {name} after {}: {what}", seconds(took));
                Err(error.context(format!("stage `{name}` failed; alone: {what}")))
            }
        }
    }

    /// Prints what took how long.
    pub(crate) fn summary(&self) {
        let total: Duration = self.done.iter().map(|(_, took)| *took).sum();
        println!();
        for (name, took) in &self.done {
            let percent = 100.0 * took.as_secs_f64() / total.as_secs_f64().max(f64::EPSILON);
            println!("ok      {name:<12} {:>9}  {percent:>3.0} %", seconds(*took));
        }
        println!("        {:<12} {:>9}", "together", seconds(total));
    }
}

/// Runs a command to its end.
pub(crate) fn status(mut command: Command) -> anyhow::Result<()> {
    let line = shown(&command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// A command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program
        .file_name()
        .unwrap_or(program.as_os_str())
        .to_string_lossy()
        .into_owned();
    let arguments = command
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(name)
        .chain(arguments)
        .collect::<Vec<_>>()
        .join(" ")
}

/// A time for people.
pub(crate) fn seconds(took: Duration) -> String {
    match took.as_secs() {
        0..60 => format!("{:.1} s", took.as_secs_f64()),
        whole => format!("{} m {:02} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable() {
        assert_eq!(seconds(Duration::from_millis(340)), "0.3 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 m 05 s");
    }

    #[test]
    fn the_first_failure_ends_the_row_and_names_the_stage() {
        let mut stages = Stages::new(2);
        stages.stage("one", "nothing", || Ok(())).unwrap();
        let error = stages.stage("two", "bad", || bail!("no")).unwrap_err();
        assert_eq!(format!("{error:#}"), "stage `two` failed; alone: bad: no");
    }
}
