//! Nobody gets out: every attempt of the corpus fails in the sandbox, as root and as an ordinary user, and every
//! attempt is real: it succeeds without them.

mod attempts;
mod outside;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use annals_requirements::{Requirement, met};
use annals_sandbox::{
    Backend, CodeRun, FailureKind, Language, Local, LocalTree, Op, OpResult, Opening, SandboxName,
    SandboxSpec, TrustedHost,
};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use attempts::{Attempt, Real};
use outside::Outside;

annals_sandbox::helpers_in_tests!(annals_sandbox::launcher::init);

/// An identity that is nobody's, for the second half of a run as root.
const ORDINARY: u32 = 65533;

const AT_ONCE: usize = 4;

/// Ends of a command by one of the sandbox's own bounds.
const ENDED: [FailureKind; 2] = [FailureKind::Timeout, FailureKind::ResourceLimit];

/// How many attempts may be about what a machine has not got, or refuses to everybody.
const ABSENT_MAX: usize = 20;

/// How long one command may take: dozens of attempts, each in a process of its own, on a machine with other work.
const COMMAND: Duration = Duration::from_secs(200);

fn opening(outside: &Outside) -> Opening {
    let workspace = outside.workspace();
    let mut spec = SandboxSpec::new(SandboxName::new(workspace.display().to_string(), 1));
    spec.limits.memory_bytes = 128 << 20;
    spec.limits.processes = 200;
    spec.limits.open_files = 256;
    spec.limits.scratch_bytes = 16 << 20;
    spec.limits.timeout = COMMAND;
    Opening::new(spec).local(LocalTree::at(workspace))
}

/// What came of the corpus, by attempt.
#[derive(Default)]
struct Told {
    escaped: BTreeSet<String>,
    /// What this machine has not got, with what that is.
    absent: BTreeMap<String, String>,
    /// What the kernel refused, with its words.
    refused: BTreeMap<String, String>,
    /// What came to nothing for another reason.
    failed: BTreeMap<String, String>,
}

impl Told {
    fn read(said: &[String]) -> Self {
        let mut told = Self::default();
        for line in said.iter().flat_map(|text| text.lines()) {
            let Some((word, rest)) = line.split_once(' ') else {
                continue;
            };
            let (name, reason) = rest.split_once(": ").unwrap_or((rest, ""));
            let among = match word {
                "ESCAPED" => {
                    told.escaped.insert(rest.to_owned());
                    continue;
                }
                "ABSENT" => &mut told.absent,
                "REFUSED" => &mut told.refused,
                "FAILED" => &mut told.failed,
                _ => continue,
            };
            among.insert(name.to_owned(), reason.to_owned());
        }
        told
    }

    /// Whether anything was heard of it.
    fn knows(&self, name: &str) -> bool {
        self.escaped.contains(name)
            || [&self.absent, &self.refused, &self.failed]
                .iter()
                .any(|among| among.contains_key(name))
    }
}

async fn told(backend: &dyn Backend, read_only: &str, outside: &Outside, attempts: &[Attempt]) -> Told {
    let sandbox = backend.open(opening(outside)).await.expect("the sandbox opens");
    let run = |program: String| {
        let mut op = CodeRun::new(Language::Python, program);
        op.env = outside.facts().clone();
        op.env.insert("READ_ONLY".into(), read_only.into());
        let sandbox = &sandbox;
        async move {
            let cancel = CancellationToken::new();
            match sandbox.dispatch(Op::CodeRun(op), &cancel).await {
                Ok(OpResult::Code(result)) => result.stdout.text().into_owned(),
                Ok(other) => panic!("code returned {other:?}"),
                // An attempt that hangs or is ended by a bound got nowhere; anything else is a broken test.
                Err(failure) if ENDED.contains(&failure.kind) => String::new(),
                Err(failure) => panic!("{failure:?}"),
            }
        }
    };
    let programs = attempts::programs(attempts);
    let together = futures::stream::iter(programs.together)
        .map(run)
        .buffer_unordered(AT_ONCE);
    let mut said: Vec<String> = together.collect().await;
    for program in programs.alone {
        said.push(run(program).await);
    }
    sandbox.close().await;
    Told::read(&said)
}

/// The same code without isolation.
async fn control(outside: &Outside, attempts: &[Attempt]) -> Told {
    let read_only = outside.read_only().display().to_string();
    told(&TrustedHost::new(), &read_only, outside, attempts).await
}

#[test]
fn the_corpus_is_listed_and_its_attempts_are_distinct() {
    let lines = attempts::all().into_iter().map(|attempt| {
        let who = match attempt.real {
            Real::Anyone => "anyone",
            Real::Root => "root",
        };
        format!("{}: {} (without isolation: {who})", attempt.family, attempt.name)
    });
    annals_requirements::assert_listed("escapes", 300, lines);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attempt_succeeds_in_the_sandbox() {
    let outside = Outside::build().expect("the outside is built");
    let backend = Local::new().read_only(outside.read_only(), "/read-only");
    let attempts = attempts::all();
    let told = told(&backend, "/read-only", &outside, &attempts).await;
    assert!(told.escaped.is_empty(), "{:#?}", told.escaped);
    let unheard: Vec<_> = attempts
        .iter()
        .filter(|attempt| !attempt.is_alone && !told.knows(attempt.name))
        .map(|attempt| attempt.name)
        .collect();
    assert!(unheard.is_empty(), "nothing was heard of {unheard:#?}");
    // Only the machine may lack something; what isolation takes away is refused.
    let lacking: Vec<Attempt> = attempts
        .into_iter()
        .filter(|attempt| told.absent.contains_key(attempt.name))
        .collect();
    let outside = Outside::build().expect("the outside is built once more");
    let without = control(&outside, &lacking).await;
    assert_eq!(
        told.absent, without.absent,
        "these were not attempted, though this machine could"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_succeeds_without_isolation() {
    let outside = Outside::build().expect("the outside is built");
    let possible: Vec<Attempt> = attempts::all()
        .into_iter()
        .filter(|attempt| attempt.real == Real::Anyone || annals_requirements::is_root())
        .collect();
    let Told {
        escaped,
        mut absent,
        refused,
        failed,
    } = control(&outside, &possible).await;
    let unreal: BTreeMap<_, _> = possible
        .iter()
        .map(|attempt| attempt.name)
        .filter(|&name| !escaped.contains(name) && !absent.contains_key(name) && !refused.contains_key(name))
        .map(|name| (name, failed.get(name).map_or("it was ended", String::as_str)))
        .collect();
    assert!(
        unreal.is_empty(),
        "these prove nothing on this machine: {unreal:#?}"
    );
    absent.extend(refused);
    let said = format!("this machine cannot show {} attempts: {absent:#?}", absent.len());
    assert!(absent.len() <= ABSENT_MAX, "{said}");
    tell(&said);
}

/// Part of the record of a run.
#[allow(clippy::print_stdout, reason = "what a test has to say it prints")]
fn tell(said: &str) {
    println!("{said}");
}

/// Runs the two tests above once more as somebody without rights.
#[test]
fn the_same_holds_for_an_ordinary_user() {
    if !met(Requirement::Root) {
        return;
    }
    let mut command = Command::new("/proc/self/exe");
    command
        .args([
            "--exact",
            "no_attempt_succeeds_in_the_sandbox",
            "every_attempt_succeeds_without_isolation",
        ])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .uid(ORDINARY)
        .gid(ORDINARY)
        .stdin(Stdio::null());
    let output = command.output().expect("the test runs again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("2 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
