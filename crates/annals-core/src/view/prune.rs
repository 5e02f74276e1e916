//! TTL pruning: once the provider's cache has gone cold, changing the prefix costs nothing, so old turns shrink.
//!
//! Pruning only plans; the plan becomes a `timeline.hide` block and a `system.message` of kind `cache_ttl_pruned`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::cut;
use super::fold::View;
use crate::block::payload::HideItem;
use crate::block::{Blob, Block, BlockKind, Body};
use crate::path::LogicalPath;
use crate::settings::SessionSettings;
use crate::time::Timestamp;

/// What to hide, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunePlan {
    /// Paths with what stands in their place.
    pub items: Vec<HideItem>,
}

/// The plan, if the cache is cold and there is something to give up.
pub fn plan(view: &View, settings: &SessionSettings, now: Timestamp) -> Option<PrunePlan> {
    let last_touch = view.turns().iter().rev().find_map(|turn| turn.last_answer)?;
    let cold_after = settings
        .cache_ttl_seconds
        .saturating_sub(settings.cache_ttl_prune_buffer_seconds);
    if now.seconds_since(last_touch) < cold_after {
        return None;
    }
    let mut planner = Planner {
        view,
        settings,
        seen: HashSet::new(),
        items: Vec::new(),
    };
    planner.prune_old_turns();
    planner.prune_large_binaries();
    (!planner.items.is_empty()).then_some(PrunePlan { items: planner.items })
}

struct Planner<'a> {
    view: &'a View,
    settings: &'a SessionSettings,
    seen: HashSet<LogicalPath>,
    items: Vec<HideItem>,
}

impl Planner<'_> {
    fn prune_old_turns(&mut self) {
        let turns = self.view.turns();
        let old = turns
            .len()
            .saturating_sub(self.settings.keep_recent_turns as usize);
        for turn in &turns[..old] {
            for block in self.view.turn_blocks(turn) {
                if self.view.is_visible(block)
                    && let Some(replacement) = self.short_form(block)
                {
                    self.hide(block, replacement);
                }
            }
        }
    }

    /// Between the old turns and the intact ones, images and PDFs give way but for the newest.
    fn prune_large_binaries(&mut self) {
        let turns = self.view.turns();
        let old = turns
            .len()
            .saturating_sub(self.settings.keep_recent_turns as usize);
        let intact = turns
            .len()
            .saturating_sub(self.settings.keep_recent_intact_turns as usize)
            .max(old);
        let max_sum = self.settings.cache_truncation_max_image_pdf_b64_sum as u64;
        let (mut kept, mut base64_sum) = (0, 0);
        let blocks = turns[old..intact]
            .iter()
            .rev()
            .flat_map(|turn| self.view.turn_blocks(turn).iter().rev());
        let shown: Vec<_> = blocks
            .filter(|block| self.view.is_visible(block))
            .cloned()
            .collect();
        for block in shown {
            let Some(blob) = block.blob() else { continue };
            let base64 = base64_chars(blob);
            if kept < self.settings.cache_truncation_keep_recent_images && base64_sum + base64 <= max_sum {
                kept += 1;
                base64_sum += base64;
            } else {
                self.hide(&block, file_form(&block));
            }
        }
    }

    fn hide(&mut self, block: &Block, replacement: String) {
        if let Some(path) = &block.path
            && self.seen.insert(path.clone())
        {
            self.items.push(HideItem {
                path: path.clone(),
                replacement,
                from_seq: None,
            });
        }
    }

    /// What a block of an old turn shrinks to; `None` when it is small already.
    fn short_form(&self, block: &Block) -> Option<String> {
        // A call that cannot be read is a text like any other.
        if let Some(params) = params_of(block) {
            let short = self.short_value(&params);
            return (short != params).then(|| short.to_string());
        }
        let max_text = self.settings.cache_truncation_max_text_chars;
        match (&block.kind, &block.body) {
            (BlockKind::TurnHeader | BlockKind::RangeSummary, _) | (_, Body::Empty) => None,
            (_, Body::Blob(blob)) => (base64_chars(blob)
                > self.settings.cache_truncation_max_base64_chars as u64)
                .then(|| file_form(block)),
            (_, Body::Text(text)) if text.chars().nth(max_text).is_none() => None,
            (BlockKind::ToolResult | BlockKind::UserAttachment, Body::Text(text)) => match &block.path {
                Some(path) if path.physical().is_some() => Some(file_form(block)),
                _ => Some(format!("[TRUNCATED] {}", cut::brief(text, max_text))),
            },
            (_, Body::Text(text)) => Some(format!("[TRUNCATED] {}", cut::brief(text, max_text))),
        }
    }

    fn short_value(&self, value: &Value) -> Value {
        let max_items = self.settings.cache_truncation_max_list_items;
        let max_keys = self.settings.cache_truncation_max_dict_keys;
        match value {
            Value::String(text) => {
                Value::String(cut::brief(text, self.settings.cache_truncation_max_field_chars))
            }
            Value::Array(items) => {
                let mut short: Vec<Value> = items
                    .iter()
                    .take(max_items)
                    .map(|item| self.short_value(item))
                    .collect();
                if items.len() > max_items {
                    short.push(format!("… [{} more items]", items.len() - max_items).into());
                }
                Value::Array(short)
            }
            Value::Object(fields) => {
                let shorten = |(name, value): (&String, &Value)| (name.clone(), self.short_value(value));
                let mut short: Map<String, Value> = fields.iter().take(max_keys).map(shorten).collect();
                if fields.len() > max_keys {
                    short.insert(
                        "…".into(),
                        format!("{} more keys", fields.len() - max_keys).into(),
                    );
                }
                Value::Object(short)
            }
            other => other.clone(),
        }
    }
}

fn base64_chars(blob: &Blob) -> u64 {
    blob.size_bytes.div_ceil(3).saturating_mul(4)
}

/// The parameters of a call.
fn params_of(block: &Block) -> Option<Value> {
    #[derive(serde::Deserialize)]
    struct Call {
        params: Value,
    }
    let call: Call = (block.kind == BlockKind::ToolCall).then(|| block.folded_payload())??;
    Some(call.params)
}

fn file_form(block: &Block) -> String {
    let size = match &block.body {
        Body::Blob(blob) => blob.size_bytes,
        Body::Text(text) => text.len() as u64,
        Body::Empty => 0,
    };
    let path = block.path.as_ref().map_or("", LogicalPath::as_str);
    format!("[TRUNCATED FILE] path={path} mime={} size={size}", block.mime)
}
