//! A provider's prompt cache, simulated on the prompts that were sent.
//!
//! Two published rules. Anthropic's: a prefix is stored only where a breakpoint stands, is found again from a later
//! breakpoint or from a few blocks before it, and must be long enough. OpenAI's: every long enough prefix is stored, and
//! read in steps of some tokens. Entries live as long as the rules say after they were last used; [`CacheSim::send`]
//! knows no time, so nothing expires there. Tests of the cache's hit rate, the simulated day of `benches/cache.rs` and the
//! usage of script models are counted with it; the real adapter places its breakpoints by the same reading of a prompt.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::Arc;

use annals_core::time::Timestamp;
use annals_core::tokens::{self, MediaRule};
use annals_core::view::prompt::{AssistantPiece, Message, Piece, PieceBody, Prompt, ToolSchema};
use hashbrown::{DefaultHashBuilder, HashMap};

/// What the simulated provider does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRules {
    /// Shorter prefixes are not stored.
    pub min_prefix_tokens: u64,
    /// How long an entry stays after it was written or read.
    pub life_seconds: u64,
    /// Which prefixes are stored, and how one is found again.
    pub lookup: CacheLookup,
}

/// Which prefixes are stored, and how one is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLookup {
    /// Where the client put a breakpoint.
    Breakpoints {
        /// Number of blocks that are searched: the breakpoint itself and those before it.
        lookback_blocks: usize,
    },
    /// Everywhere, and writing costs nothing.
    Automatic {
        /// Reads are cut to a multiple of this.
        step_tokens: u64,
    },
}

impl CacheRules {
    /// Anthropic's, with its default life of five minutes.
    pub const ANTHROPIC: CacheRules = CacheRules {
        min_prefix_tokens: 1_024,
        life_seconds: 300,
        lookup: CacheLookup::Breakpoints { lookback_blocks: 20 },
    };

    /// OpenAI's. It promises five to ten minutes of life; this is the lesser.
    pub const OPENAI: CacheRules = CacheRules {
        min_prefix_tokens: 1_024,
        life_seconds: 300,
        lookup: CacheLookup::Automatic { step_tokens: 128 },
    };
}

impl Default for CacheRules {
    fn default() -> Self {
        CacheRules::ANTHROPIC
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
    /// Tokens up to the last breakpoint, as far as these rules can read them again: what stands behind them is new with every
    /// request.
    pub stable_tokens: u64,
}

/// The cache, and everything it was sent.
#[derive(Debug, Default)]
pub struct CacheSim {
    rules: CacheRules,
    hasher: DefaultHashBuilder,
    /// Length in tokens of every prefix that was ever sent, so that a block is counted once.
    seen: HashMap<u64, u64>,
    /// When each stored prefix was last used.
    stored: HashMap<u64, Timestamp>,
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

    /// Sends one prompt, at a time when all others are still in the cache.
    pub fn send(&mut self, prompt: &Prompt) -> CacheReading {
        self.send_at(prompt, Timestamp::from_unix_millis(0))
    }

    /// Sends one prompt at this time.
    pub fn send_at(&mut self, prompt: &Prompt, now: Timestamp) -> CacheReading {
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
        let (read_tokens, write_tokens) = match self.rules.lookup {
            CacheLookup::Breakpoints { lookback_blocks } => {
                self.meet_breakpoints(&prefixes, lookback_blocks, now)
            }
            CacheLookup::Automatic { step_tokens } => (self.meet_all(&prefixes, step_tokens, now), 0),
        };
        let marked = prefixes.iter().rev().find(|prefix| prefix.is_breakpoint);
        let marked_tokens = marked.map_or(0, |prefix| prefix.tokens);
        CacheReading {
            stable_tokens: match self.rules.lookup {
                CacheLookup::Breakpoints { .. } => marked_tokens,
                CacheLookup::Automatic { step_tokens } => marked_tokens - marked_tokens % step_tokens,
            },
            input_tokens: prefixes.last().map_or(0, |prefix| prefix.tokens),
            read_tokens,
            write_tokens,
            reusable_tokens: if self.is_long_enough(reusable_tokens) {
                reusable_tokens
            } else {
                0
            },
        }
    }

    fn is_long_enough(&self, tokens: u64) -> bool {
        tokens >= self.rules.min_prefix_tokens
    }

    fn is_stored(&self, prefix: &Prefix, now: Timestamp) -> bool {
        let used = self.stored.get(&prefix.hash);
        used.is_some_and(|&used| now.seconds_since(used) < self.rules.life_seconds)
    }

    /// Tokens that were read, and written.
    fn meet_breakpoints(
        &mut self,
        prefixes: &[Prefix],
        lookback_blocks: usize,
        now: Timestamp,
    ) -> (u64, u64) {
        let breakpoints: Vec<usize> = (0..prefixes.len())
            .rev()
            .filter(|&at| prefixes[at].is_breakpoint)
            .collect();
        let found = breakpoints
            .iter()
            .filter_map(|&at| {
                let oldest = at.saturating_sub(lookback_blocks.saturating_sub(1));
                prefixes[oldest..=at]
                    .iter()
                    .rev()
                    .find(|prefix| self.is_stored(prefix, now))
            })
            .max_by_key(|prefix| prefix.tokens);
        let read_tokens = found.map_or(0, |prefix| prefix.tokens);
        if let Some(prefix) = found {
            self.stored.insert(prefix.hash, now);
        }
        let last_tokens = breakpoints.first().map_or(0, |&at| prefixes[at].tokens);
        for at in breakpoints {
            if self.is_long_enough(prefixes[at].tokens) {
                self.stored.insert(prefixes[at].hash, now);
            }
        }
        let write_tokens = if self.is_long_enough(last_tokens) {
            last_tokens.saturating_sub(read_tokens)
        } else {
            0
        };
        (read_tokens, write_tokens)
    }

    /// Tokens that were read.
    fn meet_all(&mut self, prefixes: &[Prefix], step_tokens: u64, now: Timestamp) -> u64 {
        let found = prefixes.iter().rev().find(|prefix| self.is_stored(prefix, now));
        let common_tokens = found.map_or(0, |prefix| prefix.tokens);
        for prefix in prefixes {
            self.stored.insert(prefix.hash, now);
        }
        if self.is_long_enough(common_tokens) {
            common_tokens - common_tokens % step_tokens
        } else {
            0
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
    fn entries_expire_unless_they_are_used() {
        for rules in [CacheRules::ANTHROPIC, CacheRules::OPENAI] {
            let mut sim = CacheSim::new(rules);
            let at = |seconds: i64| Timestamp::from_unix_millis(seconds * 1_000);
            let whole = prompt(vec![tail(&words(2_000))]);
            assert_eq!(sim.send_at(&whole, at(0)).read_tokens, 0);
            assert!(sim.send_at(&whole, at(299)).read_tokens >= 1_900, "{rules:?}");
            assert!(sim.send_at(&whole, at(598)).read_tokens >= 1_900, "{rules:?}");
            assert_eq!(sim.send_at(&whole, at(898)).read_tokens, 0, "{rules:?}");
        }
    }

    #[test]
    fn an_automatic_cache_needs_no_breakpoint_and_reads_in_steps() {
        let mut sim = CacheSim::new(CacheRules::OPENAI);
        let first = sim.send(&prompt(vec![Piece::text(words(2_000))]));
        let second = sim.send(&prompt(vec![Piece::text(words(2_000)), Piece::text("more")]));
        assert_eq!((first.read_tokens, first.write_tokens), (0, 0));
        assert_eq!(second.read_tokens, first.input_tokens / 128 * 128);
        assert_eq!(second.write_tokens, 0);
    }

    #[test]
    fn the_mark_of_an_empty_piece_moves_to_the_block_before_it() {
        let mut sim = CacheSim::default();
        let pieces = || vec![Piece::text(words(2_000)), tail("")];
        sim.send(&prompt(pieces()));
        assert!(sim.send(&prompt(pieces())).read_tokens >= 2_000);
    }
}
