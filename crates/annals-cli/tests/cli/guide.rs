//! The guide to the server (`docs/server.md`), run as it is printed: its commands are typed into one shell, in order, against
//! a real server, and what they print has the shape that the guide shows.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use annals_requirements::{Requirement, met};
use serde_json::json;

use super::annals::Annals;
use super::serve::Serving;

/// What a command of the guide may take on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(120);
/// Where the guide's server listens.
const PRINTED_ADDRESS: &str = "127.0.0.1:7878";
/// The model of the guide, which needs a key.
const PRINTED_MODEL: &str = "openai:gpt-5";
/// Printed after each command.
const DONE: &str = "-- the command has ended --";
/// Stands for anything: within a line, or on a line of its own for any number of lines.
const ANYTHING: &str = "…";

/// A command that a page shows, and what it says the command prints.
#[derive(Debug, PartialEq)]
struct Shown {
    command: String,
    output: Vec<String>,
}

/// The commands of a page's blocks of code: lines after `$ `, with those that a `\` joins to them.
fn shown(page: &str) -> Vec<Shown> {
    let (mut commands, mut in_code, mut in_session) = (Vec::<Shown>::new(), false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            (in_code, in_session) = (!in_code, false);
            continue;
        }
        if !in_code {
            continue;
        }
        if let Some(command) = line.strip_prefix("$ ") {
            in_session = true;
            commands.push(Shown {
                command: command.to_owned(),
                output: Vec::new(),
            });
        } else if let (true, Some(last)) = (in_session, commands.last_mut()) {
            match last.output.is_empty() && last.command.ends_with('\\') {
                true => last.command.extend(["\n", line]),
                false => last.output.push(line.to_owned()),
            }
        }
    }
    commands
}

/// Whether a line has the shape of a printed one.
fn is_like(line: &str, printed: &str) -> bool {
    let Some((begin, end)) = printed.split_once(ANYTHING) else {
        return line == printed;
    };
    let Some(rest) = line.strip_prefix(begin) else {
        return false;
    };
    let places = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    places.into_iter().any(|at| is_like(&rest[at..], end))
}

/// Whether what was said has the shape of what is printed.
fn is_shaped(said: &[String], printed: &[String]) -> bool {
    match (printed.split_first(), said.split_first()) {
        (None, left) => left.is_none(),
        (Some((first, rest)), _) if first == ANYTHING => {
            (0..=said.len()).any(|skipped| is_shaped(&said[skipped..], rest))
        }
        (Some(_), None) => false,
        (Some((first, printed)), Some((line, said))) => is_like(line, first) && is_shaped(said, printed),
    }
}

/// A shell with commands in it, ended with all that it started.
struct Shell {
    child: Child,
    lines: Receiver<String>,
}

impl Drop for Shell {
    fn drop(&mut self) {
        // SAFETY: ends the group of processes that this test began and has not waited for.
        unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

impl Shell {
    /// Begins the commands, in a folder with the binary on the search path.
    fn start(annals: &Annals, serving: &Serving, commands: &[Shown]) -> Self {
        let programs = annals.path().join("bin");
        std::fs::create_dir(&programs).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_annals"), programs.join("annals")).unwrap();
        let address = serving.base.strip_prefix("http://").unwrap();
        let typed = commands.iter().map(|shown| {
            let command = shown.command.replace(PRINTED_ADDRESS, address);
            format!("{command}\nprintf '\\n%s\\n' '{DONE}'\n")
        });
        let script = annals.file("guide.sh", format!("exec 2>&1\n{}", typed.collect::<String>()));
        let path = std::env::var("PATH").unwrap();
        let mut child = Command::new("bash")
            .arg(script)
            .current_dir(annals.path())
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("ANNALS_HOME", annals.path().join("home"))
            .env("TOKEN", &serving.token)
            .env("no_proxy", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let (send, lines) = mpsc::channel();
        let said = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in said.lines() {
                if send.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Shell { child, lines }
    }

    /// Waits until a command has printed what the guide shows. Only the last one may go on for ever.
    fn check(&self, shown: &Shown, is_last: bool) {
        let mut said = Vec::new();
        let latest = Instant::now() + PATIENCE;
        loop {
            // A stream that says nothing more still sends comments.
            let left = latest.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let Ok(line) = line else {
                panic!("{shown:#?} is not what comes: {said:#?}")
            };
            let has_ended = line == DONE;
            if has_ended {
                let length = said.iter().rposition(|line: &String| !line.is_empty());
                said.truncate(length.map_or(0, |last| last + 1));
            } else {
                said.push(line);
            }
            if (has_ended || is_last) && is_shaped(&said, &shown.output) {
                return;
            }
            assert!(!has_ended, "{shown:#?} is not what came: {said:#?}");
        }
    }
}

#[test]
fn the_session_that_the_guide_prints_runs_as_printed() {
    if !met(Requirement::Bash) || !met(Requirement::Curl) {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server.md");
    let commands = shown(&std::fs::read_to_string(page).unwrap());
    let (serve, rest) = commands.split_first().unwrap();
    assert_eq!(serve.command, format!("annals serve --model {PRINTED_MODEL}"));
    assert!(
        rest.iter().any(|shown| shown.command.contains("curl -sN")),
        "{rest:#?}"
    );
    let annals = Annals::new();
    let steps = json!({"steps": [{"text": "Alma."}, {"text": "Milk and eggs."}]});
    let serving = Serving::start(&annals, &steps, &[]);
    let printed = format!("{}/?token={}", serving.base, serving.token);
    let address = serving.base.strip_prefix("http://").unwrap();
    let told: Vec<String> = serve
        .output
        .iter()
        .map(|line| line.replace(PRINTED_ADDRESS, address))
        .collect();
    assert!(
        is_shaped(std::slice::from_ref(&printed), &told),
        "{printed}: {told:?}"
    );
    let shell = Shell::start(&annals, &serving, rest);
    for (at, shown) in rest.iter().enumerate() {
        shell.check(shown, at + 1 == rest.len());
    }
}

#[test]
fn a_session_is_read_from_its_page_and_another_shape_is_found_out() {
    let page =
        "Words\n$ no command\n```\n$ one \\\n  two\nsaid\n\nmore …\n$ three\n```\n```toml\nx = 1\n```\n";
    let read = shown(page);
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        read,
        [
            Shown {
                command: "one \\\n  two".to_owned(),
                output: owned(&["said", "", "more …"]),
            },
            Shown {
                command: "three".to_owned(),
                output: Vec::new(),
            },
        ]
    );
    for (said, printed, is_so) in [
        (&["{\"id\":\"x1\"}"][..], &["{\"id\":\"…\"}"][..], true),
        (&["{\"id\":\"x1\"}"], &["{\"name\":\"…\"}"], false),
        (&["{\"id\":\"x1\"}, and more"], &["{\"id\":\"…\"}"], false),
        (&["a", "b", "c"], &["a", "…", "c"], true),
        (&["a", "b", "c"], &["a", "…"], true),
        (&["a", "b"], &["a"], false),
        (&["a"], &["a", "b"], false),
        (&[], &[], true),
    ] {
        assert_eq!(
            is_shaped(&owned(said), &owned(printed)),
            is_so,
            "{said:?} {printed:?}"
        );
    }
}
