//! Whether the database takes appends at this moment, asked without one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals_store::LogError;
use tokio_postgres::Client;

use crate::fault::{Fault, Remedy};
use crate::link::Wire;
use crate::pool::Pool;
use crate::schema;

/// An answer is waited for this long.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Whether this connection may not write, and whether a commit of this role has waited for a standby for longer than
/// standbys take. A wait cannot be ended without harm, so a further one is not begun.
const LOOK: &str = "
SELECT current_setting('transaction_read_only') = 'on',
    EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'
        AND state_change < clock_timestamp() - interval '2 seconds')";

/// Takes more room than a page has, in the table that grows, and gives it back. No conversation has this number.
const TAKE_ROOM: &str = "
INSERT INTO annals.block (conversation, seq, ts, tokens, sum, kind, author, turn, mime, body)
SELECT 0, 1, 0, 0, 0, '', '', '', '', string_agg(sha256(convert_to(n::text, 'UTF8')), ''::bytea)
FROM generate_series(1, 2048) n";

/// What writes have met.
#[derive(Debug, Default)]
pub(crate) struct Writable {
    /// Something did not fit on the server's disk. Much that is small does all the same.
    is_full: AtomicBool,
}

impl Writable {
    /// Notes what a write came to.
    pub(crate) fn note<T>(&self, outcome: &Result<T, LogError>) {
        match outcome {
            Ok(_) => self.is_full.store(false, Ordering::Relaxed),
            Err(LogError::DiskFull { .. }) => self.is_full.store(true, Ordering::Relaxed),
            Err(_) => {}
        }
    }

    /// Commits something that changes nothing, as durably as an append; fails for the reason that an append would have.
    pub(crate) async fn check(&self, pool: &Pool) -> Result<(), LogError> {
        let checked = tokio::time::timeout(ANSWER_MAX, async {
            let mut link = pool.link().await?;
            let outcome = self.write(&mut link.wire).await;
            if outcome.as_ref().err().map(Fault::remedy) != Some(Remedy::Elsewhere) {
                link.give_back();
            }
            outcome
        });
        let checked = checked.await.map_err(|_| Fault::Silent).flatten();
        checked.map_err(|fault| pool.error(fault))
    }

    async fn write(&self, wire: &mut Wire) -> Result<(), Fault> {
        let row = wire.client.query_typed_one(LOOK, &[]).await?;
        let (is_read_only, is_waiting): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
        if is_read_only {
            return Err(Fault::ReadOnly);
        }
        if is_waiting {
            return Err(Fault::Unreplicated);
        }
        if self.is_full.load(Ordering::Relaxed) {
            take_room(&mut wire.client).await?;
            self.is_full.store(false, Ordering::Relaxed);
        }
        let flush = schema::flush(&wire.client).await?;
        wire.confirm(&flush).await
    }
}

async fn take_room(client: &mut Client) -> Result<(), Fault> {
    let tx = client.transaction().await?;
    tx.batch_execute(TAKE_ROOM).await?;
    Ok(tx.rollback().await?)
}
