//! What isolation costs, beside the same thing without it, in one run: absolute times drift, ratios do not.

#![allow(clippy::print_stdout)]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_figures::{Figure, full_or_quick};
use annals_sandbox::{
    Backend, CodeRun, CommandRun, FilesExists, FilesRead, FilesWrite, Language, Local, LocalTree, Op,
    Opening, Sandbox, SandboxExt, SandboxName, SandboxSpec, TrustedHost, interpreters,
};
use tokio_util::sync::CancellationToken;

fn rounds() -> usize {
    full_or_quick(200, 60)
}

fn stream_operations() -> usize {
    full_or_quick(50_000, 20_000)
}

fn main() {
    annals_sandbox::launcher::init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let spec = || at(directory.path());
        let local = Local::new().open(spec()).await.expect("the local sandbox opens");
        let host = TrustedHost::new()
            .open(spec())
            .await
            .expect("the trusted-host sandbox opens");
        commands(&local, &host).await;
        python(&local).await;
        opening(directory.path()).await;
        streams(&local).await;
    });
}

fn at(directory: &std::path::Path) -> Opening {
    let spec = SandboxSpec::new(SandboxName::new("bench", 1));
    Opening::new(spec).local(LocalTree::at(directory))
}

/// Median times of several contestants, measured in turns so that load on the machine meets all alike.
struct Turns {
    times: Vec<(&'static str, Vec<Duration>)>,
}

impl Turns {
    fn new(names: &[&'static str]) -> Self {
        Self {
            times: names.iter().map(|name| (*name, Vec::new())).collect(),
        }
    }

    fn add(&mut self, contestant: usize, started: Instant) {
        self.times[contestant].1.push(started.elapsed());
    }

    /// Prints each contestant beside the first; the one that has a target may cost that many times as much.
    fn print(mut self, target: Option<(&str, f64)>) {
        let mut base = None;
        for (name, times) in &mut self.times {
            times.sort();
            let (median, p95) = (times[times.len() / 2], times[times.len() * 95 / 100]);
            let base = *base.get_or_insert(median);
            let ratio = median.as_secs_f64() / base.as_secs_f64();
            println!("{name:<44} {median:>10.3?} p50 {p95:>10.3?} p95 {ratio:>7.2}x");
            Figure::new(*name, median.as_secs_f64() * 1e3, "ms").tell();
            if let Some((_, most)) = target.filter(|(judged, _)| judged == name) {
                Figure::new(format!("{name} against the same without isolation"), ratio, "×")
                    .at_most(most)
                    .tell();
            }
        }
        println!();
    }
}

async fn perform(sandbox: &Arc<dyn Sandbox>, op: Op) {
    sandbox
        .dispatch(op, &CancellationToken::new())
        .await
        .expect("the operation succeeds");
}

fn plain(program: &str, arguments: &[&str]) {
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .output();
    assert!(status.expect("the program runs").status.success());
}

async fn commands(local: &Arc<dyn Sandbox>, host: &Arc<dyn Sandbox>) {
    let mut turns = Turns::new(&[
        "plain fork + exec `true`",
        "isolated `true`",
        "isolated shell `true`",
        "trusted-host `true`",
    ]);
    let argv = || Op::CommandRun(CommandRun::argv(["/usr/bin/true"]));
    for _ in 0..rounds() {
        let started = Instant::now();
        plain("/usr/bin/true", &[]);
        turns.add(0, started);
        let started = Instant::now();
        perform(local, argv()).await;
        turns.add(1, started);
        let started = Instant::now();
        perform(local, Op::CommandRun(CommandRun::shell("true"))).await;
        turns.add(2, started);
        let started = Instant::now();
        perform(host, argv()).await;
        turns.add(3, started);
    }
    turns.print(Some(("isolated `true`", 3.0)));
}

async fn python(local: &Arc<dyn Sandbox>) {
    let Some(interpreter) = interpreters::find(Language::Python) else {
        return;
    };
    let program = interpreter.program.to_string_lossy().into_owned();
    let mut turns = Turns::new(&["bare python `pass`", "isolated python `pass`"]);
    for _ in 0..rounds() / 4 {
        let started = Instant::now();
        plain(&program, &["-c", "pass"]);
        turns.add(0, started);
        let started = Instant::now();
        perform(local, Op::CodeRun(CodeRun::new(Language::Python, "pass"))).await;
        turns.add(1, started);
    }
    turns.print(Some(("isolated python `pass`", 2.0)));
}

async fn opening(workspace: &std::path::Path) {
    let mut turns = Turns::new(&["open a sandbox, run `true`, close it"]);
    for _ in 0..rounds() / 4 {
        let started = Instant::now();
        let sandbox = Local::new().open(at(workspace)).await.expect("the sandbox opens");
        perform(&sandbox, Op::CommandRun(CommandRun::argv(["/usr/bin/true"]))).await;
        sandbox.close().await;
        turns.add(0, started);
    }
    turns.print(None);
}

async fn streams(local: &Arc<dyn Sandbox>) {
    perform(local, Op::FilesWrite(FilesWrite::new("there", "x".repeat(1000)))).await;
    for (name, count, op) in [
        (
            "file-exists",
            stream_operations(),
            Op::FilesExists(FilesExists::new("there")),
        ),
        (
            "file-read 1 kB",
            stream_operations() / 10,
            Op::FilesRead(FilesRead::text("there")),
        ),
        (
            "file-write 1 kB",
            stream_operations() / 10,
            Op::FilesWrite(FilesWrite::new("there", "x".repeat(1000))),
        ),
    ] {
        for streams in [1, 8] {
            let rate = stream_rate(local, &op, streams, count).await;
            Figure::new(format!("{name}, {streams} stream(s)"), rate, "operations/s").tell();
            println!(
                "{:<44} {rate:>10.0} operations/s",
                format!("{name}, {streams} stream(s)")
            );
        }
    }
}

async fn stream_rate(local: &Arc<dyn Sandbox>, op: &Op, streams: usize, count: usize) -> f64 {
    let streams: Vec<_> = (0..streams).map(|_| local.stream()).collect();
    let started = Instant::now();
    let mut last = Vec::new();
    for stream in &streams {
        for _ in 0..count / streams.len() {
            last.push(stream.submit(op.clone()).expect("the stream is open"));
        }
    }
    for pending in last {
        pending.await.expect("the operation succeeds");
    }
    count as f64 / started.elapsed().as_secs_f64()
}
