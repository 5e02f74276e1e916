//! One search over one consistent state of the database: which conversations, which words, which vectors, which texts.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use annals_core::block::Block;
use annals_core::ids::{ConversationId, ConversationKey, Seq};
use annals_core::time::Timestamp;
use annals_embed::{Vector, vector};
use rusqlite::{Connection, OptionalExtension, params};

use super::lag;
use super::lexical::{self, Lookups};
use super::matrix::{Matrices, Row};
use super::source::{self, Source};
use super::{State, last_block};
use crate::recall::rank::{self, Candidate, SearchMode};
use crate::recall::{Hit, Query, RecallHits, Shortfall, Target, Within};
use crate::sqlite::conversations;
use crate::sqlite::fault::Fault;
use crate::sqlite::reader;
use crate::sqlite::words::Words;

/// Number of best hits of each ranking that are fused.
const JOINED: usize = 100;

/// A search brings at most this many blocks into the index before it answers; more are left to a reindex.
const CATCH_UP_MAX_BLOCKS: u64 = 20_000;

/// What a search found, or what has to be done before it can answer.
pub(super) enum Looked {
    Done(RecallHits),
    Behind(Behind),
}

/// What has to come into the index before a search can answer.
pub(super) enum Behind {
    /// The log, up to this row.
    Log { row: i64 },
    /// These conversations; the rest of the log is too much to wait for.
    Conversations { keys: Vec<i64>, blocks: u64 },
}

impl Behind {
    /// How many blocks are too many to wait for.
    fn too_many(&self) -> Option<u64> {
        match self {
            Behind::Conversations { blocks, .. } if *blocks > CATCH_UP_MAX_BLOCKS => Some(*blocks),
            _ => None,
        }
    }
}

/// Whether an answer may wait for the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CatchUp {
    /// What is missing is said instead of an answer.
    Wait,
    /// It was waited for. What has come since the question was asked need not be in the answer.
    DontWait,
}

/// A conversation, or the part of one that another shares.
struct Strand {
    source: Source,
    /// The last block that may be seen.
    last: u64,
    /// The conversation to read it in.
    shown: ConversationId,
}

pub(super) fn look(
    words: &mut Words,
    tx: &Connection,
    matrices: &Matrices,
    identity: &str,
    query: &Query,
    vector: Option<&Vector>,
    catch_up: CatchUp,
) -> Result<Looked, Fault> {
    let state = State::read(tx)?;
    let places = match &query.within {
        Within::Conversation(id) => of_conversation(tx, query, id)?,
        Within::Scope => of_scope(tx, query)?,
    };
    let behind = behind(tx, &state, &places)?;
    let too_many = behind.as_ref().and_then(Behind::too_many);
    if let (Some(behind), CatchUp::Wait, None) = (behind, catch_up, too_many) {
        return Ok(Looked::Behind(behind));
    }
    let mut strands: Vec<Strand> = places.into_iter().filter_map(Place::strand).collect();
    strands.sort_by_key(|strand| strand.source.first);
    let mut shortfall = None;
    let is_ours = state.embedder.as_deref() == Some(identity);
    if !is_ours && query.by != SearchMode::Lexical {
        shortfall = Some(Shortfall::OtherEmbedder {
            found: state.embedder.unwrap_or_default(),
            configured: identity.to_owned(),
        });
    }
    let vector = vector.filter(|vector| is_ours && !vector.is_zero());
    let candidates = candidates(tx, matrices, state.epoch, query, vector, &strands)?;
    if is_ours && candidates.pending > 0 {
        shortfall = Some(Shortfall::Pending {
            passages: candidates.pending as u64,
        });
    }
    if let Some(blocks) = too_many {
        shortfall = Some(Shortfall::Behind { blocks });
    }
    let ranked = rank::ranked(candidates.all, query.by, query.now);
    let hits = hits(words, tx, query, &strands, ranked)?;
    Ok(Looked::Done(RecallHits { hits, shortfall }))
}

/// A conversation that may be looked at, perhaps unknown to the index so far.
struct Place {
    conversation: i64,
    source: Option<Source>,
    /// How many blocks lie before its own.
    cut: i64,
    last: u64,
    shown: ConversationId,
}

impl Place {
    /// How many of its blocks up to this one may be seen and are not in the index.
    fn misses(&self, tail: i64) -> u64 {
        let upto = self.source.as_ref().map_or(self.cut, |source| source.upto);
        let last = tail.unsigned_abs().min(self.last);
        last.saturating_sub(upto.unsigned_abs())
    }

    fn strand(self) -> Option<Strand> {
        let source = self.source.filter(|source| source.first.is_some())?;
        Some(Strand {
            source,
            last: self.last,
            shown: self.shown,
        })
    }
}

/// A conversation of the scope, with what it shares.
fn of_conversation(tx: &Connection, query: &Query, id: &ConversationId) -> Result<Vec<Place>, Fault> {
    let key = ConversationKey::new(query.scope.clone(), id.clone());
    let place = conversations::find(tx, &key)?;
    let Some(tail) = conversations::tail(tx, place)? else {
        return Ok(Vec::new());
    };
    let last = tail.get().min(last_of(query, id));
    let mut places = Vec::new();
    for (conversation, _, last) in reader::strands(tx, place, Seq::FIRST.get(), last)? {
        places.push(Place {
            conversation,
            source: Source::find(tx, conversation)?,
            cut: conversations::by_key(tx, conversation)?.cut as i64,
            last,
            shown: id.clone(),
        });
    }
    Ok(places)
}

/// The last block of a conversation that the query asks about.
fn last_of(query: &Query, id: &ConversationId) -> u64 {
    match &query.before {
        Some((conversation, before)) if conversation == id => before.get() - 1,
        _ => u64::MAX,
    }
}

/// All conversations of the scope.
fn of_scope(tx: &Connection, query: &Query) -> Result<Vec<Place>, Fault> {
    let Some(scope) = conversations::scope_key(tx, &query.scope)? else {
        return Ok(Vec::new());
    };
    let mut statement = tx.prepare_cached(
        "SELECT c.key, c.id, c.cut, s.first, s.next, s.upto
         FROM conversation c LEFT JOIN recall_source s ON s.conversation = c.key WHERE c.scope_key = ?1",
    )?;
    let mut rows = statement.query([scope])?;
    let mut places = Vec::new();
    while let Some(row) = rows.next()? {
        let conversation: i64 = row.get(0)?;
        let id: Option<String> = row.get(1)?;
        let (shown, last) = match id {
            Some(id) => {
                let last = ConversationId::parse(&id).map_or(u64::MAX, |id| last_of(query, &id));
                (id, last)
            }
            // Deleted, and there for the forks that share its beginning.
            None => match sharer(tx, conversation, scope)? {
                Some(sharer) => sharer,
                None => continue,
            },
        };
        let Ok(shown) = ConversationId::parse(&shown) else {
            continue;
        };
        let next: Option<i64> = row.get(4)?;
        let source = match next {
            Some(next) => Some(Source {
                conversation,
                first: row.get(3)?,
                next,
                upto: row.get(5)?,
            }),
            None => None,
        };
        places.push(Place {
            conversation,
            source,
            cut: row.get(2)?,
            last,
            shown,
        });
    }
    Ok(places)
}

/// Which conversation of this scope still shows blocks of a deleted one, and up to where.
fn sharer(tx: &Connection, deleted: i64, scope: i64) -> Result<Option<(String, u64)>, Fault> {
    let mut statement = tx.prepare("SELECT key, id, scope_key, cut FROM conversation WHERE base = ?1")?;
    let forks = statement.query_map([deleted], |row| {
        Ok((
            row.get::<_, i64>(0)?,
            row.get::<_, Option<String>>(1)?,
            row.get::<_, i64>(2)?,
            row.get::<_, i64>(3)?.unsigned_abs(),
        ))
    })?;
    let mut best: Option<(String, u64)> = None;
    for fork in forks {
        let (key, id, own_scope, cut) = fork?;
        let shown = match id {
            Some(id) => Some(id).filter(|_| own_scope == scope),
            None => sharer(tx, key, scope)?.map(|(id, _)| id),
        };
        if let Some(shown) = shown
            && best.as_ref().is_none_or(|(_, best)| *best < cut)
        {
            best = Some((shown, cut));
        }
    }
    Ok(best)
}

/// What is missing of these places.
fn behind(tx: &Connection, state: &State, places: &[Place]) -> rusqlite::Result<Option<Behind>> {
    let row = last_block(tx)?;
    if state.block >= row {
        return Ok(None);
    }
    // Usually a few blocks are missing: looking at those is quicker than at every place.
    if lag::lag(tx, state)? <= CATCH_UP_MAX_BLOCKS {
        let tails = lag::tails_after(tx, state.block, CATCH_UP_MAX_BLOCKS as usize)?;
        let misses = |place: &Place| {
            tails
                .get(&place.conversation)
                .is_some_and(|tail| place.misses(*tail) > 0)
        };
        return Ok(places.iter().any(misses).then_some(Behind::Log { row }));
    }
    let (mut keys, mut blocks) = (Vec::new(), 0);
    for place in places {
        let tail: Option<i64> = tx
            .prepare_cached("SELECT max(seq) FROM block WHERE conversation = ?1")?
            .query_row([place.conversation], |row| row.get(0))?;
        let missing = place.misses(tail.unwrap_or(0));
        if missing > 0 {
            keys.push(place.conversation);
            blocks += missing;
        }
    }
    Ok((blocks > 0).then_some(Behind::Conversations { keys, blocks }))
}

/// What may be shown.
struct Candidates {
    all: Vec<Candidate>,
    /// Passages that were not looked at by meaning, because they have no vector yet.
    pending: usize,
}

fn candidates(
    tx: &Connection,
    matrices: &Matrices,
    epoch: i64,
    query: &Query,
    vector: Option<&Vector>,
    strands: &[Strand],
) -> Result<Candidates, Fault> {
    let all: usize = strands.iter().map(|strand| strand.source.next as usize).sum();
    // A fork may share blocks of another scope and have none of its own.
    let scope = source::scope_numbers(tx, &query.scope.to_string())?.unwrap_or(0..0);
    let words = match query.by {
        SearchMode::Semantic => Worth::default(),
        SearchMode::Hybrid | SearchMode::Lexical => {
            let ranges = ranges(query, &scope, strands);
            Worth::of(&lexical::look_up(tx, &query.text, &ranges, &scope, all)?)
        }
    };
    let filter = Filter::of(query);
    let (mut by_words, mut close, mut pending) = (Vec::new(), Closest::default(), 0);
    let search = matrices.begin(epoch);
    for strand in strands {
        matrices.with(tx, search, &strand.source, |matrix| {
            let first = strand.source.numbers().start;
            for doc in words.within(&strand.source) {
                let row = matrix.row(doc.number - first);
                if let Some(row) = row.filter(|row| filter.admits(*row, strand)) {
                    by_words.push(doc.candidate(row, words.whole_weight));
                }
            }
            pending += matrix.pending();
            if let Some(vector) = vector {
                matrix.scan(vector, |row, dot| {
                    if dot > close.least && filter.admits(row, strand) {
                        close.push(first + i64::from(row.place), row, dot);
                    }
                });
            }
        })?;
    }
    matrices.end();
    by_words.sort_by(|a, b| b.words.unwrap_or(0.0).total_cmp(&a.words.unwrap_or(0.0)));
    by_words.truncate(JOINED);
    Ok(Candidates {
        all: close.join(by_words),
        pending: if vector.is_some() { pending } else { 0 },
    })
}

/// The ranges of numbers that words are looked up in.
fn ranges(query: &Query, scope: &Range<i64>, strands: &[Strand]) -> Vec<Range<i64>> {
    match query.within {
        Within::Conversation(_) => strands.iter().map(|strand| strand.source.numbers()).collect(),
        Within::Scope => vec![scope.clone()],
    }
}

/// What the query asks of a passage apart from its content.
struct Filter {
    targets: [bool; Target::ALL.len()],
    since_seconds: i64,
}

impl Filter {
    fn of(query: &Query) -> Self {
        Filter {
            targets: Target::ALL.map(|target| query.targets.is_empty() || query.targets.contains(&target)),
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
    fn candidate(self, row: Row, whole_weight: f32) -> Candidate {
        Candidate {
            doc: self.number,
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
    found: Vec<(i32, i64, Timestamp)>,
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
    fn push(&mut self, doc: i64, row: Row, dot: i32) {
        self.found.push((dot, doc, time_of(row)));
        if self.found.len() >= 4 * JOINED {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.found.sort_unstable_by(|a, b| b.cmp(a));
        if self.found.len() > JOINED {
            self.found.truncate(JOINED);
            self.least = self.found[JOINED - 1].0;
        }
    }

    /// Together with what was found by words.
    fn join(mut self, by_words: Vec<Candidate>) -> Vec<Candidate> {
        self.settle();
        let mut all: HashMap<i64, Candidate> = by_words
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

/// The texts of the best, each once.
fn hits(
    words: &mut Words,
    tx: &Connection,
    query: &Query,
    strands: &[Strand],
    ranked: Vec<(Candidate, f32)>,
) -> Result<Vec<Hit>, Fault> {
    let mut hits: Vec<Hit> = Vec::new();
    let mut texts = HashSet::new();
    for (candidate, score) in ranked {
        if hits.len() >= query.limit {
            break;
        }
        let at = strands.partition_point(|strand| strand.source.numbers().end <= candidate.doc);
        let Some(strand) = strands.get(at) else { continue };
        let Some((passage, block)) = read(words, tx, strand, candidate.doc)? else {
            continue;
        };
        let Some(text) = block.text().and_then(|text| text.get(passage.range)) else {
            continue;
        };
        // A file that was written twice, a question that was asked twice: the better place is enough.
        if texts.insert(text.to_owned()) {
            hits.push(Hit {
                conversation: strand.shown.clone(),
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
    Ok(hits)
}

/// A passage's place in its block.
struct Passage {
    range: Range<usize>,
    target: Target,
}

fn read(
    words: &mut Words,
    tx: &Connection,
    strand: &Strand,
    doc: i64,
) -> Result<Option<(Passage, Block)>, Fault> {
    let row: Option<(i64, i64, i64, i64)> = tx
        .prepare_cached("SELECT seq, start, length, target FROM recall_passage WHERE doc = ?1")?
        .query_row(params![doc], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((seq, start, length, target)) = row else {
        return Ok(None);
    };
    let Some(target) = Target::ALL.get(target as usize).copied() else {
        return Ok(None);
    };
    let block = reader::own_block(words, tx, strand.source.conversation, seq)?;
    let passage = Passage {
        range: start as usize..(start + length) as usize,
        target,
    };
    Ok(block.map(|block| (passage, block)))
}
