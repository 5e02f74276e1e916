//! A step of the index along the log: some conversations, each up to its tail or as far as a step goes.
//!
//! A step is one transaction. It locks the rows of the conversations, so that none is deleted meanwhile, then their rows of
//! bookkeeping, both in the order of their keys; what these say is missing is read, cut, and added. It does not wait for
//! the disk: a crash of the server may take it back, whole, though never a block that it saw.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use annals_core::block::{Block, BlockKind};
use annals_embed::{Embedder, Vector};
use annals_store::LogError;
use annals_store::recall::remembered::{Entry, KINDS, remembered};
use annals_store::recall::source::Source;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use super::{CHUNK_BITS, State, removal, source_of};
use crate::archive::{self, Fetched};
use crate::fault::Fault;
use crate::row::{COLUMNS, RowReader};

/// A step reads at most this many blocks.
const STEP_BLOCKS: i64 = 128;
/// A step takes at most this many conversations.
const STEP_CONVERSATIONS: usize = 128;
/// A step looks at conversations until this many blocks of them are missing.
const STEP_MISSING: i64 = 1_024;
/// A step ends with the block that gives it this many passages: others want to index too.
const STEP_PASSAGES: usize = 512;

/// What to do about a conversation that somebody else brings into the index at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locked {
    /// Wait, since it is being searched.
    Wait,
    /// Leave it to them.
    Skip,
}

/// How far a step came.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Blocks that are now behind it.
    pub(super) blocks: u64,
    /// Conversations that are not finished.
    pub(super) left: Vec<i64>,
}

/// A conversation of a step.
#[derive(Debug)]
struct Advancing {
    source: Source,
    scope_key: i64,
    /// Its last block.
    tail: i64,
}

/// Brings conversations on, as many of them as a step takes.
pub(super) async fn advance(
    client: &mut Client,
    embedder: &Arc<dyn Embedder>,
    keys: &[i64],
    locked: Locked,
) -> Result<Fetched<Step>, Fault> {
    let tx = client.transaction().await?;
    tx.batch_execute("SET LOCAL synchronous_commit = off").await?;
    let (chosen, mut left) = choose(&tx, keys).await?;
    let (state, mut all) = lock(&tx, chosen, locked).await?;
    let state = state.claim(&tx, embedder.identity()).await?;
    let before: i64 = all.iter().map(|one| one.source.upto).sum();
    let behind = all.iter().filter(|one| one.source.upto < one.tail);
    let behind: Vec<i64> = behind.map(|one| one.source.conversation).collect();
    if !behind.is_empty() {
        if let Some(number) = archive::first_archived(&tx, &behind).await? {
            return Ok(Fetched::Archived(number));
        }
        let blocks = read(&tx, &all).await?;
        let known = known_files(&tx, &blocks).await?;
        let is_ours = state.is_of(embedder.identity());
        let embedder = is_ours.then(|| Arc::clone(embedder));
        // Cutting and embedding may take a while.
        let worked = tokio::task::spawn_blocking(move || Work::of(all, &blocks, known, embedder.as_deref()));
        let work = worked.await.map_err(|_| LogError::Closed)?;
        write(&tx, &work).await?;
        all = work.all;
    }
    tx.commit().await?;
    let after: i64 = all.iter().map(|one| one.source.upto).sum();
    left.extend(
        all.iter()
            .filter(|one| one.source.upto < one.tail)
            .map(|one| one.source.conversation),
    );
    Ok(Fetched::Done(Step {
        blocks: (after - before).unsigned_abs(),
        left,
    }))
}

/// A conversation that may be brought on, kept from being deleted meanwhile.
struct Chosen {
    key: i64,
    scope_key: i64,
    cut: i64,
    tail: i64,
}

/// The conversations that this step takes, and the keys that are left for the next.
async fn choose(tx: &Transaction<'_>, keys: &[i64]) -> Result<(Vec<Chosen>, Vec<i64>), Fault> {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    // With this number of conversations a step has enough to do, however little each of them misses.
    let mut left = keys.split_off(keys.len().min(STEP_CONVERSATIONS));
    let rows = tx
        .query_typed(
            "SELECT c.key, c.scope_key, c.cut, coalesce(CASE WHEN c.id IS NULL
                 THEN (SELECT max(b.seq) FROM annals.block b WHERE b.conversation = c.key)
                 ELSE (SELECT h.tail FROM annals.head h WHERE h.conversation = c.key) END, c.cut),
                 coalesce((SELECT s.upto FROM annals.recall_source s WHERE s.conversation = c.key), c.cut)
             FROM annals.conversation c WHERE c.key = ANY($1) ORDER BY c.key FOR SHARE OF c",
            &[(&keys, Type::INT8_ARRAY)],
        )
        .await?;
    let (mut chosen, mut missing) = (Vec::with_capacity(rows.len()), 0);
    for row in &rows {
        let one = Chosen {
            key: row.get(0),
            scope_key: row.get(1),
            cut: row.get(2),
            tail: row.get(3),
        };
        match missing < STEP_MISSING {
            true => {
                missing += (one.tail - row.get::<_, i64>(4)).max(0);
                chosen.push(one);
            }
            false => left.push(one.key),
        }
    }
    Ok((chosen, left))
}

/// Takes the rows of bookkeeping, making those that are missing and emptying those of an older epoch.
async fn lock(
    tx: &Transaction<'_>,
    chosen: Vec<Chosen>,
    locked: Locked,
) -> Result<(State, Vec<Advancing>), Fault> {
    let keys: Vec<i64> = chosen.iter().map(|one| one.key).collect();
    let scopes: Vec<i64> = chosen.iter().map(|one| one.scope_key).collect();
    let cuts: Vec<i64> = chosen.iter().map(|one| one.cut).collect();
    tx.query_typed(
        "INSERT INTO annals.recall_source (conversation, scope_key, epoch, next, upto)
         SELECT u.key, u.scope_key, s.epoch, 0, u.cut FROM annals.recall_state s,
             unnest($1::int8[], $2::int8[], $3::int8[]) u (key, scope_key, cut) ORDER BY u.key
         ON CONFLICT DO NOTHING",
        &[
            (&keys, Type::INT8_ARRAY),
            (&scopes, Type::INT8_ARRAY),
            (&cuts, Type::INT8_ARRAY),
        ],
    )
    .await?;
    let skip = match locked {
        Locked::Wait => "",
        Locked::Skip => " SKIP LOCKED",
    };
    let statement = format!(
        "SELECT conversation, epoch, next, upto FROM annals.recall_source WHERE conversation = ANY($1)
         ORDER BY conversation FOR UPDATE{skip}"
    );
    let rows = tx.query_typed(&statement, &[(&keys, Type::INT8_ARRAY)]).await?;
    // Read after the locks: from here on nobody else changes these rows.
    let state = State::read(tx).await?;
    let mut by_key: HashMap<i64, Chosen> = chosen.into_iter().map(|one| (one.key, one)).collect();
    let mut all = Vec::with_capacity(rows.len());
    for row in &rows {
        let Some(one) = by_key.remove(&row.get(0)) else {
            continue;
        };
        let mut source = source_of(one.key, row.get(2), row.get(3));
        if row.get::<_, i64>(1) < state.epoch {
            removal::empty(tx, one.key).await?;
            (source.next, source.upto) = (0, one.cut);
            tx.query_typed(
                "UPDATE annals.recall_source SET epoch = $2, next = 0, upto = $3 WHERE conversation = $1",
                &[
                    (&one.key, Type::INT8),
                    (&state.epoch, Type::INT8),
                    (&one.cut, Type::INT8),
                ],
            )
            .await?;
        }
        all.push(Advancing {
            scope_key: one.scope_key,
            // Another may have brought it further while this waited for its row: nothing is indexed twice.
            tail: one.tail.max(source.upto),
            source,
        });
    }
    Ok((state, all))
}

/// Blocks of which something may be remembered, with their conversations. Long texts of which nothing is, such as what a
/// command printed, are not even read.
async fn read(tx: &Transaction<'_>, all: &[Advancing]) -> Result<Vec<(i64, Block)>, Fault> {
    let column = |of: fn(&Advancing) -> i64| all.iter().map(of).collect::<Vec<i64>>();
    let kinds: Vec<&[u8]> = KINDS.iter().map(|kind| kind.tag().as_bytes()).collect();
    let statement = format!(
        "SELECT {COLUMNS} FROM unnest($1::int8[], $2::int8[], $3::int8[]) u (key, upto, tail)
         CROSS JOIN LATERAL (SELECT * FROM annals.block WHERE conversation = u.key AND seq > u.upto
             AND seq <= u.tail AND kind = ANY($4) AND body IS NOT NULL
             AND (kind <> $5 OR substring(path FROM 1 FOR 3) = 'fi:'::bytea) ORDER BY seq LIMIT $6) b
         ORDER BY conversation, seq LIMIT $6"
    );
    let rows = tx
        .query_typed(
            &statement,
            &[
                (&column(|one| one.source.conversation), Type::INT8_ARRAY),
                (&column(|one| one.source.upto), Type::INT8_ARRAY),
                (&column(|one| one.tail), Type::INT8_ARRAY),
                (&kinds, Type::BYTEA_ARRAY),
                (&BlockKind::ToolResult.tag().as_bytes(), Type::BYTEA),
                (&STEP_BLOCKS, Type::INT8),
            ],
        )
        .await?;
    let mut reader = RowReader::default();
    rows.iter()
        .map(|row| Ok((row.try_get(0)?, reader.block(row)?)))
        .collect()
}

/// Which files of these blocks the index has already.
async fn known_files(tx: &Transaction<'_>, blocks: &[(i64, Block)]) -> Result<HashSet<(i64, i64)>, Fault> {
    let files = blocks
        .iter()
        .filter_map(|(key, block)| Some((*key, remembered(block)?.file()?)));
    let (keys, digests): (Vec<i64>, Vec<i64>) = files.unzip();
    if keys.is_empty() {
        return Ok(HashSet::new());
    }
    let rows = tx
        .query_typed(
            "SELECT f.conversation, f.digest FROM annals.recall_file f
             JOIN unnest($1::int8[], $2::int8[]) u (key, digest) ON f.conversation = u.key AND f.digest = u.digest",
            &[(&keys, Type::INT8_ARRAY), (&digests, Type::INT8_ARRAY)],
        )
        .await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// What a step adds, as columns.
#[derive(Default)]
struct Work {
    all: Vec<Advancing>,
    passages: Passages,
    files: (Vec<i64>, Vec<i64>),
    /// By scope, term and chunk.
    terms: BTreeMap<(i64, String, i64), Vec<u8>>,
}

#[derive(Default)]
struct Passages {
    conversations: Vec<i64>,
    places: Vec<i32>,
    seqs: Vec<i64>,
    starts: Vec<i32>,
    lengths: Vec<i32>,
    times: Vec<i64>,
    targets: Vec<i16>,
    vectors: Vec<Option<Vec<u8>>>,
}

impl Passages {
    fn add(&mut self, place: i64, block: &Block, entry: &Entry<'_>, vector: Option<Vector>) {
        self.places.push(place as i32);
        self.seqs.push(block.seq.get() as i64);
        self.starts.push(entry.range.start as i32);
        self.lengths.push(entry.range.len() as i32);
        self.times.push(block.ts.unix_millis() / 1_000);
        self.vectors.push(vector.map(|vector| vector.to_bytes()));
    }
}

impl Work {
    fn of(
        all: Vec<Advancing>,
        blocks: &[(i64, Block)],
        mut known: HashSet<(i64, i64)>,
        embedder: Option<&dyn Embedder>,
    ) -> Self {
        let mut work = Work {
            all,
            ..Work::default()
        };
        let is_all = (blocks.len() as i64) < STEP_BLOCKS;
        let (mut at, mut last) = (0, None);
        for (key, block) in blocks {
            if work.passages.seqs.len() >= STEP_PASSAGES {
                work.end(at, last);
                return work;
            }
            while work.all[at].source.conversation < *key {
                at += 1;
            }
            last = Some(block.seq.get() as i64);
            let Some(found) = remembered(block) else { continue };
            if let Some(file) = found.file() {
                if !known.insert((*key, file)) {
                    continue;
                }
                work.files.0.push(*key);
                work.files.1.push(file);
            }
            for entry in found.entries() {
                let Some(place) = work.all[at].source.take_place() else {
                    break;
                };
                let vector = embedder.and_then(|embedder| embedder.at_once(&entry.embedded()));
                work.add_terms(at, place, &entry);
                work.passages.conversations.push(*key);
                work.passages.targets.push(found.target as i16);
                work.passages.add(place, block, &entry, vector);
            }
        }
        match is_all {
            true => work.all.iter_mut().for_each(|one| one.source.upto = one.tail),
            false => work.end(at, last),
        }
        work
    }

    fn add_terms(&mut self, at: usize, place: i64, entry: &Entry<'_>) {
        let Advancing {
            source, scope_key, ..
        } = &self.all[at];
        let number = source.numbers().start + place;
        let (chunk, byte) = (number >> CHUNK_BITS, (number & ((1 << CHUNK_BITS) - 1)) as u8);
        entry.terms(|term| {
            let places = self.terms.entry((*scope_key, term.to_owned(), chunk));
            let places = places.or_default();
            // A term may occur twice in a passage.
            if places.last() != Some(&byte) {
                places.push(byte);
            }
        });
    }

    /// The step ends in a conversation with a block of it: those before it are done, those after it have not begun.
    fn end(&mut self, at: usize, last: Option<i64>) {
        for one in &mut self.all[..at] {
            one.source.upto = one.tail;
        }
        if let (Some(one), Some(last)) = (self.all.get_mut(at), last) {
            one.source.upto = last;
        }
    }
}

async fn write(tx: &Transaction<'_>, work: &Work) -> Result<(), Fault> {
    let passages = &work.passages;
    if !passages.seqs.is_empty() {
        tx.query_typed(
            "INSERT INTO annals.recall_passage (conversation, place, seq, start, length, ts, target, vector)
             SELECT * FROM unnest($1::int8[], $2::int4[], $3::int8[], $4::int4[], $5::int4[], $6::int8[],
                 $7::int2[], $8::bytea[])",
            &[
                (&passages.conversations, Type::INT8_ARRAY),
                (&passages.places, Type::INT4_ARRAY),
                (&passages.seqs, Type::INT8_ARRAY),
                (&passages.starts, Type::INT4_ARRAY),
                (&passages.lengths, Type::INT4_ARRAY),
                (&passages.times, Type::INT8_ARRAY),
                (&passages.targets, Type::INT2_ARRAY),
                (&passages.vectors, Type::BYTEA_ARRAY),
            ],
        )
        .await?;
    }
    if !work.files.0.is_empty() {
        tx.query_typed(
            "INSERT INTO annals.recall_file (conversation, digest) SELECT * FROM unnest($1::int8[], $2::int8[])",
            &[
                (&work.files.0, Type::INT8_ARRAY),
                (&work.files.1, Type::INT8_ARRAY),
            ],
        )
        .await?;
    }
    write_terms(tx, &work.terms).await?;
    let column = |of: fn(&Advancing) -> i64| work.all.iter().map(of).collect::<Vec<i64>>();
    tx.query_typed(
        "UPDATE annals.recall_source s SET next = u.next, upto = u.upto
         FROM unnest($1::int8[], $2::int8[], $3::int8[]) u (key, next, upto) WHERE s.conversation = u.key",
        &[
            (&column(|one| one.source.conversation), Type::INT8_ARRAY),
            (&column(|one| one.source.next), Type::INT8_ARRAY),
            (&column(|one| one.source.upto), Type::INT8_ARRAY),
        ],
    )
    .await?;
    Ok(())
}

async fn write_terms(
    tx: &Transaction<'_>,
    terms: &BTreeMap<(i64, String, i64), Vec<u8>>,
) -> Result<(), Fault> {
    if terms.is_empty() {
        return Ok(());
    }
    let scopes: Vec<i64> = terms.keys().map(|(scope, _, _)| *scope).collect();
    let words: Vec<&str> = terms.keys().map(|(_, term, _)| term.as_str()).collect();
    let chunks: Vec<i64> = terms.keys().map(|(_, _, chunk)| *chunk).collect();
    let places: Vec<&[u8]> = terms.values().map(Vec::as_slice).collect();
    tx.query_typed(
        "INSERT INTO annals.recall_term AS t (scope_key, term, chunk, places)
         SELECT * FROM unnest($1::int8[], $2::text[], $3::int8[], $4::bytea[])
         ON CONFLICT (scope_key, term, chunk) DO UPDATE SET places = t.places || excluded.places",
        &[
            (&scopes, Type::INT8_ARRAY),
            (&words, Type::TEXT_ARRAY),
            (&chunks, Type::INT8_ARRAY),
            (&places, Type::BYTEA_ARRAY),
        ],
    )
    .await?;
    Ok(())
}
