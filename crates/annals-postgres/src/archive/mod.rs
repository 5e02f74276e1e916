//! Idle conversations as objects of the artifact store: `moves` has the statements, `segment` the object's form.
//!
//! The row of a conversation in `annals.archive` decides whether its own blocks lie in the table or in an object. It changes in
//! the transaction that removes the blocks, or puts them back; whoever finds blocks missing looks there. A conversation that
//! forks share blocks of is not archived, and one that is comes back before it is forked, so that no other depends on its object.

mod moves;
mod segment;

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use annals_core::block::Blob;
use annals_store::log::{Archived, Idle, IdlePage};
use annals_store::{ArtifactLedger, ArtifactStore, Clock, Cursor, LogError};
use bytes::Bytes;
use tokio::sync::Mutex;

use self::moves::Leaving;
pub(crate) use self::moves::{SCHEMA, State, first_archived, state_of};
use self::segment::{Header, Writer};
use crate::pool::{Pool, attempt};

/// Maximum number of conversations that come back on a node at once: each is held in memory, compressed.
const RESTORES_MAX: usize = 4;

/// What needs blocks that somebody keeps archiving under its hands is given up after this many times.
const ROUNDS_MAX: usize = 20;

/// Blocks that are read or written at once.
const PAGE_BLOCKS: usize = 200;

/// What an operation came to that needs the blocks of conversations.
#[derive(Debug)]
pub(crate) enum Fetched<T> {
    Done(T),
    /// The own blocks of this conversation have to come back first.
    Archived(i64),
}

/// How often an operation may find blocks archived.
#[derive(Debug, Default)]
pub(crate) struct Rounds(usize);

/// Moves blocks out and back.
pub(crate) struct Archives {
    pool: Arc<Pool>,
    objects: Option<ArtifactStore>,
    clock: Option<Arc<dyn Clock>>,
    /// Who brings a conversation back holds the one of its number, so that one node reads an object once.
    turns: [Mutex<()>; RESTORES_MAX],
}

impl Archives {
    pub(crate) fn new(
        pool: &Arc<Pool>,
        objects: Option<ArtifactStore>,
        clock: Option<&Arc<dyn Clock>>,
    ) -> Arc<Self> {
        Arc::new(Archives {
            pool: Arc::clone(pool),
            objects,
            clock: clock.cloned(),
            turns: Default::default(),
        })
    }

    fn now(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().unix_micros())
    }

    /// Brings a conversation's own blocks back for an operation that tries again afterwards.
    pub(crate) async fn bring_back(&self, number: i64, rounds: &mut Rounds) -> Result<(), LogError> {
        rounds.0 += 1;
        if rounds.0 > ROUNDS_MAX {
            let log = self.pool.address().name().to_owned();
            return Err(LogError::Busy { log });
        }
        let _turn = self.turns[number.unsigned_abs() as usize % RESTORES_MAX]
            .lock()
            .await;
        let Some(leaving) = self.leaving(number).await? else {
            return Ok(());
        };
        let segment = match self.fetch(&leaving).await {
            Ok(segment) => segment,
            // Another node has brought it back, and what nobody needs any more was removed.
            Err(_) if self.leaving(number).await?.as_ref() != Some(&leaving) => return Ok(()),
            Err(error) => return Err(error),
        };
        let now = self.now();
        attempt!(self.pool, |client, attempts| moves::bring_back(
            client,
            now,
            &leaving,
            Arc::clone(&segment)
        ))
    }

    /// What is archived of a conversation.
    async fn leaving(&self, number: i64) -> Result<Option<Leaving>, LogError> {
        attempt!(self.pool, |client, attempts| moves::find(client, number))
    }

    /// The object in a file: it may be larger than memory likes.
    async fn fetch(&self, leaving: &Leaving) -> Result<Arc<File>, LogError> {
        let Some(objects) = &self.objects else {
            return Err(leaving.unusable("this program was started without an artifact store"));
        };
        let file = objects.get_file(&leaving.object).await;
        file.map(Arc::new).map_err(|error| leaving.unusable(error))
    }

    pub(crate) async fn idle(
        &self,
        at_least: Duration,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<IdlePage, LogError> {
        let after = cursor.map_or(Ok(0), |cursor| cursor.number())?;
        let now = self.now();
        attempt!(self.pool, |client, attempts| moves::idle(
            client, now, at_least, after, limit
        ))
    }

    /// Archives a conversation that is as it was found. `ledger` is told of the object before it is written.
    pub(crate) async fn archive(
        &self,
        ledger: &dyn ArtifactLedger,
        idle: &Idle,
    ) -> Result<Option<Archived>, LogError> {
        let Some(objects) = &self.objects else {
            return Err(LogError::Storage {
                log: self.pool.address().name().to_owned(),
                detail: "it was opened without an artifact store, so that nothing can be archived".to_owned(),
            });
        };
        let Some((bytes, sum)) = self.segment(idle).await? else {
            return Ok(None);
        };
        let object = Blob::of(&bytes);
        let failed = |error: annals_store::ArtifactError| LogError::Storage {
            log: "artifacts".to_owned(),
            detail: error.to_string(),
        };
        objects.put_by(ledger, bytes).await.map_err(failed)?;
        let now = self.now();
        let archived: Result<bool, LogError> = attempt!(self.pool, |client, attempts| moves::put_away(
            client,
            now,
            idle,
            (object, sum),
            attempts.in_doubt()
        ));
        Ok(archived?.then_some(Archived {
            object,
            blocks: idle.blocks,
        }))
    }

    /// The own blocks of a conversation as an object, with their checksums added up; none if some are missing.
    async fn segment(&self, idle: &Idle) -> Result<Option<(Bytes, i64)>, LogError> {
        let (number, tail) = (idle.incarnation as i64, idle.tail.get() as i64);
        let first = tail - idle.blocks as i64 + 1;
        let header = Header::new(idle.key.to_string(), number, first, idle.blocks as i64);
        let log = || self.pool.address().name().to_owned();
        let failed = |error: std::io::Error| LogError::Storage {
            log: log(),
            detail: error.to_string(),
        };
        let mut writer = Writer::new(header).map_err(failed)?;
        let mut from = first;
        while from <= tail {
            let to = tail.min(from + PAGE_BLOCKS as i64 - 1);
            let page: Result<Vec<_>, LogError> = attempt!(self.pool, |client, attempts| moves::read(
                client, number, from, to
            ));
            let page = page?;
            let packed = tokio::task::spawn_blocking(move || writer.add(&page).map(|()| writer));
            writer = packed.await.map_err(|_| LogError::Closed)?.map_err(failed)?;
            from = to + 1;
        }
        writer.finish().map_err(failed)
    }
}
