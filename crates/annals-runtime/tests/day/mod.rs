//! A working day with one agent, counted by the cache rules of two providers on what was really sent: thirty turns of
//! twelve rounds with web sources, long results, files that are written and read back, pictures, short pauses, one pause
//! longer than the caches live, and a window that the day does not fit into. A script plays the model; time is simulated.
#![allow(dead_code, unreachable_pub, reason = "a test and a benchmark use their parts")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use annals_core::block::BlockKind;
use annals_core::ids::TurnId;
use annals_core::settings::Settings;
use annals_core::sources::SourceRow;
use annals_core::time::Timestamp;
use annals_core::turn::TurnEnd;
use annals_core::turn::outcome::{Outcome, Output, Payload};
use annals_core::view::Prompt;
use annals_model::cache_sim::{CacheReading, CacheRules, CacheSim};
use annals_model::script::Script;
use annals_model::{Catalog, Price, ScriptModel, Usage};
use annals_runtime::{Agent, Attachment, Clock, HookCx, Hooks, TurnRequest, World, world::SeededEntropy};
use annals_store::{ArtifactStore, MemoryLog};
use annals_tools::{Tool, ToolCx, ToolSpec};
use async_trait::async_trait;
use serde_json::{Value, json};

const TURNS: usize = 30;
/// Calls a turn; the answer is one model call more.
const ROUNDS: usize = 12;
/// The person goes for lunch before this turn.
const PAUSE_BEFORE_TURN: usize = 14;
const PAUSE_SECONDS: i64 = 45 * 60;
const BETWEEN_TURNS_SECONDS: i64 = 90;
const MODEL_CALL_SECONDS: i64 = 8;
/// A window that nothing fills.
const ENDLESS_TOKENS: u32 = 50_000_000;

/// How long the day's texts are, and the window they have to fit into; it is a little too small for the day.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    text_percent: usize,
    window_tokens: u32,
}

impl Size {
    /// A day that a window of today is too small for.
    pub const FULL: Size = Size {
        text_percent: 70,
        window_tokens: 195_000,
    };

    /// The same day with short texts, for a test.
    pub const SMALL: Size = Size {
        text_percent: 15,
        window_tokens: 120_000,
    };

    fn words(self, count: usize, seed: usize) -> String {
        words((count * self.text_percent).div_ceil(100), seed)
    }
}

/// How a day went.
#[derive(Debug)]
pub struct Day {
    pub anthropic: Tally,
    pub openai: Tally,
    pub prunes: usize,
    pub compactions: usize,
}

/// What one provider's cache had of all requests.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub requests: usize,
    pub usage: Usage,
    /// The most tokens of one request that no later one can read from the cache.
    pub longest_tail_tokens: u64,
    /// Requests that read less than all that the one before them left to be read.
    pub breaks: usize,
    stable_tokens: u64,
}

impl Tally {
    fn add(&mut self, reading: CacheReading) {
        let usage = Usage {
            input_tokens: reading.input_tokens,
            cache_read_tokens: reading.read_tokens,
            cache_write_tokens: reading.write_tokens,
            output_tokens: 0,
        };
        self.requests += 1;
        self.usage += usage;
        let tail_tokens = reading.input_tokens - reading.stable_tokens;
        self.longest_tail_tokens = self.longest_tail_tokens.max(tail_tokens);
        self.breaks += usize::from(reading.read_tokens < self.stable_tokens);
        self.stable_tokens = reading.stable_tokens;
    }

    /// Prompt tokens that were cache reads.
    pub fn read_percent(&self) -> f64 {
        self.usage.cache_read_tokens as f64 * 100.0 / self.usage.input_tokens as f64
    }

    /// Prompt tokens of a request, on average, that were no cache reads.
    pub fn unread_tokens(&self) -> u64 {
        (self.usage.input_tokens - self.usage.cache_read_tokens) / self.requests as u64
    }

    /// What the prompts cost at these prices.
    pub fn dollars(&self, price: &Price) -> f64 {
        self.usage.cost(price).total_nanousd() as f64 / 1e9
    }
}

/// The list price of a model.
pub fn price(model: &str) -> Price {
    let catalog = Catalog::default();
    let known = catalog.find(model).expect("the catalog has it");
    known.price.expect("it has a price")
}

/// The day as Annals renders it.
pub async fn live(size: Size) -> Day {
    run(size, Settings::default()).await
}

/// The day's prompt tokens when every request carries the whole history. With a clock in front of it, as prompts often
/// have, none of them is a cache read.
pub async fn naive_tokens(size: Size) -> u64 {
    let mut settings = Settings::default();
    settings.session.cache_ttl_seconds = u64::from(u32::MAX);
    let size = Size {
        window_tokens: ENDLESS_TOKENS,
        ..size
    };
    run(size, settings).await.anthropic.usage.input_tokens
}

async fn run(size: Size, settings: Settings) -> Day {
    let home = tempfile::tempdir().expect("a temporary folder");
    let clock = Arc::new(AtomicI64::new(1_770_000_000_000_000));
    let providers = Providers::new(Arc::clone(&clock));
    let agent = Agent::builder()
        .model(ScriptModel::new("day", script(size)))
        .tools(annals_tools::react::all())
        .tools(tools(size))
        .log(Arc::new(MemoryLog::default()))
        .artifacts(ArtifactStore::open(home.path().join("artifacts")).expect("a fresh folder"))
        .workspaces(home.path().join("workspace"))
        .context_tokens(size.window_tokens)
        .settings(settings)
        .hooks(providers.clone())
        .world(World::new(Simulated(Arc::clone(&clock)), SeededEntropy::new(7)))
        .build()
        .await
        .expect("all parts are there");
    let mut session = agent.session("day").await.expect("a new conversation");
    for turn in 1..=TURNS {
        let pause = match turn {
            PAUSE_BEFORE_TURN => PAUSE_SECONDS,
            _ => BETWEEN_TURNS_SECONDS,
        };
        clock.fetch_add(pause * 1_000_000, Ordering::Relaxed);
        let mut request = TurnRequest::new(size.words(60, turn)).turn_id(turn_id(turn));
        if turn % 3 == 0 {
            request = request.attach(Attachment::new(format!("photo{turn}.png"), picture(1_024, 768)));
        }
        let ran = agent.run(session, request).await.expect("the store works");
        assert_eq!(ran.end(), TurnEnd::Complete, "turn {turn}");
        session = ran.into_session();
    }
    let (prunes, compactions) = session.timeline(|timeline| {
        let count = |kind: &BlockKind| {
            timeline
                .blocks()
                .iter()
                .filter(|block| block.kind == *kind)
                .count()
        };
        (count(&BlockKind::TimelineHide), count(&BlockKind::RangeSummary))
    });
    let state = providers.0.lock().expect("nobody panics with it");
    Day {
        anthropic: state.anthropic.1.clone(),
        openai: state.openai.1.clone(),
        prunes,
        compactions,
    }
}

/// Sends every prompt through both caches.
#[derive(Clone)]
struct Providers(Arc<Mutex<ProviderState>>);

struct ProviderState {
    clock: Arc<AtomicI64>,
    anthropic: (CacheSim, Tally),
    openai: (CacheSim, Tally),
}

impl Providers {
    fn new(clock: Arc<AtomicI64>) -> Self {
        let fresh = |rules| (CacheSim::new(rules), Tally::default());
        Providers(Arc::new(Mutex::new(ProviderState {
            clock,
            anthropic: fresh(CacheRules::ANTHROPIC),
            openai: fresh(CacheRules::OPENAI),
        })))
    }
}

#[async_trait]
impl Hooks for Providers {
    async fn before_model(&self, _: &HookCx, prompt: &Prompt) {
        let mut state = self.0.lock().expect("nobody panics with it");
        let micros = state
            .clock
            .fetch_add(MODEL_CALL_SECONDS * 1_000_000, Ordering::Relaxed);
        let now = Timestamp::from_unix_micros(micros);
        let ProviderState {
            anthropic, openai, ..
        } = &mut *state;
        for (cache, tally) in [anthropic, openai] {
            tally.add(cache.send_at(prompt, now));
        }
    }
}

/// A clock that only the day moves, but for a millisecond a reading.
struct Simulated(Arc<AtomicI64>);

impl Clock for Simulated {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.0.fetch_add(1_000, Ordering::Relaxed))
    }
}

fn turn_id(turn: usize) -> TurnId {
    TurnId::parse(&format!("turn_{turn}")).expect("a plain name")
}

fn script(size: Size) -> Script {
    let mut steps: Vec<Value> = Vec::new();
    for turn in 1..=TURNS {
        for round in 0..ROUNDS {
            let (tool, params) = call(size, turn, round);
            steps.push(json!({
                "text": words(15, turn * 100 + round),
                "tool_calls": [{"id": format!("c{turn}x{round}"), "tool": tool, "params": params}],
            }));
        }
        steps.push(json!({"text": format!("{} [[S:{turn}]]", size.words(180, turn * 1_000))}));
    }
    let summaries: Vec<String> = (0..8).map(|n| size.words(400, 900_000 + n)).collect();
    Script::parse(&json!({"steps": steps, "summaries": summaries}).to_string()).expect("a script")
}

fn call(size: Size, turn: usize, round: usize) -> (&'static str, Value) {
    let seed = turn * 100 + round;
    match round {
        0 => ("look_up", json!({"query": words(5, seed)})),
        4 | 8 => {
            let content = format!("# Notes {seed}\n\n{}", size.words(350, seed));
            let path = format!("notes{seed}.md");
            (
                "react.write",
                json!({"path": path, "channel": "canvas", "content": content, "kind": "display"}),
            )
        }
        6 if turn > 3 => {
            let past = turn - 3;
            let path = format!("fi:turn_{past}.files/notes{}.md", past * 100 + 4);
            ("react.read", json!({"paths": [path]}))
        }
        _ => ("open_page", json!({"page": seed})),
    }
}

fn tools(size: Size) -> Vec<Arc<dyn Tool>> {
    let spec = |name: &str, description: &str| {
        let spec = ToolSpec::builder(name).description(description);
        spec.build().expect("a plain tool")
    };
    vec![
        Arc::new(LookUp(spec("look_up", "Finds pages"), size)),
        Arc::new(OpenPage(spec("open_page", "Reads a page"), size)),
    ]
}

/// Finds eight pages.
struct LookUp(ToolSpec, Size);

#[async_trait]
impl Tool for LookUp {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn run(&self, _: &ToolCx, args: Value) -> Outcome {
        let seed = args.to_string().len() * 31 + args.to_string().bytes().map(usize::from).sum::<usize>();
        let row = |n: usize| {
            let url = format!("https://host-{}.example.org/{n}", seed % 97);
            SourceRow::web(&url, &words(8, seed + n), &self.1.words(120, seed * 7 + n))
        };
        Outcome {
            output: Output::Payload(Payload::markdown(self.1.words(120, seed))),
            sources: (1..=8).map(row).collect(),
            ..Outcome::default()
        }
    }
}

/// Has a long page for every number.
struct OpenPage(ToolSpec, Size);

#[async_trait]
impl Tool for OpenPage {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn run(&self, _: &ToolCx, args: Value) -> Outcome {
        let seed = args["page"].as_u64().unwrap_or_default() as usize;
        Outcome {
            output: Output::Payload(Payload::markdown(self.1.words(420, seed))),
            ..Outcome::default()
        }
    }
}

/// A text of this many plain words, another one for every seed.
fn words(count: usize, seed: usize) -> String {
    const WORDS: [&str; 32] = [
        "the", "river", "market", "report", "of", "green", "and", "price", "a", "module", "in", "season",
        "to", "compiler", "under", "weather", "with", "answer", "was", "harbour", "from", "figure", "that",
        "engine", "by", "letter", "were", "northern", "at", "quarter", "which", "supply",
    ];
    let mut state = seed as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let mut text = String::with_capacity(count * 7);
    for n in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push_str(WORDS[(state >> 59) as usize]);
        text.push_str(if n % 14 == 13 { ".\n" } else { " " });
    }
    text
}

/// A PNG of this size as far as its head: nobody here decodes it.
fn picture(width: u32, height: u32) -> Vec<u8> {
    let mut head = b"IHDR".to_vec();
    head.extend(width.to_be_bytes());
    head.extend(height.to_be_bytes());
    head.extend([8, 2, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    for chunk in [&head[..], b"IEND"] {
        file.extend((chunk.len() as u32 - 4).to_be_bytes());
        file.extend(chunk);
        file.extend(crc32(chunk).to_be_bytes());
    }
    file
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
