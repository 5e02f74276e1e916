//! One search over one consistent state of the database: which conversations, which words, which vectors, which texts.

use std::collections::HashMap;
use std::sync::Arc;

use annals_core::ids::{ConversationId, ConversationKey, Seq};
use annals_embed::Vector;
use annals_store::LogError;
use annals_store::recall::lexical::look_up;
use annals_store::recall::matrix::{Loaded, Matrices, StoredPassage};
use annals_store::recall::rank::{Doc, SearchMode};
use annals_store::recall::search::{
    CATCH_UP_MAX_BLOCKS, Gathering, PassageText, Ranked, Strand, last_of, ranked,
};
use annals_store::recall::source::Source;
use annals_store::recall::{Hit, Query, RecallHits, Shortfall, Within};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, IsolationLevel, Row, Transaction};

use super::lexical::View;
use super::{State, chunks, source_of};
use crate::archive::{self, Fetched};
use crate::blocks::strands;
use crate::conversations;
use crate::fault::Fault;
use crate::row::{COLUMNS, RowReader};

/// What a search found, or what has to be done before it can answer.
pub(super) enum Looked {
    Done(RecallHits),
    /// These conversations have to come into the index, as of this epoch.
    Behind {
        keys: Vec<i64>,
        epoch: i64,
    },
    /// The blocks of this conversation have to come back from the archive.
    Archived(i64),
}

/// Whether an answer may wait for the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CatchUp {
    /// What is missing is said instead of an answer.
    Wait,
    /// It was waited for in this epoch. What has come since the question was asked need not be in the answer; but if
    /// somebody has begun to rebuild the index, it has to be waited for again.
    Waited { epoch: i64 },
}

pub(super) async fn look(
    client: &mut Client,
    matrices: &Arc<Matrices>,
    identity: &str,
    (query, vector): (&Query, Option<&Vector>),
    catch_up: CatchUp,
) -> Result<Looked, Fault> {
    let tx = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let looked = look_in(&tx, matrices, identity, (query, vector), catch_up).await?;
    tx.commit().await?;
    Ok(looked)
}

async fn look_in(
    tx: &Transaction<'_>,
    matrices: &Arc<Matrices>,
    identity: &str,
    (query, vector): (&Query, Option<&Vector>),
    catch_up: CatchUp,
) -> Result<Looked, Fault> {
    let state = State::read(tx).await?;
    let places = match &query.within {
        Within::Conversation(id) => of_conversation(tx, &state, query, id).await?,
        Within::Scope => of_scope(tx, &state, query).await?,
    };
    let missing: u64 = places.iter().map(Place::misses).sum();
    let waits = catch_up != CatchUp::Waited { epoch: state.epoch };
    if missing > 0 && missing <= CATCH_UP_MAX_BLOCKS && waits {
        let behind = places.iter().filter(|place| place.misses() > 0);
        return Ok(Looked::Behind {
            keys: behind.map(|place| place.conversation).collect(),
            epoch: state.epoch,
        });
    }
    let mut shortfall = None;
    let is_ours = state.is_of(identity);
    if !is_ours && query.by != SearchMode::Lexical {
        shortfall = Some(Shortfall::OtherEmbedder {
            found: state.embedder.unwrap_or_default(),
            configured: identity.to_owned(),
        });
    }
    let vector = vector.filter(|vector| is_ours && !vector.is_zero());
    let strands = places.into_iter().filter_map(Place::strand).collect();
    let loaded = load(tx, matrices.begin(state.epoch, strands)).await?;
    let (loaded, ranked) = rank(tx, query, vector, loaded).await?;
    matrices.end();
    if is_ours && ranked.pending > 0 {
        shortfall = Some(Shortfall::Pending {
            passages: ranked.pending as u64,
        });
    }
    if missing > CATCH_UP_MAX_BLOCKS {
        shortfall = Some(Shortfall::Behind { blocks: missing });
    }
    match hits(tx, query, loaded.strands(), &ranked.best).await? {
        Fetched::Done(hits) => Ok(Looked::Done(RecallHits { hits, shortfall })),
        Fetched::Archived(number) => Ok(Looked::Archived(number)),
    }
}

/// A conversation that may be looked at, perhaps unknown to the index so far.
struct Place {
    conversation: i64,
    source: Option<Source>,
    /// How many blocks lie before its own.
    cut: i64,
    /// Its last block.
    tail: i64,
    last: u64,
    shown: ConversationId,
}

impl Place {
    /// How many of its blocks may be seen and are not in the index.
    fn misses(&self) -> u64 {
        let upto = self.source.as_ref().map_or(self.cut, |source| source.upto);
        let last = self.tail.unsigned_abs().min(self.last);
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

/// The bookkeeping of a conversation, if it has any in this epoch.
fn found_source(conversation: i64, row: &Row, column: usize) -> Result<Option<Source>, Fault> {
    let next: Option<i64> = row.try_get(column)?;
    let upto: Option<i64> = row.try_get(column + 1)?;
    Ok(next
        .zip(upto)
        .map(|(next, upto)| source_of(conversation, next, upto)))
}

/// A conversation of the scope, with what it shares.
async fn of_conversation(
    tx: &Transaction<'_>,
    state: &State,
    query: &Query,
    id: &ConversationId,
) -> Result<Vec<Place>, Fault> {
    let key = ConversationKey::new(query.scope.clone(), id.clone());
    let place = conversations::find(tx.client(), &key).await?;
    let Some(tail) = place.tail else {
        return Ok(Vec::new());
    };
    let last = tail.get().min(last_of(query, id));
    let strands = strands(tx.client(), place, Seq::FIRST.get(), last).await?;
    let keys: Vec<i64> = strands.iter().map(|(key, _, _)| *key).collect();
    let rows = tx
        .query_typed(
            "SELECT c.key, c.cut, s.next, s.upto FROM annals.conversation c
             LEFT JOIN annals.recall_source s ON s.conversation = c.key AND s.epoch = $2 WHERE c.key = ANY($1)",
            &[(&keys, Type::INT8_ARRAY), (&state.epoch, Type::INT8)],
        )
        .await?;
    let mut places = Vec::with_capacity(rows.len());
    for row in &rows {
        let conversation: i64 = row.get(0);
        let strand = strands.iter().find(|(key, _, _)| *key == conversation);
        let Some((_, _, last)) = strand else { continue };
        places.push(Place {
            conversation,
            source: found_source(conversation, row, 2)?,
            cut: row.get(1),
            tail: *last as i64,
            last: *last,
            shown: id.clone(),
        });
    }
    Ok(places)
}

/// All conversations of the scope.
async fn of_scope(tx: &Transaction<'_>, state: &State, query: &Query) -> Result<Vec<Place>, Fault> {
    let rows = tx
        .query_typed(
            "SELECT c.key, c.id, c.base, c.cut, s.next, s.upto, coalesce(CASE WHEN c.id IS NULL
                 THEN (SELECT max(b.seq) FROM annals.block b WHERE b.conversation = c.key) ELSE h.tail END, c.cut)
             FROM annals.conversation c LEFT JOIN annals.head h ON h.conversation = c.key
             LEFT JOIN annals.recall_source s ON s.conversation = c.key AND s.epoch = $2
             WHERE c.scope_key = (SELECT key FROM annals.scope WHERE text = $1)",
            &[
                (&query.scope.to_string(), Type::TEXT),
                (&state.epoch, Type::INT8),
            ],
        )
        .await?;
    let family = Family::of(&rows)?;
    let mut places = Vec::with_capacity(rows.len());
    for row in &rows {
        let conversation: i64 = row.try_get(0)?;
        let id: Option<&str> = row.try_get(1)?;
        let (shown, last) = match id {
            Some(id) => (Some(id), None),
            // Deleted, and there for the forks that share its beginning.
            None => match family.sharer(conversation) {
                Some((id, cut)) => (Some(id), Some(cut)),
                None => (None, None),
            },
        };
        let Some(shown) = shown.and_then(|id| ConversationId::parse(id).ok()) else {
            continue;
        };
        places.push(Place {
            conversation,
            source: found_source(conversation, row, 4)?,
            cut: row.try_get(3)?,
            tail: row.try_get(6)?,
            last: last.unwrap_or_else(|| last_of(query, &shown)),
            shown,
        });
    }
    Ok(places)
}

/// Which conversations of a scope were forked from which.
struct Family<'r> {
    forks: HashMap<i64, Vec<Fork<'r>>>,
}

struct Fork<'r> {
    key: i64,
    id: Option<&'r str>,
    cut: u64,
}

impl<'r> Family<'r> {
    fn of(rows: &'r [Row]) -> Result<Self, Fault> {
        let mut forks: HashMap<i64, Vec<Fork<'r>>> = HashMap::new();
        for row in rows {
            if let Some(base) = row.try_get::<_, Option<i64>>(2)? {
                forks.entry(base).or_default().push(Fork {
                    key: row.try_get(0)?,
                    id: row.try_get(1)?,
                    cut: row.try_get::<_, i64>(3)?.unsigned_abs(),
                });
            }
        }
        forks
            .values_mut()
            .for_each(|forks| forks.sort_by_key(|fork| fork.key));
        Ok(Family { forks })
    }

    /// Which conversation still shows blocks of a deleted one, and up to where.
    fn sharer(&self, deleted: i64) -> Option<(&'r str, u64)> {
        let mut best: Option<(&'r str, u64)> = None;
        for fork in self.forks.get(&deleted)? {
            let shown = match fork.id {
                Some(id) => Some(id),
                None => self.sharer(fork.key).map(|(id, _)| id),
            };
            if let Some(shown) = shown
                && best.is_none_or(|(_, best)| best < fork.cut)
            {
                best = Some((shown, fork.cut));
            }
        }
        best
    }
}

/// Reads what is not in memory yet.
async fn load(tx: &Transaction<'_>, loaded: Loaded) -> Result<Loaded, Fault> {
    let missing = loaded.missing();
    if missing.is_empty() {
        return Ok(loaded);
    }
    let keys: Vec<i64> = missing.iter().map(|missing| missing.conversation).collect();
    let froms: Vec<i64> = missing.iter().map(|missing| missing.from).collect();
    let tos: Vec<i64> = missing.iter().map(|missing| missing.to).collect();
    let rows = tx
        .query_typed(
            "SELECT u.n, p.place, p.seq, p.ts, p.length, p.target, p.vector
             FROM unnest($1::int8[], $2::int8[], $3::int8[]) WITH ORDINALITY u (key, first, beyond, n)
             JOIN annals.recall_passage p ON p.conversation = u.key AND p.place >= u.first AND p.place < u.beyond
             ORDER BY u.n, p.place",
            &[
                (&keys, Type::INT8_ARRAY),
                (&froms, Type::INT8_ARRAY),
                (&tos, Type::INT8_ARRAY),
            ],
        )
        .await?;
    let mut rest = rows.as_slice();
    for (number, missing) in (1_i64..).zip(&missing) {
        let own = rest.partition_point(|row| row.get::<_, i64>(0) <= number);
        let (own, after) = rest.split_at(own);
        rest = after;
        loaded.extend(missing, |seen| {
            for row in own {
                seen(StoredPassage {
                    place: i64::from(row.try_get::<_, i32>(1)?),
                    seq: row.try_get(2)?,
                    ts_seconds: row.try_get(3)?,
                    length: i64::from(row.try_get::<_, i32>(4)?),
                    target: i64::from(row.try_get::<_, i16>(5)?),
                    vector: row.try_get(6)?,
                });
            }
            Ok::<_, Fault>(())
        })?;
    }
    Ok(loaded)
}

async fn rank(
    tx: &Transaction<'_>,
    query: &Query,
    vector: Option<&Vector>,
    loaded: Loaded,
) -> Result<(Loaded, Ranked), Fault> {
    let lookups = match query.by {
        SearchMode::Semantic => None,
        SearchMode::Hybrid | SearchMode::Lexical => {
            let view = View {
                tx,
                scope_key: scope_key(tx, query).await?,
                searched: match query.within {
                    Within::Conversation(_) => Some(
                        loaded
                            .strands()
                            .iter()
                            .map(|strand| chunks(strand.source.conversation))
                            .collect(),
                    ),
                    Within::Scope => None,
                },
            };
            Some(look_up(&view, &query.text, loaded.passages()).await?)
        }
    };
    let (query, vector) = (query.clone(), vector.cloned());
    // The scan may take a while.
    let scanned = tokio::task::spawn_blocking(move || {
        let ranked = ranked(&query, vector.as_ref(), &loaded, lookups.as_ref());
        (loaded, ranked)
    });
    Ok(scanned.await.map_err(|_| LogError::Closed)?)
}

/// The row of the query's scope; 0, which none has, if there is nothing in it.
async fn scope_key(tx: &Transaction<'_>, query: &Query) -> Result<i64, Fault> {
    let row = tx
        .query_typed_opt(
            "SELECT key FROM annals.scope WHERE text = $1",
            &[(&query.scope.to_string(), Type::TEXT)],
        )
        .await?;
    Ok(row.map_or(0, |row| row.get(0)))
}

/// The texts of the best, each once.
async fn hits(
    tx: &Transaction<'_>,
    query: &Query,
    strands: &[Strand],
    best: &[(Doc, f32)],
) -> Result<Fetched<Vec<Hit>>, Fault> {
    // Some texts come twice, and few more than are asked for are needed.
    const MORE: usize = 8;
    let mut hits = Gathering::new(query);
    let mut reader = RowReader::default();
    for batch in best.chunks(query.limit.saturating_add(MORE)) {
        if hits.is_full() {
            break;
        }
        let rows = read(tx, batch).await?;
        let unread = batch.iter().filter(|(doc, _)| !rows.contains_key(doc));
        let unread: Vec<i64> = unread.map(|(doc, _)| doc.conversation).collect();
        if !unread.is_empty()
            && let Some(number) = archive::first_archived(tx, &unread).await?
        {
            return Ok(Fetched::Archived(number));
        }
        for (doc, score) in batch {
            let strand = strands
                .iter()
                .find(|strand| strand.source.conversation == doc.conversation);
            let (Some(strand), Some(row)) = (strand, rows.get(doc)) else {
                continue;
            };
            let number = |column: usize| row.try_get::<_, i32>(column).map(i64::from);
            let target = i64::from(row.try_get::<_, i16>(TEXT_AT + 3)?);
            let passage = PassageText::of(number(TEXT_AT + 1)?, number(TEXT_AT + 2)?, target);
            if let Some(passage) = passage {
                hits.add(&strand.shown, *score, &reader.block(row)?, &passage);
            }
        }
    }
    Ok(Fetched::Done(hits.finish()))
}

/// Where the columns of a passage begin, after those of its block.
pub(super) const TEXT_AT: usize = 15;

/// What a passage has beside its block, from [`TEXT_AT`] on.
pub(super) const TEXT: &str = "p.place, p.start, p.length, p.target";

/// The columns of a block, of the table `b`.
pub(super) fn block_columns() -> String {
    let columns = COLUMNS.split(", ").map(|column| format!("b.{column}"));
    columns.collect::<Vec<_>>().join(", ")
}

/// The rows of passages, with their blocks.
async fn read(tx: &Transaction<'_>, docs: &[(Doc, f32)]) -> Result<HashMap<Doc, Row>, Fault> {
    let conversations: Vec<i64> = docs.iter().map(|(doc, _)| doc.conversation).collect();
    let places: Vec<i64> = docs.iter().map(|(doc, _)| i64::from(doc.place)).collect();
    let statement = format!(
        "SELECT {}, {TEXT} FROM unnest($1::int8[], $2::int8[]) u (key, place)
         JOIN annals.recall_passage p ON p.conversation = u.key AND p.place = u.place
         JOIN annals.block b ON b.conversation = p.conversation AND b.seq = p.seq",
        block_columns()
    );
    let rows = tx
        .query_typed(
            &statement,
            &[(&conversations, Type::INT8_ARRAY), (&places, Type::INT8_ARRAY)],
        )
        .await?;
    let rows = rows.into_iter().map(|row| {
        let doc = Doc {
            conversation: row.try_get(0)?,
            place: row.try_get::<_, i32>(TEXT_AT)?.unsigned_abs(),
        };
        Ok((doc, row))
    });
    rows.collect()
}
