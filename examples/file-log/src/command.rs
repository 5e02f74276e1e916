//! Commands as they stand in the file: plain data, named as in the port.

use std::time::Duration;

use annals_core::block::BlockJson;
use annals_core::ids::{ConversationId, ConversationKey, NodeId, Seq};
use annals_store::{Ancestor, Append, Lease, NewConversation, Owner, Post, StoredAnswer, Token, Work};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Serialize, Deserialize)]
pub(crate) struct Record {
    /// When it came, in microseconds since 1970.
    pub(crate) at: i64,
    pub(crate) command: Command,
    /// What its request is answered, kept with what the command does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<StoredAnswer>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Command {
    Create {
        key: String,
        title: Option<String>,
        created: i64,
        lineage: Vec<Ancestor>,
        fork: Option<(ConversationId, Seq)>,
    },
    Acquire {
        key: String,
        owner: OwnerLine,
        ttl: Duration,
    },
    Renew(LeaseLine),
    Release(LeaseLine),
    Append {
        lease: LeaseLine,
        expected_tail: Option<Seq>,
        blocks: Vec<BlockJson>,
        batch: u64,
        consumes: Vec<u64>,
        work: WorkLine,
        #[serde(default)]
        seen: Option<u64>,
    },
    Delete(LeaseLine),
    Post {
        key: String,
        client_key: String,
        kind: String,
        body: Vec<u8>,
    },
    Claim {
        owner: OwnerLine,
        ttl: Duration,
        limit: usize,
    },
    Join {
        node: NodeId,
        address: Option<String>,
        ttl: Duration,
    },
    Beat(OwnerLine),
    Leave(OwnerLine),
    /// Nothing but the answer that comes with it.
    KeepAnswer,
    AddToken(Token),
    RevokeToken(String),
    ServerKey {
        name: String,
        fresh: [u8; 32],
    },
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct OwnerLine {
    pub(crate) node: NodeId,
    pub(crate) epoch: u64,
}

impl From<&Owner> for OwnerLine {
    fn from(owner: &Owner) -> Self {
        OwnerLine {
            node: owner.node.clone(),
            epoch: owner.epoch,
        }
    }
}

impl From<OwnerLine> for Owner {
    fn from(line: OwnerLine) -> Self {
        Owner::new(line.node, line.epoch)
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct LeaseLine {
    pub(crate) key: String,
    pub(crate) token: u64,
    pub(crate) incarnation: u64,
    pub(crate) ttl: Duration,
}

impl From<&Lease> for LeaseLine {
    fn from(lease: &Lease) -> Self {
        LeaseLine {
            key: lease.key().to_string(),
            token: lease.token(),
            incarnation: lease.incarnation(),
            ttl: lease.ttl(),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) enum WorkLine {
    Keep,
    DueIn(Duration),
    Done,
}

impl Command {
    pub(crate) fn create(new: &NewConversation, fork: Option<(&ConversationId, Seq)>) -> Self {
        Command::Create {
            key: new.key.to_string(),
            title: new.title.clone(),
            created: new.created.unix_micros(),
            lineage: new.lineage.clone(),
            fork: fork.map(|(parent, at)| (parent.clone(), at)),
        }
    }

    pub(crate) fn acquire(key: &ConversationKey, owner: &Owner, ttl: Duration) -> Self {
        Command::Acquire {
            key: key.to_string(),
            owner: owner.into(),
            ttl,
        }
    }

    pub(crate) fn append(lease: &Lease, append: &Append) -> Self {
        Command::Append {
            lease: lease.into(),
            expected_tail: append.expected_tail,
            blocks: append.blocks.iter().map(BlockJson::from).collect(),
            batch: append.batch.get(),
            consumes: append.consumes.iter().map(|row| row.get()).collect(),
            work: match append.work {
                Work::Keep => WorkLine::Keep,
                Work::DueIn(wait) => WorkLine::DueIn(wait),
                Work::Done => WorkLine::Done,
            },
            seen: append.seen.map(|row| row.get()),
        }
    }

    pub(crate) fn post(key: &ConversationKey, post: &Post) -> Self {
        Command::Post {
            key: key.to_string(),
            client_key: post.client_key.clone(),
            kind: post.kind.clone(),
            body: post.body.clone(),
        }
    }

    pub(crate) fn claim(owner: &Owner, ttl: Duration, limit: usize) -> Self {
        Command::Claim {
            owner: owner.into(),
            ttl,
            limit,
        }
    }

    pub(crate) fn join(node: &NodeId, address: Option<&str>, ttl: Duration) -> Self {
        Command::Join {
            node: node.clone(),
            address: address.map(str::to_owned),
            ttl,
        }
    }
}
