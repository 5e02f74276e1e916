//! One search over one consistent state of the database: which conversations, which words, which vectors, which texts.

use annals_core::block::Block;
use annals_core::ids::{ConversationId, ConversationKey, Seq};
use annals_embed::Vector;
use futures::FutureExt as _;
use rusqlite::{Connection, OptionalExtension, params};

use super::lag;
use super::lexical::View;
use super::source;
use super::{State, last_block};
use crate::log::LogError;
use crate::recall::lexical::{Lookups, look_up};
use crate::recall::matrix::{Loaded, Matrices, Missing, StoredPassage};
use crate::recall::rank::{Doc, SearchMode};
use crate::recall::search::{CATCH_UP_MAX_BLOCKS, Gathering, PassageText, Strand, last_of, ranked};
use crate::recall::source::Source;
use crate::recall::{Hit, Query, RecallHits, Shortfall, Within};
use crate::sqlite::conversations;
use crate::sqlite::fault::Fault;
use crate::sqlite::reader;
use crate::sqlite::words::Words;

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
    let strands = places.into_iter().filter_map(Place::strand).collect();
    let mut shortfall = None;
    let is_ours = state.embedder.as_deref() == Some(identity);
    if !is_ours && query.by != SearchMode::Lexical {
        shortfall = Some(Shortfall::OtherEmbedder {
            found: state.embedder.unwrap_or_default(),
            configured: identity.to_owned(),
        });
    }
    let vector = vector.filter(|vector| is_ours && !vector.is_zero());
    let loaded = load(tx, matrices, state.epoch, strands)?;
    let lookups = match query.by {
        SearchMode::Semantic => None,
        SearchMode::Hybrid | SearchMode::Lexical => Some(lookups(tx, query, &loaded)?),
    };
    let ranked = ranked(query, vector, &loaded, lookups.as_ref());
    matrices.end();
    if is_ours && ranked.pending > 0 {
        shortfall = Some(Shortfall::Pending {
            passages: ranked.pending as u64,
        });
    }
    if let Some(blocks) = too_many {
        shortfall = Some(Shortfall::Behind { blocks });
    }
    let hits = hits(words, tx, query, loaded.strands(), ranked.best)?;
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
            source: source::find(tx, conversation)?,
            cut: conversations::by_key(tx, conversation)?.cut as i64,
            last,
            shown: id.clone(),
        });
    }
    Ok(places)
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

/// The matrices of strands, up to this view of the database.
fn load(tx: &Connection, matrices: &Matrices, epoch: i64, strands: Vec<Strand>) -> rusqlite::Result<Loaded> {
    let loaded = matrices.begin(epoch, strands);
    for missing in loaded.missing() {
        loaded.extend(&missing, |seen| read_passages(tx, &missing, seen))?;
    }
    Ok(loaded)
}

fn read_passages(
    tx: &Connection,
    missing: &Missing,
    seen: &mut dyn FnMut(StoredPassage<'_>),
) -> rusqlite::Result<()> {
    let mut statement = tx.prepare_cached(
        "SELECT doc - ?1, seq, ts, length, target, vector FROM recall_passage WHERE doc >= ?2 AND doc < ?3 ORDER BY doc",
    )?;
    let Missing { first, from, to, .. } = *missing;
    let mut rows = statement.query(params![first, first + from, first + to])?;
    while let Some(row) = rows.next()? {
        seen(StoredPassage {
            place: row.get(0)?,
            seq: row.get(1)?,
            ts_seconds: row.get(2)?,
            length: row.get(3)?,
            target: row.get(4)?,
            vector: row.get_ref(5)?.as_blob().ok(),
        });
    }
    Ok(())
}

fn lookups(tx: &Connection, query: &Query, loaded: &Loaded) -> Result<Lookups, Fault> {
    // A fork may share blocks of another scope and have none of its own.
    let scope = source::scope_numbers(tx, &query.scope.to_string())?.unwrap_or(0..0);
    let searched = match query.within {
        Within::Conversation(_) => {
            let strands = loaded.strands().iter();
            strands.map(|strand| strand.source.numbers()).collect()
        }
        Within::Scope => vec![scope.clone()],
    };
    let view = View { tx, searched, scope };
    let looked = look_up(&view, &query.text, loaded.passages()).now_or_never();
    // Nothing in a view waits.
    Ok(looked.ok_or(LogError::Closed)??)
}

/// The texts of the best, each once.
fn hits(
    words: &mut Words,
    tx: &Connection,
    query: &Query,
    strands: &[Strand],
    best: Vec<(Doc, f32)>,
) -> Result<Vec<Hit>, Fault> {
    let mut hits = Gathering::new(query);
    for (doc, score) in best {
        if hits.is_full() {
            break;
        }
        let strand = strands
            .iter()
            .find(|strand| strand.source.conversation == doc.conversation);
        let Some(strand) = strand else { continue };
        if let Some((passage, block)) = read(words, tx, &strand.source, doc)? {
            hits.add(&strand.shown, score, &block, &passage);
        }
    }
    Ok(hits.finish())
}

fn read(
    words: &mut Words,
    tx: &Connection,
    source: &Source,
    doc: Doc,
) -> Result<Option<(PassageText, Block)>, Fault> {
    let number = source.numbers().start + i64::from(doc.place);
    let row: Option<(i64, i64, i64, i64)> = tx
        .prepare_cached("SELECT seq, start, length, target FROM recall_passage WHERE doc = ?1")?
        .query_row([number], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((seq, start, length, target)) = row else {
        return Ok(None);
    };
    let Some(passage) = PassageText::of(start, length, target) else {
        return Ok(None);
    };
    let block = reader::own_block(words, tx, source.conversation, seq)?;
    Ok(block.map(|block| (passage, block)))
}
