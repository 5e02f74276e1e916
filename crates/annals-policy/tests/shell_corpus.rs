//! Shell lines against one policy: an allow rule never matches more than it says, whatever the shell makes of a line.
//!
//! Each line names the mechanism it tries. What is allowed is then run by real shells, with stand-ins that write down how
//! they were called, and what they wrote down must be what the rules say.

#[path = "shell_corpus/lines.rs"]
mod lines;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command as Process;

use annals_policy::{Call, Command, Decide, Layer, Policy, Reach};
use lines::{CORPUS, PIECES};

const POLICY: &str = r#"
default = "ask-all"

[[rule]]
tool = "run_shell_command"
command = ["git", ["status", "diff", "log"]]
decide = "allow"

[[rule]]
tool = "run_shell_command"
command = ["make", "test"]
exact = true
decide = "allow"

[[rule]]
tool = "run_shell_command"
command = ["cargo"]
decide = "allow"

[[rule]]
tool = "run_shell_command"
command = ["rm"]
decide = "deny"

[[rule]]
tool = "run_shell_command"
command = ["git", "push"]
decide = "deny"
"#;

fn policy() -> Policy {
    Policy {
        owner: Layer::parse("policy.toml", POLICY, &[]).unwrap(),
        ..Policy::default()
    }
}

fn call(line: &str) -> Call {
    Call {
        tool: "run_shell_command".into(),
        effects: BTreeSet::from([Reach::Exec]),
        command: Some(Command::line(line)),
        ..Call::default()
    }
}

use Decide::Allow;

#[test]
fn each_line_is_judged_as_its_mechanism_demands() {
    let policy = policy();
    let mut wrong = Vec::new();
    for (mechanism, line, expected) in CORPUS {
        let judgement = policy.judge(&call(line));
        if judgement.decide != *expected {
            wrong.push(format!(
                "{mechanism}: `{line}` is {}, not {expected}: {}",
                judgement.decide,
                judgement.reason()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(CORPUS.len() >= 200, "{} lines", CORPUS.len());
}

/// Programs that write down how they were called, and nothing else to be found.
struct Shells {
    folder: tempfile::TempDir,
}

const STAND_INS: [&str; 6] = ["git", "make", "cargo", "rm", "ls", "sort"];

impl Shells {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in STAND_INS {
            let text = format!(
                "#!/bin/sh\n{{ printf '{name}'; printf '\\037%s' \"$@\"; printf '\\036'; }} > \"$LOG/$$\"\n"
            );
            let file = bin.join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir(folder.path().join("work")).unwrap();
        Shells { folder }
    }

    /// What the shell ran: programs with their arguments, and the names of everything that its trace shows.
    fn run(&self, shell: &str, line: &str) -> (Vec<Vec<String>>, Vec<String>) {
        let log = self.folder.path().join("log");
        let _ = fs::remove_dir_all(&log);
        fs::create_dir(&log).unwrap();
        let ran = Process::new(shell)
            .args(["-x", "-c", line])
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("LOG", &log)
            .env("HOME", self.folder.path())
            .env("PS4", "+ ")
            .current_dir(self.folder.path().join("work"))
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        // One file a process, so that those that run at the same time do not mix.
        let files = fs::read_dir(&log)
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        let calls = files.map(|call| {
            let call = call.trim_end_matches('\u{1e}');
            call.split('\u{1f}').map(str::to_owned).collect()
        });
        let trace = String::from_utf8_lossy(&ran.stderr).into_owned();
        let names = trace
            .lines()
            .filter(|line| line.starts_with('+'))
            .filter_map(|line| line.trim_start_matches('+').strip_prefix(' '))
            .filter_map(|command| command.split_whitespace().next().map(str::to_owned));
        (calls.collect(), names.collect())
    }
}

/// What the allow rules of the policy say, in other words.
fn is_said(call: &[String]) -> bool {
    let words: Vec<&str> = call.iter().map(String::as_str).collect();
    match words[..] {
        ["git", "status" | "diff" | "log", ..] | ["make", "test"] | ["cargo", ..] => true,
        // `printf` without arguments writes one empty word.
        _ => false,
    }
}

/// Runs what was allowed and collects what went beyond the rules.
fn beyond_the_rules(shells: &Shells, line: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for shell in ["/bin/sh", "/bin/bash"] {
        if !Path::new(shell).exists() {
            continue;
        }
        let (calls, traced) = shells.run(shell, line);
        let calls = calls.into_iter().map(|mut call: Vec<String>| {
            if call.len() == 2 && call[1].is_empty() {
                call.pop();
            }
            call
        });
        wrong.extend(
            calls
                .filter(|call| !is_said(call))
                .map(|call| format!("{shell} ran {call:?} for `{line}`")),
        );
        // Commands that run at the same time write into each other's traces.
        let is_sequence = !line.replace("&&", "").replace(">&", "").contains(['&', '|']);
        let traced = if is_sequence { traced } else { Vec::new() };
        let named = traced
            .into_iter()
            .filter(|name| !matches!(name.trim_matches('\''), "git" | "make" | "cargo"));
        wrong.extend(named.map(|name| format!("{shell} traced `{name}` for `{line}`")));
    }
    let written: Vec<_> = fs::read_dir(shells.folder.path().join("work")).unwrap().collect();
    wrong.extend(written.iter().map(|entry| format!("`{line}` wrote {entry:?}")));
    wrong
}

#[test]
fn what_is_allowed_runs_what_the_rules_say_in_real_shells() {
    let (policy, shells) = (policy(), Shells::new());
    let allowed: Vec<&str> = CORPUS
        .iter()
        .map(|(_, line, _)| *line)
        .filter(|line| policy.judge(&call(line)).decide == Allow)
        .collect();
    assert!(allowed.len() > 40);
    let wrong: Vec<String> = allowed
        .iter()
        .flat_map(|line| beyond_the_rules(&shells, line))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A sequence that follows from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// A line that begins as the rules allow and goes on at random.
fn random_line(random: &mut Random) -> String {
    let starts = ["git status", "git log", "make test", "cargo", ""];
    let mut line = starts[random.below(starts.len())].to_owned();
    for _ in 0..1 + random.below(9) {
        line.push_str(PIECES[random.below(PIECES.len())]);
    }
    line
}

/// The lines among many random ones that a policy allows, those with the most punctuation first: they are the most likely to
/// be misread.
fn random_allowed(policy: &Policy, seed: u64, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    const LINES: usize = 20_000;
    let (mut random, mut allowed, mut counts) = (Random(seed), BTreeSet::new(), BTreeMap::new());
    for _ in 0..LINES {
        let line = random_line(&mut random);
        let decide = policy.judge(&call(&line)).decide;
        *counts.entry(decide).or_insert(0) += 1;
        let odd = line.chars().filter(|c| !c.is_alphanumeric() && *c != ' ').count();
        if decide == Allow && odd > 2 && is_wanted(&line) {
            allowed.insert((std::cmp::Reverse(odd), line));
        }
    }
    assert_eq!(counts.len(), 3, "{counts:?}");
    allowed.into_iter().map(|(_, line)| line).collect()
}

#[test]
fn random_lines_that_are_allowed_run_what_the_rules_say_in_real_shells() {
    const RUN_MAX: usize = 150;
    let shells = Shells::new();
    let allowed = random_allowed(&policy(), 20_261_117, |_| true);
    assert!(allowed.len() > RUN_MAX, "{}", allowed.len());
    let wrong: Vec<String> = allowed
        .iter()
        .take(RUN_MAX)
        .flat_map(|line| beyond_the_rules(&shells, line))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Everything is allowed but one program and what cannot be told from the text.
const DENIES_ONE: &str = r#"
default = "allow-all"

[[rule]]
tool = "run_shell_command"
command = ["rm"]
decide = "deny"
"#;

#[test]
fn no_line_hides_a_denied_program_from_the_rules_that_real_shells_run() {
    const RUN_MAX: usize = 150;
    let shells = Shells::new();
    let policy = Policy {
        owner: Layer::parse("policy.toml", DENIES_ONE, &[]).unwrap(),
        ..Policy::default()
    };
    let mut lines: Vec<String> = CORPUS
        .iter()
        .filter(|(_, line, _)| policy.judge(&call(line)).decide == Allow && line.contains("rm"))
        .map(|(_, line, _)| (*line).to_owned())
        .collect();
    let is_wanted = |line: &str| line.contains('r') && line.contains('m');
    let random = random_allowed(&policy, 20_261_118, is_wanted);
    assert!(random.len() > RUN_MAX, "{}", random.len());
    lines.extend(random.into_iter().take(RUN_MAX));
    let runs_it = |shell: &str, line: &str| {
        Path::new(shell).exists() && shells.run(shell, line).0.iter().any(|call| call[0] == "rm")
    };
    let is_run = |line: &&String| {
        ["/bin/sh", "/bin/bash"]
            .into_iter()
            .any(|shell| runs_it(shell, line))
    };
    let wrong: Vec<&String> = lines.iter().filter(is_run).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
