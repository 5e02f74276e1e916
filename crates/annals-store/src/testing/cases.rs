//! One function for each rule of the contract.

use std::sync::Arc;
use std::time::Duration;

use annals_core::block::{Block, BlockKind};
use annals_core::ids::{ConversationKey, Scope, Seq};
use futures::future::BoxFuture;

use crate::clock::{Clock as _, ManualClock};
use crate::log::{
    BlockLogExt as _, IdempotencyKey, Lease, LogError, Post, Role, Roles, Stale, Store, StoredAnswer, Token,
};
use crate::testing::sample::{after, conversation, new_conversation, owner, text_block};

/// A rule, tried on an empty store.
#[derive(Clone, Copy)]
pub struct Case {
    /// The behaviour.
    pub name: &'static str,
    /// Panics if the store behaves otherwise.
    pub run: fn(Subject) -> BoxFuture<'static, ()>,
}

/// An empty store, with the clock that it lives by.
#[derive(Clone)]
pub struct Subject {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
}

impl Subject {
    /// This store, which lives by this clock.
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        Subject { store, clock }
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

impl std::ops::Deref for Subject {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

macro_rules! cases {
    ($($(#[doc = $doc:literal])* async fn $name:ident($log:ident) $body:block)*) => {
        pub(super) const CASES: &[Case] = &[$(Case { name: stringify!($name), run: |log| Box::pin($name(log)) },)*];
        $($(#[doc = $doc])* async fn $name($log: Subject) $body)*
    };
}

// The modules below use the macro.
mod blocks;
mod forks;
mod inbox;
mod leases;
mod servers;

/// Every rule.
pub const CASES: &[Case] = &joined::<COUNT>();

const PARTS: [&[Case]; 5] = [
    blocks::CASES,
    leases::CASES,
    forks::CASES,
    inbox::CASES,
    servers::CASES,
];

const COUNT: usize = {
    let (mut part, mut count) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
};

const fn joined<const N: usize>() -> [Case; N] {
    let mut all = [PARTS[0][0]; N];
    let (mut part, mut at, mut filled) = (0, 0, 0);
    while part < PARTS.len() {
        if at == PARTS[part].len() {
            (part, at) = (part + 1, 0);
            continue;
        }
        all[filled] = PARTS[part][at];
        (at, filled) = (at + 1, filled + 1);
    }
    all
}

const TTL: Duration = Duration::from_secs(30);

fn seq(number: u64) -> Option<Seq> {
    Seq::try_new(number).ok()
}

fn nth(number: u64) -> Seq {
    Seq::try_new(number).expect("from 1")
}

/// The conversation of that name in another scope.
fn elsewhere(name: &str) -> ConversationKey {
    let scope = Scope::parse("o/t/her").expect("a scope");
    ConversationKey::new(scope, conversation(name).id)
}

async fn begin(log: &Subject, name: &str) -> Lease {
    log.create(new_conversation(name)).await.unwrap();
    log.acquire(&conversation(name), &owner("a"), TTL).await.unwrap()
}

/// Appends text blocks `from..=to`.
async fn fill(log: &Subject, lease: &Lease, from: u64, to: u64) {
    let blocks = (from..=to)
        .map(|n| text_block(n, &format!("{}-{n}", lease.key().id)))
        .collect();
    assert_eq!(
        log.append(lease, after(seq(from - 1), blocks)).await.unwrap(),
        seq(to)
    );
}

/// Blocks of these types, from this place on.
fn of_kinds(from: u64, kinds: &[BlockKind]) -> Vec<Block> {
    let block = |(n, kind): (u64, &BlockKind)| Block {
        kind: kind.clone(),
        ..text_block(n, "x")
    };
    (from..).zip(kinds).map(block).collect()
}

async fn texts(log: &Subject, name: &str) -> Vec<String> {
    let blocks = log.read_all(&conversation(name)).await.unwrap();
    let numbers: Vec<u64> = blocks.iter().map(|block| block.seq.get()).collect();
    assert_eq!(numbers, (1..=blocks.len() as u64).collect::<Vec<_>>(), "no gaps");
    blocks
        .iter()
        .map(|block| block.text().unwrap_or("-").to_owned())
        .collect()
}

fn prompt(client_key: &str, body: &str) -> Post {
    Post::new(client_key, "prompt", body)
}

/// An answer under this key; its body tells it from others.
fn answer(key: &str, body: &str) -> StoredAnswer {
    let to = IdempotencyKey {
        scope: Scope::default(),
        route: "POST /v1/things".to_owned(),
        key: key.to_owned(),
    };
    StoredAnswer {
        to,
        digest: [7; 32],
        status: 201,
        body: body.as_bytes().to_vec(),
    }
}

fn token(name: &str, byte: u8, expires_in: Option<u64>, log: &Subject) -> Token {
    let now = log.clock.now();
    let micros = |seconds: u64| i64::try_from(seconds).expect("a test's time") * 1_000_000;
    Token {
        name: name.to_owned(),
        hash: [byte; 32],
        scope: Scope::parse("o/t/her").expect("a scope"),
        roles: Roles::from_iter([Role::Use, Role::Metrics]),
        created: now,
        expires: expires_in.map(|seconds| now.plus_micros(micros(seconds))),
    }
}

fn is_answered(outcome: &Result<impl Sized, LogError>) -> bool {
    matches!(outcome, Err(LogError::Answered { .. }))
}

fn is_stale_lease(outcome: &Result<impl Sized, LogError>) -> bool {
    matches!(
        outcome,
        Err(LogError::Conflict {
            stale: Stale::Lease { .. },
            ..
        })
    )
}

fn is_stale_tail(outcome: &Result<impl Sized, LogError>) -> bool {
    matches!(
        outcome,
        Err(LogError::Conflict {
            stale: Stale::Tail { .. },
            ..
        })
    )
}
