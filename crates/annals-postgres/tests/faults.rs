//! What a broken network, a killed server and a careless operator do to the log: nothing that was acknowledged is lost,
//! nothing is there twice, and what went wrong is said.

mod support;
#[path = "support/writers.rs"]
mod writers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use annals_postgres::{Address, Partitions, PostgresLog, PostgresOptions, init, migrate, status};
use annals_store::testing::{after, conversation, new_conversation, owner, text_block};
use annals_store::{BlockLog, BlockLogExt as _, Inbox as _, LogError, Members as _, Post, Tails as _};
use annals_testbed::{Durability, Edition, FaultProxy, PgBouncer, PostgresServer, Upstream};
use futures::StreamExt as _;
use support::{TTL, fill, nth, seq};
use writers::Writers;

fn server(durability: Durability) -> Option<PostgresServer> {
    PostgresServer::start(Edition::Debian, durability, &[])
}

async fn prepared(server: &PostgresServer, name: &str) -> String {
    let url = server.database(name, None).await;
    init(&Address::parse(&url).unwrap(), Partitions::NONE)
        .await
        .unwrap();
    url
}

async fn open(url: &str, options: PostgresOptions) -> PostgresLog {
    PostgresLog::open(Address::parse(url).unwrap(), options)
        .await
        .unwrap()
}

fn through(proxy: &FaultProxy, database: &str) -> String {
    let port = proxy.port();
    format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable&pooled=true")
}

/// The same without a word of a pooler: appends are prepared.
fn straight_through(proxy: &FaultProxy, database: &str) -> String {
    through(proxy, database).replace("&pooled=true", "")
}

/// What only the statement of an append contains.
const APPEND: &str = "moved AS (UPDATE annals.head";
/// What an append contains whose statement the server knows already: the type of its blocks.
const APPENDED: &str = "react.tool.result";

async fn lose_answers(url: impl Fn(&FaultProxy) -> String, to: &str, count: u64) {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    prepared(&server, "a").await;
    let proxy = FaultProxy::start(Upstream::Unix(server.socket())).await;
    let log = Arc::new(open(&url(&proxy), PostgresOptions::default()).await);
    let writers = Writers::start(&log, 16).await;
    proxy.swallow(to, 2);
    while proxy.swallowed() < count {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let acknowledged = writers.stop().await;
    assert!(
        acknowledged > count,
        "{acknowledged} appends went through all the same"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_lost_answers_lose_and_double_nothing() {
    lose_answers(|proxy| through(proxy, "a"), APPEND, 1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_to_prepared_appends_lose_and_double_nothing() {
    lose_answers(|proxy| straight_through(proxy, "a"), APPENDED, 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_nobody_mentioned_is_found_out_and_appends_go_on() {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    let Some(pooler) = PgBouncer::start(&server) else {
        return;
    };
    prepared(&server, "a").await;
    let url = pooler.url("a").replace("?pooled=true", "");
    let log = Arc::new(open(&url, PostgresOptions::default()).await);
    let writers = Writers::start(&log, 32).await;
    writers.wait_for(500).await;
    writers.stop().await;
}

/// A database behind a pooler with one connection to the server, which nobody mentioned; and a client of somebody else there.
async fn behind_one_connection(
    server: &PostgresServer,
) -> Option<(PgBouncer, String, tokio_postgres::Client)> {
    let pooler = PgBouncer::start_with(server, 1)?;
    prepared(server, "a").await;
    let url = pooler.url("a").replace("?pooled=true", "");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    Some((pooler, url, client))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_nobody_mentioned_hands_on_no_setting_to_others() {
    let Some(server) = server(Durability::Synced) else {
        return;
    };
    let Some((_pooler, url, stranger)) = behind_one_connection(&server).await else {
        return;
    };
    let log = Arc::new(open(&url, PostgresOptions::default()).await);
    let writers = Writers::start(&log, 16).await;
    writers.wait_for(200).await;
    for (name, value) in [
        ("synchronous_commit", "on"),
        ("enable_seqscan", "on"),
        ("plan_cache_mode", "auto"),
    ] {
        let shown = stranger.simple_query(&format!("SHOW {name}")).await.unwrap();
        let shown = shown.iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        assert_eq!(shown, Some(value), "{name}");
    }
    writers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_is_flushed_whatever_somebody_set_on_a_pooled_connection() {
    let Some(server) = server(Durability::Synced) else {
        return;
    };
    let Some((_pooler, url, stranger)) = behind_one_connection(&server).await else {
        return;
    };
    // Looks at the setting when a commit does.
    server
        .execute(
            "a",
            "CREATE TABLE public.committed (set text);
             CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO public.committed VALUES (current_setting('synchronous_commit')); RETURN NULL;
             END $$;
             CREATE CONSTRAINT TRIGGER note AFTER INSERT ON annals.block DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION public.note()",
        )
        .await;
    for options in ["", "?pooled=true"] {
        let log = open(&format!("{url}{options}"), PostgresOptions::default()).await;
        let name = format!("c{}", options.len());
        log.create(new_conversation(&name)).await.unwrap();
        let lease = log.acquire(&conversation(&name), &owner("a"), TTL).await.unwrap();
        fill(&log, &lease, 1, 1).await;
        stranger
            .batch_execute("SET synchronous_commit = off")
            .await
            .unwrap();
        fill(&log, &lease, 2, 3).await;
    }
    let count = |set: &str| format!("SELECT count(*) FROM public.committed WHERE set {set} 'on'");
    assert_eq!(server.count("a", &count("=")).await, 6);
    assert_eq!(server.count("a", &count("<>")).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_loses_nothing_that_was_acknowledged() {
    let Some(mut server) = server(Durability::Synced) else {
        return;
    };
    let url = prepared(&server, "a").await;
    let log = Arc::new(open(&url, PostgresOptions::default()).await);
    let writers = Writers::start(&log, 32).await;
    for _ in 0..2 {
        writers.wait_for(200).await;
        tokio::task::block_in_place(|| {
            server.kill();
            server.resume();
        });
    }
    writers.wait_for(200).await;
    writers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_is_killed_loses_nothing_that_was_acknowledged() {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    let Some(mut pooler) = PgBouncer::start(&server) else {
        return;
    };
    prepared(&server, "a").await;
    let log = Arc::new(open(&pooler.url("a"), PostgresOptions::default()).await);
    let writers = Writers::start(&log, 32).await;
    for _ in 0..3 {
        writers.wait_for(200).await;
        tokio::task::block_in_place(|| {
            pooler.kill();
            pooler.resume();
        });
    }
    writers.wait_for(200).await;
    writers.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_is_one_round_trip() {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    prepared(&server, "a").await;
    for (name, url) in [
        ("c", through as fn(&FaultProxy, &str) -> String),
        ("d", straight_through),
    ] {
        let proxy = FaultProxy::start(Upstream::Unix(server.socket())).await;
        let log = open(&url(&proxy, "a"), PostgresOptions::default()).await;
        log.create(new_conversation(name)).await.unwrap();
        let lease = log.acquire(&conversation(name), &owner("a"), TTL).await.unwrap();
        fill(&log, &lease, 1, 1).await;
        let before = proxy.requests();
        for number in 2..12 {
            fill(&log, &lease, number, number).await;
        }
        let sent = proxy.requests() - before;
        // Without a pooler there are hints beside the appends, fewer than those.
        assert!(sent == 10 || name == "d" && sent < 20, "{name}: {sent}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_swallows_everything_ends_in_an_error_and_the_append_can_be_sent_again() {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    prepared(&server, "a").await;
    let proxy = FaultProxy::start(Upstream::Unix(server.socket())).await;
    let options = PostgresOptions::default().patience(Duration::from_millis(500));
    let log = open(&through(&proxy, "a"), options).await;
    log.create(new_conversation("c")).await.unwrap();
    let lease = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
    let append = after(None, vec![text_block(1, "once")]);
    proxy.black_hole(true);
    let begun = Instant::now();
    let outcome = log.append(&lease, append.clone()).await;
    assert!(matches!(outcome, Err(LogError::Storage { .. })), "{outcome:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    proxy.black_hole(false);
    proxy.reset();
    assert_eq!(log.append(&lease, append).await.unwrap(), seq(1));
    assert_eq!(log.read_all(&conversation("c")).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_went_back_in_time_is_told_by_name() {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    let url = prepared(&server, "a").await;
    let log = open(&url, PostgresOptions::default()).await;
    log.create(new_conversation("c")).await.unwrap();
    let lease = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
    fill(&log, &lease, 1, 5).await;
    server
        .execute(
            "a",
            "DELETE FROM annals.block WHERE seq > 3; UPDATE annals.head SET tail = 3",
        )
        .await;
    let outcome = log.append(&lease, after(seq(5), vec![text_block(6, "x")])).await;
    match outcome {
        Err(LogError::Lost {
            acknowledged, actual, ..
        }) => {
            assert_eq!((acknowledged, actual), (nth(5), seq(3)));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_node_appends_or_posts_is_told_by_hints_and_without_them_by_polling() {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    let url = prepared(&server, "a").await;
    let here = open(&url, PostgresOptions::default()).await;
    let hinted = open(&url, PostgresOptions::default()).await;
    let polling = open(&format!("{url}?pooled=true"), PostgresOptions::default()).await;
    here.create(new_conversation("c")).await.unwrap();
    let lease = here.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
    let id = conversation("c");
    for (node, within) in [
        (&hinted, Duration::from_millis(400)),
        (&polling, Duration::from_secs(5)),
    ] {
        let known = here.tail(&id).await.unwrap();
        let mut tails = node.follow(&id, known);
        let mut posts = node.posted(&id, None);
        // The first look subscribes; nothing is new yet.
        assert!(
            tokio::time::timeout(Duration::from_millis(700), tails.next())
                .await
                .is_err()
        );
        let next = known.map_or(1, |tail| tail.get() + 1);
        let begun = Instant::now();
        fill(&here, &lease, next, next).await;
        assert_eq!(tails.next().await.unwrap().unwrap(), nth(next));
        assert!(begun.elapsed() < within, "{:?}", begun.elapsed());
        let key = format!("k{next}");
        let posted = here.post(&id, Post::new(key, "prompt", "x")).await.unwrap();
        while posts.next().await.unwrap().unwrap() < posted.id() {}
    }
    here.delete(&lease).await.unwrap();
    let mut tails = polling.follow(&id, None);
    assert!(matches!(tails.next().await, Some(Err(LogError::NotFound { .. }))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_once_and_strange_ones_are_refused() {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    let url = server.database("a", None).await;
    let address = Address::parse(&url).unwrap();
    let opened = PostgresLog::open(address.clone(), PostgresOptions::default()).await;
    assert!(matches!(
        opened,
        Err(LogError::Unprepared { command: "init", .. })
    ));
    assert!(matches!(
        migrate(&address).await,
        Err(LogError::Unprepared { .. })
    ));
    let (one, other) = tokio::join!(init(&address, Partitions::NONE), init(&address, Partitions::NONE));
    let (one, other) = (one.unwrap(), other.unwrap());
    let known = one.to;
    assert_eq!(
        (one.from.min(other.from), one.from.max(other.from)),
        (0, known),
        "one of them made the tables"
    );
    assert_eq!(migrate(&address).await.unwrap().from, known);
    let log = open(&url, PostgresOptions::default()).await;
    log.join(&owner("n1").node, Some("10.0.0.1:7000"), TTL)
        .await
        .unwrap();
    log.create(new_conversation("c")).await.unwrap();
    log.post(&conversation("c"), Post::new("k", "prompt", "x"))
        .await
        .unwrap();
    let found = status(&address).await.unwrap();
    assert_eq!((found.schema, found.due, found.waiting), ((known, known), 1, 1));
    assert_eq!(found.nodes, ["n1 at 10.0.0.1:7000"]);
    assert_eq!(
        found.dangers,
        ["fsync=off", "full_page_writes=off", "synchronous_commit=off"]
    );
    server
        .execute("a", "UPDATE annals.meta SET schema = 9, oldest = 9")
        .await;
    let opened = PostgresLog::open(address.clone(), PostgresOptions::default()).await;
    assert!(matches!(
        opened,
        Err(LogError::NewerSchema { found: 9, known: own, .. }) if own == i64::from(known)
    ));
    let strange = server.database("b", None).await;
    server
        .execute("b", "CREATE SCHEMA annals; CREATE TABLE annals.kings (name text)")
        .await;
    let made = init(&Address::parse(&strange).unwrap(), Partitions::NONE).await;
    assert!(matches!(made, Err(LogError::Foreign { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_change_rows_and_no_tables_is_enough_for_a_node() {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    let url = prepared(&server, "a").await;
    // As docs/many-machines.md has it.
    server
        .execute(
            "a",
            "CREATE ROLE node LOGIN; GRANT USAGE ON SCHEMA annals TO node;
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA annals TO node;
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA annals TO node;
             ALTER DEFAULT PRIVILEGES IN SCHEMA annals GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO node",
        )
        .await;
    let url = url.replace("postgres@", "node@");
    let address = Address::parse(&url).unwrap();
    let log = open(&url, PostgresOptions::default()).await;
    log.join(&owner("n1").node, None, TTL).await.unwrap();
    log.create(new_conversation("c")).await.unwrap();
    let lease = log.acquire(&conversation("c"), &owner("a"), TTL).await.unwrap();
    log.post(&conversation("c"), Post::new("k", "prompt", "x"))
        .await
        .unwrap();
    fill(&log, &lease, 1, 3).await;
    log.delete(&lease).await.unwrap();
    status(&address).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_row_is_damage_and_not_a_fact() {
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    let url = prepared(&server, "a").await;
    let log = open(&url, PostgresOptions::default()).await;
    for (name, damage) in [
        ("body", "UPDATE annals.block SET body = 'forged' WHERE seq = 2"),
        ("place", "UPDATE annals.block SET ts = ts + 1 WHERE seq = 2"),
        ("missing", "DELETE FROM annals.block WHERE seq = 2"),
    ] {
        log.create(new_conversation(name)).await.unwrap();
        let lease = log.acquire(&conversation(name), &owner("a"), TTL).await.unwrap();
        fill(&log, &lease, 1, 3).await;
        server.execute("a", damage).await;
        let read = log.read_all(&conversation(name)).await;
        assert!(matches!(read, Err(LogError::Corrupt { .. })), "{name}: {read:?}");
    }
    server
        .execute("a", "UPDATE annals.conversation SET title = 'forged'")
        .await;
    assert!(matches!(
        log.get(&conversation("body")).await,
        Err(LogError::Corrupt { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_claimants_at_once_share_the_work_and_a_post_is_never_forgotten() {
    use annals_store::{Claims as _, Work};
    const CONVERSATIONS: usize = 40;
    let Some(server) = server(Durability::Volatile) else {
        return;
    };
    let url = prepared(&server, "a").await;
    let logs = [
        Arc::new(open(&url, PostgresOptions::default()).await),
        Arc::new(open(&url, PostgresOptions::default()).await),
    ];
    let names: Vec<String> = (0..CONVERSATIONS).map(|n| format!("c{n}")).collect();
    for name in &names {
        logs[0].create(new_conversation(name)).await.unwrap();
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let nodes: Vec<_> = logs
        .iter()
        .enumerate()
        .map(|(n, log)| {
            let (log, is_over) = (Arc::clone(log), Arc::clone(&is_over));
            tokio::spawn(async move {
                let (mut taken, me) = (Vec::new(), owner(&format!("n{n}")));
                loop {
                    let was_over = is_over.load(Ordering::SeqCst);
                    let claimed = log.claim(&me, TTL, 3).await.unwrap();
                    if claimed.is_empty() && was_over {
                        return taken;
                    }
                    for claimed in claimed {
                        let (key, lease) = (claimed.lease.key().clone(), claimed.lease);
                        let waiting = log.pending(&key).await.unwrap();
                        let tail = log.tail(&key).await.unwrap();
                        let first = tail.map_or(1, |tail| tail.get() + 1);
                        let blocks = (first..).zip(&waiting);
                        let blocks = blocks.map(|(n, p)| text_block(n, &p.post.client_key)).collect();
                        let rows = waiting.iter().map(|pending| pending.id);
                        let append = after(tail, blocks).consuming(rows).work(Work::Done);
                        log.append(&lease, append).await.unwrap();
                        taken.extend(
                            waiting
                                .iter()
                                .map(|p| format!("{}/{}", key.id, p.post.client_key)),
                        );
                        log.release(&lease).await.unwrap();
                    }
                }
            })
        })
        .collect();
    let mut posted = Vec::new();
    for round in 0..5 {
        for name in &names {
            let key = format!("k{round}");
            let log = &logs[(round + name.len()) % 2];
            log.post(&conversation(name), Post::new(&key, "prompt", "x"))
                .await
                .unwrap();
            posted.push(format!("{name}/{key}"));
        }
    }
    is_over.store(true, Ordering::SeqCst);
    let mut taken = Vec::new();
    for node in nodes {
        taken.extend(node.await.unwrap());
    }
    taken.sort();
    posted.sort();
    assert_eq!(taken, posted, "each post was taken once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_certificate_is_spoken_to_by_tls_and_one_with_a_strangers_is_refused() {
    let Some((server, port)) = PostgresServer::start_with_tls() else {
        return;
    };
    let url = server.database("a", None).await;
    init(&Address::parse(&url).unwrap(), Partitions::NONE)
        .await
        .unwrap();
    let trusted = server.certificate().display().to_string().replace('/', "%2F");
    let base = format!("postgres://postgres@localhost:{port}/a?sslmode=verify-full");
    let log = open(
        &format!("{base}&sslrootcert={trusted}"),
        PostgresOptions::default(),
    )
    .await;
    log.create(new_conversation("c")).await.unwrap();
    let stranger = PostgresLog::open(Address::parse(&base).unwrap(), PostgresOptions::default()).await;
    let error = stranger.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}
