//! Commands: streams, environment, input, limits, and that nothing outlives its call.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::{Fixture, LEAVE_LOCK_HOLDER, cases, expect_kind};
use crate::failure::FailureKind;
use crate::ops::{CommandRun, Op};
use crate::sandbox::Backend;

cases![
    a_command_returns_its_exit_code_and_both_streams,
    arguments_reach_the_program_as_they_are,
    the_environment_holds_what_was_given_and_nothing_of_the_host,
    input_is_empty_unless_given,
    input_reaches_the_command,
    input_that_nobody_reads_is_no_obstacle,
    a_command_starts_in_the_workspace_or_where_it_was_told,
    a_working_directory_that_is_missing_or_outside_is_refused,
    a_program_that_is_missing_is_named,
    an_empty_command_is_refused,
    a_nul_character_is_refused_everywhere,
    a_command_ended_by_a_signal_says_so,
    megabytes_of_output_are_counted_and_their_ends_kept,
    output_past_the_limit_ends_the_command,
    a_background_child_that_holds_the_pipe_does_not_hold_the_call,
    a_detached_process_dies_with_its_call,
    a_timeout_ends_the_tree_and_keeps_what_was_written,
    a_cancel_ends_the_tree_and_keeps_what_was_written,
    a_cancelled_token_starts_nothing,
    a_dropped_call_ends_its_tree,
    standard_streams_can_be_opened_again_by_name,
];

async fn a_command_returns_its_exit_code_and_both_streams(backend: &dyn Backend) {
    let result = Fixture::open(backend)
        .await
        .shell("echo out; echo err >&2; exit 7")
        .await;
    assert_eq!((result.exit_code, result.signal), (7, None));
    assert_eq!(
        (&*result.stdout.text(), &*result.stderr.text()),
        ("out\n", "err\n")
    );
}

async fn arguments_reach_the_program_as_they_are(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let odd = ["printf", "%s|", "a b", "$HOME", "", "ü\n", "*"];
    assert_eq!(
        fixture.command(CommandRun::argv(odd)).await.stdout.text(),
        "a b|$HOME||ü\n|*|"
    );
}

async fn the_environment_holds_what_was_given_and_nothing_of_the_host(backend: &dyn Backend) {
    let fixture = Fixture::open_with(backend, |spec| {
        spec.env.insert("FROM_SPEC".into(), "spec".into());
    })
    .await;
    let result = fixture
        .command(CommandRun::argv(["env"]).env("FROM_COMMAND", "command"))
        .await;
    let text = result.stdout.text();
    let names: Vec<_> = text.lines().filter_map(|line| line.split('=').next()).collect();
    for name in ["FROM_SPEC", "FROM_COMMAND", "PATH", "HOME", "LANG"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    // The test runner's own variables are never passed on.
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
}

async fn input_is_empty_unless_given(backend: &dyn Backend) {
    assert_eq!(
        Fixture::open(backend)
            .await
            .command(CommandRun::argv(["cat"]))
            .await
            .stdout
            .total_bytes(),
        0
    );
}

async fn input_reaches_the_command(backend: &dyn Backend) {
    let input: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    let result = Fixture::open(backend)
        .await
        .command(CommandRun::argv(["cat"]).stdin(input.clone()))
        .await;
    assert_eq!(result.stdout.kept(), input);
}

async fn input_that_nobody_reads_is_no_obstacle(backend: &dyn Backend) {
    let op = CommandRun::shell("echo done").stdin(vec![b'x'; 10 << 20]);
    assert_eq!(
        Fixture::open(backend).await.command(op).await.stdout.text(),
        "done\n"
    );
}

async fn a_command_starts_in_the_workspace_or_where_it_was_told(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.write("deep/er/here.txt", b"x").await;
    assert_eq!(
        fixture.command(CommandRun::shell("ls")).await.stdout.text(),
        "deep\n"
    );
    assert_eq!(
        fixture
            .command(CommandRun::shell("ls").cwd("deep/er"))
            .await
            .stdout
            .text(),
        "here.txt\n"
    );
    let inside = fixture.sandbox.capabilities().workspace;
    let absolute = inside.join("deep").to_string_lossy().into_owned();
    assert_eq!(
        fixture
            .command(CommandRun::shell("ls").cwd(absolute))
            .await
            .stdout
            .text(),
        "er\n"
    );
}

async fn a_working_directory_that_is_missing_or_outside_is_refused(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    expect_kind(
        fixture
            .try_command(CommandRun::shell("true").cwd("nowhere"))
            .await,
        FailureKind::FileNotFound,
    );
    expect_kind(
        fixture.try_command(CommandRun::shell("true").cwd("..")).await,
        FailureKind::PathViolation,
    );
    expect_kind(
        fixture.try_command(CommandRun::shell("true").cwd("/etc")).await,
        FailureKind::PathViolation,
    );
}

async fn a_program_that_is_missing_is_named(backend: &dyn Backend) {
    let failed = Fixture::open(backend)
        .await
        .try_command(CommandRun::argv(["no-such-program"]))
        .await;
    assert!(
        expect_kind(failed, FailureKind::FileNotFound)
            .message
            .contains("`no-such-program`")
    );
}

async fn an_empty_command_is_refused(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    expect_kind(
        fixture.try_command(CommandRun::argv([""; 0])).await,
        FailureKind::Unsupported,
    );
    expect_kind(
        fixture.try_command(CommandRun::argv([""])).await,
        FailureKind::Unsupported,
    );
}

async fn a_nul_character_is_refused_everywhere(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    expect_kind(
        fixture.try_command(CommandRun::shell("echo a\0b")).await,
        FailureKind::Unsupported,
    );
    expect_kind(
        fixture.try_command(CommandRun::argv(["echo", "\0"])).await,
        FailureKind::Unsupported,
    );
    expect_kind(
        fixture
            .try_command(CommandRun::shell("true").env("A", "\0"))
            .await,
        FailureKind::Unsupported,
    );
    expect_kind(
        fixture
            .try_command(CommandRun::shell("true").env("A=B", ""))
            .await,
        FailureKind::Unsupported,
    );
    expect_kind(
        fixture.try_command(CommandRun::shell("true").cwd("\0")).await,
        FailureKind::PathViolation,
    );
}

async fn a_command_ended_by_a_signal_says_so(backend: &dyn Backend) {
    let result = Fixture::open(backend).await.shell("kill -TERM $$").await;
    assert_eq!((result.exit_code, result.signal), (143, Some(15)));
}

async fn megabytes_of_output_are_counted_and_their_ends_kept(backend: &dyn Backend) {
    let fixture = Fixture::open_with(backend, |spec| spec.limits.output_kept_bytes = 1000).await;
    let result = fixture
        .shell("echo first; head -c 30000000 /dev/zero; echo last")
        .await;
    assert_eq!(result.stdout.total_bytes(), 30_000_011);
    assert_eq!(result.stdout.kept().len(), 1000);
    assert!(result.stdout.head().starts_with(b"first\n") && result.stdout.tail().ends_with(b"last\n"));
}

async fn output_past_the_limit_ends_the_command(backend: &dyn Backend) {
    let fixture = Fixture::open_with(backend, |spec| spec.limits.output_total_bytes = 1 << 20).await;
    let failure = expect_kind(
        fixture.try_command(CommandRun::argv(["yes"])).await,
        FailureKind::OutputTooLarge,
    );
    assert!(
        failure
            .partial
            .expect("what was written")
            .stdout
            .head()
            .starts_with(b"y\ny\n")
    );
}

async fn a_background_child_that_holds_the_pipe_does_not_hold_the_call(backend: &dyn Backend) {
    let started = Instant::now();
    let result = Fixture::open(backend)
        .await
        .shell("sleep 300 & echo started")
        .await;
    assert_eq!(result.stdout.text(), "started\n");
    assert!(started.elapsed() < Duration::from_secs(30));
}

async fn a_detached_process_dies_with_its_call(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    assert_eq!(fixture.shell(LEAVE_LOCK_HOLDER).await.stdout.text(), "held\n");
    assert!(fixture.is_lock_free().await);
}

async fn a_timeout_ends_the_tree_and_keeps_what_was_written(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let op = CommandRun::shell(format!("{LEAVE_LOCK_HOLDER} sleep 300")).timeout(Duration::from_secs(2));
    let failure = expect_kind(fixture.try_command(op).await, FailureKind::Timeout);
    assert_eq!(failure.partial.expect("what was written").stdout.text(), "held\n");
    assert!(fixture.is_lock_free().await);
}

async fn a_cancel_ends_the_tree_and_keeps_what_was_written(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let cancel = CancellationToken::new();
    let op = Op::CommandRun(CommandRun::shell(format!(
        "{LEAVE_LOCK_HOLDER} touch running; sleep 300"
    )));
    let running = fixture.sandbox.dispatch(op, &cancel);
    let (failed, ()) = tokio::join!(running, async {
        fixture.shell("while [ ! -e running ]; do sleep 0.01; done").await;
        cancel.cancel();
    });
    let failure = expect_kind(failed, FailureKind::Cancelled);
    assert_eq!(failure.partial.expect("what was written").stdout.text(), "held\n");
    assert!(fixture.is_lock_free().await);
}

async fn a_cancelled_token_starts_nothing(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let op = Op::CommandRun(CommandRun::shell("touch ran"));
    expect_kind(
        fixture.sandbox.dispatch(op, &cancel).await,
        FailureKind::Cancelled,
    );
    assert_eq!(fixture.shell("ls").await.stdout.text(), "");
}

async fn a_dropped_call_ends_its_tree(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let op = CommandRun::shell(format!("{LEAVE_LOCK_HOLDER} touch running; sleep 300"));
    tokio::select! {
        result = fixture.try_command(op) => panic!("ended by itself: {result:?}"),
        _ = fixture.shell("while [ ! -e running ]; do sleep 0.01; done") => {}
    }
    // Nobody waits for a dropped call, so its end may take a moment.
    assert_eq!(fixture.shell("flock -w 20 lock true").await.exit_code, 0);
}

async fn standard_streams_can_be_opened_again_by_name(backend: &dyn Backend) {
    let result = Fixture::open(backend)
        .await
        .shell("echo out > /dev/stdout; echo err | tee /dev/stderr")
        .await;
    assert_eq!(
        (&*result.stdout.text(), &*result.stderr.text()),
        ("out\nerr\n", "err\n")
    );
}
