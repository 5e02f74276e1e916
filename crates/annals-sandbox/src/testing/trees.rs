//! Trees in and out, by manifest and digest.

use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::{Fixture, cases, expect_kind};
use crate::failure::{Failure, FailureKind};
use crate::sandbox::Backend;
use crate::tree::{ByteStream, ChangeLimits, Changes, Digest, Manifest, TreeFile, TreePut, TreeSource};

cases![
    a_tree_goes_in_and_only_what_is_lacking_is_asked_for,
    bytes_that_are_not_those_of_the_digest_do_not_appear,
    a_tree_cannot_be_put_outside_the_workspace,
    changes_are_told_with_their_digests,
    changes_beyond_the_limits_are_named_and_not_read,
    a_file_comes_out_as_a_stream_whatever_its_size,
    what_is_no_regular_file_does_not_come_out,
    only_writable_parts_can_be_written,
];

const PLENTY: ChangeLimits = ChangeLimits {
    files: 100,
    file_bytes: 1 << 20,
    total_bytes: 4 << 20,
};

/// Bytes by digest, and which of them were asked for.
#[derive(Default)]
struct Source {
    files: Vec<Vec<u8>>,
    asked: Mutex<Vec<Digest>>,
}

impl Source {
    fn of(files: &[&[u8]]) -> Self {
        Self {
            files: files.iter().map(|bytes| bytes.to_vec()).collect(),
            asked: Mutex::default(),
        }
    }

    fn asked(&self) -> usize {
        self.asked.lock().expect("nobody panicked").len()
    }
}

#[async_trait]
impl TreeSource for Source {
    async fn open(&self, digest: &Digest) -> Result<ByteStream, Failure> {
        self.asked.lock().expect("nobody panicked").push(*digest);
        let found = self.files.iter().find(|bytes| Digest::of(bytes) == *digest);
        let bytes = found.cloned().unwrap_or_else(|| b"other bytes".to_vec());
        let pieces: Vec<_> = bytes
            .chunks(5)
            .map(|piece| Ok(Bytes::copy_from_slice(piece)))
            .collect();
        Ok(stream::iter(pieces).boxed())
    }
}

fn file(bytes: &[u8]) -> TreeFile {
    TreeFile {
        digest: Digest::of(bytes),
        size_bytes: bytes.len() as u64,
        executable: false,
    }
}

fn manifest(files: &[(&str, TreeFile)]) -> Manifest {
    Manifest(
        files
            .iter()
            .map(|(path, file)| ((*path).to_owned(), *file))
            .collect(),
    )
}

async fn a_tree_goes_in_and_only_what_is_lacking_is_asked_for(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let script = TreeFile {
        executable: true,
        ..file(b"#!/bin/sh\necho ran\n")
    };
    let tree = manifest(&[
        ("a.txt", file(b"first content")),
        ("deep/er/b", script),
        ("empty", file(b"")),
    ]);
    let source = Source::of(&[b"first content", b"#!/bin/sh\necho ran\n", b""]);
    let put = fixture.sandbox.put_tree(&tree, &source).await;
    assert_eq!(
        put,
        Ok(TreePut {
            present: 0,
            written: 3,
            replaced: false
        })
    );
    let told = fixture.shell("cat a.txt; echo; ./deep/er/b; wc -c < empty").await;
    assert_eq!(told.stdout.text(), "first content\nran\n0\n");
    fixture.write("a.txt", b"changed inside").await;
    let put = fixture.sandbox.put_tree(&tree, &source).await;
    assert_eq!(
        put,
        Ok(TreePut {
            present: 2,
            written: 1,
            replaced: false
        })
    );
    assert_eq!(source.asked(), 4);
    assert_eq!(fixture.read("a.txt").await, b"first content");
}

async fn bytes_that_are_not_those_of_the_digest_do_not_appear(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let tree = manifest(&[("a.txt", file(b"what was promised"))]);
    let put = fixture.sandbox.put_tree(&tree, &Source::of(&[])).await;
    assert!(put.is_err(), "{put:?}");
    assert_eq!(fixture.shell("ls -A").await.stdout.text(), "");
}

async fn a_tree_cannot_be_put_outside_the_workspace(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let source = Source::of(&[b"x"]);
    fixture.shell("ln -s /tmp out").await;
    for path in ["../x", "/tmp/x", "a/../../x", "out/x"] {
        let put = fixture
            .sandbox
            .put_tree(&manifest(&[(path, file(b"x"))]), &source)
            .await;
        expect_kind(put, FailureKind::PathViolation);
    }
}

async fn changes_are_told_with_their_digests(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture
        .shell("mkdir d; echo kept > kept; echo old > d/old; echo gone > gone")
        .await;
    let before = fixture.sandbox.snapshot().await.expect("a snapshot");
    let none = fixture.sandbox.changed(&before, &PLENTY).await;
    assert_eq!(none, Ok(Changes::default()));
    fixture
        .shell("echo new > d/old; rm gone; echo '#!x' > run; chmod +x run; mkfifo pipe; ln -s kept link")
        .await;
    let changes = fixture
        .sandbox
        .changed(&before, &PLENTY)
        .await
        .expect("the changes");
    let executable = TreeFile {
        executable: true,
        ..file(b"#!x\n")
    };
    let written = manifest(&[("d/old", file(b"new\n")), ("run", executable)]);
    assert_eq!(
        changes,
        Changes {
            written,
            removed: vec!["gone".to_owned()],
            left_out: Vec::new()
        }
    );
}

async fn changes_beyond_the_limits_are_named_and_not_read(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    let before = fixture.sandbox.snapshot().await.expect("a snapshot");
    fixture
        .shell("truncate -s 900M sparse; echo a > a; echo b > b; echo c > c")
        .await;
    let limits = ChangeLimits { files: 2, ..PLENTY };
    let changes = fixture
        .sandbox
        .changed(&before, &limits)
        .await
        .expect("the changes");
    let paths: Vec<_> = changes.written.0.keys().cloned().collect();
    assert_eq!(paths, ["a", "b"]);
    let left_out: Vec<_> = changes.left_out.iter().map(|left| left.path.as_str()).collect();
    assert_eq!(left_out, ["c", "sparse"]);
    let limits = ChangeLimits {
        total_bytes: 3,
        ..PLENTY
    };
    let changes = fixture
        .sandbox
        .changed(&before, &limits)
        .await
        .expect("the changes");
    assert_eq!((changes.written.0.len(), changes.left_out.len()), (1, 3));
}

async fn a_file_comes_out_as_a_stream_whatever_its_size(backend: &dyn Backend) {
    let fixture = Fixture::open_with(backend, |spec| spec.limits.read_bytes = 100).await;
    fixture.shell("head -c 300000 /dev/zero > large").await;
    let mut body = fixture.sandbox.get("large").await.expect("the stream opens");
    let mut size = 0;
    let mut most = 0;
    while let Some(piece) = body.try_next().await.expect("a piece") {
        size += piece.len();
        most = most.max(piece.len());
    }
    assert_eq!(size, 300_000);
    assert!(most < 200_000, "a piece of {most} bytes");
}

async fn what_is_no_regular_file_does_not_come_out(backend: &dyn Backend) {
    let fixture = Fixture::open(backend).await;
    fixture
        .shell("mkfifo pipe; ln -s /etc/hostname out; mkdir folder")
        .await;
    for (path, kind) in [
        ("pipe", FailureKind::OsError),
        ("folder", FailureKind::OsError),
        ("out", FailureKind::PathViolation),
        ("../x", FailureKind::PathViolation),
        ("missing", FailureKind::FileNotFound),
    ] {
        expect_kind(fixture.sandbox.get(path).await.map(drop), kind);
    }
}

async fn only_writable_parts_can_be_written(backend: &dyn Backend) {
    let fixture = Fixture::open_with(backend, |spec| {
        spec.writable_subdirs = Some(vec!["turn_2/files".to_owned()]);
    })
    .await;
    // Made if it was missing, and nothing in it.
    assert_eq!(fixture.shell("ls -A turn_2/files").await.exit_code, 0);
    assert_eq!(fixture.shell("echo x > turn_2/files/x").await.exit_code, 0);
    // The caller brings files to any place.
    let tree = manifest(&[("turn_1/files/old", file(b"old"))]);
    let put = fixture.sandbox.put_tree(&tree, &Source::of(&[b"old"])).await;
    assert_eq!(put.map(|put| put.written), Ok(1));
    assert_eq!(fixture.shell("cat turn_1/files/old").await.stdout.text(), "old");
    if fixture.sandbox.capabilities().read_only_parts {
        assert_ne!(fixture.shell("echo x > x").await.exit_code, 0);
    }
}
