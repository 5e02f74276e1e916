//! Reading blocks, a conversation's own and those it shares.

use std::collections::BTreeSet;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationKey, Seq};
use annals_store::named_in_post;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::archive::{self, Fetched, State};
use crate::conversations::{Place, find, missing_base};
use crate::fault::Fault;
use crate::row::{COLUMNS, RowReader};

/// Blocks from `from` on, at most `limit`.
pub(crate) async fn read(
    client: &Client,
    key: &ConversationKey,
    from: Seq,
    limit: usize,
) -> Result<Fetched<Vec<Block>>, Fault> {
    loop {
        let place = find(client, key).await?;
        // Otherwise what was missing has come back between two statements, or is of another conversation.
        if let Some(fetched) = read_at(client, key, place, from, limit).await? {
            return Ok(fetched);
        }
    }
}

/// The same, given where its blocks lie; none if that has changed meanwhile.
async fn read_at(
    client: &Client,
    key: &ConversationKey,
    place: Place,
    from: Seq,
    limit: usize,
) -> Result<Option<Fetched<Vec<Block>>>, Fault> {
    let Some(tail) = place.tail else {
        return Ok(Some(Fetched::Done(Vec::new())));
    };
    let to = from
        .get()
        .saturating_add(limit as u64)
        .saturating_sub(1)
        .min(tail.get());
    let mut found = Vec::with_capacity((to + 1).saturating_sub(from.get()) as usize);
    let mut reader = RowReader::default();
    let statement = format!(
        "SELECT {COLUMNS} FROM annals.block WHERE conversation = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq"
    );
    for (strand, from, to) in strands(client, place, from.get(), to).await? {
        let rows = client
            .query_typed(
                &statement,
                &[
                    (&strand, Type::INT8),
                    (&(from as i64), Type::INT8),
                    (&(to as i64), Type::INT8),
                ],
            )
            .await?;
        let mut expected = from;
        for row in &rows {
            let block = reader.block(row).map_err(|fault| match fault {
                Fault::Damaged(what) => Fault::Damaged(format!("conversation `{}`: {what}", key.id)),
                fault => fault,
            })?;
            if block.seq.get() != expected {
                break;
            }
            expected += 1;
            found.push(block);
        }
        if expected != to + 1 {
            match archive::state_of(client, strand, (from as i64, to as i64)).await? {
                State::Archived => return Ok(Some(Fetched::Archived(strand))),
                State::Back => return Ok(None),
                State::Missing => {}
            }
            // It may have been deleted between the two statements, and another made of that name.
            if find(client, key).await?.key != place.key {
                return Ok(None);
            }
            let id = &key.id;
            return Err(Fault::Damaged(format!(
                "conversation `{id}`: block {expected} is missing"
            )));
        }
    }
    Ok(Some(Fetched::Done(found)))
}

/// Which conversation has which of the blocks `from..=to`, in order.
pub(crate) async fn strands(
    client: &Client,
    place: Place,
    from: u64,
    to: u64,
) -> Result<Vec<(i64, u64, u64)>, Fault> {
    let mut strands = Vec::new();
    let (mut key, mut base, mut cut, mut to) = (place.key, place.base, place.cut, to);
    while from <= to {
        if to > cut {
            strands.push((key, from.max(cut + 1), to));
        }
        to = to.min(cut);
        let Some(deeper) = base.filter(|_| from <= to) else {
            break;
        };
        let row = client
            .query_typed_opt(
                "SELECT base, cut FROM annals.conversation WHERE key = $1",
                &[(&deeper, Type::INT8)],
            )
            .await?
            .ok_or_else(|| missing_base(deeper))?;
        (key, base, cut) = (deeper, row.get(0), row.get::<_, i64>(1).unsigned_abs());
    }
    strands.reverse();
    Ok(strands)
}

/// Digests that blocks name, or that have archived blocks in them, in order, after one.
pub(crate) async fn named(
    client: &Client,
    after: Option<BlobDigest>,
    limit: usize,
) -> Result<Vec<BlobDigest>, Fault> {
    // No digest is shorter than the empty one, so that all of them come after it.
    let after = after.map_or_else(Vec::new, |after| after.0.to_vec());
    let rows = client
        .query_typed(
            "(SELECT DISTINCT digest FROM annals.named WHERE digest > $1 ORDER BY digest LIMIT $2)
             UNION (SELECT digest FROM annals.archive WHERE digest > $1 ORDER BY digest LIMIT $2)
             ORDER BY digest LIMIT $2",
            &[
                (&after, Type::BYTEA),
                (&i64::try_from(limit).unwrap_or(i64::MAX), Type::INT8),
            ],
        )
        .await?;
    let digests = rows.iter().map(|row| {
        let bytes: &[u8] = row.get(0);
        let digest = bytes.try_into().map(BlobDigest);
        digest.map_err(|_| Fault::Damaged("a named digest has a wrong length".to_owned()))
    });
    let mut all = digests.collect::<Result<BTreeSet<BlobDigest>, Fault>>()?;
    let waiting = waiting(client).await?;
    all.extend(waiting.into_iter().filter(|digest| digest.0[..] > after[..]));
    Ok(all.into_iter().take(limit).collect())
}

/// Digests that posts which wait name.
pub(crate) async fn waiting(client: &Client) -> Result<Vec<BlobDigest>, Fault> {
    let rows = client
        .query_typed(
            "SELECT body FROM annals.inbox WHERE body IS NOT NULL AND position('sha256:'::bytea IN body) > 0",
            &[],
        )
        .await?;
    Ok(rows.iter().flat_map(|row| named_in_post(row.get(0))).collect())
}
