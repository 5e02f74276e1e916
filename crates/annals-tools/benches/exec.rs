//! What an exec call costs beside the bare interpreter, in one run: absolute times drift, ratios do not.
//! `cargo bench -p annals-tools --bench exec`.
#![allow(clippy::print_stdout, reason = "the table is the result")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_core::ids::{CallId, ConversationId, Scope, TurnId};
use annals_core::time::Timestamp;
use annals_figures::{Figure, full_or_quick};
use annals_sandbox::interpreters::{self, Interpreter};
use annals_sandbox::{
    Backend, Language, LazySandbox, Local, LocalTree, SandboxName, SandboxSpec, TrustedHost,
};
use annals_store::{ArtifactStore, Workspace};
use annals_tools::{ConversationCx, Tool, ToolCx, exec, execute};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// An isolated call may take this multiple of the bare interpreter's start, plus this constant.
const TARGET_RATIO: f64 = 1.5;
const TARGET_EXTRA_MS: f64 = 10.0;

fn main() {
    annals_sandbox::launcher::init();
    let runs = full_or_quick(60, 10);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    println!(
        "{:<44} {:>9} {:>9} {:>9} {:>7}",
        "what", "min ms", "median ms", "target ms", "ratio"
    );
    for (language, nothing) in [(Language::Python, "pass"), (Language::Bash, ":")] {
        if let Some(interpreter) = interpreters::find(language) {
            runtime.block_on(compare(interpreter, nothing, runs));
        }
    }
}

/// One conversation whose code runs behind some backend.
struct Place {
    cx: Arc<ConversationCx>,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new(backend: Arc<dyn Backend>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let workspace = Workspace::open(folder.path().join("out")).expect("a workspace");
        let artifacts = ArtifactStore::open(folder.path().join("artifacts")).expect("a store");
        let spec = SandboxSpec::new(SandboxName::new("bench", 1));
        let tree = LocalTree::at(workspace.root());
        let mut cx = ConversationCx::new(
            ConversationId::parse("c").expect("an id"),
            Scope::default(),
            annals_tools::SharedTimeline::default(),
            Arc::new(workspace),
            artifacts,
        );
        cx.sandbox = Some(Arc::new(LazySandbox::new(backend, spec).local(tree)));
        Place {
            cx: Arc::new(cx),
            _folder: folder,
        }
    }

    /// One whole call, as the runtime makes it.
    async fn call(&self, tool: &Arc<dyn Tool>, run: usize, args: &Value) {
        let cx = ToolCx::new(
            self.cx.clone(),
            TurnId::parse("turn_1").expect("an id"),
            CallId::parse(&format!("c{run}")).expect("an id"),
            Timestamp::from_unix_millis(0),
            CancellationToken::new(),
        );
        let outcome = execute::perform(tool, &cx, args.clone()).await;
        assert_eq!(outcome.error, None);
    }
}

/// Runs the contestants in turns, so that load on the machine meets all alike.
async fn compare(interpreter: &Interpreter, nothing: &str, runs: usize) {
    let tool: Arc<dyn Tool> = Arc::new(exec::of(interpreter.language));
    let name = interpreter.language.program();
    let walled = Place::new(Arc::new(Local::new()));
    let trusted = Place::new(Arc::new(TrustedHost::new()));
    let plain = json!({"code": nothing, "contract": []});
    let code = match interpreter.language {
        Language::Python => "open('turn_1/files/a.txt', 'a').write('some words of a result\\n')",
        _ => "echo some words of a result >> turn_1/files/a.txt",
    };
    let writing = json!({"code": code, "contract": [{"filename": "a.txt", "description": "made"}]});
    let contestants = [
        "bare",
        "exec tool, isolated",
        "exec tool, isolated, one file",
        "exec tool, trusted-host",
    ];
    let mut rows = contestants.map(|what| (format!("{name}: {what}"), Vec::new()));
    for run in 0..runs {
        rows[0].1.push(timed(async { bare(interpreter, nothing) }).await);
        rows[1].1.push(timed(walled.call(&tool, run * 2, &plain)).await);
        rows[2]
            .1
            .push(timed(walled.call(&tool, run * 2 + 1, &writing)).await);
        rows[3].1.push(timed(trusted.call(&tool, run, &plain)).await);
    }
    print(interpreter.language, rows);
}

async fn timed(work: impl Future<Output = ()>) -> Duration {
    let started = Instant::now();
    work.await;
    started.elapsed()
}

fn bare(interpreter: &Interpreter, nothing: &str) {
    let output = Command::new(&interpreter.program)
        .args(["-c", nothing])
        .stdin(Stdio::null())
        .output()
        .expect("the interpreter starts");
    assert!(output.status.success());
}

/// The first row is the base of the others; the second has the target, in Python.
fn print(language: Language, rows: [(String, Vec<Duration>); 4]) {
    let mut base = 0.0;
    for (index, (name, mut times)) in rows.into_iter().enumerate() {
        times.sort_unstable();
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let (least, median) = (ms(times[0]), ms(times[times.len() / 2]));
        if index == 0 {
            base = median;
        }
        let most = base * TARGET_RATIO + TARGET_EXTRA_MS;
        let (target, verdict) = match (language, index) {
            (Language::Python, 1) if median <= most => (format!("{most:.1}"), "pass"),
            (Language::Python, 1) => (format!("{most:.1}"), "MISS"),
            _ => (String::new(), ""),
        };
        let figure = Figure::new(name.as_str(), least, "ms").median(median);
        match target.is_empty() {
            true => figure.tell(),
            false => figure.at_most(most).tell(),
        }
        println!(
            "{name:<44} {least:>9.1} {median:>9.1} {target:>9} {:>7.2}  {verdict}",
            median / base
        );
    }
}
