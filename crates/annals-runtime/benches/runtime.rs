//! What the loop itself costs: rounds of a model call and an in-process tool, many sessions, memory at rest.
//!
//! The model answers at once and the tool adds one, so what is left is Annals.
#![allow(clippy::print_stdout, reason = "a benchmark reports")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use annals_core::settings::Settings;
use annals_figures::{Figure, full_or_quick};
use annals_model::{Event, EventStream, Model, ModelError, Request, StopReason, Usage, Window};
use annals_runtime::{Agent, Session, World};
use annals_store::{ArtifactStore, MemoryLog, SqliteLog, SqliteOptions, Store};
use annals_tools::DynamicTool;
use futures::{StreamExt as _, stream};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Counts the bytes that are held.
struct Counting;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every request goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Layout) -> *mut u8 {
        HELD_BYTES.fetch_add(memory.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, at: *mut u8, memory: Layout) {
        HELD_BYTES.fetch_sub(memory.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls the tool for `rounds` rounds of each turn, then answers.
#[derive(Default)]
struct Instantly {
    rounds: usize,
    /// When set, every first call of a turn waits for all others.
    meeting: Option<Arc<tokio::sync::Barrier>>,
    calls: AtomicUsize,
}

#[async_trait::async_trait]
impl Model for Instantly {
    fn name(&self) -> &str {
        "instant"
    }

    fn window(&self) -> Window {
        Window {
            context_tokens: 2_000_000,
            max_output_tokens: 8_000,
        }
    }

    async fn stream(&self, request: Request, _: &CancellationToken) -> Result<EventStream, ModelError> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let round = match &self.meeting {
            // One session after the other: what was asked before tells the round, and no prompt is walked for it.
            None => call % (self.rounds + 1),
            Some(_) => rounds_of(&request),
        };
        if let (0, Some(meeting)) = (round, &self.meeting) {
            meeting.wait().await;
        }
        let finished = |stop| Event::Finished {
            stop,
            usage: Usage::default(),
        };
        let events = if round < self.rounds {
            vec![
                Event::CallStarted {
                    index: 0,
                    id: Some(format!("c{call}")),
                    tool: "add_one".into(),
                },
                Event::CallArguments {
                    index: 0,
                    json: "{\"x\":1}".into(),
                },
                finished(StopReason::ToolUse),
            ]
        } else {
            vec![Event::Text("done".into()), finished(StopReason::EndTurn)]
        };
        Ok(stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

fn rounds_of(request: &Request) -> usize {
    let messages = request.prompt.messages.iter();
    messages
        .filter(|message| matches!(message, annals_core::view::Message::Tool(_)))
        .count()
}

async fn agent(log: Arc<dyn Store>, home: &std::path::Path, model: Instantly) -> Agent {
    let schema = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]});
    let add_one = DynamicTool::new("add_one", "Add 1 to x", schema, |_, args| async move {
        Ok(json!(args["x"].as_i64().unwrap_or(0) + 1))
    });
    let settings = Settings {
        max_iterations: 1_000,
        ..Settings::default()
    };
    Agent::builder()
        .model(model)
        .tool(add_one.expect("a plain tool"))
        .log(log)
        .artifacts(ArtifactStore::open(home.join("artifacts")).expect("a fresh folder"))
        .workspaces(home.join("workspace"))
        .settings(settings)
        .world(World::default())
        .build()
        .await
        .expect("all parts are there")
}

async fn rounds(agent: &Agent, session: Session) -> (Session, Duration) {
    let start = Instant::now();
    let session = agent
        .run(session, "go")
        .await
        .expect("an instant model never fails");
    (session.into_session(), start.elapsed())
}

fn row(what: &str, value: String, target: &str, met: bool) {
    println!(
        "{what:<64} {value:>14}   {target:<12} {}",
        if met { "ok" } else { "MISSED" }
    );
}

async fn overhead_of_a_round(home: &std::path::Path) {
    for count in [10, 100, 900] {
        let model = Instantly {
            rounds: count,
            ..Instantly::default()
        };
        let agent = agent(Arc::new(MemoryLog::default()), home, model).await;
        let mut best = Duration::MAX;
        for run in 0..full_or_quick(5, 2) {
            let session = agent
                .session(&format!("r{count}_{run}"))
                .await
                .expect("a new conversation");
            best = best.min(rounds(&agent, session).await.1);
        }
        let micros = best.as_secs_f64() * 1e6 / count as f64;
        Figure::new(
            format!("model call + in-process tool, {count} rounds, no sync"),
            micros,
            "µs",
        )
        .at_most(100.0)
        .tell();
        row(
            &format!("model call + in-process tool, {count} rounds, no sync"),
            format!("{micros:.0} µs"),
            "≤ 100 µs",
            micros <= 100.0,
        );
    }
}

async fn many_sessions(home: &std::path::Path) {
    const SESSIONS: usize = 1_000;
    let log = SqliteLog::open(home.join("many.db"), SqliteOptions::default()).expect("a fresh database");
    let meeting = Arc::new(tokio::sync::Barrier::new(SESSIONS));
    let model = Instantly {
        rounds: 10,
        meeting: Some(meeting),
        ..Instantly::default()
    };
    let agent = agent(Arc::new(log), home, model).await;
    let start = Instant::now();
    let running = (0..SESSIONS).map(|n| {
        let agent = agent.clone();
        tokio::spawn(async move {
            let session = agent.session(&format!("s{n}")).await.expect("a new conversation");
            rounds(&agent, session).await;
        })
    });
    let running: Vec<_> = running.collect();
    for session in running {
        session.await.expect("no session panics");
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = SESSIONS as f64 / seconds;
    Figure::new(
        "1,000 durable sessions of 10 calls, all models in flight",
        rate,
        "sessions/s",
    )
    .tell();
    row(
        "1,000 sessions × 10 calls, durable, 1,000 model calls in flight",
        format!("{rate:.0} sessions/s"),
        "",
        true,
    );
}

/// What a thousand open conversations take that nobody talks to, each with ten rounds on its timeline.
async fn idle_sessions(home: &std::path::Path) {
    const SESSIONS: usize = 1_000;
    const AT_ONCE: usize = 20;
    let log = SqliteLog::open(home.join("idle.db"), SqliteOptions::default()).expect("a fresh database");
    let model = Instantly {
        rounds: 10,
        meeting: Some(Arc::new(tokio::sync::Barrier::new(1))),
        ..Instantly::default()
    };
    let agent = agent(Arc::new(log), home, model).await;
    // Made a few at a time, so that little free memory is left over that would hide what comes next.
    for first in (0..SESSIONS).step_by(AT_ONCE) {
        let some = (first..first + AT_ONCE).map(|n| {
            let agent = agent.clone();
            async move {
                let session = agent.session(&format!("i{n}")).await.expect("a new conversation");
                let (session, _) = rounds(&agent, session).await;
                session.close().await.expect("the log is there");
            }
        });
        futures::future::join_all(some).await;
    }
    release_free_memory();
    let (held, resident) = (HELD_BYTES.load(Ordering::Relaxed), rss_bytes());
    let mut sessions = Vec::with_capacity(SESSIONS);
    for n in 0..SESSIONS {
        sessions.push(agent.session(&format!("i{n}")).await.expect("made before"));
    }
    let held = HELD_BYTES.load(Ordering::Relaxed).saturating_sub(held) / SESSIONS;
    let resident = rss_bytes().saturating_sub(resident) / SESSIONS;
    for (what, bytes) in [("held", held), ("resident", resident)] {
        Figure::new(
            format!("memory of an idle session of 10 rounds, {what}"),
            bytes as f64 / 1e3,
            "KB",
        )
        .at_most(30.0)
        .tell();
        row(
            &format!("memory of an idle session (10 rounds on its timeline), {what}"),
            format!("{bytes} bytes"),
            "≤ 30 KB",
            bytes <= 30_000,
        );
    }
}

fn rss_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages * 4_096
}

fn release_free_memory() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> i32;
    }
    // SAFETY: glibc's malloc_trim takes any pad and only gives free pages back.
    unsafe { malloc_trim(0) };
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let home = tempfile::tempdir().expect("a temporary folder");
    // `cargo bench --bench runtime -- rounds` measures one of them alone.
    let only = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    runtime.block_on(async {
        println!("runtime (minimum of five runs)");
        if wanted("rounds") {
            overhead_of_a_round(home.path()).await;
        }
        if wanted("idle") {
            idle_sessions(home.path()).await;
        }
        if wanted("sessions") {
            many_sessions(home.path()).await;
        }
    });
}
