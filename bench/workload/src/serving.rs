//! The HTTP server under load, in a process of its own: turns a second, many turns in flight, many idle subscribers, and how
//! soon a subscriber has a block.
//!
//! `serve N DIRECTORY` is that process: it prints its address and serves, with a model that takes N milliseconds, until its
//! standard input ends. The other workloads start it, send it requests over loopback, and read what it took from the kernel.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals::CancellationToken;
use annals::core::time::Timestamp;
use annals::prelude::*;
use annals_server::{Limits, Options, Server};
use anyhow::{Context as _, ensure};
use reqwest::{Client, RequestBuilder, Response};
use tokio::task::JoinSet;

use crate::agent::durable;
use crate::meter::Figures;
use crate::model::{ROUND, Scripted, prompt};

/// Rounds of a turn, so that one has three model calls.
const ROUNDS: usize = 2;
/// Clients that each wait for their turn before they start the next.
const CLIENTS: usize = 64;
/// Turns that are in flight where many are.
const IN_FLIGHT: u32 = 1_000;
/// A conversation is made and subscribed to this long before its turn: what is measured is the turn.
const AHEAD: Duration = Duration::from_millis(500);
/// Turns by which the highest rate is found.
const CALIBRATING: usize = 1_000;

/// Turns that are started in a second where it is measured how soon blocks arrive: far from what the server can do.
const EASY_RATE: u32 = 50;

/// Serves until standard input ends.
pub(crate) async fn serve(delay_ms: usize, directory: &Path) -> anyhow::Result<Figures> {
    raise_file_limit();
    let delay = Duration::from_millis(delay_ms as u64);
    let rounds = if delay.is_zero() { ROUNDS } else { 0 };
    let model = Scripted::new(rounds, "add_one", json!({"x": ROUND})).after(delay);
    let unlimited = Limits {
        requests_per_second: 1_000_000,
        requests_burst: 1_000_000,
        turns_per_scope: 100_000,
        connections_max: 40_000,
        streams_per_token: 40_000,
        ..Limits::default()
    };
    let options = Options {
        listen: ([127, 0, 0, 1], 0).into(),
        needs_token: false,
        limits: unlimited,
        ..Options::default()
    };
    let server = Server::bind(durable(model, directory).await?, options).await?;
    println!("http://{}", server.address());
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stopping.cancel();
    });
    server.serve(stop).await;
    Ok(Figures::default())
}

/// As many files as the kernel lets this process have: every connection is one.
fn raise_file_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel fills and reads the structure it is given.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

/// A server to send requests to.
struct Served {
    child: Child,
    base: String,
    client: Client,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Served {
    fn start(delay: Duration, directory: &Path) -> anyhow::Result<Self> {
        raise_file_limit();
        std::fs::create_dir_all(directory)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", &delay.as_millis().to_string()])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut base = String::new();
        let out = child.stdout.as_mut().context("the server has no output")?;
        BufReader::new(out).read_line(&mut base)?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Served {
            child,
            base: base.trim().to_owned(),
            client: Client::builder().no_proxy().build()?,
        })
    }

    async fn conversation(&self) -> anyhow::Result<String> {
        let made = self
            .client
            .post(format!("{}/v1/conversations", self.base))
            .json(&json!({}))
            .send();
        let made: Value = made.await?.error_for_status()?.json().await?;
        Ok(made["id"]
            .as_str()
            .context("a conversation has an id")?
            .to_owned())
    }

    async fn events(&self, conversation: &str) -> anyhow::Result<Response> {
        let address = format!("{}/v1/conversations/{conversation}/events", self.base);
        Ok(self.client.get(address).send().await?.error_for_status()?)
    }

    /// A new conversation and a subscriber of it.
    async fn watched(&self) -> anyhow::Result<Watched<'_>> {
        let conversation = self.conversation().await?;
        Ok(Watched {
            events: self.events(&conversation).await?,
            conversation,
            served: self,
        })
    }

    /// One turn of a new conversation, watched to its end.
    async fn turn(&self) -> anyhow::Result<()> {
        self.watched().await?.turn().await
    }

    /// Processor time and resident memory of the server so far.
    fn spent(&self) -> anyhow::Result<(u64, u64)> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", self.child.id()));
        let (stat, statm) = (read("stat")?, read("statm")?);
        let after = stat.rsplit_once(") ").context("stat has a name")?.1;
        let ticks: u64 = after
            .split(' ')
            .skip(11)
            .take(2)
            .filter_map(|ticks| ticks.parse::<u64>().ok())
            .sum();
        let pages: u64 = statm
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse().ok())
            .context("statm has pages")?;
        Ok((ticks * 10_000_000, pages * 4_096))
    }
}

/// A conversation that somebody watches.
struct Watched<'s> {
    served: &'s Served,
    conversation: String,
    events: Response,
}

impl Watched<'_> {
    /// The request that starts its turn.
    fn start(&self) -> RequestBuilder {
        let base = &self.served.base;
        let address = format!("{base}/v1/conversations/{}/turns", self.conversation);
        self.served
            .client
            .post(address)
            .json(&json!({"prompt": prompt(0)}))
    }

    /// Posts a prompt; gives how long each block of its turn took to arrive.
    async fn arrivals(mut self) -> anyhow::Result<Vec<Duration>> {
        // The stream is read while the post is answered: blocks do not wait for their reader.
        let posted = tokio::spawn(self.start().send());
        let (mut ages, mut text, world) = (Vec::new(), Vec::new(), World::default());
        while let Some(piece) = self.events.chunk().await? {
            let arrived = world.now();
            text.extend_from_slice(&piece);
            while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                let event = String::from_utf8(event)?;
                ages.extend(age_of_block(&event, arrived)?);
                if event.contains("\"react.completion\"") {
                    posted.await??.error_for_status()?;
                    return Ok(ages);
                }
            }
        }
        anyhow::bail!("the stream ended before the turn")
    }

    /// Posts a prompt and waits for the end of its turn.
    async fn turn(mut self) -> anyhow::Result<()> {
        self.start().send().await?.error_for_status()?;
        let mut seen = Vec::new();
        while let Some(piece) = self.events.chunk().await? {
            seen.extend_from_slice(&piece);
            if seen.windows(16).any(|window| window == b"react.completion") {
                return Ok(());
            }
        }
        anyhow::bail!("the stream ended before the turn")
    }
}

/// `n` turns of three model calls each, by clients that wait for one before they start the next.
pub(crate) async fn turns(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    let served = Arc::new(Served::start(Duration::ZERO, directory)?);
    served.turn().await?;
    let (began, (cpu_before, _)) = (Instant::now(), served.spent()?);
    let took = closed(&served, n).await?;
    figures(&served, began, cpu_before, took)
}

/// What `n` turns take, of clients that wait for one before they start the next.
async fn closed(served: &Arc<Served>, n: usize) -> anyhow::Result<Vec<Duration>> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let served = served.clone();
        let share = n / CLIENTS + usize::from(client < n % CLIENTS);
        clients.spawn(async move {
            let mut took = Vec::with_capacity(share);
            for _ in 0..share {
                let began = Instant::now();
                served.turn().await?;
                took.push(began.elapsed());
            }
            anyhow::Ok(took)
        });
    }
    let mut took = Vec::with_capacity(n);
    while let Some(client) = clients.join_next().await {
        took.extend(client??);
    }
    Ok(took)
}

/// Turns a second of one model call each, as many as the server and its clients can do.
async fn highest_rate(directory: &Path) -> anyhow::Result<f64> {
    let served = Arc::new(Served::start(Duration::from_millis(1), directory)?);
    served.turn().await?;
    let began = Instant::now();
    closed(&served, CALIBRATING).await?;
    Ok(CALIBRATING as f64 / began.elapsed().as_secs_f64())
}

/// `n` turns started at half the highest rate, whether or not the earlier ones have ended, with a model that takes so long that
/// a thousand are in flight: told is what the server adds to that time.
pub(crate) async fn in_flight(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    let rate = highest_rate(&directory.join("highest")).await? / 2.0;
    let delay = Duration::from_secs_f64(f64::from(IN_FLIGHT) / rate);
    // As the server is told it.
    let delay = Duration::from_millis(delay.as_millis() as u64);
    let served = Arc::new(Served::start(delay, &directory.join("in-flight"))?);
    served.turn().await?;
    let (began, (cpu_before, _)) = (Instant::now(), served.spent()?);
    let mut turns = JoinSet::new();
    let preparing = (rate * AHEAD.as_secs_f64()) as usize;
    let (mut took, mut most) = (Vec::with_capacity(n), 0);
    for number in 0..n as u32 {
        // When it should start, not when it could: a server that falls behind does not slow its clients down.
        let due = began + AHEAD + Duration::from_secs_f64(f64::from(number) / rate);
        tokio::time::sleep_until((due - AHEAD).into()).await;
        let served = served.clone();
        turns.spawn(async move {
            let watched = served.watched().await?;
            tokio::time::sleep_until(due.into()).await;
            watched.turn().await?;
            anyhow::Ok(due.elapsed().saturating_sub(delay))
        });
        while let Some(ended) = turns.try_join_next() {
            took.push(ended??);
        }
        most = most.max(turns.len().saturating_sub(preparing));
    }
    while let Some(ended) = turns.join_next().await {
        took.push(ended??);
    }
    Ok(Figures {
        in_flight: Some(most as u64),
        started_per_second: Some(rate as u64),
        ..figures(&served, began, cpu_before, took)?
    })
}

/// `n` subscribers of one conversation each, in which nothing happens.
pub(crate) async fn idle(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    let served = Served::start(Duration::ZERO, directory)?;
    served.turn().await?;
    let (began, (cpu_before, before)) = (Instant::now(), served.spent()?);
    let mut open = Vec::with_capacity(n);
    for _ in 0..n {
        let conversation = served.conversation().await?;
        let mut events = served.events(&conversation).await?;
        // Its first event says that it is subscribed.
        ensure!(events.chunk().await?.is_some(), "a stream ended");
        open.push(events);
    }
    let (_, after) = served.spent()?;
    let figures = figures(&served, began, cpu_before, Vec::new())?;
    Ok(Figures {
        rss_bytes: Some(after.saturating_sub(before)),
        ..figures
    })
}

/// `n` turns of three model calls each, started at an easy rate with a subscriber each: told is how long after the time in a
/// block, which it gets before it is synced to disk, its event has arrived over loopback.
pub(crate) async fn blocks(n: usize, directory: &Path) -> anyhow::Result<Figures> {
    let served = Arc::new(Served::start(Duration::ZERO, directory)?);
    served.turn().await?;
    let (began, (cpu_before, _)) = (Instant::now(), served.spent()?);
    let mut turns = JoinSet::new();
    for number in 0..n as u32 {
        let due = began + AHEAD + Duration::from_secs(1) * number / EASY_RATE;
        tokio::time::sleep_until((due - AHEAD).into()).await;
        let served = served.clone();
        turns.spawn(async move {
            let watched = served.watched().await?;
            tokio::time::sleep_until(due.into()).await;
            watched.arrivals().await
        });
    }
    let mut took = Vec::new();
    while let Some(ended) = turns.join_next().await {
        took.extend(ended??);
    }
    figures(&served, began, cpu_before, took)
}

/// How long after its own time a block arrived, from the event that carries it; none from other events.
fn age_of_block(event: &str, arrived: Timestamp) -> anyhow::Result<Option<Duration>> {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
    let (Some("block"), Some(data)) = (field("event: "), field("data: ")) else {
        return Ok(None);
    };
    let block: Value = serde_json::from_str(data)?;
    let written = Timestamp::parse(block["ts"].as_str().context("a block has a time")?)?;
    Ok(Some(Duration::from_micros(arrived.micros_since(written))))
}

fn figures(
    served: &Served,
    began: Instant,
    cpu_before: u64,
    mut took: Vec<Duration>,
) -> anyhow::Result<Figures> {
    took.sort_unstable();
    let share = |percent: usize| {
        let at = (took.len() * percent / 100).min(took.len().checked_sub(1)?);
        Some(took[at].as_nanos() as u64)
    };
    Ok(Figures {
        wall_ns: began.elapsed().as_nanos() as u64,
        cpu_ns: served.spent()?.0 - cpu_before,
        p50_ns: share(50),
        p95_ns: share(95),
        ..Figures::default()
    })
}
