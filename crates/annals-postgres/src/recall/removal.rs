//! What leaves the log leaves the index, in the same transaction, also when the log is open without memory search.

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::{CHUNK_BITS, chunks};
use crate::fault::Fault;

/// Removes everything of a conversation's blocks above a place. Its row is locked by the caller, so that nobody brings it
/// into the index meanwhile.
pub(crate) async fn forget(tx: &Transaction<'_>, conversation: i64, above: i64) -> Result<(), Fault> {
    if above == 0 {
        empty(tx, conversation).await?;
        tx.query_typed(
            "DELETE FROM annals.recall_source WHERE conversation = $1",
            &[(&conversation, Type::INT8)],
        )
        .await?;
        return Ok(());
    }
    let row = tx
        .query_typed_one(
            "SELECT min(place) FROM annals.recall_passage WHERE conversation = $1 AND seq > $2",
            &[(&conversation, Type::INT8), (&above, Type::INT8)],
        )
        .await?;
    if let Some(first) = row.get::<_, Option<i32>>(0) {
        cut_off(tx, conversation, first).await?;
    }
    // What only forks share does not grow, so that no place is given out again.
    tx.query_typed(
        "UPDATE annals.recall_source SET upto = least(upto, $2), next = least(next,
             coalesce((SELECT max(place) + 1 FROM annals.recall_passage WHERE conversation = $1), 0))
         WHERE conversation = $1",
        &[(&conversation, Type::INT8), (&above, Type::INT8)],
    )
    .await?;
    Ok(())
}

/// Removes a conversation's passages from a place on.
async fn cut_off(tx: &Transaction<'_>, conversation: i64, first: i32) -> Result<(), Fault> {
    tx.query_typed(
        "DELETE FROM annals.recall_passage WHERE conversation = $1 AND place >= $2",
        &[(&conversation, Type::INT8), (&first, Type::INT4)],
    )
    .await?;
    let (start, end) = chunks(conversation);
    let cut = start + (i64::from(first) >> CHUNK_BITS);
    let kept = first & ((1 << CHUNK_BITS) - 1);
    tx.query_typed(
        "UPDATE annals.recall_term SET places = coalesce((SELECT string_agg(substring(places FROM n FOR 1), ''::bytea ORDER BY n)
             FROM generate_series(1, length(places)) n WHERE get_byte(places, n - 1) < $2), ''::bytea)
         WHERE chunk = $1",
        &[(&cut, Type::INT8), (&kept, Type::INT4)],
    )
    .await?;
    tx.query_typed(
        "DELETE FROM annals.recall_term WHERE chunk >= $1 AND chunk < $2 AND (chunk > $1 OR length(places) = 0)",
        &[(&cut, Type::INT8), (&end, Type::INT8)],
    )
    .await?;
    Ok(())
}

/// Removes all passages of a conversation.
pub(super) async fn empty(tx: &Transaction<'_>, conversation: i64) -> Result<(), Fault> {
    let (start, end) = chunks(conversation);
    tx.query_typed(
        "DELETE FROM annals.recall_term WHERE chunk >= $1 AND chunk < $2",
        &[(&start, Type::INT8), (&end, Type::INT8)],
    )
    .await?;
    for table in ["recall_passage", "recall_file"] {
        let statement = format!("DELETE FROM annals.{table} WHERE conversation = $1");
        tx.query_typed(&statement, &[(&conversation, Type::INT8)]).await?;
    }
    Ok(())
}
