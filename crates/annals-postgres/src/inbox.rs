//! The inbox as statements. A row that was consumed stays without its body while its client key must be known.
//!
//! How many rows wait is counted in the head, so that an append which ends the work decides by what its row lock shows it
//! and not by an older snapshot of the inbox: a post that was committed meanwhile is never forgotten.

use annals_core::ids::ConversationKey;
use annals_core::time::Timestamp;
use annals_store::columns::checksum;
use annals_store::log::{ANSWER_KEPT, CLIENT_KEY_KEPT};
use annals_store::{InboxId, LogError, Pending, Post, Posted};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::answers::Keepable;
use crate::conversations::{find, not_found};
use crate::fault::Fault;
use crate::head::micros;
use crate::sql::{found, now};

/// At once, this many rows whose client keys need not be known any more go.
const FORGOTTEN_AT_ONCE: i64 = 1_000;

/// Adds a row, and makes the conversation due; gives the conversation's number too.
pub(crate) async fn post(
    client: &Client,
    now: Option<i64>,
    key: &ConversationKey,
    post: &Post,
) -> Result<(i64, Posted), Fault> {
    let answer = post.answer.clone().map(Keepable::new);
    loop {
        match try_post(client, now, key, post, answer.as_ref()).await {
            // Another post or answer of this key was quicker, or an old row of it is still there.
            Err(fault) if fault.is_unique_violation() => {
                forget_key(client, now, key, post).await?;
                if let Some(answer) = &answer {
                    answer.forget_expired(client, now).await?;
                }
            }
            outcome => return outcome,
        }
    }
}

async fn try_post(
    client: &Client,
    now: Option<i64>,
    key: &ConversationKey,
    post: &Post,
    answer: Option<&Keepable>,
) -> Result<(i64, Posted), Fault> {
    // The number is drawn while the head's lock is held, so that numbers rise in the order of commits.
    const STATEMENT: &str = concat!(
        "WITH ",
        found!(),
        ", known AS MATERIALIZED (SELECT i.id, i.digest FROM annals.inbox i JOIN c ON i.conversation = c.key
            WHERE sha256(i.client_key) = sha256($4) AND (i.body IS NOT NULL OR i.posted > ",
        now!(),
        " - $9)),
         answered AS MATERIALIZED (SELECT FROM annals.answer a WHERE a.id = $10 AND a.kept > ",
        now!(),
        " - $15),
         h AS (UPDATE annals.head h SET posted = nextval('annals.post'), waiting = h.waiting + 1,
            due = least(h.due, ",
        now!(),
        ") FROM c WHERE h.conversation = c.key AND NOT EXISTS (SELECT FROM known)
            AND NOT EXISTS (SELECT FROM answered)
            RETURNING h.conversation, h.posted),
         i AS (INSERT INTO annals.inbox (conversation, id, client_key, kind, body, digest, posted, sum)
            SELECT h.conversation, h.posted, $4, $5, $6, $7, ",
        now!(),
        ", $8 FROM h RETURNING id),
         a AS (INSERT INTO annals.answer (id, digest, status, body, kept, sum)
            SELECT $10, $11, $12, $13, ",
        now!(),
        ", $14 FROM h WHERE $10 IS NOT NULL)
         SELECT known.id, known.digest, i.id, c.key, EXISTS (SELECT FROM answered) FROM c LEFT JOIN known ON true LEFT JOIN i ON true"
    );
    let digest = post.digest();
    let row = client
        .query_typed_opt(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&key.scope.to_string(), Type::TEXT),
                (&key.id.as_str(), Type::TEXT),
                (&post.client_key.as_bytes(), Type::BYTEA),
                (&post.kind.as_bytes(), Type::BYTEA),
                (&post.body, Type::BYTEA),
                (&&digest[..], Type::BYTEA),
                (&sum(key, post), Type::INT8),
                (&micros(CLIENT_KEY_KEPT), Type::INT8),
                (&answer.map(Keepable::id), Type::BYTEA),
                (&answer.map(Keepable::digest), Type::BYTEA),
                (&answer.map(Keepable::status), Type::INT4),
                (&answer.map(Keepable::body), Type::BYTEA),
                (&answer.map(Keepable::sum), Type::INT8),
                (&micros(ANSWER_KEPT), Type::INT8),
            ],
        )
        .await?
        .ok_or_else(|| not_found(key))?;
    if let Some(answer) = answer.filter(|_| row.get(4)) {
        return Err(answer.refusal().into());
    }
    let id = |column: usize| {
        row.get::<_, Option<i64>>(column)
            .map(|id| InboxId::new(id.unsigned_abs()))
    };
    match (id(0), id(2)) {
        (Some(known), _) if row.get::<_, &[u8]>(1) == digest => Ok((row.get(3), Posted::Duplicate(known))),
        (Some(_), _) => Err(LogError::KeyReused {
            id: key.id.clone(),
            client_key: post.client_key.clone(),
        }
        .into()),
        (None, Some(made)) => Ok((row.get(3), Posted::New(made))),
        (None, None) => Err(not_found(key)),
    }
}

/// Takes an expired row of this client key away.
async fn forget_key(
    client: &Client,
    now: Option<i64>,
    key: &ConversationKey,
    post: &Post,
) -> Result<(), Fault> {
    const STATEMENT: &str = concat!(
        "WITH ",
        found!(),
        " DELETE FROM annals.inbox i USING c WHERE i.conversation = c.key AND sha256(i.client_key) = sha256($4)
          AND i.body IS NULL AND i.posted <= ",
        now!(),
        " - $5"
    );
    client
        .query_typed(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&key.scope.to_string(), Type::TEXT),
                (&key.id.as_str(), Type::TEXT),
                (&post.client_key.as_bytes(), Type::BYTEA),
                (&micros(CLIENT_KEY_KEPT), Type::INT8),
            ],
        )
        .await?;
    Ok(())
}

/// Takes some consumed rows away whose client keys need not be known any more.
pub(crate) async fn forget(client: &Client, now: Option<i64>) -> Result<(), Fault> {
    const STATEMENT: &str = concat!(
        "DELETE FROM annals.inbox WHERE (conversation, id) IN
         (SELECT conversation, id FROM annals.inbox WHERE body IS NULL AND posted <= ",
        now!(),
        " - $2 ORDER BY posted LIMIT $3 FOR UPDATE SKIP LOCKED)"
    );
    client
        .query_typed(
            STATEMENT,
            &[
                (&now, Type::INT8),
                (&micros(CLIENT_KEY_KEPT), Type::INT8),
                (&FORGOTTEN_AT_ONCE, Type::INT8),
            ],
        )
        .await?;
    Ok(())
}

fn sum(key: &ConversationKey, post: &Post) -> i64 {
    let scope = key.scope.to_string();
    checksum(
        &[],
        &[
            Some(scope.as_bytes()),
            Some(key.id.as_str().as_bytes()),
            Some(post.client_key.as_bytes()),
            Some(post.kind.as_bytes()),
            Some(&post.body),
        ],
    )
}

/// What waits, the oldest first.
pub(crate) async fn pending(client: &Client, key: &ConversationKey) -> Result<Vec<Pending>, Fault> {
    let place = find(client, key).await?;
    let rows = client
        .query_typed(
            "SELECT id, client_key, kind, body, posted, sum FROM annals.inbox
             WHERE conversation = $1 AND body IS NOT NULL ORDER BY id",
            &[(&place.key, Type::INT8)],
        )
        .await?;
    rows.iter().map(|row| read(row, key)).collect()
}

fn read(row: &Row, key: &ConversationKey) -> Result<Pending, Fault> {
    let id: i64 = row.get(0);
    let damaged = |what: &str| Fault::Damaged(format!("post {id} {what}"));
    let text = |column: usize| {
        String::from_utf8(row.get::<_, Vec<u8>>(column)).map_err(|_| damaged("has a malformed text"))
    };
    let post = Post::new(text(1)?, text(2)?, row.get::<_, Vec<u8>>(3));
    if sum(key, &post) != row.get::<_, i64>(5) {
        return Err(damaged("does not match its checksum"));
    }
    Ok(Pending {
        id: InboxId::new(id.unsigned_abs()),
        post,
        posted: Timestamp::from_unix_micros(row.get(4)),
    })
}
