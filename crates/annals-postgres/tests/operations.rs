//! What an operator's tools see: whether the log takes writes, and how nodes hear of each other after their network failed.

mod support;

use std::time::{Duration, Instant};

use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog as _, BlockLogExt as _, Lease, LogError, Tails as _};
use annals_testbed::{Durability, Edition, FaultProxy, PostgresServer, Upstream};
use futures::StreamExt as _;
use futures::future::poll_fn;
use support::{TTL, fill, nth, seq};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_postgres::AsyncMessage;

/// What a step of a test may take on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(60);

async fn prepared(durability: Durability, settings: &[&str]) -> Option<(PostgresServer, String)> {
    let server = PostgresServer::start(Edition::Debian, durability, settings)?;
    let url = server.database("a", None).await;
    init(&Address::parse(&url).unwrap(), Partitions::NONE)
        .await
        .unwrap();
    Some((server, url))
}

async fn open(url: &str) -> PostgresLog {
    PostgresLog::open(Address::parse(url).unwrap(), PostgresOptions::default())
        .await
        .unwrap()
}

async fn begin(log: &PostgresLog) -> Lease {
    log.create(new_conversation("c")).await.unwrap();
    log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap()
}

/// Asks until the answer is the one that is waited for.
async fn until(log: &PostgresLog, is_right: impl Fn(&Result<(), LogError>) -> bool) {
    let began = Instant::now();
    loop {
        let checked = log.check_writes().await;
        if is_right(&checked) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{checked:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Settings of the whole server, which its sessions take over as they run.
async fn set(server: &PostgresServer, statement: &str) {
    server.execute("a", &format!("ALTER SYSTEM {statement}")).await;
    server.execute("a", "SELECT pg_reload_conf()").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_takes_no_writes_says_why_and_says_when_it_takes_them_again() {
    // A server that is told its settings when it starts would not change them.
    let Some((mut server, url)) = prepared(Durability::Synced, &["log_statement=none"]).await else {
        return;
    };
    let log = open(&url).await;
    let lease = begin(&log).await;
    fill(&log, &lease, 1, 1).await;
    log.check_writes().await.unwrap();

    set(&server, "SET default_transaction_read_only = on").await;
    until(&log, |checked| matches!(checked, Err(LogError::ReadOnly { .. }))).await;
    set(&server, "RESET default_transaction_read_only").await;
    until(&log, Result::is_ok).await;

    // No standby answers. Asked again and again, no more than a few commits wait for one.
    set(&server, "SET synchronous_standby_names = 'nobody'").await;
    until(&log, Result::is_err).await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let began = Instant::now();
    while server.count("a", waiting).await == 0 {
        assert!(began.elapsed() < PATIENCE, "no commit waits");
        let _refused = log.check_writes().await;
    }
    for _ in 0..5 {
        let checked = log.check_writes().await;
        assert!(matches!(checked, Err(LogError::Storage { .. })), "{checked:?}");
    }
    let waiting = server.count("a", waiting).await;
    assert!(waiting <= 2, "{waiting} commits wait");
    set(&server, "RESET synchronous_standby_names").await;
    until(&log, Result::is_ok).await;

    server.kill();
    until(&log, Result::is_err).await;
    server.resume();
    until(&log, Result::is_ok).await;
    fill(&log, &lease, 2, 2).await;
}

/// An error of a server that starts up, as it goes over the wire.
fn starts_up() -> Vec<u8> {
    let fields = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    [b"E", &length[..], fields].concat()
}

/// A port whose first callers are told to come later; the others are handed on to the server.
async fn starting(server: &PostgresServer, told_to_wait: usize) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, socket) = (listener.local_addr().unwrap().port(), server.socket());
    tokio::spawn(async move {
        for caller in 0.. {
            let (mut client, _) = listener.accept().await.unwrap();
            if caller < told_to_wait {
                let mut greeting = [0; 256];
                let _read = client.read(&mut greeting).await.unwrap();
                client.write_all(&starts_up()).await.unwrap();
                continue;
            }
            let mut behind = tokio::net::UnixStream::connect(&socket).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut behind).await });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_starts_up_is_waited_for_and_one_that_is_not_there_is_not() {
    let Some((server, _url)) = prepared(Durability::Volatile, &[]).await else {
        return;
    };
    let url = |port: u16| format!("postgres://postgres@127.0.0.1:{port}/a?sslmode=disable");
    let opened = |port: u16, patience: Duration| {
        let options = PostgresOptions::default().patience(patience);
        PostgresLog::open(Address::parse(&url(port)).unwrap(), options)
    };
    opened(starting(&server, 3).await, PATIENCE).await.unwrap();
    let never = opened(starting(&server, usize::MAX).await, Duration::from_millis(50)).await;
    assert!(never.unwrap_err().to_string().contains("57P03"));

    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let began = Instant::now();
    let refused = opened(port, PATIENCE).await;
    assert!(matches!(refused, Err(LogError::Storage { .. })), "{refused:?}");
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
}

/// Fails what needs room with the error of a full disk.
const FULL: &str = "
CREATE FUNCTION public.no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER no_room BEFORE INSERT ON annals.block FOR EACH ROW EXECUTE FUNCTION public.no_room();";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_whose_disk_was_full_takes_writes_again_when_there_is_room() {
    let Some((server, url)) = prepared(Durability::Volatile, &[]).await else {
        return;
    };
    let log = open(&url).await;
    let lease = begin(&log).await;
    server.execute("a", FULL).await;
    log.check_writes().await.unwrap();
    let refused = log.append(&lease, after(None, vec![text_block(1, "x")])).await;
    assert!(matches!(refused, Err(LogError::DiskFull { .. })), "{refused:?}");
    for _ in 0..3 {
        let checked = log.check_writes().await;
        assert!(matches!(checked, Err(LogError::DiskFull { .. })), "{checked:?}");
    }
    server.execute("a", "DROP TRIGGER no_room ON annals.block").await;
    log.check_writes().await.unwrap();
    let left = server.count("a", "SELECT count(*) FROM annals.block").await;
    assert_eq!(left, 0, "asking leaves nothing behind");
    fill(&log, &lease, 1, 1).await;
}

/// A node whose every connection goes through a network that can be broken, and its database.
async fn behind_a_proxy(server: &PostgresServer) -> (FaultProxy, PostgresLog) {
    let proxy = FaultProxy::start(Upstream::Unix(server.socket())).await;
    let port = proxy.port();
    let log = open(&format!(
        "postgres://postgres@127.0.0.1:{port}/a?sslmode=disable&application_name=far"
    ))
    .await;
    (proxy, log)
}

/// Waits until a node listens on a connection that is none of these; gives the process that serves it.
async fn listener(server: &PostgresServer, but: i64) -> i64 {
    let listens = format!(
        "SELECT coalesce(max(pid), 0)::int8 FROM pg_stat_activity
         WHERE application_name = 'far' AND query = 'LISTEN annals' AND pid <> {but}"
    );
    let began = Instant::now();
    loop {
        match server.count("a", &listens).await {
            0 => assert!(began.elapsed() < PATIENCE, "nobody listens"),
            pid => return pid,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_connections_were_cut_listens_again_and_learns_at_once_what_it_missed() {
    let Some((server, url)) = prepared(Durability::Volatile, &[]).await else {
        return;
    };
    let near = open(&url).await;
    let lease = begin(&near).await;
    let (proxy, far) = behind_a_proxy(&server).await;
    let id = conversation("c");
    let first = listener(&server, 0).await;
    let mut tails = far.follow(&id, None);
    fill(&near, &lease, 1, 1).await;
    assert_eq!(tails.next().await.unwrap().unwrap(), nth(1));
    let began = Instant::now();
    proxy.reset();
    fill(&near, &lease, 2, 2).await;
    assert_eq!(tails.next().await.unwrap().unwrap(), nth(2));
    listener(&server, first).await;
    // One pause, not one after the other; a busy machine adds to it.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    fill(&near, &lease, 3, 3).await;
    assert_eq!(tails.next().await.unwrap().unwrap(), nth(3));
}

/// What somebody who listens hears.
async fn hears(server: &PostgresServer) -> tokio::sync::mpsc::UnboundedReceiver<String> {
    let (client, mut connection) = tokio_postgres::connect(&server.url("a"), tokio_postgres::NoTls)
        .await
        .unwrap();
    let (sender, hints) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(hint) = message {
                let _gone = sender.send(hint.payload().to_owned());
            }
        }
    });
    client.batch_execute("LISTEN annals").await.unwrap();
    // The connection lives as long as its client.
    tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(client);
    });
    hints
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallowed_a_hint_does_not_silence_its_node_for_good() {
    let Some((server, _url)) = prepared(Durability::Volatile, &[]).await else {
        return;
    };
    let (proxy, far) = behind_a_proxy(&server).await;
    let lease = begin(&far).await;
    let mut hints = hears(&server).await;
    fill(&far, &lease, 1, 1).await;
    assert!(hints.recv().await.unwrap().contains(":1:"));
    // What is told next is lost with its connection's later requests, and nobody is told of that.
    proxy.hold("NOTIFY annals");
    fill(&far, &lease, 2, 2).await;
    let began = Instant::now();
    while proxy.held() == 0 {
        assert!(began.elapsed() < PATIENCE, "nothing was told");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // It gives that connection up, and tells on the next one what nobody has heard.
    while proxy.held() < 2 {
        assert!(began.elapsed() < PATIENCE, "it waits for ever");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    proxy.let_go();
    let heard = tokio::time::timeout(PATIENCE, hints.recv()).await;
    assert!(heard.unwrap().unwrap().contains(":2:"));
    assert_eq!(far.tail(&conversation("c")).await.unwrap(), seq(2));
}
