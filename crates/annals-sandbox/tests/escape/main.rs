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

use attempts::{ATTEMPTS, Attempt, PRELUDE, Real};
use outside::Outside;

annals_sandbox::helpers_in_tests!(annals_sandbox::launcher::init);

/// An identity that is nobody's, for the second half of a run as root.
const ORDINARY: u32 = 65533;

const AT_ONCE: usize = 4;

fn opening(outside: &Outside) -> Opening {
    let workspace = outside.workspace();
    let mut spec = SandboxSpec::new(SandboxName::new(workspace.display().to_string(), 1));
    spec.limits.memory_bytes = 256 << 20;
    spec.limits.processes = 200;
    spec.limits.scratch_bytes = 64 << 20;
    spec.limits.timeout = Duration::from_secs(60);
    Opening::new(spec).local(LocalTree::at(workspace))
}

/// The names of the attempts that got out.
async fn escaped(backend: &dyn Backend, read_only: &str, outside: &Outside) -> BTreeSet<&'static str> {
    let sandbox = backend.open(opening(outside)).await.expect("the sandbox opens");
    let run = |attempt: &'static Attempt| {
        let mut op = CodeRun::new(Language::Python, format!("{PRELUDE}{}", attempt.code));
        op.env = outside.facts().clone();
        op.env.insert("READ_ONLY".into(), read_only.into());
        let sandbox = &sandbox;
        async move {
            let cancel = CancellationToken::new();
            match sandbox.dispatch(Op::CodeRun(op), &cancel).await {
                Ok(OpResult::Code(result)) => {
                    result.stdout.text().contains("ESCAPED").then_some(attempt.name)
                }
                Ok(other) => panic!("code returned {other:?}"),
                // An attempt that hangs got nowhere; anything else is a broken test.
                Err(failure) if failure.kind == FailureKind::Timeout => None,
                Err(failure) => panic!("{}: {failure:?}", attempt.name),
            }
        }
    };
    let escaped = futures::stream::iter(ATTEMPTS).map(run).buffer_unordered(AT_ONCE);
    let escaped = escaped
        .filter_map(|escaped| async move { escaped })
        .collect()
        .await;
    sandbox.close().await;
    escaped
}

#[test]
fn the_corpus_is_large_and_its_names_are_distinct() {
    let names: BTreeSet<_> = ATTEMPTS.iter().map(|attempt| attempt.name).collect();
    assert!(
        names.len() >= 60 && names.len() == ATTEMPTS.len(),
        "{} of {}",
        names.len(),
        ATTEMPTS.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_attempt_succeeds_in_the_sandbox() {
    let outside = Outside::build().expect("the outside is built");
    let escaped = escaped(
        &Local::new().read_only(outside.read_only(), "/read-only"),
        "/read-only",
        &outside,
    )
    .await;
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_attempt_succeeds_without_isolation() {
    let outside = Outside::build().expect("the outside is built");
    let read_only = outside.read_only().display().to_string();
    let escaped = escaped(&TrustedHost::new(), &read_only, &outside).await;
    let possible = ATTEMPTS
        .iter()
        .filter(|attempt| attempt.real == Real::Anyone || annals_requirements::is_root());
    let unreal: Vec<_> = possible
        .map(|attempt| attempt.name)
        .filter(|name| !escaped.contains(name))
        .collect();
    assert!(
        unreal.is_empty(),
        "these prove nothing on this machine: {unreal:#?}"
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
