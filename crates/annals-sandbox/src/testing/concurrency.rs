//! Concurrency: many operations at once finish, and do not mix.

use futures::future::join_all;

use super::{Fixture, cases};
use crate::ops::{CommandRun, FilesRead, FilesWrite, Op, OpResult};
use crate::sandbox::Backend;

cases![
    a_thousand_file_operations_at_once_finish,
    thirty_commands_at_once_keep_their_output_apart,
    writers_of_one_file_never_mix,
];

async fn a_thousand_file_operations_at_once_finish(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let writes = (0..500).map(|n| {
        let data = format!("content {n}");
        fixture.dispatch(Op::FilesWrite(FilesWrite::new(format!("d{}/f{n}", n % 7), data)))
    });
    let refused = join_all(writes).await.into_iter().find_map(Result::err);
    assert_eq!(refused, None);
    let reads =
        (0..500).map(|n| fixture.dispatch(Op::FilesRead(FilesRead::text(format!("d{}/f{n}", n % 7)))));
    for (n, read) in join_all(reads).await.into_iter().enumerate() {
        let Ok(OpResult::File(content)) = read else {
            panic!("{read:?}")
        };
        assert_eq!(content.data.to_text(), format!("content {n}"));
    }
}

async fn thirty_commands_at_once_keep_their_output_apart(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let commands = (0..30).map(|n| fixture.command(CommandRun::argv(["echo".to_owned(), n.to_string()])));
    for (n, result) in join_all(commands).await.into_iter().enumerate() {
        assert_eq!(result.stdout.text(), format!("{n}\n"));
    }
}

async fn writers_of_one_file_never_mix(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let contents: Vec<Vec<u8>> = (0..20u8).map(|n| vec![n; 100_000]).collect();
    join_all(contents.iter().map(|content| fixture.write("contested", content))).await;
    let winner = fixture.read("contested").await;
    assert!(contents.contains(&winner), "a mixture of {} bytes", winner.len());
}
