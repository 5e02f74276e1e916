//! A faulty network between the client and both services: nothing is lost, repeated or left hanging.
//!
//! Each row of a table is one fault on one kind of request of one wire. The command of a row leaves a line with the row's
//! name, so a second run would be seen. Rows whose faults are of one kind on one kind of request count once.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use annals_opensandbox_double::faults::{Fault, Rule, Service};
use annals_opensandbox_double::{Double, Wire};
use annals_remote::{RemoteBackend, ServerAddress, Timing};
use annals_sandbox::{
    Backend, ByteStream, CommandRun, Digest, Failure, FailureKind, FileData, FilesRead, FilesWrite, Manifest,
    Op, OpResult, Sandbox, TreeFile, TreeSource,
};
use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use support::{
    KEY, backend, backend_on, backend_with, command, double, double_of, open, opening, printed, shell,
};
use tokio_util::sync::CancellationToken;

const MS: fn(u64) -> Duration = Duration::from_millis;
/// Longer than every wait of the client together, on a machine that has other work; what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(100);

/// Faults of any request.
fn of_connections() -> Vec<Fault> {
    vec![
        Fault::LoseRequest,
        Fault::LoseAnswer,
        Fault::Reset,
        Fault::CutHead(9),
        Fault::EarlyHint,
        Fault::ResetOnNext,
        Fault::Gateway(502),
        Fault::GatewayAfter(504),
        Fault::Delay(MS(50)),
        Fault::DelayAnswer(MS(50)),
    ]
}

/// Faults of an answer that is JSON.
fn of_answers() -> Vec<Fault> {
    let mut faults = of_connections();
    faults.extend([
        Fault::Gateway(429),
        Fault::Gateway(500),
        Fault::CutBody(7),
        Fault::EndBody(7),
        Fault::LongLength,
        Fault::ShortLength,
        Fault::EmptyBody,
        Fault::Garbage,
        Fault::SplitBody(1),
    ]);
    faults
}

/// Faults of a stream of events, broken at every interesting place.
fn of_streams() -> Vec<Fault> {
    let mut faults = of_connections();
    // Before the first event, in its middle, between events, in a report, in a character of it.
    faults.extend([0, 30, 79, 120, 200].map(Fault::CutBody));
    faults.extend([0, 40, 79, 160].map(Fault::EndBody));
    faults.extend([1, 7].map(Fault::SplitBody));
    faults.extend([
        Fault::Gateway(404),
        Fault::Gateway(429),
        Fault::Gateway(500),
        Fault::DripBody(16, MS(1)),
        Fault::DuplicateFrames,
        Fault::StrangeFrames,
        Fault::HugeFrame,
        Fault::BadText,
        Fault::Garbage,
        Fault::EmptyBody,
    ]);
    faults
}

/// Faults of a stream of execd: other framings of the same events.
fn of_text_streams() -> Vec<Fault> {
    let mut faults = of_streams();
    faults.extend([
        Fault::DataFrames,
        Fault::NoisyFrames,
        Fault::ReturnFrames,
        Fault::NoLastBlank,
    ]);
    faults
}

fn of_downloads() -> Vec<Fault> {
    let mut faults = of_connections();
    faults.extend([0, 70_000].map(Fault::CutBody));
    faults.extend([0, 5_000].map(Fault::EndBody));
    faults.extend([
        Fault::LongLength,
        Fault::ShortLength,
        Fault::SplitBody(777),
        Fault::DripBody(20_000, MS(1)),
        Fault::EmptyBody,
        Fault::WholeFile,
    ]);
    faults
}

/// Bytes by digest.
struct Source(Vec<Vec<u8>>);

#[async_trait]
impl TreeSource for Source {
    async fn open(&self, digest: &Digest) -> Result<ByteStream, Failure> {
        let found = self.0.iter().find(|bytes| Digest::of(bytes) == *digest).cloned();
        Ok(stream::iter(found.map(|bytes| Ok(bytes.into()))).boxed())
    }
}

impl Source {
    fn manifest(&self) -> Manifest {
        let file = |bytes: &Vec<u8>| TreeFile {
            digest: Digest::of(bytes),
            size_bytes: bytes.len() as u64,
            executable: false,
        };
        Manifest(
            self.0
                .iter()
                .enumerate()
                .map(|(n, bytes)| (format!("tree/{n}"), file(bytes)))
                .collect(),
        )
    }
}

/// How often a row's command ran.
async fn runs(sandbox: &dyn Sandbox, row: usize) -> String {
    printed(sandbox, &format!("grep -c '^row {row}$' rows || true")).await
}

async fn small_command(sandbox: &dyn Sandbox, row: usize) {
    let line = format!(
        "echo row {row} >> rows; printf 'gr\u{f6}\u{df}e \u{1f600} %s\\n\\nend' {row}; echo err >&2; exit 3"
    );
    let result = shell(sandbox, line).await.expect("the command runs");
    assert_eq!(result.exit_code, 3);
    assert_eq!(
        result.stdout.text(),
        format!("gr\u{f6}\u{df}e \u{1f600} {row}\n\nend")
    );
    assert_eq!(result.stderr.text(), "err\n");
}

async fn large_output(sandbox: &dyn Sandbox, row: usize) {
    let line = format!("echo row {row} >> rows; seq 1 30000");
    let result = shell(sandbox, line).await.expect("the command runs");
    let whole: String = (1..=30_000).map(|n| format!("{n}\n")).collect();
    assert!(
        result.stdout.text() == whole,
        "{} bytes",
        result.stdout.total_bytes()
    );
}

async fn large_input(sandbox: &dyn Sandbox, row: usize) {
    let input: Vec<u8> = (0..100_000u32).map(|n| (n * 7) as u8).collect();
    let digest = Digest::of(&input).hex();
    let op = CommandRun::shell(format!("echo row {row} >> rows; sha256sum")).stdin(input);
    let result = command(sandbox, op).await.expect("the command runs");
    assert!(result.stdout.text().starts_with(&digest));
}

async fn written_file(sandbox: &dyn Sandbox, row: usize) {
    let content = format!("content of {row} \u{fc}");
    let write = Op::FilesWrite(FilesWrite::new("deep/file", content.as_str()));
    sandbox
        .dispatch(write, &CancellationToken::new())
        .await
        .expect("the file is written");
    let read = Op::FilesRead(FilesRead::text("deep/file"));
    match sandbox
        .dispatch(read, &CancellationToken::new())
        .await
        .expect("the file is read")
    {
        OpResult::File(file) => assert_eq!(file.data, FileData::Text(content)),
        other => panic!("a read returned {other:?}"),
    }
    shell(sandbox, format!("echo row {row} >> rows"))
        .await
        .expect("the command runs");
}

async fn tree(sandbox: &dyn Sandbox, row: usize) {
    let source = Source(vec![
        format!("first of {row}").into_bytes(),
        vec![row as u8; 80_000],
    ]);
    let put = sandbox
        .put_tree(&source.manifest(), &source)
        .await
        .expect("the tree goes in");
    assert_eq!((put.written, put.replaced), (2, false));
    let told = printed(sandbox, "sha256sum < tree/0; sha256sum < tree/1").await;
    for bytes in &source.0 {
        assert!(told.contains(&Digest::of(bytes).hex()), "{told}");
    }
    shell(sandbox, format!("echo row {row} >> rows"))
        .await
        .expect("the command runs");
}

async fn cancelled(sandbox: &dyn Sandbox, row: usize) {
    let cancel = CancellationToken::new();
    let line = format!("echo row {row} >> rows; touch begun-{row}; sleep 300");
    let running = sandbox.dispatch(Op::CommandRun(CommandRun::shell(line)), &cancel);
    let wait = format!("while [ ! -e begun-{row} ]; do sleep 0.01; done");
    let (ended, ()) = tokio::join!(running, async {
        shell(sandbox, wait).await.expect("the command runs");
        cancel.cancel();
    });
    assert_eq!(ended.expect_err("it was cancelled").kind, FailureKind::Cancelled);
    assert_eq!(printed(sandbox, "pgrep -x -c sleep || true").await, "0\n");
}

type Check = for<'a> fn(&'a dyn Sandbox, usize) -> futures::future::BoxFuture<'a, ()>;

/// A kind of request, what disturbs it, and what must come out all the same.
struct Rows {
    method: &'static str,
    path: &'static str,
    faults: Vec<Fault>,
    check: Check,
}

/// Requests to a sandbox that is open.
fn of_daemon(wire: Wire) -> Vec<Rows> {
    let rows = |method, path, faults, check| Rows {
        method,
        path,
        faults,
        check,
    };
    let (run, files, end) = match wire {
        Wire::OpenSandbox => ("/command", "/files/upload", ("DELETE", "/command")),
        Wire::E2b => (
            "/process.Process/Start",
            "/files",
            ("POST", "/process.Process/SendSignal"),
        ),
    };
    let (streams, download) = match wire {
        Wire::OpenSandbox => (of_text_streams(), "/files/download"),
        Wire::E2b => (of_streams(), "/files"),
    };
    vec![
        rows("POST", run, streams, |s, row| Box::pin(small_command(s, row))),
        rows("GET", download, of_downloads(), |s, row| {
            Box::pin(large_output(s, row))
        }),
        rows("POST", files, of_connections(), |s, row| {
            Box::pin(large_input(s, row))
        }),
        rows("POST", files, of_connections(), |s, row| Box::pin(tree(s, row))),
        rows("POST", run, of_connections(), |s, row| {
            Box::pin(written_file(s, row))
        }),
        rows(end.0, end.1, of_answers(), |s, row| Box::pin(cancelled(s, row))),
    ]
}

/// Requests of opening a sandbox.
fn of_opening(wire: Wire) -> Vec<(Service, &'static str, &'static str, Vec<Fault>)> {
    // What is asked for again the same way as the others: one fault of each sort.
    let some = || {
        vec![
            Fault::LoseRequest,
            Fault::Reset,
            Fault::Gateway(502),
            Fault::GatewayAfter(504),
        ]
    };
    match wire {
        Wire::OpenSandbox => vec![
            (Service::Control, "GET", "/sandboxes", of_answers()),
            (Service::Control, "POST", "/sandboxes", of_answers()),
            (Service::Control, "GET", "/sandboxes/sbx", some()),
            (Service::Control, "GET", "/endpoints/", some()),
            (Service::Daemon, "GET", "/ping", some()),
        ],
        Wire::E2b => vec![
            (Service::Control, "GET", "/v2/sandboxes", of_answers()),
            (Service::Control, "POST", "/sandboxes", of_answers()),
            (Service::Control, "GET", "/sandboxes/i", some()),
            (Service::Control, "POST", "/connect", some()),
            (Service::Daemon, "GET", "/health", some()),
        ],
    }
}

#[test]
fn there_are_more_than_a_hundred_distinct_faults() {
    let mut distinct = BTreeSet::new();
    for wire in [Wire::OpenSandbox, Wire::E2b] {
        for rows in of_daemon(wire) {
            for fault in rows.faults {
                distinct.insert((format!("{wire:?}"), rows.method, rows.path, fault.kind()));
            }
        }
        for (_, method, path, faults) in of_opening(wire) {
            for fault in faults {
                distinct.insert((format!("{wire:?}"), method, path, fault.kind()));
            }
        }
    }
    let of_opensandbox = distinct.iter().filter(|(wire, ..)| wire == "OpenSandbox").count();
    let kinds: BTreeSet<&String> = distinct.iter().map(|(.., kind)| kind).collect();
    assert!(of_opensandbox >= 100, "{of_opensandbox} on OpenSandbox alone");
    assert!(
        distinct.len() >= 200 && kinds.len() >= 30,
        "{} {kinds:?}",
        distinct.len()
    );
}

async fn undisturbed<T>(what: String, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: hangs"),
    }
}

async fn requests_to_a_sandbox(wire: Wire) {
    let double = double_of(wire).await;
    let backend = backend_on(&double);
    let sandbox = open(&backend, "faults").await;
    let mut row = 0;
    for rows in of_daemon(wire) {
        for fault in rows.faults {
            row += 1;
            let name = format!("{fault:?} of {} {}", rows.method, rows.path);
            let rule = Rule::new(Service::Daemon, rows.method, rows.path, fault);
            double.faults().add(rule);
            undisturbed(name.clone(), (rows.check)(&*sandbox, row)).await;
            assert_eq!(double.faults().clear(), 1, "{name} was not met");
            assert_eq!(runs(&*sandbox, row).await, "1\n", "{name}");
        }
    }
    assert_eq!(double.created(), 1, "no fault cost the sandbox");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_requests_to_a_sandbox_lose_repeat_and_hang_nothing() {
    requests_to_a_sandbox(Wire::OpenSandbox).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_requests_to_a_sandbox_of_e2b_lose_repeat_and_hang_nothing() {
    requests_to_a_sandbox(Wire::E2b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_faults_in_a_row_are_survived() {
    let double = double().await;
    let backend = backend(&double, |_| {});
    let sandbox = open(&backend, "series").await;
    for (row, fault) in [
        Fault::LoseAnswer,
        Fault::LoseRequest,
        Fault::Gateway(502),
        Fault::CutBody(90),
        Fault::Reset,
    ]
    .into_iter()
    .enumerate()
    {
        double
            .faults()
            .add(Rule::new(Service::Daemon, "POST", "/command", fault).times(5));
        undisturbed(format!("5 x {fault:?}"), small_command(&*sandbox, row)).await;
        assert_eq!(double.faults().clear(), 5);
        assert_eq!(runs(&*sandbox, row).await, "1\n", "{fault:?}");
    }
}

/// A backend that waits for a little more than a sign of life.
fn impatient(double: &Double) -> RemoteBackend {
    backend_with(double, |common| {
        common.timing = Timing {
            silence: Duration::from_secs(5),
            stall: Duration::from_secs(2),
            upload_stall: Duration::from_secs(3),
            request: Duration::from_secs(3),
            ..Timing::default()
        };
    })
}

/// What falls silent is found out by missing signs of life, of which there is one every three seconds, so these run side by
/// side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_falls_silent_is_given_up_and_asked_again() {
    use Wire::{E2b, OpenSandbox};
    let stalls: [(Wire, &str, &str, usize, Check); 8] = [
        (OpenSandbox, "POST", "/command", 0, |s, row| {
            Box::pin(small_command(s, row))
        }),
        (OpenSandbox, "POST", "/command", 100, |s, row| {
            Box::pin(small_command(s, row))
        }),
        (OpenSandbox, "GET", "/files/download", 0, |s, row| {
            Box::pin(large_output(s, row))
        }),
        (OpenSandbox, "GET", "/files/download", 9_000, |s, row| {
            Box::pin(large_output(s, row))
        }),
        (OpenSandbox, "DELETE", "/command", 0, |s, row| {
            Box::pin(cancelled(s, row))
        }),
        (E2b, "POST", "/process.Process/Start", 40, |s, row| {
            Box::pin(small_command(s, row))
        }),
        (E2b, "GET", "/files", 9_000, |s, row| {
            Box::pin(large_output(s, row))
        }),
        (E2b, "POST", "/process.Process/SendSignal", 0, |s, row| {
            Box::pin(cancelled(s, row))
        }),
    ];
    let rows = stalls
        .into_iter()
        .enumerate()
        .map(|(row, (wire, method, path, at, check))| async move {
            let double = double_of(wire).await;
            let backend = impatient(&double);
            let sandbox = open(&backend, "stall").await;
            double
                .faults()
                .add(Rule::new(Service::Daemon, method, path, Fault::StallBody(at)));
            undisturbed(
                format!("{method} {path} stalls after {at} bytes"),
                check(&*sandbox, row),
            )
            .await;
            assert_eq!(double.faults().clear(), 1);
            assert_eq!(runs(&*sandbox, row).await, "1\n");
        });
    let upload = async {
        let double = double().await;
        let backend = impatient(&double);
        let sandbox = open(&backend, "stall").await;
        let rule = Rule::new(
            Service::Daemon,
            "POST",
            "/files/upload",
            Fault::DelayAnswer(PATIENCE),
        );
        double.faults().add(rule);
        undisturbed("an upload without an answer".to_owned(), tree(&*sandbox, 9)).await;
        assert_eq!(double.faults().clear(), 1);
    };
    futures::join!(futures::future::join_all(rows), upload);
}

/// Opens a conversation's sandbox while a request of opening is disturbed; exactly one sandbox comes of it.
async fn opened_under(double: &Double, backend: &dyn Backend, rule: Rule, name: &str) {
    let before = double.created();
    double.faults().add(rule);
    let sandbox = undisturbed(name.to_owned(), open(backend, name)).await;
    assert_eq!(double.faults().clear(), 1, "{name} was not met");
    assert_eq!(printed(&*sandbox, "echo open").await, "open\n");
    assert_eq!(double.created() - before, 1, "{name}");
    sandbox.close().await;
}

async fn requests_of_opening(wire: Wire) {
    let double = double_of(wire).await;
    let backend = backend_on(&double);
    for (service, method, path, faults) in of_opening(wire) {
        for fault in faults {
            let name = format!("{fault:?} of {method} {path} {service:?}");
            opened_under(&double, &backend, Rule::new(service, method, path, fault), &name).await;
        }
    }
}

/// A server that begins an answer and falls silent is asked again; what it made all the same is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_while_a_sandbox_is_opened_makes_neither_none_nor_two() {
    let stalls = [
        (Wire::OpenSandbox, "GET", "/sandboxes"),
        (Wire::OpenSandbox, "POST", "/sandboxes"),
        (Wire::E2b, "GET", "/v2/sandboxes"),
        (Wire::E2b, "POST", "/sandboxes"),
        (Wire::E2b, "POST", "/connect"),
    ];
    let rows = stalls.map(|(wire, method, path)| async move {
        let double = double_of(wire).await;
        let backend = backend_with(&double, |common| {
            common.timing = Timing {
                request: Duration::from_secs(2),
                create: Duration::from_secs(4),
                ..Timing::default()
            };
        });
        let name = format!("{wire:?} {method} {path}");
        let rule = Rule::new(Service::Control, method, path, Fault::StallBody(5));
        opened_under(&double, &backend, rule, &name).await;
    });
    futures::future::join_all(rows).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_while_a_sandbox_is_opened_make_neither_none_nor_two() {
    requests_of_opening(Wire::OpenSandbox).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_while_a_sandbox_of_e2b_is_opened_make_neither_none_nor_two() {
    requests_of_opening(Wire::E2b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_that_starts_slowly_behind_a_gateway_is_waited_for() {
    let double = double().await;
    let backend = backend(&double, |_| {});
    double
        .faults()
        .add(Rule::new(Service::Daemon, "GET", "/ping", Fault::Gateway(502)).times(15));
    let sandbox = undisturbed("502 while starting".to_owned(), open(&backend, "slow")).await;
    assert_eq!(double.faults().clear(), 15);
    assert_eq!(printed(&*sandbox, "echo ready").await, "ready\n");
}

async fn killed_at_any_request(wire: Wire) {
    let double = double_of(wire).await;
    let backend = backend_on(&double);
    let source = Source(vec![b"kept".to_vec()]);
    let (run, download, upload) = match wire {
        Wire::OpenSandbox => ("/command", "/files/download", "/files/upload"),
        Wire::E2b => ("/process.Process/Start", "/files", "/files"),
    };
    let kills: [(&str, &str, Fault); 5] = [
        ("POST", run, Fault::KillSandbox),
        ("POST", run, Fault::KillSandboxAfter),
        ("GET", download, Fault::KillSandbox),
        ("GET", download, Fault::KillSandboxAfter),
        ("POST", upload, Fault::KillSandbox),
    ];
    for (at, (method, path, fault)) in kills.into_iter().enumerate() {
        let name = format!("{fault:?} of {method} {path}");
        let sandbox = open(&backend, &format!("killed-{at}")).await;
        sandbox
            .put_tree(&source.manifest(), &source)
            .await
            .expect("the tree goes in");
        let before = double.created();
        double
            .faults()
            .add(Rule::new(Service::Daemon, method, path, fault));
        let input = CommandRun::shell("seq 1 30000").stdin(vec![0xff; 100_000]);
        let ended = undisturbed(name.clone(), command(&*sandbox, input)).await;
        assert_eq!(
            ended.expect_err("it was killed").kind,
            FailureKind::SandboxClosed,
            "{name}"
        );
        double.faults().clear();
        // Nothing runs in a workspace that lost its files.
        let refused = shell(&*sandbox, "ls").await.expect_err("no tree yet");
        assert_eq!(refused.kind, FailureKind::SandboxClosed, "{name}");
        assert_eq!(double.created(), before, "{name}");
        let put = sandbox
            .put_tree(&source.manifest(), &source)
            .await
            .expect("a new sandbox");
        assert_eq!((put.written, put.replaced), (1, true), "{name}");
        assert_eq!(printed(&*sandbox, "cat tree/0").await, "kept");
        let again = sandbox
            .put_tree(&source.manifest(), &source)
            .await
            .expect("the same sandbox");
        assert_eq!((again.present, again.replaced), (1, false), "told once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_killed_at_any_request_ends_the_call_and_is_replaced_with_its_tree() {
    killed_at_any_request(Wire::OpenSandbox).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_of_e2b_killed_at_any_request_is_replaced_too() {
    killed_at_any_request(Wire::E2b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_is_named_with_what_it_said() {
    let double = double().await;
    let address = ServerAddress::new(double.url(), Some(format!("not {KEY}")));
    let wrong = annals_opensandbox::backend(address, Default::default()).expect("settings");
    let refused = annals_sandbox::Backend::open(&wrong, opening("c", 1)).await;
    let refused = refused.err().expect("the key is wrong").to_string();
    assert!(
        refused.contains("401") && refused.contains("INVALID_API_KEY"),
        "{refused}"
    );
    let backend = backend(&double, |options| options.entrypoint = Vec::new());
    let refused = annals_sandbox::Backend::open(&backend, opening("c", 1)).await;
    let refused = refused.err().expect("no entrypoint").to_string();
    assert!(
        refused.contains("422") && refused.contains("body.entrypoint: Field required"),
        "{refused}"
    );
    let facts = backend.facts().await.expect("the server answers");
    assert_eq!(facts.version.as_deref(), Some("1.1.1-double"));
    assert_eq!(facts.sandboxes, 0);
}
