//! Streams: order within, concurrency between, events across.

use std::time::Duration;

use super::{Fixture, cases, expect_kind};
use crate::failure::FailureKind;
use crate::ops::{CommandRun, FilesExists, FilesRead, FilesWrite, Op, OpResult};
use crate::sandbox::{Backend, SandboxExt};
use crate::streams::StreamClosed;

cases![
    a_stream_performs_in_the_order_of_submission,
    streams_progress_side_by_side,
    a_failed_operation_fails_alone,
    an_event_orders_two_streams,
    a_wait_that_times_out_lets_the_stream_go_on,
    a_stream_waits_for_another,
    synchronize_waits_for_all_and_query_tells,
    elapsed_is_the_time_between_two_events,
    closing_drains_and_refuses_more,
    a_hundred_streams_chained_by_events_finish,
];

fn shell(line: impl Into<String>) -> Op {
    Op::CommandRun(CommandRun::shell(line))
}

async fn a_stream_performs_in_the_order_of_submission(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let stream = fixture.sandbox.stream();
    let pending: Vec<_> = (0..8)
        .map(|n| stream.submit(shell(format!("echo {n} >> order"))).unwrap())
        .collect();
    for result in pending {
        result.await.unwrap();
    }
    assert_eq!(fixture.read("order").await, b"0\n1\n2\n3\n4\n5\n6\n7\n");
}

async fn streams_progress_side_by_side(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let (first, second) = (fixture.sandbox.stream(), fixture.sandbox.stream());
    // Each waits for the other: only possible when both run.
    let wait = |own: &str, other: &str| {
        shell(format!(
            "touch {own}; while [ ! -e {other} ]; do sleep 0.01; done"
        ))
    };
    let (a, b) = (
        first.submit(wait("a", "b")).unwrap(),
        second.submit(wait("b", "a")).unwrap(),
    );
    let (a, b) = tokio::join!(a, b);
    assert!(a.is_ok() && b.is_ok());
}

async fn a_failed_operation_fails_alone(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let stream = fixture.sandbox.stream();
    let failing = stream.submit(Op::FilesRead(FilesRead::text("missing"))).unwrap();
    let after = stream.submit(Op::FilesExists(FilesExists::new("."))).unwrap();
    expect_kind(failing.await, FailureKind::FileNotFound);
    assert_eq!(after.await, Ok(OpResult::Exists(true)));
}

async fn an_event_orders_two_streams(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let (writer, reader) = (fixture.sandbox.stream(), fixture.sandbox.stream());
    let hold = writer
        .submit(shell("while [ ! -e go ]; do sleep 0.01; done"))
        .unwrap();
    let write = writer
        .submit(Op::FilesWrite(FilesWrite::new("file", "written")))
        .unwrap();
    let written = writer.record_event().unwrap();
    let waited = reader.wait_event(&written, None).unwrap();
    let read = reader.submit(Op::FilesRead(FilesRead::text("file"))).unwrap();
    assert!(!written.query());
    fixture.write("go", b"").await;
    let Ok(OpResult::File(content)) = read.await else {
        panic!("the read came before the write")
    };
    assert_eq!(content.data.to_text(), "written");
    assert!(written.query() && waited.await.is_ok() && hold.await.is_ok() && write.await.is_ok());
}

async fn a_wait_that_times_out_lets_the_stream_go_on(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let (slow, other) = (fixture.sandbox.stream(), fixture.sandbox.stream());
    let held = slow
        .submit(shell("while [ ! -e go ]; do sleep 0.01; done"))
        .unwrap();
    let event = slow.record_event().unwrap();
    let waited = other.wait_event(&event, Some(Duration::from_millis(20))).unwrap();
    let after = other.submit(Op::FilesExists(FilesExists::new("."))).unwrap();
    expect_kind(waited.await, FailureKind::Timeout);
    assert_eq!(after.await, Ok(OpResult::Exists(true)));
    fixture.write("go", b"").await;
    assert!(held.await.is_ok());
}

async fn a_stream_waits_for_another(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let (first, second) = (fixture.sandbox.stream(), fixture.sandbox.stream());
    first.submit(shell("sleep 0.1; echo 1 >> order")).unwrap();
    second.wait_stream(&first).unwrap();
    second.submit(shell("echo 2 >> order")).unwrap();
    second.synchronize().await;
    assert_eq!(fixture.read("order").await, b"1\n2\n");
}

async fn synchronize_waits_for_all_and_query_tells(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let stream = fixture.sandbox.stream();
    assert!(stream.query());
    stream
        .submit(shell("while [ ! -e go ]; do sleep 0.01; done"))
        .unwrap();
    assert!(!stream.query());
    fixture.write("go", b"").await;
    stream.synchronize().await;
    assert!(stream.query());
}

async fn elapsed_is_the_time_between_two_events(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let stream = fixture.sandbox.stream();
    let begin = stream.record_event().unwrap();
    stream.submit(shell("sleep 0.1")).unwrap();
    let end = stream.record_event().unwrap();
    assert_eq!(end.elapsed(&begin), None);
    stream.synchronize().await;
    assert!(end.elapsed(&begin).unwrap() >= Duration::from_millis(100));
    assert_eq!(begin.elapsed(&end), Some(Duration::ZERO));
}

async fn closing_drains_and_refuses_more(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let stream = fixture.sandbox.stream();
    let pending: Vec<_> = (0..3)
        .map(|n| stream.submit(shell(format!("echo {n} >> order"))).unwrap())
        .collect();
    stream.close().await;
    assert_eq!(fixture.read("order").await, b"0\n1\n2\n");
    assert!(matches!(stream.submit(shell("true")), Err(StreamClosed)));
    assert!(matches!(stream.record_event(), Err(StreamClosed)));
    for result in pending {
        assert!(result.await.is_ok());
    }
    // Waiting for a closed stream is waiting for nothing.
    let other = fixture.sandbox.stream();
    assert!(other.wait_stream(&stream).unwrap().await.is_ok());
}

async fn a_hundred_streams_chained_by_events_finish(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let streams: Vec<_> = (0..100).map(|_| fixture.sandbox.stream()).collect();
    for pair in streams.windows(2) {
        pair[0]
            .submit(Op::FilesWrite(FilesWrite::new("shared", "x")))
            .unwrap();
        pair[1].wait_stream(&pair[0]).unwrap();
    }
    // And back again: everybody waits for everybody's earlier work.
    for pair in streams.windows(2).rev() {
        pair[0].wait_stream(&pair[1]).unwrap();
    }
    futures::future::join_all(streams.iter().map(|stream| stream.synchronize())).await;
}
