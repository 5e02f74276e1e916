//! Files: bytes survive, writes are whole, and no path leads out.

use super::{Fixture, cases, expect_kind};
use crate::failure::{Failure, FailureKind};
use crate::ops::{EntryKind, FileEntries, FilesExists, FilesList, FilesRead, FilesWrite, Op, OpResult};
use crate::sandbox::Backend;

cases![
    what_was_written_is_read_back_byte_for_byte,
    text_keeps_its_line_ends,
    bytes_that_are_no_text_are_refused_as_text,
    a_write_makes_missing_directories_and_sets_the_mode,
    a_write_replaces_the_whole_file_and_leaves_nothing_else,
    a_write_over_a_directory_is_refused,
    files_written_inside_are_read_outside_and_back,
    a_listing_is_sorted_and_says_what_each_entry_is,
    a_long_listing_is_cut_and_counted,
    what_is_missing_is_not_found,
    a_file_larger_than_the_limit_is_refused,
    no_written_path_leads_out,
    no_link_leads_out,
    a_link_within_the_workspace_is_followed,
    a_pipe_is_not_waited_for,
    two_names_for_one_file_are_fine_within_the_workspace,
];

async fn what_was_written_is_read_back_byte_for_byte(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let bytes: Vec<u8> = (0..100_000u32).map(|n| (n * 31) as u8).collect();
    for content in [&bytes[..], b"", b"\xff\x00\r\n"] {
        fixture.write("file", content).await;
        assert_eq!(fixture.read("file").await, content);
    }
}

async fn text_keeps_its_line_ends(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.write("crlf.txt", "a\r\nb\rc\nü".as_bytes()).await;
    let read = fixture.dispatch(Op::FilesRead(FilesRead::text("crlf.txt"))).await;
    let Ok(OpResult::File(content)) = read else {
        panic!("{read:?}")
    };
    assert_eq!(content.data.to_text(), "a\r\nb\rc\nü");
}

async fn bytes_that_are_no_text_are_refused_as_text(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.write("bytes", b"ab\xff").await;
    expect_kind(
        fixture.dispatch(Op::FilesRead(FilesRead::text("bytes"))).await,
        FailureKind::Unsupported,
    );
}

async fn a_write_makes_missing_directories_and_sets_the_mode(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture
        .dispatch(Op::FilesWrite(
            FilesWrite::new("a/b/run.sh", "echo ran").mode(0o755),
        ))
        .await
        .unwrap();
    fixture.write("a/plain", b"").await;
    assert_eq!(
        fixture
            .shell("./a/b/run.sh && stat -c %a a/plain a/b/run.sh")
            .await
            .stdout
            .text(),
        "ran\n644\n755\n"
    );
}

async fn a_write_replaces_the_whole_file_and_leaves_nothing_else(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.write("file", b"a long first version").await;
    fixture.write("file", b"short").await;
    assert_eq!(
        fixture.shell("ls -A; cat file").await.stdout.text(),
        "file\nshort"
    );
}

async fn a_write_over_a_directory_is_refused(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.shell("mkdir taken").await;
    expect_kind(
        fixture
            .dispatch(Op::FilesWrite(FilesWrite::new("taken", "x")))
            .await,
        FailureKind::OsError,
    );
    expect_kind(
        fixture.dispatch(Op::FilesWrite(FilesWrite::new(".", "x"))).await,
        FailureKind::PathViolation,
    );
    assert_eq!(fixture.shell("ls -A").await.stdout.text(), "taken\n");
}

async fn files_written_inside_are_read_outside_and_back(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.write("from-outside", b"o").await;
    let result = fixture
        .shell("cat from-outside; echo more >> from-outside; umask 077; printf i > from-inside")
        .await;
    assert_eq!(
        (result.exit_code, &*result.stdout.text()),
        (0, "o"),
        "{}",
        result.stderr
    );
    assert_eq!(fixture.read("from-inside").await, b"i");
    assert_eq!(fixture.read("from-outside").await, b"omore\n");
}

async fn list(fixture: &Fixture, path: &str) -> Result<FileEntries, Failure> {
    fixture
        .dispatch(Op::FilesList(FilesList::new(path)))
        .await
        .map(|result| match result {
            OpResult::Entries(entries) => entries,
            other => panic!("a listing returned {other:?}"),
        })
}

async fn a_listing_is_sorted_and_says_what_each_entry_is(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture
        .shell("printf 12345 > b.txt; mkdir c; ln -s b.txt a; mkfifo d")
        .await;
    let listed = list(&fixture, ".").await.unwrap();
    let entries: Vec<_> = listed
        .entries
        .iter()
        .map(|e| (e.name.as_str(), e.kind, e.size_bytes))
        .collect();
    assert_eq!(
        entries,
        [
            ("a", EntryKind::Symlink, None),
            ("b.txt", EntryKind::File, Some(5)),
            ("c", EntryKind::Directory, None),
            ("d", EntryKind::Other, None),
        ]
    );
    assert_eq!(listed.total, 4);
}

async fn a_long_listing_is_cut_and_counted(backend: &dyn Backend) {
    let fixture = Fixture::open_with(backend, |spec| spec.limits.list_entries = 10).await;
    fixture.shell("touch $(seq -w 1 25)").await;
    let listed = list(&fixture, ".").await.unwrap();
    assert_eq!(
        (
            listed.entries.len(),
            listed.total,
            listed.entries[9].name.as_str()
        ),
        (10, 25, "10")
    );
}

async fn exists(fixture: &Fixture, path: &str) -> Result<bool, Failure> {
    fixture
        .dispatch(Op::FilesExists(FilesExists::new(path)))
        .await
        .map(|result| match result {
            OpResult::Exists(exists) => exists,
            other => panic!("exists returned {other:?}"),
        })
}

async fn what_is_missing_is_not_found(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.write("there", b"").await;
    assert_eq!(exists(&fixture, "there").await, Ok(true));
    assert_eq!(exists(&fixture, ".").await, Ok(true));
    assert_eq!(exists(&fixture, "missing").await, Ok(false));
    assert_eq!(exists(&fixture, "there/below-a-file").await, Ok(false));
    expect_kind(
        fixture.dispatch(Op::FilesRead(FilesRead::text("missing"))).await,
        FailureKind::FileNotFound,
    );
    expect_kind(list(&fixture, "missing").await, FailureKind::FileNotFound);
    expect_kind(
        fixture.dispatch(Op::FilesRead(FilesRead::text("."))).await,
        FailureKind::OsError,
    );
}

async fn a_file_larger_than_the_limit_is_refused(backend: &dyn Backend) {
    let fixture = Fixture::open_with(backend, |spec| spec.limits.read_bytes = 100).await;
    fixture.write("fits", &[b'x'; 100]).await;
    fixture.write("does-not", &[b'x'; 101]).await;
    assert_eq!(fixture.read("fits").await.len(), 100);
    expect_kind(
        fixture
            .dispatch(Op::FilesRead(FilesRead::bytes("does-not")))
            .await,
        FailureKind::OutputTooLarge,
    );
}

/// Every operation on `path` must be refused as a violation, or for links by not existing.
async fn assert_refused(fixture: &Fixture, path: &str) {
    let ops = [
        Op::FilesRead(FilesRead::bytes(path)),
        Op::FilesList(FilesList::new(path)),
        Op::FilesExists(FilesExists::new(path)),
        Op::FilesWrite(FilesWrite::new(format!("{path}/planted"), "x")),
    ];
    for op in ops {
        let what = format!("{op:?}");
        match fixture.dispatch(op).await {
            Err(failure) if failure.kind == FailureKind::PathViolation => {}
            other => panic!("{what} gave {other:?}"),
        }
    }
}

async fn no_written_path_leads_out(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.write("a/b", b"").await;
    for path in [
        "..",
        "../x",
        "a/../../x",
        "/etc/passwd",
        "/",
        "//etc/passwd",
        "",
        "a\0b",
        "/workspace/../etc/passwd",
    ] {
        assert_refused(&fixture, path).await;
    }
}

async fn no_link_leads_out(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let lines = "ln -s /etc etc; ln -s .. up; ln -s ../../../../etc far; mkdir d; ln -s ../.. d/twice; ln -s up again; \
                 ln -s /proc/self/root magic; ln -s /proc/self/cwd cwd";
    assert_eq!(fixture.shell(lines).await.exit_code, 0);
    for path in ["etc", "up", "far", "d/twice", "again", "magic", "cwd"] {
        assert_refused(&fixture, path).await;
    }
    // Writing to a name that is a link replaces the link, not what it points to.
    fixture
        .shell("echo kept > target; ln -s target link; ln -s /etc/hostname out")
        .await;
    fixture.write("link", b"new").await;
    fixture.write("out", b"new").await;
    assert_eq!(
        fixture
            .shell("cat target link out; test -L out; echo $?")
            .await
            .stdout
            .text(),
        "kept\nnewnew1\n"
    );
}

async fn a_link_within_the_workspace_is_followed(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture
        .shell("mkdir d; echo text > d/file; ln -s d/file link; ln -s d dir")
        .await;
    assert_eq!(fixture.read("link").await, b"text\n");
    assert_eq!(fixture.read("dir/file").await, b"text\n");
    fixture.write("dir/new", b"n").await;
    assert_eq!(fixture.read("d/new").await, b"n");
}

async fn a_pipe_is_not_waited_for(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.shell("mkfifo pipe").await;
    expect_kind(
        fixture.dispatch(Op::FilesRead(FilesRead::bytes("pipe"))).await,
        FailureKind::OsError,
    );
    fixture.write("pipe", b"now a file").await;
    assert_eq!(fixture.read("pipe").await, b"now a file");
}

async fn two_names_for_one_file_are_fine_within_the_workspace(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture.shell("echo one > a; mkdir d; ln a d/b").await;
    assert_eq!(fixture.read("d/b").await, b"one\n");
}
