//! Answers to requests that may be sent again, kept by the statement of their effect.
//!
//! Of two requests at once, the second one's statement fails by the primary key and takes its effect along.

use annals_store::columns::checksum;
use annals_store::log::ANSWER_KEPT;
use annals_store::{IdempotencyKey, LogError, StoredAnswer};
use sha2::{Digest as _, Sha256};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, GenericClient};

use crate::fault::Fault;
use crate::head::micros;
use crate::sql::now;

/// At once, this many answers that need not be known any more go.
const FORGOTTEN_AT_ONCE: i64 = 1_000;

/// The digest of scope, route and key: of one length, whatever a client sends.
fn id(to: &IdempotencyKey) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [to.scope.to_string().as_str(), &to.route, &to.key] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// An answer, ready to be kept.
#[derive(Debug)]
pub(crate) struct Keepable {
    id: [u8; 32],
    sum: i64,
    answer: StoredAnswer,
}

impl Keepable {
    pub(crate) fn new(answer: StoredAnswer) -> Self {
        let id = id(&answer.to);
        Keepable {
            sum: sum(&id, &answer),
            id,
            answer,
        }
    }

    pub(crate) fn id(&self) -> &[u8] {
        &self.id
    }

    pub(crate) fn digest(&self) -> &[u8] {
        &self.answer.digest
    }

    pub(crate) fn status(&self) -> i32 {
        i32::from(self.answer.status)
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.answer.body
    }

    pub(crate) fn sum(&self) -> i64 {
        self.sum
    }

    /// What is said to a request that was answered before.
    pub(crate) fn refusal(&self) -> LogError {
        LogError::Answered {
            key: self.answer.to.key.clone(),
        }
    }

    /// Whether the key has been answered.
    pub(crate) async fn is_kept(&self, client: &Client, now: Option<i64>) -> Result<bool, Fault> {
        Ok(find(client, now, &self.answer.to).await?.is_some())
    }

    /// Takes the answer away that is too old to count.
    pub(crate) async fn forget_expired(&self, client: &Client, now: Option<i64>) -> Result<(), Fault> {
        const STATEMENT: &str = concat!(
            "DELETE FROM annals.answer WHERE id = $2 AND kept <= ",
            now!(),
            " - $3"
        );
        client
            .query_typed(
                STATEMENT,
                &[
                    (&now, Type::INT8),
                    (&self.id(), Type::BYTEA),
                    (&micros(ANSWER_KEPT), Type::INT8),
                ],
            )
            .await?;
        Ok(())
    }

    /// Keeps it; refuses if the key has been answered.
    pub(crate) async fn keep(
        &self,
        client: &(impl GenericClient + Sync),
        now: Option<i64>,
    ) -> Result<(), Fault> {
        const STATEMENT: &str = concat!(
            "INSERT INTO annals.answer AS a (id, digest, status, body, kept, sum) VALUES ($2, $3, $4, $5, ",
            now!(),
            ", $6) ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, status = excluded.status,
             body = excluded.body, kept = excluded.kept, sum = excluded.sum WHERE a.kept <= ",
            now!(),
            " - $7 RETURNING 1"
        );
        let kept = client
            .query_typed(
                STATEMENT,
                &[
                    (&now, Type::INT8),
                    (&self.id(), Type::BYTEA),
                    (&self.digest(), Type::BYTEA),
                    (&self.status(), Type::INT4),
                    (&self.body(), Type::BYTEA),
                    (&self.sum, Type::INT8),
                    (&micros(ANSWER_KEPT), Type::INT8),
                ],
            )
            .await?;
        match kept.is_empty() {
            false => Ok(()),
            true => Err(self.refusal().into()),
        }
    }
}

/// The answers of several appends, column by column.
#[derive(Default)]
pub(crate) struct Keepables<'a> {
    conversation: Vec<i64>,
    id: Vec<&'a [u8]>,
    digest: Vec<&'a [u8]>,
    status: Vec<i32>,
    body: Vec<&'a [u8]>,
    sum: Vec<i64>,
}

impl<'a> Keepables<'a> {
    pub(crate) fn push(&mut self, conversation: i64, answer: &'a Keepable) {
        self.conversation.push(conversation);
        self.id.push(&answer.id);
        self.digest.push(answer.digest());
        self.status.push(answer.status());
        self.body.push(answer.body());
        self.sum.push(answer.sum);
    }

    pub(crate) fn parameters(&self) -> [(&(dyn ToSql + Sync), Type); 6] {
        [
            (&self.conversation, Type::INT8_ARRAY),
            (&self.id, Type::BYTEA_ARRAY),
            (&self.digest, Type::BYTEA_ARRAY),
            (&self.status, Type::INT4_ARRAY),
            (&self.body, Type::BYTEA_ARRAY),
            (&self.sum, Type::INT8_ARRAY),
        ]
    }
}

fn sum(id: &[u8], answer: &StoredAnswer) -> i64 {
    checksum(
        &[i64::from(answer.status)],
        &[Some(id), Some(&answer.digest), Some(&answer.body)],
    )
}

/// What was answered to this key.
pub(crate) async fn find(
    client: &Client,
    now: Option<i64>,
    to: &IdempotencyKey,
) -> Result<Option<StoredAnswer>, Fault> {
    const STATEMENT: &str = concat!(
        "SELECT digest, status, body, sum FROM annals.answer WHERE id = $2 AND kept > ",
        now!(),
        " - $3"
    );
    let id = id(to);
    let row = client
        .query_typed_opt(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&&id[..], Type::BYTEA),
                (&micros(ANSWER_KEPT), Type::INT8),
            ],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    let damaged = || {
        let key = to.key.escape_default();
        Fault::Damaged(format!("the answer to `{key}` does not match its checksum"))
    };
    let answer = StoredAnswer {
        to: to.clone(),
        digest: row.get::<_, &[u8]>(0).try_into().map_err(|_| damaged())?,
        status: u16::try_from(row.get::<_, i32>(1)).map_err(|_| damaged())?,
        body: row.get(2),
    };
    match sum(&id, &answer) == row.get::<_, i64>(3) {
        true => Ok(Some(answer)),
        false => Err(damaged()),
    }
}

/// Takes some answers away that need not be known any more.
pub(crate) async fn forget(client: &Client, now: Option<i64>) -> Result<(), Fault> {
    const STATEMENT: &str = concat!(
        "DELETE FROM annals.answer WHERE id IN (SELECT id FROM annals.answer WHERE kept <= ",
        now!(),
        " - $2 ORDER BY kept LIMIT $3 FOR UPDATE SKIP LOCKED)"
    );
    client
        .query_typed(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&micros(ANSWER_KEPT), Type::INT8),
                (&FORGOTTEN_AT_ONCE, Type::INT8),
            ],
        )
        .await?;
    Ok(())
}
