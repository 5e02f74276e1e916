//! One search over one view of an index, whatever keeps it: what may be shown, how it is ranked, which texts it gives.
//!
//! A backend finds the [`Strand`]s of a query, loads their matrices, looks words up, and reads the texts of the best; all
//! that decides their order is here, so that the same log gives the same answer on every backend.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use annals_core::block::Block;
use annals_core::ids::ConversationId;
use annals_core::time::Timestamp;
use annals_embed::{Vector, vector};

use super::lexical::Lookups;
use super::matrix::{Loaded, Row};
use super::rank::{self, Candidate, Doc};
use super::source::Source;
use super::{Hit, Query, RecallTarget};

/// Number of best hits of each ranking that are fused.
const JOINED: usize = 100;

/// A search brings at most this many blocks into the index before it answers; more are left to a reindex.
pub const CATCH_UP_MAX_BLOCKS: u64 = 20_000;

/// A conversation, or the part of one that another shares.
#[derive(Clone, Debug)]
pub struct Strand {
    /// The conversation as the index knows it.
    pub source: Source,
    /// The last block that may be seen.
    pub last: u64,
    /// The conversation to read it in.
    pub shown: ConversationId,
}

/// The last block of a conversation that the query asks about.
pub fn last_of(query: &Query, id: &ConversationId) -> u64 {
    match &query.before {
        Some((conversation, before)) if conversation == id => before.get() - 1,
        _ => u64::MAX,
    }
}

/// What may be shown, the best first.
#[derive(Debug, Default)]
pub struct Ranked {
    /// Which passages, each with its score.
    pub best: Vec<(Doc, f32)>,
    /// Passages that were not looked at by meaning, because they have no vector yet.
    pub pending: usize,
}

/// Ranks the passages of loaded matrices by what words found and by closeness to a vector.
pub fn ranked(query: &Query, vector: Option<&Vector>, loaded: &Loaded, words: Option<&Lookups>) -> Ranked {
    let words = words.map(Worth::of).unwrap_or_default();
    let filter = Filter::of(query);
    let (mut by_words, mut close, mut pending) = (Vec::new(), Closest::default(), 0);
    loaded.each(|strand, matrix| {
        let first = strand.source.numbers().start;
        for doc in words.within(&strand.source) {
            let row = matrix.row(doc.number - first);
            if let Some(row) = row.filter(|row| filter.admits(*row, strand)) {
                by_words.push(doc.candidate(strand, row, words.whole_weight));
            }
        }
        pending += matrix.pending();
        if let Some(vector) = vector {
            matrix.scan(vector, |row, dot| {
                if dot > close.least && filter.admits(row, strand) {
                    close.push(doc_of(strand, row), row, dot);
                }
            });
        }
    });
    by_words.sort_by(|a, b| {
        let worth = |candidate: &Candidate| candidate.words.unwrap_or(0.0);
        worth(b).total_cmp(&worth(a)).then_with(|| b.doc.cmp(&a.doc))
    });
    by_words.truncate(JOINED);
    let ranked = rank::ranked(close.join(by_words), query.by, query.now);
    Ranked {
        best: ranked
            .into_iter()
            .map(|(candidate, score)| (candidate.doc, score))
            .collect(),
        pending: if vector.is_some() { pending } else { 0 },
    }
}

fn doc_of(strand: &Strand, row: Row) -> Doc {
    Doc {
        conversation: strand.source.conversation,
        place: row.place,
    }
}

/// What the query asks of a passage apart from its content.
struct Filter {
    targets: [bool; RecallTarget::ALL.len()],
    since_seconds: i64,
}

impl Filter {
    fn of(query: &Query) -> Self {
        Filter {
            targets: RecallTarget::ALL
                .map(|target| query.targets.is_empty() || query.targets.contains(&target)),
            since_seconds: query.since.map_or(i64::MIN, |since| since.unix_millis() / 1_000),
        }
    }

    fn admits(&self, row: Row, strand: &Strand) -> bool {
        row.target().is_some_and(|target| self.targets[target as usize])
            && i64::from(row.ts_seconds) >= self.since_seconds
            && u64::from(row.seq) <= strand.last
            && i64::from(row.place) < strand.source.next
    }
}

/// What passages are worth by words.
#[derive(Default)]
struct Worth {
    /// By number.
    docs: Vec<Weighed>,
    whole_weight: f32,
}

#[derive(Clone, Copy)]
struct Weighed {
    number: i64,
    weight: f32,
}

impl Weighed {
    fn candidate(self, strand: &Strand, row: Row, whole_weight: f32) -> Candidate {
        Candidate {
            doc: doc_of(strand, row),
            ts: time_of(row),
            words: Some(rank::term_weight(self.weight, usize::from(row.length))),
            coverage: (self.weight / whole_weight).min(1.0),
            cosine: None,
        }
    }
}

impl Worth {
    fn of(lookups: &Lookups) -> Self {
        let mut weights: HashMap<i64, f32> = HashMap::new();
        for lookup in &lookups.terms {
            for doc in &lookup.docs {
                *weights.entry(*doc).or_default() += lookup.weight;
            }
        }
        let mut docs: Vec<Weighed> = weights
            .into_iter()
            .map(|(number, weight)| Weighed { number, weight })
            .collect();
        docs.sort_unstable_by_key(|doc| doc.number);
        Worth {
            docs,
            whole_weight: lookups.whole_weight,
        }
    }

    fn within(&self, source: &Source) -> impl Iterator<Item = Weighed> {
        let numbers = source.numbers();
        let start = self.docs.partition_point(|doc| doc.number < numbers.start);
        self.docs[start..]
            .iter()
            .copied()
            .take_while(move |doc| doc.number < numbers.end)
    }
}

fn time_of(row: Row) -> Timestamp {
    Timestamp::from_unix_micros(i64::from(row.ts_seconds) * 1_000_000)
}

/// The passages that lie closest, gathered without sorting all.
struct Closest {
    found: Vec<(i32, Doc, Timestamp)>,
    /// Whatever is not closer need not come.
    least: i32,
}

impl Default for Closest {
    fn default() -> Self {
        let mut least = 0;
        while vector::to_cosine(least) < rank::CLOSE_ENOUGH_COSINE {
            least += 16;
        }
        Closest {
            found: Vec::new(),
            least,
        }
    }
}

impl Closest {
    fn push(&mut self, doc: Doc, row: Row, dot: i32) {
        self.found.push((dot, doc, time_of(row)));
        if self.found.len() >= 4 * JOINED {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.found.sort_unstable_by(|a, b| b.cmp(a));
        if self.found.len() > JOINED {
            self.found.truncate(JOINED);
            // What is as close as the last one may come yet: the order of looking must not decide.
            self.least = self.found[JOINED - 1].0 - 1;
        }
    }

    /// Together with what was found by words.
    fn join(mut self, by_words: Vec<Candidate>) -> Vec<Candidate> {
        self.settle();
        let mut all: HashMap<Doc, Candidate> = by_words
            .into_iter()
            .map(|candidate| (candidate.doc, candidate))
            .collect();
        for (dot, doc, ts) in self.found {
            let candidate = all.entry(doc).or_insert(Candidate {
                doc,
                ts,
                words: None,
                coverage: 0.0,
                cosine: None,
            });
            candidate.cosine = Some(vector::to_cosine(dot));
        }
        all.into_values().collect()
    }
}

/// Hits with their texts, each text once.
#[derive(Debug)]
pub struct Gathering {
    limit: usize,
    texts: HashSet<String>,
    hits: Vec<Hit>,
}

impl Gathering {
    /// As many as the query asks for.
    pub fn new(query: &Query) -> Self {
        Gathering {
            limit: query.limit,
            texts: HashSet::new(),
            hits: Vec::new(),
        }
    }

    /// Whether there are enough.
    pub fn is_full(&self) -> bool {
        self.hits.len() >= self.limit
    }

    /// Adds the next best: this part of a block.
    pub fn add(&mut self, shown: &ConversationId, score: f32, block: &Block, passage: &PassageText) {
        let text = block.text().and_then(|text| text.get(passage.range.clone()));
        let (Some(text), false) = (text, self.is_full()) else {
            return;
        };
        // A file that was written twice, a question that was asked twice: the better place is enough.
        if self.texts.insert(text.to_owned()) {
            self.hits.push(Hit {
                conversation: shown.clone(),
                seq: block.seq,
                turn: block.turn.clone(),
                path: block.path.clone(),
                target: passage.target,
                text: text.to_owned(),
                score,
                ts: block.ts,
            });
        }
    }

    /// The hits.
    pub fn finish(self) -> Vec<Hit> {
        self.hits
    }
}

/// A passage's place in its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassageText {
    /// Which bytes of the block's text.
    pub range: Range<usize>,
    /// Whose words.
    pub target: RecallTarget,
}

impl PassageText {
    /// From numbers as they are stored.
    pub fn of(start: i64, length: i64, target: i64) -> Option<Self> {
        let (start, length) = (usize::try_from(start).ok()?, usize::try_from(length).ok()?);
        Some(PassageText {
            range: start..start.checked_add(length)?,
            target: *RecallTarget::ALL.get(usize::try_from(target).ok()?)?,
        })
    }
}
