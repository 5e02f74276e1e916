//! Nobody gets out: every attempt of the corpus fails in the sandbox, as root and as an ordinary user, and every
//! attempt is real: it succeeds without them.

mod attempts;
mod outside;

use std::collections::BTreeSet;
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

/// How many attempts may be about devices and protocols that a kernel has not got.
const ABSENT_MAX: usize = 20;

fn opening(outside: &Outside) -> Opening {
    let workspace = outside.workspace();
    let mut spec = SandboxSpec::new(SandboxName::new(workspace.display().to_string(), 1));
    spec.limits.memory_bytes = 256 << 20;
    spec.limits.processes = 200;
    spec.limits.scratch_bytes = 64 << 20;
    spec.limits.timeout = Duration::from_secs(60);
    Opening::new(spec).local(LocalTree::at(workspace))
}

/// What came of the corpus.
#[derive(Default)]
struct Told {
    escaped: BTreeSet<String>,
    /// What this machine has not got.
    absent: BTreeSet<String>,
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
    let said = futures::stream::iter(attempts::programs(attempts))
        .map(run)
        .buffer_unordered(AT_ONCE);
    let said: Vec<String> = said.collect().await;
    sandbox.close().await;
    let mut told = Told::default();
    for line in said.iter().flat_map(|text| text.lines()) {
        if let Some(name) = line.strip_prefix("ESCAPED ") {
            told.escaped.insert(name.to_owned());
        } else if let Some(name) = line.strip_prefix("ABSENT ") {
            told.absent.insert(name.to_owned());
        }
    }
    told
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
    let told = told(&backend, "/read-only", &outside, &attempts::all()).await;
    assert!(told.escaped.is_empty(), "{:#?}", told.escaped);
    assert!(
        told.absent.is_empty(),
        "these were not attempted: {:#?}",
        told.absent
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_succeeds_without_isolation() {
    let outside = Outside::build().expect("the outside is built");
    let read_only = outside.read_only().display().to_string();
    let possible: Vec<Attempt> = attempts::all()
        .into_iter()
        .filter(|attempt| attempt.real == Real::Anyone || annals_requirements::is_root())
        .collect();
    let told = told(&TrustedHost::new(), &read_only, &outside, &possible).await;
    let unreal: Vec<_> = possible
        .iter()
        .map(|attempt| attempt.name)
        .filter(|name| !told.escaped.contains(*name) && !told.absent.contains(*name))
        .collect();
    assert!(
        unreal.is_empty(),
        "these prove nothing on this machine: {unreal:#?}"
    );
    assert!(
        told.absent.len() <= ABSENT_MAX,
        "this machine lacks too much: {:#?}",
        told.absent
    );
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
