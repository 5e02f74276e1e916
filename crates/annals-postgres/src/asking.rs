//! Which conversations ask a person or a client for something, kept in their heads so that nobody has to read them all.

use annals_core::block::BlockKind;
use annals_core::ids::{ConversationKey, Scope, Seq};
use annals_store::log::asks_from_back;
use annals_store::{Asking, AskingPage, Cursor};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use crate::conversations::tail_of;
use crate::fault::Fault;

/// From where a fork at this place asks. Strands are (conversation, what lies before its own blocks), the last one first;
/// the types of the last turn's blocks are read backwards.
pub(crate) async fn found(
    tx: &Transaction<'_>,
    strands: &[(i64, i64)],
    at: Seq,
) -> Result<Option<Seq>, Fault> {
    const PAGE_BLOCKS: i64 = 200;
    let (mut from, mut to) = (None, at.get() as i64);
    for (strand, cut) in strands {
        while to > *cut {
            let rows = tx
                .query_typed(
                    "SELECT seq, kind FROM annals.block WHERE conversation = $1 AND seq > $2 AND seq <= $3
                     ORDER BY seq DESC LIMIT $4",
                    &[
                        (strand, Type::INT8),
                        (cut, Type::INT8),
                        (&to, Type::INT8),
                        (&PAGE_BLOCKS, Type::INT8),
                    ],
                )
                .await?;
            let kinds = rows.iter().map(|row| {
                let tag = std::str::from_utf8(row.get(1)).unwrap_or_default();
                let seq =
                    tail_of(row.get(0)).ok_or_else(|| Fault::Damaged("a block has no place".to_owned()))?;
                Ok::<_, Fault>((seq, BlockKind::from_tag(tag)))
            });
            let (earlier, is_bounded) = asks_from_back(kinds)?;
            from = earlier.or(from);
            if is_bounded {
                return Ok(from);
            }
            to = match rows.last() {
                Some(last) => last.get::<_, i64>(0) - 1,
                None => *cut,
            };
        }
    }
    Ok(from)
}

/// A page of a scope's conversations that ask.
pub(crate) async fn list(
    client: &Client,
    scope: &Scope,
    after: u64,
    limit: usize,
) -> Result<AskingPage, Fault> {
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let rows = client
        .query_typed(
            "SELECT h.conversation, h.asks_from, s.text || '/' || c.id FROM annals.scope s
             JOIN annals.head h ON h.scope_key = s.key JOIN annals.conversation c ON c.key = h.conversation
             WHERE s.text = $1 AND h.asks_from IS NOT NULL AND h.conversation > $2
             ORDER BY h.conversation LIMIT $3",
            &[
                (&scope.to_string(), Type::TEXT),
                (&i64::try_from(after).unwrap_or(i64::MAX), Type::INT8),
                (&one_more, Type::INT8),
            ],
        )
        .await?;
    let asking = rows.iter().take(limit).map(|row| {
        let key = ConversationKey::parse(row.get(2)).map_err(|error| Fault::Damaged(error.to_string()))?;
        let from =
            tail_of(row.get(1)).ok_or_else(|| Fault::Damaged(format!("`{key}` asks from no block")))?;
        Ok(Asking { key, from })
    });
    let items = asking.collect::<Result<Vec<_>, Fault>>()?;
    let last = rows.iter().take(limit).last().filter(|_| rows.len() > limit);
    Ok(AskingPage {
        items,
        next: last.map(|row| Cursor::of_number(row.get::<_, i64>(0).unsigned_abs())),
    })
}
