//! The view taken apart for people and programs that look at it: each part with its block, its cost and its cache point.
//!
//! The texts are those of the `timeline` layout, calls that are still running among them. Nothing is sent from here.

use std::sync::Arc;

use serde::Serialize;

use super::cache::CachePoints;
use super::fold::View;
use super::part::{Part, PartBody};
use super::prompt::CachePoint;
use super::render::Layout;
use super::tail::Tail;
use super::template;
use crate::block::{Blob, Mime};
use crate::ids::Seq;
use crate::settings::CacheSettings;

/// One part of the view.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutlinePart {
    /// What it shows.
    #[serde(flatten)]
    pub body: OutlineBody,
    /// The cache point after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_point: Option<u8>,
    /// The block it comes from; the tail comes from none.
    pub block_seq: Option<Seq>,
    /// What its block costs; on the first part of a block only.
    pub tokens: u32,
}

/// What a part shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutlineBody {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Its type.
        media_type: Mime,
        /// Its bytes.
        #[serde(skip)]
        blob: Blob,
    },
    /// A document.
    Document {
        /// Its type.
        media_type: Mime,
        /// Its bytes.
        #[serde(skip)]
        blob: Blob,
    },
}

impl OutlineBody {
    fn of(part: &Part) -> Vec<Self> {
        let mut bodies = Vec::new();
        let text = match &part.body {
            PartBody::Text(text) => format!("{}{text}", part.head),
            PartBody::None | PartBody::Media { .. } => part.head.clone(),
        };
        if !text.trim().is_empty() {
            bodies.push(OutlineBody::Text { text });
        }
        if let PartBody::Media { mime, blob } = &part.body {
            let (media_type, blob) = (mime.clone(), *blob);
            bodies.push(match mime.starts_with("image/") {
                true => OutlineBody::Image { media_type, blob },
                false => OutlineBody::Document { media_type, blob },
            });
        }
        bodies
    }

    /// The body as text; media as a line that tells type and size.
    pub fn text(&self) -> Arc<str> {
        match self {
            OutlineBody::Text { text } => text.as_str().into(),
            OutlineBody::Image { media_type, blob } | OutlineBody::Document { media_type, blob } => {
                let mut line = String::new();
                super::part::write_media(&mut line, media_type, blob);
                line.into()
            }
        }
    }
}

/// A place worth caching up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OutlineMark {
    /// 1 the turns before, 2 some rounds before the tail, 3 the tail.
    pub point: u8,
    /// The part it comes after, from 0.
    pub part: usize,
    /// The block of that part.
    pub block_seq: Option<Seq>,
}

/// The whole view, taken apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outline {
    /// Parts, oldest first, the tail last.
    pub parts: Vec<OutlinePart>,
    /// Where the prefix is worth caching.
    pub cache_points: Vec<OutlineMark>,
    /// Tokens of all parts but the tail.
    pub tokens: u64,
}

impl Outline {
    /// The view of this timeline with its cache points, and the tail after it.
    pub fn of(view: &View, cache: &CacheSettings, tail: Option<&Tail>) -> Self {
        let marks: Vec<(CachePoint, usize)> = CachePoints::of(view, cache).marks().collect();
        let mut parts: Vec<OutlinePart> = Vec::new();
        let mut cache_points = Vec::new();
        for (at, slot) in view.slots().list().iter().enumerate() {
            for part in template::parts(view, slot, Layout::Timeline) {
                push(&mut parts, &part);
            }
            // A slot without text passes its mark on to the last part before it.
            for (point, _) in marks.iter().filter(|(_, marked)| *marked == at) {
                let Some(last) = parts.len().checked_sub(1) else {
                    continue;
                };
                parts[last].cache_point = parts[last].cache_point.max(Some(point.number()));
                cache_points.push(OutlineMark {
                    point: point.number(),
                    part: last,
                    block_seq: parts[last].block_seq,
                });
            }
        }
        for text in tail.map(Tail::texts).unwrap_or_default() {
            let tokens = crate::tokens::count(&text);
            let body = OutlineBody::Text {
                text: text.trim_start().to_owned(),
            };
            parts.push(OutlinePart {
                body,
                cache_point: None,
                block_seq: None,
                tokens,
            });
        }
        Outline {
            parts,
            cache_points,
            tokens: view.view_tokens(),
        }
    }

    /// The view as text, with a line `=>[n]` after each part that closes a cache point.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                text.push_str("\n\n");
            }
            text.push_str(&part.body.text());
            let mut points: Vec<u8> = self
                .cache_points
                .iter()
                .filter(|mark| mark.part == at)
                .map(|mark| mark.point)
                .collect();
            points.dedup();
            for point in points {
                text.push_str(&format!("\n=>[{point}]"));
            }
        }
        text.push('\n');
        text
    }
}

fn push(parts: &mut Vec<OutlinePart>, part: &Part) {
    for (at, body) in OutlineBody::of(part).into_iter().enumerate() {
        let tokens = if at == 0 { part.tokens } else { 0 };
        parts.push(OutlinePart {
            body,
            cache_point: None,
            block_seq: Some(part.seq),
            tokens,
        });
    }
}
