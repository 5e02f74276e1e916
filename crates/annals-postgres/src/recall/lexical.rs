//! Words and numbers of passages, as rows.

use annals_store::recall::lexical::{Area, Postings};
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::CHUNK_BITS;
use crate::fault::Fault;

/// One view of the index.
pub(super) struct View<'t> {
    pub(super) tx: &'t Transaction<'t>,
    pub(super) scope_key: i64,
    /// The chunks that are searched; none for all of the scope.
    pub(super) searched: Option<Vec<(i64, i64)>>,
}

impl Postings for View<'_> {
    type Error = Fault;

    async fn passages(&self, terms: &[String], area: Area, most: usize) -> Result<Vec<Vec<i64>>, Fault> {
        let everything = [(0, i64::MAX)];
        let chunks = match (area, &self.searched) {
            (Area::Searched, Some(searched)) => searched.as_slice(),
            _ => &everything,
        };
        let (starts, ends): (Vec<i64>, Vec<i64>) = chunks.iter().copied().unzip();
        // A row has at least one passage, so that as many rows as passages are enough.
        let rows = self
            .tx
            .query_typed(
                "SELECT t.n, r.chunk, r.places FROM unnest($2::text[]) WITH ORDINALITY t (term, n)
                 CROSS JOIN unnest($3::int8[], $4::int8[]) u (first, beyond)
                 CROSS JOIN LATERAL (SELECT chunk, places FROM annals.recall_term WHERE scope_key = $1
                     AND term = t.term AND chunk >= u.first AND chunk < u.beyond ORDER BY chunk DESC LIMIT $5) r
                 ORDER BY t.n, r.chunk DESC",
                &[
                    (&self.scope_key, Type::INT8),
                    (&terms, Type::TEXT_ARRAY),
                    (&starts, Type::INT8_ARRAY),
                    (&ends, Type::INT8_ARRAY),
                    (&(most as i64), Type::INT8),
                ],
            )
            .await?;
        let mut found = vec![Vec::new(); terms.len()];
        for row in &rows {
            let (term, chunk): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let places: &[u8] = row.try_get(2)?;
            let Some(docs) = usize::try_from(term - 1).ok().and_then(|at| found.get_mut(at)) else {
                continue;
            };
            let numbers = places
                .iter()
                .rev()
                .map(|place| chunk << CHUNK_BITS | i64::from(*place));
            docs.extend(numbers.take(most - docs.len()));
        }
        Ok(found)
    }

    async fn vocabulary(&self, from: &str, to: &str) -> Result<Vec<String>, Fault> {
        // From one term to the next by the index, however many passages have it.
        let rows = self
            .tx
            .query_typed(
                "WITH RECURSIVE w AS (
                     (SELECT term FROM annals.recall_term WHERE scope_key = $1 AND term >= $2 AND term < $3
                      ORDER BY term LIMIT 1)
                     UNION ALL
                     SELECT (SELECT t.term FROM annals.recall_term t WHERE t.scope_key = $1 AND t.term > w.term
                         AND t.term < $3 ORDER BY t.term LIMIT 1)
                     FROM w WHERE w.term IS NOT NULL)
                 SELECT term FROM w WHERE term IS NOT NULL",
                &[
                    (&self.scope_key, Type::INT8),
                    (&from, Type::TEXT),
                    (&to, Type::TEXT),
                ],
            )
            .await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}
