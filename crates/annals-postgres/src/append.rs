//! Appends as one statement: of one conversation, or of many at once.
//!
//! The statement locks the heads whose token and tail are as their writers expect, in the order of their keys, then moves
//! them on and inserts the rows. What does not match is left alone; [`verdict`] then says why. An append whose answer was
//! lost is sent again as it was: its batch id in the head tells that it took effect.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use annals_core::ids::Seq;
use annals_store::log::{ANSWER_KEPT, asks_from};
use annals_store::{Append, InboxId, Lease, LogError, Stale, Work, columns};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use crate::answers::{Keepable, Keepables};
use crate::conversations::{refusal, tail_of};
use crate::fault::Fault;
use crate::head::micros;
use crate::link::Wire;
use crate::row::{Columns, Encoded, Parameter};
use crate::seen::{Seen, history};
use crate::statement::{Flush, Shape};
use crate::{pooler, schema};

const KEEP: i16 = 0;
const DUE: i16 = 1;
const DONE: i16 = 2;

/// An append, ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) lease: Lease,
    pub(crate) conversation: i64,
    expected: i64,
    batch: i64,
    consumes: Vec<i64>,
    work: i16,
    wait: i64,
    /// The last post that its writer has looked at, if it must not go past a later one.
    seen: Option<i64>,
    /// Whether its blocks begin or end a turn, and from where they ask for something.
    bounds: bool,
    asks_from: Option<i64>,
    answer: Option<Keepable>,
    rows: Vec<Encoded>,
    named: Vec<[u8; 32]>,
    pub(crate) bytes: usize,
}

impl Prepared {
    pub(crate) fn new(lease: &Lease, append: Append) -> Result<Self, LogError> {
        append.check(lease.key())?;
        let conversation = lease.incarnation() as i64;
        let (work, wait) = match append.work {
            Work::Keep => (KEEP, 0),
            Work::DueIn(wait) => (DUE, micros(wait)),
            Work::Done => (DONE, 0),
        };
        let mut consumes: Vec<i64> = append.consumes.iter().map(|row| row.get() as i64).collect();
        consumes.sort_unstable();
        consumes.dedup();
        let asks_from = |before: Option<Seq>| append.blocks.iter().fold(before, asks_from);
        let (bounds, asks) = (asks_from(Some(Seq::FIRST)) != Some(Seq::FIRST), asks_from(None));
        let blocks = append.blocks.into_iter();
        let rows: Vec<Encoded> = blocks.map(|block| Encoded::new(conversation, block)).collect();
        let mut named: Vec<[u8; 32]> = rows
            .iter()
            .flat_map(|row| columns::named(&row.block, row.meta.as_deref()))
            .map(|digest| digest.0)
            .collect();
        named.sort_unstable();
        named.dedup();
        Ok(Prepared {
            lease: lease.clone(),
            conversation,
            expected: append.expected_tail.map_or(0, Seq::get) as i64,
            batch: append.batch.get() as i64,
            consumes,
            work,
            wait,
            seen: append.seen.map(|row| row.get() as i64),
            bounds,
            asks_from: asks.map(|from| from.get() as i64),
            answer: append.answer.map(Keepable::new),
            bytes: rows.iter().map(Encoded::bytes).sum(),
            rows,
            named,
        })
    }

    fn grows(&self) -> i64 {
        self.rows.len() as i64
    }

    /// Takes an answer away that is too old to stand in the way of this one's.
    pub(crate) async fn forget_answer(&self, client: &Client, now: Option<i64>) -> Result<(), Fault> {
        match &self.answer {
            Some(answer) => answer.forget_expired(client, now).await,
            None => Ok(()),
        }
    }

    /// The tail once it has taken effect.
    pub(crate) fn tail_after(&self) -> Option<Seq> {
        tail_of(self.expected + self.grows())
    }

    /// The checksum of its last block.
    pub(crate) fn sum(&self) -> Option<i64> {
        self.rows.last().map(|row| row.sum)
    }
}

/// The heads of all appends, column by column.
struct Heads<'a> {
    numbers: [Vec<i64>; 6],
    updated: Vec<Option<i64>>,
    work: Vec<i16>,
    wait: Vec<i64>,
    consumes: Vec<i32>,
    seen: Vec<Option<i64>>,
    bounds: Vec<bool>,
    asks_from: Vec<Option<i64>>,
    answers: Vec<Option<&'a [u8]>>,
}

impl<'a> Heads<'a> {
    fn new(appends: &[&'a Prepared]) -> Self {
        fn column<'a, T>(appends: &[&'a Prepared], of: impl Fn(&'a Prepared) -> T) -> Vec<T> {
            appends.iter().map(|append| of(append)).collect()
        }
        Heads {
            numbers: [
                column(appends, |append| append.conversation),
                column(appends, |append| append.lease.token() as i64),
                column(appends, |append| append.expected),
                column(appends, Prepared::grows),
                column(appends, |append| append.batch),
                column(appends, |append| micros(append.lease.ttl())),
            ],
            updated: column(appends, |append| {
                append.rows.last().map(|row| row.block.ts.unix_micros())
            }),
            work: column(appends, |append| append.work),
            wait: column(appends, |append| append.wait),
            consumes: column(appends, |append| append.consumes.len() as i32),
            seen: column(appends, |append| append.seen),
            bounds: column(appends, |append| append.bounds),
            asks_from: column(appends, |append| append.asks_from),
            answers: column(appends, |append| append.answer.as_ref().map(Keepable::id)),
        }
    }

    fn parameters(&self) -> Vec<Parameter<'_>> {
        let numbers = self
            .numbers
            .iter()
            .map(|numbers| (numbers as _, Type::INT8_ARRAY));
        let mut parameters: Vec<Parameter<'_>> = numbers.collect();
        parameters.extend::<[Parameter<'_>; 8]>([
            (&self.updated, Type::INT8_ARRAY),
            (&self.work, Type::INT2_ARRAY),
            (&self.wait, Type::INT8_ARRAY),
            (&self.consumes, Type::INT4_ARRAY),
            (&self.seen, Type::INT8_ARRAY),
            (&self.bounds, Type::BOOL_ARRAY),
            (&self.asks_from, Type::INT8_ARRAY),
            (&self.answers, Type::BYTEA_ARRAY),
        ]);
        parameters
    }
}

/// A connection that appends. Planning a statement costs several times what carrying it out does, so the server plans each
/// shape once for a connection of its own; behind a pooler it plans each time.
pub(crate) struct Appender {
    pub(crate) wire: Wire,
    plan: Plan,
    flush: Flush,
}

enum Plan {
    EachTime,
    Once(HashMap<Shape, Statement>),
}

/// How the server is to plan: once for all values, and by the key of the heads. A plan for the values of one append would be
/// the same for the next, and a small table of heads would be read whole, with every dead version in it.
pub(crate) const PLANNING: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off";

impl Appender {
    /// On a connection that has a session of its own as far as anybody knows.
    pub(crate) async fn new(wire: Wire, has_own_session: bool) -> Result<Self, Fault> {
        let has_own_session = has_own_session && !pooler::is_between(&wire.client).await?;
        let plan = match has_own_session {
            true => Plan::Once(HashMap::new()),
            false => Plan::EachTime,
        };
        let flush = Flush::of(&schema::flush(&wire.client).await?);
        Ok(Appender { wire, plan, flush })
    }

    pub(crate) fn client(&self) -> &Client {
        &self.wire.client
    }

    async fn query(&mut self, shape: Shape, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        let client = &self.wire.client;
        let Plan::Once(planned) = &mut self.plan else {
            let statement = shape.statement(self.flush);
            return Ok(client.query_typed(&statement, parameters).await?);
        };
        if planned.is_empty() {
            client.batch_execute(PLANNING).await?;
        }
        let statement = match planned.entry(shape) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
                let statement = shape.statement(self.flush);
                place.insert(client.prepare_typed(&statement, &types).await?)
            }
        };
        let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
        Ok(client.query(&*statement, &values).await?)
    }
}

/// Sends appends of different conversations as one statement; gives the conversations whose appends took effect.
pub(crate) async fn send(
    appender: &mut Appender,
    now: Option<i64>,
    appends: &[&Prepared],
) -> Result<Vec<i64>, Fault> {
    let heads = Heads::new(appends);
    let (mut from, mut posts) = (Vec::new(), Vec::<i64>::new());
    let (mut naming, mut named) = (Vec::new(), Vec::new());
    let mut answers = Keepables::default();
    let mut rows = Columns::default();
    for append in appends {
        let conversation = append.conversation;
        from.extend(append.consumes.iter().map(|_| conversation));
        posts.extend(&append.consumes);
        naming.extend(append.named.iter().map(|_| conversation));
        named.extend(append.named.iter().map(|digest| &digest[..]));
        append
            .answer
            .iter()
            .for_each(|answer| answers.push(conversation, answer));
        append
            .rows
            .iter()
            .for_each(|row| row.push_to(&mut rows, conversation));
    }
    let kept = micros(ANSWER_KEPT);
    let mut parameters: Vec<Parameter<'_>> = vec![(&now, Type::INT8)];
    parameters.extend(heads.parameters());
    parameters.extend::<[Parameter<'_>; 3]>([
        (&from, Type::INT8_ARRAY),
        (&posts, Type::INT8_ARRAY),
        (&kept, Type::INT8),
    ]);
    parameters.extend(answers.parameters());
    parameters.push((&naming, Type::INT8_ARRAY));
    parameters.push((&named, Type::BYTEA_ARRAY));
    parameters.extend(rows.parameters());
    let shape = Shape {
        is_merged: appends.len() > 1,
        is_one_block: appends.iter().map(|append| append.rows.len()).sum::<usize>() == 1,
        minds_posts: !posts.is_empty() || appends.iter().any(|append| append.seen.is_some()),
        keeps_answers: appends.iter().any(|append| append.answer.is_some()),
        names_artifacts: !named.is_empty(),
    };
    let done = appender.query(shape, &parameters).await?;
    appender.wire.check_replicated()?;
    Ok(done.iter().map(|row| row.get(0)).collect())
}

/// What became of an append that [`send`] did not report.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It had taken effect before: its answer was lost.
    Done,
    /// It cannot take effect.
    Refused(LogError),
    /// Nothing speaks against it: it met another statement. Send it again.
    Again,
}

/// Why an append was left alone.
pub(crate) async fn verdict(
    wire: &Wire,
    now: Option<i64>,
    append: &Prepared,
    seen: &Seen,
) -> Result<Verdict, Fault> {
    let client = &wire.client;
    let head = client
        .query_typed_opt(
            "SELECT token, tail, batch FROM annals.head WHERE conversation = $1",
            &[(&append.conversation, Type::INT8)],
        )
        .await?;
    if let Some(head) = &head
        && let Some(lost) = seen.lost(&append.lease, tail_of(append.expected), tail_of(head.get(1)))
    {
        return Ok(Verdict::Refused(lost));
    }
    let Some(head) = head.filter(|head| head.get::<_, i64>(0) == append.lease.token() as i64) else {
        return match refusal(client, &append.lease).await {
            Err(Fault::Refused(error @ LogError::NotFound { .. })) => {
                let lost = seen.gone(append.lease.key(), history(client).await.as_deref());
                Ok(Verdict::Refused(lost.unwrap_or(error)))
            }
            Ok(error) | Err(Fault::Refused(error)) => Ok(Verdict::Refused(error)),
            Err(fault) => Err(fault),
        };
    };
    let (tail, batch): (i64, Option<i64>) = (head.get(1), head.get(2));
    let refused = |stale: Stale| {
        let id = append.lease.key().id.clone();
        Ok(Verdict::Refused(LogError::Conflict { id, stale }))
    };
    if batch == Some(append.batch) && tail == append.expected + append.grows() {
        // It is seen here, which does not say that the standbys have it: whoever committed it may not have waited.
        wire.confirm(&schema::flush(client).await?).await?;
        return Ok(Verdict::Done);
    }
    if tail != append.expected {
        return refused(Stale::Tail {
            expected: tail_of(append.expected),
            actual: tail_of(tail),
        });
    }
    let waiting = client
        .query_typed(
            "SELECT id FROM annals.inbox WHERE conversation = $1 AND id = ANY ($2) AND body IS NOT NULL",
            &[
                (&append.conversation, Type::INT8),
                (&append.consumes, Type::INT8_ARRAY),
            ],
        )
        .await?;
    let waiting: Vec<i64> = waiting.iter().map(|row| row.get(0)).collect();
    if let Some(row) = append.consumes.iter().find(|row| !waiting.contains(row)) {
        return refused(Stale::Inbox {
            row: InboxId::new(row.unsigned_abs()),
        });
    }
    if let Some(answer) = &append.answer
        && answer.is_kept(client, now).await?
    {
        return Ok(Verdict::Refused(answer.refusal()));
    }
    match overtaken(client, append).await? {
        Some(row) => refused(Stale::Posted { row }),
        None => Ok(Verdict::Again),
    }
}

/// The first post that waits and that the writer has not looked at.
async fn overtaken(client: &Client, append: &Prepared) -> Result<Option<InboxId>, Fault> {
    let later = client
        .query_typed_one(
            "SELECT min(id) FROM annals.inbox WHERE conversation = $1 AND id > $2 AND body IS NOT NULL",
            &[(&append.conversation, Type::INT8), (&append.seen, Type::INT8)],
        )
        .await?;
    Ok(later
        .get::<_, Option<i64>>(0)
        .map(|id| InboxId::new(id.unsigned_abs())))
}
