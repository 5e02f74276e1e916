//! A provider's prompt cache, simulated on the prompts that were sent.
//!
//! Follows the published rules of Anthropic's cache: a prefix is stored only where a breakpoint stands, is found
//! again from a later breakpoint or from a few blocks before it, and must be long enough. Entries never expire
//! here. The test of the cache's hit rate and the usage of script models are counted with it; the real adapter
//! places its breakpoints by the same reading of a prompt.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::Arc;

use annals_core::tokens::{self, MediaRule};
use annals_core::view::prompt::{AssistantPiece, Message, Piece, PieceBody, Prompt, ToolSchema};
use hashbrown::{DefaultHashBuilder, HashMap, HashSet};

/// What the simulated provider does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// Shorter prefixes are not stored.
    pub min_prefix_tokens: u64,
    /// How many blocks are searched for a stored prefix, the breakpoint itself and those before it.
    pub lookback_blocks: usize,
}

impl Default for CacheRules {
    fn default() -> Self {
        CacheRules {
            min_prefix_tokens: 1_024,
            lookback_blocks: 20,
        }
    }
}

/// How one prompt met the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheReading {
    /// The whole prompt.
    pub input_tokens: u64,
    /// Tokens of the longest stored prefix that a breakpoint found.
    pub read_tokens: u64,
    /// Tokens stored by this prompt.
    pub write_tokens: u64,
    /// Tokens of the longest prefix that any earlier prompt had: what a perfect cache would have read.
    pub reusable_tokens: u64,
}

/// The cache, and everything it was sent.
#[derive(Debug, Default)]
pub struct CacheSim {
    rules: CacheRules,
    hasher: DefaultHashBuilder,
    /// Length in tokens of every prefix that was ever sent, so that a block is counted once.
    seen: HashMap<u64, u64>,
    stored: HashSet<u64>,
    header: Option<Header>,
}

/// Tools and system text rarely change: hashed once as long as they are the same allocation.
#[derive(Debug)]
struct Header {
    tools: Arc<[ToolSchema]>,
    system: Arc<str>,
    prefix: u64,
    tokens: u64,
}

/// A prefix of the prompt that ends with some block.
#[derive(Clone, Copy)]
struct Prefix {
    hash: u64,
    tokens: u64,
    is_breakpoint: bool,
    /// Reasoning cannot carry a breakpoint.
    is_thinking: bool,
}

impl CacheSim {
    /// An empty cache with these rules.
    pub fn new(rules: CacheRules) -> Self {
        CacheSim {
            rules,
            ..CacheSim::default()
        }
    }

    /// Sends one prompt.
    pub fn send(&mut self, prompt: &Prompt) -> CacheReading {
        let mut walk = Walk {
            prefixes: Vec::with_capacity(prompt.messages.len() + 1),
            reusable_tokens: 0,
            is_known: true,
        };
        self.push_header(prompt, &mut walk);
        for message in &prompt.messages {
            self.push_message(message, &mut walk);
        }
        let Walk {
            prefixes,
            reusable_tokens,
            ..
        } = walk;
        let long_enough = |tokens: u64| tokens >= self.rules.min_prefix_tokens;
        let breakpoints = || (0..prefixes.len()).rev().filter(|&at| prefixes[at].is_breakpoint);
        let found = breakpoints()
            .filter_map(|at| {
                let oldest = at.saturating_sub(self.rules.lookback_blocks.saturating_sub(1));
                prefixes[oldest..=at]
                    .iter()
                    .rev()
                    .find(|prefix| self.stored.contains(&prefix.hash))
            })
            .map(|prefix| prefix.tokens)
            .max();
        let read_tokens = found.unwrap_or(0);
        let last_breakpoint_tokens = breakpoints().next().map_or(0, |at| prefixes[at].tokens);
        let write_tokens = if long_enough(last_breakpoint_tokens) {
            last_breakpoint_tokens.saturating_sub(read_tokens)
        } else {
            0
        };
        for at in breakpoints() {
            if long_enough(prefixes[at].tokens) {
                self.stored.insert(prefixes[at].hash);
            }
        }
        CacheReading {
            input_tokens: prefixes.last().map_or(0, |prefix| prefix.tokens),
            read_tokens,
            write_tokens,
            reusable_tokens: if long_enough(reusable_tokens) {
                reusable_tokens
            } else {
                0
            },
        }
    }

    fn push_header(&mut self, prompt: &Prompt, walk: &mut Walk) {
        let is_same = self.header.as_ref().is_some_and(|header| {
            Arc::ptr_eq(&header.tools, &prompt.tools) && Arc::ptr_eq(&header.system, &prompt.system)
        });
        if !is_same {
            let tools = serde_json::to_string(&prompt.tools).expect("schemas are plain JSON");
            let prefix = self.hasher.hash_one((&tools, &*prompt.system));
            let tokens = self.seen.get(&prefix).copied().unwrap_or_else(|| {
                let tools_tokens = if prompt.tools.is_empty() {
                    0
                } else {
                    tokens::count(&tools)
                };
                u64::from(tools_tokens) + u64::from(tokens::count(&prompt.system))
            });
            let (tools, system) = (Arc::clone(&prompt.tools), Arc::clone(&prompt.system));
            self.header = Some(Header {
                tools,
                system,
                prefix,
                tokens,
            });
        }
        let header = self.header.as_ref().expect("it was just made");
        let (hash, tokens) = (header.prefix, header.tokens);
        walk.is_known = self.seen.insert(hash, tokens).is_some();
        walk.reusable_tokens = if walk.is_known { tokens } else { 0 };
        walk.prefixes.push(Prefix {
            hash,
            tokens,
            is_breakpoint: tokens > 0,
            is_thinking: false,
        });
    }

    fn push_message(&mut self, message: &Message, walk: &mut Walk) {
        match message {
            Message::User(pieces) => {
                for piece in pieces {
                    self.push_block(walk, "user", &[piece], None);
                }
            }
            Message::Assistant(pieces) => {
                for piece in pieces {
                    match piece {
                        AssistantPiece::Thinking { text, .. } => {
                            self.push_block(walk, "thinking", &[&Piece::text(Arc::clone(text))], None);
                        }
                        AssistantPiece::Text(piece) => self.push_block(walk, "assistant", &[piece], None),
                        AssistantPiece::Call(call) => {
                            let mark = Piece {
                                cache_point: call.cache_point,
                                ..Piece::text(Arc::clone(&call.arguments))
                            };
                            self.push_block(walk, "call", &[&mark], Some(&call.tool));
                        }
                    }
                }
            }
            Message::Tool(replies) => {
                for reply in replies {
                    let pieces: Vec<&Piece> = reply.pieces.iter().collect();
                    self.push_block(walk, "reply", &pieces, Some(reply.call.as_str()));
                }
            }
        }
    }

    /// One block of the wire: a reply is one, whatever it is made of. An empty text is none, and its mark moves back.
    fn push_block(&mut self, walk: &mut Walk, role: &str, pieces: &[&Piece], name: Option<&str>) {
        let is_marked = pieces.iter().any(|piece| piece.cache_point.is_some());
        let is_empty = pieces
            .iter()
            .all(|piece| matches!(&piece.body, PieceBody::Text(text) if text.trim().is_empty()));
        let before = *walk.prefixes.last().expect("the header comes first");
        if name.is_none() && is_empty {
            let carrier = walk.prefixes.iter_mut().rev().find(|prefix| !prefix.is_thinking);
            carrier.expect("the header comes first").is_breakpoint |= is_marked;
            return;
        }
        let mut state = self.hasher.build_hasher();
        (before.hash, role, name).hash(&mut state);
        for piece in pieces {
            match &piece.body {
                PieceBody::Text(text) => text.hash(&mut state),
                PieceBody::Media { blob, .. } => blob.hash(&mut state),
            }
        }
        let hash = state.finish();
        let known = self.seen.get(&hash).copied();
        let tokens = known.unwrap_or_else(|| {
            let own: u64 = pieces.iter().map(|piece| piece_tokens(piece)).sum();
            before.tokens + own + name.map_or(0, |name| u64::from(tokens::count(name)))
        });
        self.seen.insert(hash, tokens);
        walk.is_known &= known.is_some();
        if walk.is_known {
            walk.reusable_tokens = tokens;
        }
        walk.prefixes.push(Prefix {
            hash,
            tokens,
            is_breakpoint: is_marked,
            is_thinking: role == "thinking",
        });
    }
}

struct Walk {
    prefixes: Vec<Prefix>,
    reusable_tokens: u64,
    /// Whether every prefix so far had been sent before.
    is_known: bool,
}

fn piece_tokens(piece: &Piece) -> u64 {
    match &piece.body {
        PieceBody::Text(text) => u64::from(tokens::count(text)),
        PieceBody::Media { mime, blob } => {
            u64::from(MediaRule::default().tokens(mime, blob.size_bytes, None, None))
        }
    }
}

#[cfg(test)]
mod tests {
    use annals_core::view::prompt::CachePoint;

    use super::*;

    fn words(count: usize) -> String {
        "word ".repeat(count)
    }

    fn prompt(pieces: Vec<Piece>) -> Prompt {
        Prompt {
            system: "Be brief.".into(),
            tools: [].into(),
            messages: vec![Message::User(pieces)].into(),
        }
    }

    fn tail(text: &str) -> Piece {
        Piece {
            cache_point: Some(CachePoint::Tail),
            ..Piece::text(text)
        }
    }

    #[test]
    fn the_second_prompt_reads_what_the_first_one_stored() {
        let mut sim = CacheSim::default();
        let first = sim.send(&prompt(vec![tail(&words(2_000)), Piece::text("announce 1")]));
        assert_eq!(first.read_tokens, 0);
        assert!(first.write_tokens >= 2_000 && first.write_tokens < first.input_tokens);
        let more = vec![
            Piece::text(words(2_000)),
            tail(&words(500)),
            Piece::text("announce 2"),
        ];
        let second = sim.send(&prompt(more));
        assert_eq!(second.read_tokens, first.write_tokens);
        assert_eq!(second.reusable_tokens, first.write_tokens);
        assert!(second.write_tokens >= 500);
    }

    #[test]
    fn a_short_prefix_is_not_stored() {
        let mut sim = CacheSim::default();
        for _ in 0..2 {
            let reading = sim.send(&prompt(vec![tail("hello")]));
            assert_eq!(
                (reading.read_tokens, reading.write_tokens, reading.reusable_tokens),
                (0, 0, 0)
            );
        }
    }

    #[test]
    fn a_changed_piece_in_front_loses_everything_behind_it() {
        let mut sim = CacheSim::default();
        sim.send(&prompt(vec![Piece::text("clock 10:00"), tail(&words(2_000))]));
        let reading = sim.send(&prompt(vec![Piece::text("clock 10:01"), tail(&words(2_000))]));
        assert_eq!(reading.read_tokens, 0);
    }

    #[test]
    fn a_stored_prefix_is_lost_when_it_lies_further_back_than_the_lookback() {
        let blocks_between = |count: usize| {
            let mut sim = CacheSim::default();
            let first = Piece::text(words(2_000));
            sim.send(&prompt(vec![Piece {
                cache_point: Some(CachePoint::Tail),
                ..first.clone()
            }]));
            let mut pieces = vec![first];
            pieces.extend((0..count).map(|n| Piece::text(format!("result {n}"))));
            pieces.last_mut().unwrap().cache_point = Some(CachePoint::Tail);
            sim.send(&prompt(pieces)).read_tokens
        };
        assert!(blocks_between(19) > 0);
        assert_eq!(blocks_between(20), 0);
    }

    #[test]
    fn the_mark_of_an_empty_piece_moves_to_the_block_before_it() {
        let mut sim = CacheSim::default();
        let pieces = || vec![Piece::text(words(2_000)), tail("")];
        sim.send(&prompt(pieces()));
        assert!(sim.send(&prompt(pieces())).read_tokens >= 2_000);
    }
}
