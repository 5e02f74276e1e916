//! Laws of the timeline and its view, over generated conversations: parallel calls, several turns, writes, reads,
//! hides, prunes, summaries, attachments, calls left open, results without a count, types nobody knows.

#[path = "../common/mod.rs"]
mod common;
mod events;
mod sent;

use std::collections::HashMap;

use annals_core::block::{BlobDigest, Block, BlockJson, BlockKind, Body, MessageKind};
use annals_core::ids::CallId;
use annals_core::path::LogicalPath;
use annals_core::settings::CacheSettings;
use annals_core::turn::{Budget, next};
use annals_core::view::View;
use annals_core::view::prompt::Prompt;
use annals_core::view::why::{BreakCause, PrefixBreak, Requested};
use annals_core::view::{CachePoint, CachePoints, Layout, ViewRenderer, why};
use events::{events, play};
use proptest::prelude::*;
use sent::{Bytes, calls_and_replies, check_exchanges, marks};

fn changes_the_prefix(block: &Block) -> bool {
    matches!(block.kind, BlockKind::TimelineHide | BlockKind::RangeSummary)
        || block.meta().message_kind() == Some(MessageKind::CacheTtlPruned)
}

fn render(timeline: &View, layout: Layout) -> Prompt {
    ViewRenderer::new(layout).prompt(timeline, &CacheSettings::default(), "".into(), [].into(), None)
}

/// Few cases, because each is a whole conversation looked at after every block; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(32),
        max_shrink_iters: 5_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_rendered_up_to_the_tail_stays_a_prefix(events in events()) {
        for layout in [Layout::Chat, Layout::Timeline] {
            let mut renderer = ViewRenderer::new(layout);
            let mut before: Vec<u8> = Vec::new();
            play(&events, &mut |timeline| {
                let prompt = renderer.prompt(timeline, &CacheSettings::default(), "".into(), [].into(), None);
                let now = Bytes::of(&prompt.messages);
                let last = timeline.blocks().last().unwrap();
                prop_assert!(
                    changes_the_prefix(last) || now.bytes.starts_with(&before),
                    "{layout:?} after block {} {}:\n{}\nbecame\n{}",
                    last.seq, last.kind, String::from_utf8_lossy(&before), String::from_utf8_lossy(&now.bytes),
                );
                before = now.bytes[..now.up_to_tail].to_vec();
                Ok(())
            })?;
        }
    }

    #[test]
    fn where_and_why_a_prefix_broke_is_told(events in events()) {
        for layout in [Layout::Chat, Layout::Timeline] {
            let mut before = View::default();
            play(&events, &mut |timeline| {
                let of = |view, layout| Requested { view, layout };
                let report = why::compare(of(&before, layout), of(timeline, layout));
                let relaid = why::compare(of(timeline, Layout::Chat), of(timeline, Layout::Timeline));
                let is_layout = |broke: &PrefixBreak| matches!(broke.cause, Some(BreakCause::Layout { layout: Layout::Timeline }));
                prop_assert!(relaid.broke.as_ref().is_none_or(is_layout), "{:?}", relaid);
                let last = timeline.blocks().last().unwrap();
                let is_new_offer = before.tools().is_some() && before.tools() != timeline.tools();
                prop_assert!(report.broke.is_none() || is_new_offer || changes_the_prefix(last), "{:?}", report);
                let cause = report.broke.as_ref().and_then(|broke| broke.cause.as_ref());
                prop_assert_eq!(matches!(cause, Some(BreakCause::Offer { seq, .. }) if *seq == last.seq), is_new_offer);
                if let Some(broke) = &report.broke {
                    prop_assert!(broke.block_seq < last.seq);
                    prop_assert!(broke.again_tokens <= broke.lost_tokens.min(report.new_tokens), "{:?}", report);
                    prop_assert_eq!(broke.cause.is_some(), last.kind != BlockKind::SystemMessage);
                }
                before = timeline.clone();
                Ok(())
            })?;
        }
    }

    #[test]
    fn the_digest_of_a_prompt_changes_with_what_is_read_and_with_nothing_else(events in events()) {
        let mut digests: HashMap<BlobDigest, Vec<u8>> = HashMap::new();
        for layout in [Layout::Chat, Layout::Timeline] {
            play(&events, &mut |timeline| {
                let prompt = render(timeline, layout);
                prop_assert_eq!(prompt.digest(), render(&timeline.at(timeline.tail().unwrap()), layout).digest());
                let bytes = Bytes::of(&prompt.messages).bytes;
                let same = digests.entry(prompt.digest()).or_insert_with(|| bytes.clone());
                prop_assert_eq!(&*same, &bytes);
                Ok(())
            })?;
        }
    }

    #[test]
    fn a_renderer_that_follows_equals_one_that_begins_now(events in events(), every in 1..5_usize) {
        for layout in [Layout::Chat, Layout::Timeline] {
            let mut follows = ViewRenderer::new(layout);
            play(&events, &mut |timeline| {
                if timeline.blocks().len().is_multiple_of(every) {
                    let prompt = follows.prompt(timeline, &CacheSettings::default(), "".into(), [].into(), None);
                    prop_assert_eq!(follows.digest(&prompt), prompt.digest());
                    prop_assert_eq!(prompt, render(timeline, layout));
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn every_call_has_its_reply_and_every_reply_its_call(events in events()) {
        play(&events, &mut |timeline| {
            if timeline.open_calls().next().is_none() {
                check_exchanges(&render(timeline, Layout::Chat).messages)?;
                let seen = calls_and_replies(timeline);
                prop_assert!(seen.calls.is_subset(&seen.replies), "{:?} have no reply", seen.calls.difference(&seen.replies));
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_is_hidden_pruned_or_summarised_is_still_found_whole(events in events()) {
        let timeline = play(&events, &mut |_| Ok(()))?;
        let is_digest = |block: &Block| block.kind == BlockKind::UserAttachmentMeta || block.meta().is_digest;
        let mut contents: HashMap<LogicalPath, Vec<u64>> = HashMap::new();
        for block in timeline.blocks().iter().filter(|block| !is_digest(block)) {
            if let Some(path) = &block.path {
                contents.entry(path.clone()).or_default().push(block.seq.get());
            }
        }
        for (path, mut seqs) in contents {
            seqs.reverse();
            let found: Vec<u64> = timeline.versions(&path).map(|block| block.seq.get()).collect();
            prop_assert_eq!(&found, &seqs, "{}", path);
            prop_assert_eq!(timeline.latest(&path).map(|block| block.seq.get()), seqs.first().copied());
            let visible = timeline.visible_content(&path);
            prop_assert!(visible.is_none_or(|block| timeline.is_visible(block)));
        }
    }

    #[test]
    fn a_cache_mark_is_never_lost(events in events()) {
        let settings = CacheSettings::default();
        for layout in [Layout::Chat, Layout::Timeline] {
            play(&events, &mut |timeline| {
                let marks = marks(&render(timeline, layout));
                let points = CachePoints::of(timeline, &settings);
                for point in [CachePoint::PrevTurn, CachePoint::PreTail, CachePoint::Tail] {
                    let count = marks.iter().filter(|mark| **mark == point).count();
                    let coincides = marks.iter().any(|mark| *mark > point);
                    prop_assert!(count <= 1);
                    prop_assert_eq!(count == 1 || coincides, points.has(point) || coincides, "{:?} of {:?}", point, marks);
                }
                Ok(())
            })?;
        }
    }

    #[test]
    fn folding_at_once_equals_folding_one_by_one_and_any_moment_can_be_seen_again(
        events in events(),
        at in any::<prop::sample::Index>(),
    ) {
        let mut moments = Vec::new();
        let whole = play(&events, &mut |timeline| {
            let open: Vec<CallId> = timeline.open_calls().map(|call| call.id.clone()).collect();
            moments.push((render(timeline, Layout::Chat), timeline.view_tokens(), open, timeline.clone()));
            Ok(())
        })?;
        let folded = View::fold(whole.blocks().iter().cloned()).unwrap();
        let moment = at.index(moments.len());
        let block = whole.blocks()[moment].seq;
        for (seen, again) in [(moments.len() - 1, folded), (moment, whole.at(block))] {
            let (prompt, tokens, open, timeline) = &moments[seen];
            prop_assert_eq!(prompt, &render(&again, Layout::Chat));
            prop_assert_eq!(*tokens, again.view_tokens());
            prop_assert_eq!(open, &again.open_calls().map(|call| call.id.clone()).collect::<Vec<_>>());
            prop_assert_eq!(timeline.turns(), again.turns());
            prop_assert_eq!(timeline.pool(), again.pool());
        }
    }

    #[test]
    fn the_view_costs_what_its_parts_cost(events in events()) {
        play(&events, &mut |timeline| {
            let parts: u64 = timeline.parts(Layout::Timeline).map(|part| u64::from(part.tokens)).sum();
            let signed = timeline.blocks().iter().any(|block| block.meta().get("signature").is_some());
            // Signed reasoning goes back to the vendor only, and an empty block says nothing: both still count.
            prop_assert!(parts <= timeline.view_tokens());
            let bare = timeline.blocks().iter().any(|block| block.body == Body::Empty && block.kind == BlockKind::UserAttachment);
            prop_assert!(signed || bare || parts == timeline.view_tokens(), "{} of {}", parts, timeline.view_tokens());
            Ok(())
        })?;
    }

    #[test]
    fn the_next_step_follows_from_the_blocks_alone(events in events(), window_tokens in 0..4_000_u32, max_iterations in 1..5_u32) {
        let budget = Budget { window_tokens, overhead_tokens: 100, max_iterations };
        play(&events, &mut |timeline| {
            let folded = View::fold(timeline.blocks().iter().cloned()).unwrap();
            prop_assert_eq!(next(timeline, &budget), next(&folded, &budget));
            Ok(())
        })?;
    }

    #[test]
    fn every_block_survives_its_json_form(events in events()) {
        let timeline = play(&events, &mut |_| Ok(()))?;
        for block in timeline.blocks() {
            let json = serde_json::to_string(&BlockJson::from(&**block)).unwrap();
            let (again, bytes) = serde_json::from_str::<BlockJson>(&json).unwrap().into_block().unwrap();
            prop_assert_eq!(&again, &**block);
            prop_assert_eq!(bytes, None);
        }
    }
}
