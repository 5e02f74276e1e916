//! Whose a sandbox is: owners that take over, owners that come back, processes that died, sandboxes that run out.

mod support;

use std::time::Duration;

use annals_opensandbox_double::Wire;
use annals_remote::Timing;
use annals_sandbox::{Backend as _, FailureKind, Manifest, OpenError};
use support::{backend, backend_on, backend_with, double, double_of, open, opening, printed, shell};

on_both_wires!(
    a_new_owner_ends_the_older_sandbox_first_and_the_earlier_owner_meets_a_dead_one,
    the_same_owner_keeps_its_sandbox_when_it_comes_back,
    installations_with_other_names_do_not_meet,
    sandboxes_of_processes_that_died_are_swept,
    a_sandbox_that_nobody_has_open_is_deleted_after_a_while,
    a_sandbox_that_expired_is_replaced_and_one_that_sleeps_is_woken,
    a_sandbox_in_use_is_renewed,
    one_that_is_not_renewed_runs_out,
);

/// Waits for something that happens in the background.
async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..400 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{what} did not happen");
}

struct Nothing;

#[async_trait::async_trait]
impl annals_sandbox::TreeSource for Nothing {
    async fn open(
        &self,
        digest: &annals_sandbox::Digest,
    ) -> Result<annals_sandbox::ByteStream, annals_sandbox::Failure> {
        panic!("{digest} was asked for")
    }
}

async fn a_new_owner_ends_the_older_sandbox_first_and_the_earlier_owner_meets_a_dead_one(wire: Wire) {
    let double = double_of(wire).await;
    let (first, second) = (backend_on(&double), backend_on(&double));
    let zombie = open(&first, "shared").await;
    let of_zombie = double.live();
    let owner = second.open(opening("shared", 2)).await.expect("a larger token");
    assert!(
        !double.live().contains(&of_zombie[0]),
        "the older sandbox is gone before the new one is used"
    );
    let late = shell(&*zombie, "touch late")
        .await
        .expect_err("its sandbox is dead");
    assert_eq!(late.kind, FailureKind::SandboxClosed);
    // It does not get another one, either.
    let put = zombie
        .put_tree(&Manifest::default(), &Nothing)
        .await
        .expect_err("fenced");
    assert_eq!(put.kind, FailureKind::SandboxClosed);
    match first.open(opening("shared", 1)).await {
        Err(OpenError::Fenced { newer, .. }) => assert_eq!(newer, 2),
        other => panic!("{:?}", other.map(drop)),
    }
    assert_eq!(printed(&*owner, "ls -A").await, "");
    assert_eq!(double.live().len(), 1);
}

/// Ports are used again: a client that still had a connection would reach a dead sandbox under a live one's address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_to_a_sandbox_end_with_it() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let double = double().await;
    let backend = backend(&double, |_| {});
    let sandbox = open(&backend, "kept-alive").await;
    let id = double.live().remove(0);
    let port = double.port(&id).expect("it runs");
    let mut connection = tokio::net::TcpStream::connect(("127.0.0.1", port))
        .await
        .expect("it listens");
    let request = b"GET /ping HTTP/1.1\r\nHost: sandbox\r\n\r\n";
    connection.write_all(request).await.expect("a request");
    let mut answer = [0; 1024];
    assert!(connection.read(&mut answer).await.expect("an answer") > 0);
    double.kill(&id);
    let rest = tokio::time::timeout(Duration::from_secs(60), connection.read(&mut answer)).await;
    assert!(
        matches!(rest, Ok(Ok(0) | Err(_))),
        "the connection outlived its sandbox: {rest:?}"
    );
    drop(sandbox);
}

/// An answer before the end of the request would close the connection under a client that is still sending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_is_answered_when_all_of_it_has_come() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let double = double().await;
    let backend = backend(&double, |_| {});
    let sandbox = open(&backend, "upload").await;
    let id = double.live().remove(0);
    let address = ("127.0.0.1", double.port(&id).expect("it runs"));
    let mut connection = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let part = |name: &str, content: &str| {
        format!(
            "--b\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
        )
    };
    let form = part("metadata", r#"{"path":"/tmp/late"}"#) + &part("file", "content") + "--b--\r\n";
    let head = format!(
        "POST /files/upload HTTP/1.1\r\nHost: s\r\nX-EXECD-ACCESS-TOKEN: token-of-{id}\r\n\
         Content-Type: multipart/form-data; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{form}\r\n",
        form.len()
    );
    connection.write_all(head.as_bytes()).await.expect("the form");
    let mut answer = [0; 1024];
    let early = tokio::time::timeout(Duration::from_millis(500), connection.read(&mut answer)).await;
    assert!(
        early.is_err(),
        "it answered before the request had ended: {early:?}"
    );
    connection
        .write_all(b"0\r\n\r\n")
        .await
        .expect("the request's end");
    let length = connection.read(&mut answer).await.expect("an answer");
    assert!(
        answer[..length].starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert_eq!(printed(&*sandbox, "cat /tmp/late").await, "content");
}

async fn the_same_owner_keeps_its_sandbox_when_it_comes_back(wire: Wire) {
    let double = double_of(wire).await;
    let (first, second) = (backend_on(&double), backend_on(&double));
    let before = open(&first, "kept").await;
    printed(&*before, "echo still here > file").await;
    let again = open(&second, "kept").await;
    assert_eq!(printed(&*again, "cat file").await, "still here\n");
    assert_eq!(double.created(), 1);
    drop(before);
}

async fn installations_with_other_names_do_not_meet(wire: Wire) {
    let double = double_of(wire).await;
    let named = |name: &str| backend_with(&double, |common| common.namespace = Some(name.to_owned()));
    let (ours, theirs) = (named("ours"), named("theirs"));
    let sandbox = open(&ours, "c").await;
    let other = theirs
        .open(opening("c", 9))
        .await
        .expect("another installation's conversation");
    assert_eq!(printed(&*sandbox, "echo alive").await, "alive\n");
    assert_eq!(double.live().len(), 2);
    drop(other);
}

async fn sandboxes_of_processes_that_died_are_swept(wire: Wire) {
    let double = double_of(wire).await;
    let dead = backend_on(&double).linger(Duration::from_secs(600));
    let orphan = open(&dead, "orphan").await;
    let id = double.live().remove(0);
    let owner = double.metadata(&id, "annals-owner").expect("an owner");
    let machine = owner.split('.').next().expect("a machine").to_owned();
    double.set_metadata(&id, "annals-owner", &format!("{machine}.4294967295.1"));
    let live = backend_on(&double);
    let _other = open(&live, "other").await;
    eventually("the sweep", || !double.live().contains(&id)).await;
    assert_eq!(double.live().len(), 1);
    drop(orphan);
}

async fn a_sandbox_that_nobody_has_open_is_deleted_after_a_while(wire: Wire) {
    let double = double_of(wire).await;
    let backend = backend_on(&double);
    let sandbox = open(&backend, "idle").await;
    sandbox.close().await;
    eventually("the deletion", || double.live().is_empty()).await;
    let again = open(&backend, "idle").await;
    assert_eq!(printed(&*again, "echo new").await, "new\n");
}

async fn a_sandbox_that_expired_is_replaced_and_one_that_sleeps_is_woken(wire: Wire) {
    let double = double_of(wire).await;
    let backend = backend_on(&double);
    let sandbox = open(&backend, "expired").await;
    double.expire(&double.live()[0]);
    eventually("the expiry", || double.live().is_empty()).await;
    let put = sandbox.put_tree(&Manifest::default(), &Nothing).await;
    // An empty tree asks nothing of the sandbox; the first call finds out.
    assert!(put.is_ok());
    let lost = shell(&*sandbox, "true").await.expect_err("it expired");
    assert_eq!(lost.kind, FailureKind::SandboxClosed);
    let put = sandbox
        .put_tree(&Manifest::default(), &Nothing)
        .await
        .expect("a new sandbox");
    assert!(put.replaced);
    assert_eq!(printed(&*sandbox, "echo new").await, "new\n");
    double.pause(&double.live()[0]);
    let again = backend
        .open(opening("expired", 1))
        .await
        .expect("the same sandbox");
    assert_eq!(printed(&*again, "echo awake").await, "awake\n");
}

/// A life of a minute that is renewed every second.
fn renewing() -> Timing {
    Timing {
        renewals: 60,
        ..Timing::default()
    }
}

async fn a_sandbox_in_use_is_renewed(wire: Wire) {
    let double = double_of(wire).await;
    let backend = backend_with(&double, |common| {
        (common.timeout_seconds, common.linger, common.timing) = (60, Duration::from_secs(600), renewing());
    });
    let _sandbox = open(&backend, "renewed").await;
    let id = double.live().remove(0);
    let before = double.expires_at(&id).expect("it expires");
    eventually("the renewal", || double.expires_at(&id) > Some(before)).await;
    assert!(
        double.expires_at(&id) <= Some(before + 60),
        "no longer than its life"
    );
}

/// A process that is gone renews nothing.
async fn one_that_is_not_renewed_runs_out(wire: Wire) {
    let double = double_of(wire).await;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let backend = backend_with(&double, |common| {
        (common.timeout_seconds, common.linger, common.timing) = (60, Duration::from_secs(600), renewing());
    });
    let opening = runtime.spawn(async move {
        let sandbox = open(&backend, "left").await;
        (backend, sandbox)
    });
    let _held = opening.await.expect("it opens");
    let id = double.live().remove(0);
    runtime.shutdown_background();
    let left = double.expires_at(&id).expect("it expires");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let later = double.expires_at(&id).expect("it expires");
    assert!(later <= left + 1, "nobody renews it: {left} {later}");
    double.expire(&id);
    eventually("the expiry", || double.live().is_empty()).await;
}
