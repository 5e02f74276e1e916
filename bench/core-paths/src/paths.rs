//! The paths. Each prepares outside of `measured` and does inside of it what one user's action costs, several times
//! over where once would be too little to count.

use std::hint::black_box;
use std::sync::Arc;

use annals_core::block::{Block, BlockJson};
use annals_core::path::LogicalPath;
use annals_core::redact::Redactor;
use annals_core::settings::{CacheSettings, SessionSettings};
use annals_core::time::Timestamp;
use annals_core::timeline::HideReason;
use annals_core::tokens;
use annals_core::turn::outcome::HideItem;
use annals_core::turn::{Budget, next, round};
use annals_core::view::View;
use annals_core::view::compact::{self, Force};
use annals_core::view::{Layout, ViewRenderer, prune};

use crate::conversation::{BLOCK_BYTES, Writer, words};
use crate::measured;

/// Long enough that a walk over the timeline would show.
const BLOCKS: usize = 2_000;
const TIMES: usize = 10;

/// Every path by its name in `bench/budgets.toml`.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("append_round", append_round),
    ("render_round", render_round),
    ("prompt", prompt),
    ("prompt_digest", prompt_digest),
    ("redact", redact),
    ("next", next_step),
    ("lookup", lookup),
    ("hide", hide),
    ("token_count", token_count),
    ("compaction_plan", compaction_plan),
    ("prune_plan", prune_plan),
    ("block_encode", block_encode),
    ("block_decode", block_decode),
    ("first_render", first_render),
];

fn push(timeline: &mut View, blocks: Vec<Arc<Block>>) {
    for block in blocks {
        timeline.push(block).expect("in order");
    }
}

fn append_round() {
    let mut writer = Writer::new();
    let mut timeline = writer.timeline(BLOCKS);
    let rounds: Vec<_> = (0..TIMES).map(|_| writer.round()).collect();
    measured(|| rounds.into_iter().for_each(|round| push(&mut timeline, round)));
    black_box(timeline);
}

fn render_round() {
    let mut writer = Writer::new();
    let mut timeline = writer.timeline(BLOCKS);
    let mut renderer = ViewRenderer::new(Layout::Chat);
    renderer.update(&timeline);
    for _ in 0..TIMES {
        push(&mut timeline, writer.round());
    }
    measured(|| renderer.update(&timeline));
    black_box(renderer);
}

fn prompt() {
    let timeline = Writer::new().timeline(BLOCKS);
    let mut renderer = ViewRenderer::new(Layout::Chat);
    renderer.update(&timeline);
    let cache = CacheSettings::default();
    measured(|| renderer.prompt(&timeline, &cache, "".into(), [].into(), None));
}

fn prompt_digest() {
    let mut writer = Writer::new();
    let mut timeline = writer.timeline(BLOCKS);
    let mut renderer = ViewRenderer::new(Layout::Chat);
    let cache = CacheSettings::default();
    let first = renderer.prompt(&timeline, &cache, "".into(), [].into(), None);
    renderer.digest(&first);
    push(&mut timeline, writer.round());
    let prompt = renderer.prompt(&timeline, &cache, "".into(), [].into(), None);
    measured(|| renderer.digest(&prompt));
}

fn redact() {
    let text = words(TIMES * BLOCK_BYTES);
    let redactor = Redactor::default();
    redactor.redact("tables are made at the first look");
    measured(|| redactor.redact(&text));
}

fn next_step() {
    let timeline = Writer::new().timeline(BLOCKS);
    let budget = Budget {
        window_tokens: u32::MAX,
        overhead_tokens: 0,
        max_iterations: 1_000,
    };
    measured(|| {
        for _ in 0..TIMES {
            black_box(next(&timeline, &budget));
        }
    });
}

fn lookup() {
    let timeline = Writer::new().timeline(BLOCKS);
    let paths = timeline.blocks().iter().filter_map(|block| block.path.clone());
    let paths: Vec<LogicalPath> = paths.step_by(BLOCKS / 100).collect();
    measured(|| {
        for path in &paths {
            black_box(timeline.latest(path));
        }
    });
}

fn hide() {
    let mut writer = Writer::new();
    let mut timeline = writer.timeline(BLOCKS);
    let path = timeline.blocks().last().and_then(|block| block.path.clone());
    let path = path.expect("a round ends with a file");
    let cache = CacheSettings {
        editable_tail_size_in_tokens: u32::MAX,
        cache_point_offset_rounds: 1_000,
        ..CacheSettings::default()
    };
    let item = HideItem {
        path: path.clone(),
        replacement: "a report".into(),
        from_seq: None,
    };
    let hide = round::hide_block(&timeline, &writer.turn, HideReason::Hide, vec![item]).expect("one item");
    let hide = writer.seal(hide);
    measured(|| {
        black_box(timeline.hide_check(&path, &cache));
        timeline.push(hide).expect("in order");
    });
    black_box(timeline);
}

fn token_count() {
    let text = words(TIMES * BLOCK_BYTES);
    tokens::count("loads the vocabulary");
    measured(|| tokens::count(&text));
}

fn compaction_plan() {
    let timeline = Writer::new().timeline(BLOCKS);
    let window_tokens = u32::try_from(timeline.view_tokens() / 2).expect("a short conversation");
    measured(|| compact::plan(&timeline, window_tokens, Force::Budget).expect("too long"));
}

fn prune_plan() {
    let timeline = Writer::new().timeline(BLOCKS);
    let settings = SessionSettings {
        keep_recent_turns: 3,
        cache_truncation_max_text_chars: 500,
        cache_truncation_max_field_chars: 100,
        ..SessionSettings::default()
    };
    let later = Timestamp::from_unix_micros(1_870_603_272_676_425);
    measured(|| prune::plan(&timeline, &settings, later).expect("old turns"));
}

fn block_encode() {
    let blocks = Writer::new().round();
    measured(|| {
        for block in &blocks {
            let json = serde_json::to_string(&BlockJson::from(&**block)).expect("plain data");
            black_box(json);
        }
    });
}

fn block_decode() {
    let encode = |block: &Arc<Block>| serde_json::to_string(&BlockJson::from(&**block)).expect("plain data");
    let texts: Vec<String> = Writer::new().round().iter().map(encode).collect();
    tokens::count("loads the vocabulary");
    measured(|| {
        for text in &texts {
            let json: BlockJson = serde_json::from_str(text).expect("what was written");
            black_box(json.into_block().expect("a block"));
        }
    });
}

fn first_render() {
    let timeline = Writer::new().timeline(BLOCKS);
    let mut renderer = ViewRenderer::new(Layout::Timeline);
    measured(|| renderer.update(&timeline));
    black_box(renderer);
}
