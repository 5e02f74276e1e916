//! Which conversations ask for something, kept in their heads so that nobody has to read them all.

use annals_core::block::BlockKind;
use annals_core::ids::{ConversationKey, Scope, Seq};
use rusqlite::{Connection, params};

use super::conversations::{self, Place};
use super::fault::Fault;
use super::reader;
use crate::log::{Asking, AskingPage, Cursor, asks_from_back};

/// A column's place.
pub(super) fn place(number: i64) -> Option<Seq> {
    Seq::try_new(number.unsigned_abs()).ok()
}

/// Notes from where a conversation asks whose blocks were not appended one by one: a fork, or a log of an older schema.
pub(super) fn note(tx: &Connection, place: Place) -> Result<(), Fault> {
    let Some(tail) = conversations::tail(tx, place)? else {
        return Ok(());
    };
    let Some(from) = find(tx, place, tail)? else {
        return Ok(());
    };
    tx.prepare_cached(
        "INSERT INTO head (conversation, token, asks_from) VALUES (?1, 0, ?2)
         ON CONFLICT (conversation) DO UPDATE SET asks_from = excluded.asks_from",
    )?
    .execute(params![place.key, from.get() as i64])?;
    Ok(())
}

/// Reads the types of the last turn's blocks, the last one first.
fn find(tx: &Connection, place: Place, tail: Seq) -> Result<Option<Seq>, Fault> {
    let mut from = None;
    for (strand, first, last) in reader::strands(tx, place, 1, tail.get())?.into_iter().rev() {
        let mut statement = tx.prepare_cached(
            "SELECT b.seq, w.text FROM block b JOIN word w ON w.key = b.kind
             WHERE b.conversation = ?1 AND b.seq BETWEEN ?2 AND ?3 ORDER BY b.seq DESC",
        )?;
        let blocks = statement.query_map(params![strand, first as i64, last as i64], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
        })?;
        let blocks = blocks.map(|block| {
            let (seq, tag) = block?;
            let kind = BlockKind::from_tag(&tag);
            let seq = self::place(seq).ok_or_else(|| Fault::Damaged("a block has no place".to_owned()))?;
            Ok::<_, Fault>((seq, kind))
        });
        let (earlier, is_bounded) = asks_from_back(blocks)?;
        from = earlier.or(from);
        if is_bounded {
            break;
        }
    }
    Ok(from)
}

/// A page of a scope's conversations that ask.
pub(super) fn list(tx: &Connection, scope: &Scope, after: u64, limit: usize) -> Result<AskingPage, Fault> {
    let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut statement = tx.prepare_cached(
        "SELECT h.conversation, h.asks_from, s.text || '/' || c.id FROM head h
         JOIN conversation c ON c.key = h.conversation JOIN scope s ON s.key = c.scope_key
         WHERE h.asks_from IS NOT NULL AND h.conversation > ?2 AND s.text = ?1 AND c.id IS NOT NULL
         ORDER BY h.conversation LIMIT ?3",
    )?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![scope.to_string(), after, one_more])?;
    let (mut page, mut last) = (AskingPage::default(), None);
    while let Some(row) = rows.next()? {
        if page.items.len() == limit {
            page.next = last;
            break;
        }
        let (number, from, key): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let key = ConversationKey::parse(&key).map_err(|error| Fault::Damaged(error.to_string()))?;
        let from = place(from).ok_or_else(|| Fault::Damaged(format!("`{key}` asks from no block")))?;
        last = Some(Cursor::of_number(number.unsigned_abs()));
        page.items.push(Asking { key, from });
    }
    Ok(page)
}
