//! What the core costs at any length, against the targets it must hold. `cargo bench -p annals-core`.
//!
//! Times are of whole operations on one core: the least of many runs, and the middle one. Token counts come with the
//! blocks, as they do from a store.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use annals_core::block::{
    ArtifactKind, BlobDigest, Block, BlockJson, BlockKind, Body, FileMeta, Meta, NewBlock, SafeDigest,
    Visibility,
};
use annals_core::ids::{CallId, TurnId};
use annals_core::path::{LogicalPath, RelPath};
use annals_core::settings::{CacheSettings, SessionSettings};
use annals_core::time::Timestamp;
use annals_core::timeline::HideReason;
use annals_core::turn::outcome::HideItem;
use annals_core::turn::{Budget, next, round};
use annals_core::view::View;
use annals_core::view::compact::{self, Force};
use annals_core::view::{Layout, ViewRenderer, prune};
use annals_figures::{Figure, full_or_quick};

/// Counts the bytes that are held, as the allocator rounds nothing.
struct Counting;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        HELD_BYTES.fetch_add(memory.size(), Ordering::Relaxed);
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        HELD_BYTES.fetch_sub(memory.size(), Ordering::Relaxed);
        unsafe { System.dealloc(at, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BLOCK_BYTES: usize = 1_024;
const ROUND_BLOCKS: usize = 4;
const TURN_ROUNDS: usize = 25;
const LENGTHS: [usize; 3] = [1_000, 10_000, 50_000];

fn main() {
    let mut table = Table::default();
    bench_memory(&mut table);
    bench_rounds(&mut table);
    for length in LENGTHS {
        bench_lookup(&mut table, length);
        bench_hide(&mut table, length);
    }
    let plans: Vec<[f64; 2]> = LENGTHS.map(|length| bench_plans(&mut table, length)).into();
    table.ratio(
        "prune plan: 50k against 5 × 10k",
        plans[2][0] / (5.0 * plans[1][0]),
        1.5,
    );
    table.ratio(
        "compaction plan: 50k against 5 × 10k",
        plans[2][1] / (5.0 * plans[1][1]),
        1.5,
    );
    bench_first_render(&mut table);
    println!(
        "size of a block: {} bytes, of its metadata: {}",
        size_of::<Block>(),
        size_of::<Meta>()
    );
}

/// A conversation made of rounds, each of notes, a call, a digest and the content it describes.
struct Writer {
    turn: TurnId,
    rounds: u64,
    seq: u64,
    pad: String,
}

impl Writer {
    fn new() -> Self {
        Writer {
            turn: turn(0),
            rounds: 0,
            seq: 0,
            pad: "words and more of them ".repeat(BLOCK_BYTES / 20),
        }
    }

    fn timeline(&mut self, blocks: usize) -> View {
        let mut timeline = View::default();
        while timeline.blocks().len() < blocks {
            self.round()
                .into_iter()
                .for_each(|block| timeline.push(block).expect("in order"));
        }
        timeline
    }

    /// A header and a prompt once in a while, then the four blocks of a round.
    fn round(&mut self) -> Vec<Arc<Block>> {
        self.rounds += 1;
        let mut blocks = Vec::with_capacity(ROUND_BLOCKS + 2);
        if self.rounds.is_multiple_of(TURN_ROUNDS as u64) || self.rounds == 1 {
            self.turn = turn(self.rounds);
            let t = &self.turn;
            blocks.push(NewBlock::new(
                BlockKind::TurnHeader,
                t,
                LogicalPath::turn_header(t),
            ));
            blocks.push(
                NewBlock::new(BlockKind::UserPrompt, t, LogicalPath::user_prompt(t))
                    .text("text/markdown", "go on"),
            );
        }
        blocks.extend(self.round_blocks());
        blocks.into_iter().map(|block| self.seal(block)).collect()
    }

    fn round_blocks(&self) -> [NewBlock; ROUND_BLOCKS] {
        let (t, call) = (&self.turn, CallId::made(self.rounds));
        let step = Some((self.rounds % TURN_ROUNDS as u64) as u32 + 1);
        let file = LogicalPath::file(
            t,
            &RelPath::parse(&format!("report-{}.md", self.rounds)).expect("safe"),
        );
        let mut digest = SafeDigest::new(
            file.clone(),
            "text/markdown",
            ArtifactKind::Display,
            Visibility::External,
        );
        digest.tool_call_id = Some(call.clone());
        digest.size_bytes = Some(BLOCK_BYTES as u64);
        let content: Arc<str> = self.pad[..BLOCK_BYTES].into();
        let notes = Meta { step, ..Meta::EMPTY }.with("channel", "timeline_text");
        let called = Meta {
            call: Some(call.clone()),
            step,
            ..Meta::EMPTY
        };
        let status = Meta {
            result_count: Some(2),
            is_digest: true,
            ..Meta::of_call(&call)
        };
        let mut carried = Meta::of_call(&call);
        carried.file = Some(Box::new(FileMeta {
            physical_path: digest.physical_path.clone(),
            content_digest: Some(BlobDigest([7; 32])),
            digest: Some(digest.clone()),
            ..FileMeta::default()
        }));
        digest.write_warning = Some(self.pad[..BLOCK_BYTES - 300].to_owned());
        let params = serde_json::json!({
            "tool_id": "react.write", "tool_call_id": call, "ts": "2026-02-09T02:14:32.676425Z",
            "params": {"path": file, "channel": "canvas", "content": &self.pad[..BLOCK_BYTES - 260], "kind": "display"},
        });
        [
            NewBlock::new(BlockKind::Notes, t, LogicalPath::notes(t, &call))
                .text("text/markdown", content.to_string())
                .meta(notes),
            NewBlock::new(BlockKind::ToolCall, t, LogicalPath::call(t, &call))
                .json(&params)
                .meta(called),
            NewBlock::new(BlockKind::ToolResult, t, LogicalPath::result(t, &call))
                .json(&digest)
                .meta(status),
            NewBlock::new(BlockKind::ToolResult, t, file)
                .text("text/markdown", content)
                .meta(carried),
        ]
    }

    /// Gives a block its place, and the token count that a store would have kept.
    fn seal(&mut self, block: NewBlock) -> Arc<Block> {
        self.seq += 1;
        let body = block.body.clone();
        let tokens = match &body {
            Body::Text(text) => text.len() as u32 / 4,
            Body::Empty | Body::Blob(_) => 0,
        };
        let seq = annals_core::ids::Seq::try_new(self.seq).expect("from 1");
        let ts = Timestamp::from_unix_micros(1_770_603_272_676_425 + self.seq as i64 * 1_000);
        let sealed = NewBlock {
            body: Body::Empty,
            ..block
        }
        .seal(seq, ts);
        Arc::new(Block {
            body,
            tokens,
            ..sealed
        })
    }
}

fn turn(number: u64) -> TurnId {
    TurnId::made(1_770_603_271_112 + number as i64, [1, 2, 3, 4, 5, 6])
}

fn budget() -> Budget {
    Budget {
        window_tokens: u32::MAX,
        overhead_tokens: 0,
        max_iterations: 1_000,
    }
}

/// Rounds at the three lengths take turns, so that whatever else the machine does falls on all of them.
fn bench_rounds(table: &mut Table) {
    let mut runs = LENGTHS.map(Run::new);
    for _ in 0..full_or_quick(400, 100) {
        runs.iter_mut().for_each(Run::round);
    }
    let least = runs.map(|run| table.time(&format!("one round at {} blocks", run.length), run.micros, 50.0));
    table.ratio("round: 50k against 1k", least[2] / least[0], 1.5);
}

struct Run {
    length: usize,
    writer: Writer,
    timeline: View,
    renderer: ViewRenderer,
    micros: Vec<f64>,
}

impl Run {
    fn new(length: usize) -> Self {
        let mut writer = Writer::new();
        let timeline = writer.timeline(length);
        let mut renderer = ViewRenderer::new(Layout::Chat);
        renderer.update(&timeline);
        Run {
            length,
            writer,
            timeline,
            renderer,
            micros: Vec::new(),
        }
    }

    /// Appends, indexes and renders one round, and asks what is next.
    fn round(&mut self) {
        let round = self.writer.round();
        let begins_turn = round.len() > ROUND_BLOCKS;
        let began = Instant::now();
        for block in round {
            self.timeline.push(block).expect("in order");
        }
        self.renderer.update(&self.timeline);
        black_box(next(&self.timeline, &budget()));
        if !begins_turn {
            self.micros.push(began.elapsed().as_secs_f64() * 1e6);
        }
    }
}

fn bench_lookup(table: &mut Table, length: usize) {
    let timeline = Writer::new().timeline(length);
    let paths: Vec<LogicalPath> = timeline
        .blocks()
        .iter()
        .filter_map(|block| block.path.clone())
        .step_by(length / 500)
        .collect();
    let micros = paths.iter().map(|path| {
        const TIMES: u32 = 20;
        let began = Instant::now();
        for _ in 0..TIMES {
            black_box(timeline.latest(black_box(path)));
        }
        began.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
    });
    table.time(&format!("lookup at {length} blocks"), micros.collect(), 2.0);
}

fn bench_hide(table: &mut Table, length: usize) {
    let mut writer = Writer::new();
    let mut timeline = writer.timeline(length);
    let cache = CacheSettings {
        editable_tail_size_in_tokens: u32::MAX,
        cache_point_offset_rounds: 1_000,
        ..CacheSettings::default()
    };
    let micros = (0..200).map(|_| {
        writer
            .round()
            .into_iter()
            .for_each(|block| timeline.push(block).expect("in order"));
        let path = timeline
            .blocks()
            .last()
            .and_then(|block| block.path.clone())
            .expect("a file");
        let item = HideItem {
            path: path.clone(),
            replacement: "a report".into(),
            from_seq: None,
        };
        let hide =
            round::hide_block(&timeline, &writer.turn, HideReason::Hide, vec![item]).expect("one item");
        let hide = writer.seal(hide);
        let began = Instant::now();
        black_box(timeline.hide_check(&path, &cache));
        timeline.push(hide).expect("in order");
        began.elapsed().as_secs_f64() * 1e6
    });
    table.time(&format!("hide at {length} blocks"), micros.collect(), 20.0);
}

fn bench_plans(table: &mut Table, length: usize) -> [f64; 2] {
    let timeline = Writer::new().timeline(length);
    let settings = SessionSettings {
        keep_recent_turns: 3,
        cache_truncation_max_text_chars: 500,
        cache_truncation_max_field_chars: 100,
        ..SessionSettings::default()
    };
    let later = Timestamp::from_unix_micros(1_870_603_272_676_425);
    let prune = repeat(9, || prune::plan(&timeline, &settings, later).expect("old turns"));
    let window_tokens = u32::try_from(timeline.view_tokens() / 2).expect("fits");
    let cut = repeat(9, || {
        compact::plan(&timeline, window_tokens, Force::Budget).expect("too long")
    });
    [
        table.time(&format!("prune plan at {length} blocks"), prune, f64::INFINITY),
        table.time(&format!("compaction plan at {length} blocks"), cut, f64::INFINITY),
    ]
}

fn bench_first_render(table: &mut Table) {
    let timeline = Writer::new().timeline(LENGTHS[2]);
    for layout in [Layout::Chat, Layout::Timeline] {
        let micros = repeat(9, || {
            let mut renderer = ViewRenderer::new(layout);
            renderer.update(&timeline);
            renderer
        });
        table.time(
            &format!("first render of 50000 blocks, {layout:?}"),
            micros,
            150_000.0,
        );
    }
    let fold = repeat(9, || {
        View::fold(timeline.blocks().iter().cloned()).expect("in order")
    });
    table.time("fold of 50000 blocks", fold, 150_000.0);
    let mut renderer = ViewRenderer::new(Layout::Chat);
    renderer.update(&timeline);
    let prompt = repeat(9, || {
        renderer.prompt(&timeline, &CacheSettings::default(), "".into(), [].into(), None)
    });
    table.time("prompt of 50000 blocks (pointers only)", prompt, f64::INFINITY);
}

fn bench_memory(table: &mut Table) {
    let before = HELD_BYTES.load(Ordering::Relaxed);
    let timeline = Writer::new().timeline(LENGTHS[2]);
    let held = (HELD_BYTES.load(Ordering::Relaxed) - before) as f64;
    let body_bytes = |block: &Block| block.text().map_or(0, str::len);
    let text_bytes = |block: &Block| {
        let path = block.path.as_ref().map_or(0, |path| path.as_str().len());
        let meta = block.meta.as_ref().map(serde_json::to_string);
        body_bytes(block) + path + meta.map_or(0, |meta| meta.expect("plain data").len())
    };
    let json_bytes = |block: &Block| {
        serde_json::to_string(&BlockJson::from(block))
            .expect("plain data")
            .len()
    };
    let sum = |of: &dyn Fn(&Block) -> usize| timeline.blocks().iter().map(|block| of(block)).sum::<usize>();
    let (bodies, text, json) = (sum(&body_bytes), sum(&text_bytes), sum(&json_bytes));
    let blocks = timeline.blocks().len() as f64;
    table.ratio(
        "memory held against the text (bodies, paths, metadata)",
        held / text as f64,
        1.3,
    );
    table.ratio(
        "memory held against the blocks as JSON",
        held / json as f64,
        f64::INFINITY,
    );
    table.ratio(
        "memory held against the bodies alone",
        held / bodies as f64,
        f64::INFINITY,
    );
    println!(
        "held beyond the bodies: {:.0} bytes a block",
        (held - bodies as f64) / blocks
    );
    let before = HELD_BYTES.load(Ordering::Relaxed);
    let mut renderer = ViewRenderer::new(Layout::Chat);
    renderer.update(&timeline);
    let rendered = (HELD_BYTES.load(Ordering::Relaxed) - before) as f64;
    table.ratio(
        "memory a renderer adds (chat)",
        rendered / bodies as f64,
        f64::INFINITY,
    );
    black_box(&timeline);
}

fn repeat<T>(times: usize, mut run: impl FnMut() -> T) -> Vec<f64> {
    let run = |_| {
        let began = Instant::now();
        let made = black_box(run());
        let micros = began.elapsed().as_secs_f64() * 1e6;
        drop(made);
        micros
    };
    (0..times).map(run).collect()
}

/// The table, printed line by line.
#[derive(Default)]
struct Table {
    has_head: bool,
}

impl Table {
    /// Prints the least and the middle time. Judges the least and returns it: the middle one tells of the machine.
    fn time(&mut self, name: &str, mut micros: Vec<f64>, target_micros: f64) -> f64 {
        micros.sort_unstable_by(f64::total_cmp);
        let (least, middle) = (micros[0], micros[micros.len() / 2]);
        self.line(
            name,
            &format!("{least:.1} µs"),
            &format!("{middle:.1} µs"),
            least,
            target_micros,
            " µs",
        );
        least
    }

    fn ratio(&mut self, name: &str, ratio: f64, target: f64) {
        self.line(name, "", &format!("{ratio:.2} ×"), ratio, target, " ×");
    }

    fn line(&mut self, name: &str, least: &str, middle: &str, value: f64, target: f64, unit: &'static str) {
        if !self.has_head {
            println!("{:<48} {:>12} {:>12} {:>12}", "what", "min", "median", "target");
            self.has_head = true;
        }
        Figure::new(name, value, unit.trim()).at_most(target).tell();
        let (target, verdict) = match target.is_finite() {
            true => (
                format!("{target}{unit}"),
                if value <= target { "pass" } else { "MISS" },
            ),
            false => ("-".to_owned(), ""),
        };
        println!("{name:<48} {least:>12} {middle:>12} {target:>12}  {verdict}");
    }
}
