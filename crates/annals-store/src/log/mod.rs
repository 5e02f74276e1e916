//! The log as a port: what a conversation's truth is kept in, as contracts that several backends keep.
//!
//! [`BlockLog`] keeps blocks; its sisters share its commits: [`Inbox`] (what waits for an owner), [`Claims`] (work that
//! anybody may take up), [`Members`] (which nodes live), [`Tails`] (following), [`Answers`] (requests that may be sent
//! again), [`Tokens`] (who may come in over a network). A backend keeps all of them and is a [`Store`]. One that machines share
//! may also move idle conversations out of the log ([`Archive`]). Nothing here knows SQL, files or turns. A backend is right when it passes every function of `annals_store::testing` (feature `testing`).

mod answers;
mod append;
mod archive;
mod asking;
mod claims;
mod conversation;
mod error;
mod inbox;
mod lease;
mod members;
mod tails;
mod tokens;

pub use answers::{ANSWER_KEPT, Answers, IdempotencyKey, StoredAnswer};
pub use append::{Append, BatchId, Work};
pub use archive::{Archive, Archived, Idle, IdlePage};
pub use asking::{Asking, AskingPage, asks_from, asks_from_back};
pub use claims::{Claimed, Claims};
pub use conversation::{Ancestor, ConversationInfo, Cursor, CursorError, Listing, NewConversation, Operator};
pub use error::{LogError, Stale};
pub use inbox::{CLIENT_KEY_KEPT, Inbox, InboxId, Pending, Post, Posted, Taken, named_in_post};
pub use lease::{Holding, Lease, Owner, expiry};
pub use members::{Member, Members};
pub use tails::{Followers, Mark, Tails};
pub use tokens::{Breadth, Role, RoleError, Roles, Token, TokenHash, Tokens};

use std::time::Duration;

use annals_core::block::payload::ToolsTable;
use annals_core::block::{BlobDigest, Block, BlockKind};
use annals_core::ids::{ConversationKey, Scope, Seq};
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};

/// An append-only log of blocks, one sequence per conversation.
///
/// Every backend keeps these rules; `annals_store::testing` has a function for each.
///
/// 1. **Durable when `Ok`.** What `create`, `append`, `fork` and `delete` acknowledged survives the death of the
///    process and of the machine. What they refused has changed nothing.
/// 2. **Whole or not at all.** All of one `append` takes effect together, or nothing does: its blocks, what it consumes of
///    the inbox, the answer it carries, and the work that remains.
/// 3. **No gaps, no edits.** A conversation's blocks are numbered 1, 2, 3, …; a block that was read once reads
///    the same for ever.
/// 4. **One writer.** Each `acquire` raises the conversation's fencing token. `append`, `renew` and `delete`
///    with an older token fail with [`LogError::Conflict`]; so does an `append` whose `expected_tail` is not the
///    last block. An expired lease still appends as long as nobody else has taken the conversation.
/// 5. **Held means held.** `acquire` fails with [`LogError::Held`] while another owner's lease lasts. It succeeds
///    when the lease was released, has expired, belongs to the same owner, or when its owner is gone: see [`Members`].
/// 6. **The store owns the time of leases.** They begin and end by the store's clock alone. A clock that went backwards
///    can make a lease last longer, never shorter: an expiry only moves forward.
/// 7. **Order is `seq`.** Times of blocks are stored as given and decide nothing.
/// 8. **Forks share.** A fork costs the same at any length, sees the parent's blocks up to its cut, and keeps
///    them when the parent goes on or is deleted. It lies in its parent's scope.
/// 9. **Readers never wait for a writer, nor a writer for readers.**
/// 10. **Scopes do not meet.** An id is unique within its scope. What lies in another scope is answered exactly like what
///     does not exist.
/// 11. **A lost answer can be asked for again.** An `append` with the lease, the batch id and the expected tail of the
///     conversation's last append is answered like that one and changes nothing, so that a writer which does not know
///     whether its append took effect sends it once more.
/// 12. **What asks is found.** [`asking`](Self::asking) lists every conversation whose last turn has asked for something
///     and has not ended, however it came about: appended, forked or imported.
///
/// A future that is dropped before it answers may or may not have taken effect, as if the process had died.
#[async_trait]
pub trait BlockLog: Send + Sync {
    /// Makes an empty conversation. Fails with [`LogError::Exists`] when the id is taken in its scope.
    async fn create(&self, new: NewConversation) -> Result<(), LogError>;

    /// What is known of a conversation apart from its blocks.
    async fn get(&self, key: &ConversationKey) -> Result<ConversationInfo, LogError>;

    /// Conversations of a scope, the newest first, at most `limit` of them, going on after `cursor`.
    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError>;

    /// Conversations of a scope that ask a person or a client for something, at most `limit` of them, going on after
    /// `cursor`. Costs what is listed, not what the scope holds.
    async fn asking(
        &self,
        scope: &Scope,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AskingPage, LogError>;

    /// Takes the right to write for `ttl`, and fences every earlier holder.
    async fn acquire(&self, key: &ConversationKey, owner: &Owner, ttl: Duration) -> Result<Lease, LogError>;

    /// Keeps a lease for its full time from now. For long waits: `append` does the same.
    async fn renew(&self, lease: &Lease) -> Result<(), LogError>;

    /// Gives the right to write back; the lease writes no more. Releasing a lease that another owner has taken over does
    /// nothing.
    async fn release(&self, lease: &Lease) -> Result<(), LogError>;

    /// Adds blocks after the expected tail and gives the new tail, which is none only when the log is empty still. The
    /// blocks are numbered on from the tail, or the call fails with [`LogError::OutOfOrder`]; one that would change
    /// nothing fails with [`LogError::Nothing`].
    async fn append(&self, lease: &Lease, append: Append) -> Result<Option<Seq>, LogError>;

    /// Blocks from `from` on, in order, at most `limit` of them; fewer only at the end of the log.
    async fn read(&self, key: &ConversationKey, from: Seq, limit: usize) -> Result<Vec<Block>, LogError>;

    /// Makes a conversation that begins with `parent`'s blocks up to and including `at`. Lineage is in `new`. For a `new`
    /// of another scope the parent does not exist.
    async fn fork(&self, parent: &ConversationKey, at: Seq, new: NewConversation) -> Result<(), LogError>;

    /// Removes a conversation that the caller holds. Forks keep the blocks they share.
    async fn delete(&self, lease: &Lease) -> Result<(), LogError>;

    /// The digests that any block of any conversation names, or any post that waits, in ascending order, going on after one,
    /// at most `limit` of them, fewer only at the end: what garbage collection must keep.
    async fn named_blobs(&self, after: Option<BlobDigest>, limit: usize)
    -> Result<Vec<BlobDigest>, LogError>;

    /// Whether appends can be taken at this moment: commits something that changes nothing, as durably as an append, and
    /// fails at once for the reason that an append would fail or wait for. A log that nothing can keep from writing says yes.
    async fn check_writes(&self) -> Result<(), LogError> {
        Ok(())
    }
}

/// A backend with all of its ports.
pub trait Store: BlockLog + Inbox + Claims + Members + Tails + Answers + Tokens {}

impl<T: BlockLog + Inbox + Claims + Members + Tails + Answers + Tokens + ?Sized> Store for T {}

/// Sugar over [`BlockLog`], the same for every backend.
#[async_trait]
pub trait BlockLogExt: BlockLog {
    /// The last block's place, if there is one.
    async fn tail(&self, key: &ConversationKey) -> Result<Option<Seq>, LogError> {
        Ok(self.get(key).await?.tail)
    }

    /// The whole conversation.
    async fn read_all(&self, key: &ConversationKey) -> Result<Vec<Block>, LogError> {
        let tail = self.tail(key).await?;
        self.read_whole(key, tail).await
    }

    /// The whole conversation, of which the caller knows that it has come at least so far. A long one is read in two
    /// halves at once: blocks never change, so they fit together.
    async fn read_whole(&self, key: &ConversationKey, tail: Option<Seq>) -> Result<Vec<Block>, LogError> {
        const WORTH_HALVING_BLOCKS: u64 = 5_000;
        let tail = tail.map_or(0, Seq::get);
        let Some(middle) = Seq::try_new(tail / 2)
            .ok()
            .filter(|_| tail >= WORTH_HALVING_BLOCKS)
        else {
            return self.read(key, Seq::FIRST, usize::MAX).await;
        };
        let (mut blocks, later) = futures::try_join!(
            self.read(key, Seq::FIRST, middle.get() as usize),
            self.read(key, middle.next(), usize::MAX)
        )?;
        blocks.extend(later);
        Ok(blocks)
    }

    /// Blocks after `seq` (`None`: all of them), at most `limit`.
    async fn read_after(
        &self,
        key: &ConversationKey,
        seq: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Block>, LogError> {
        self.read(key, seq.map_or(Seq::FIRST, Seq::next), limit).await
    }

    /// The blocks from `from` to the present end, read page by page as they are asked for.
    fn blocks<'a>(&'a self, key: &'a ConversationKey, from: Seq) -> BoxStream<'a, Result<Block, LogError>> {
        const PAGE_BLOCKS: usize = 1_000;
        stream::try_unfold(Some(from), move |from| async move {
            let Some(from) = from else {
                return Ok::<_, LogError>(None);
            };
            let page = self.read(key, from, PAGE_BLOCKS).await?;
            let next = page
                .last()
                .map(|last| last.seq.next())
                .filter(|_| page.len() == PAGE_BLOCKS);
            Ok(Some((stream::iter(page.into_iter().map(Ok)), next)))
        })
        .try_flatten()
        .boxed()
    }

    /// Every digest that a block names, page by page, in ascending order.
    fn all_named_blobs(&self) -> BoxStream<'_, Result<BlobDigest, LogError>> {
        const PAGE_DIGESTS: usize = 10_000;
        stream::try_unfold(Some(None), move |after| async move {
            let Some(after) = after else {
                return Ok::<_, LogError>(None);
            };
            let page = self.named_blobs(after, PAGE_DIGESTS).await?;
            let next = page
                .last()
                .copied()
                .filter(|_| page.len() == PAGE_DIGESTS)
                .map(Some);
            Ok(Some((stream::iter(page.into_iter().map(Ok)), next)))
        })
        .try_flatten()
        .boxed()
    }
}

impl<T: BlockLog + ?Sized> BlockLogExt for T {}

/// The digests that a block names, in its body or anywhere in its metadata.
pub fn named_by(block: &Block) -> Vec<BlobDigest> {
    let meta = block.meta.as_ref();
    let further = meta.map(|meta| serde_json::to_string(meta).expect("plain data always serialises to JSON"));
    named_with(block, further.as_deref().unwrap_or_default())
}

/// The same, given the metadata as text. It is searched as text, so that a field this version does not know still protects
/// its bytes.
pub(crate) fn named_with(block: &Block, meta: &str) -> Vec<BlobDigest> {
    let mut named: Vec<BlobDigest> = block.blob().map(|blob| blob.digest).into_iter().collect();
    if block.kind == BlockKind::ToolsTable
        && let Ok(table) = block.payload::<ToolsTable>()
    {
        named.extend(table.needs());
    }
    digests_in(meta, &mut named);
    named
}

/// The digests whose bytes a block cannot do without: its body's, its file's, and those of cut parameters. What
/// merely looks like a digest in further metadata may be anything.
pub(crate) fn needed_by(block: &Block) -> Vec<Named> {
    let meta = block.meta();
    let named = |digest: BlobDigest, size_bytes: Option<u64>| Named { digest, size_bytes };
    let body = block.blob().map(|blob| named(blob.digest, Some(blob.size_bytes)));
    let file = meta
        .file
        .as_ref()
        .and_then(|file| Some(named(file.content_digest?, file.size_bytes)));
    body.into_iter()
        .chain(file)
        .chain(meta.cut.iter().map(|cut| named(cut.blob, Some(cut.size_bytes))))
        .collect()
}

/// The digests whose bytes a block cannot do without.
pub fn needed_blobs(block: &Block) -> Vec<BlobDigest> {
    needed_by(block).into_iter().map(|named| named.digest).collect()
}

/// Bytes that a block names, and how many it says they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) digest: BlobDigest,
    pub(crate) size_bytes: Option<u64>,
}

/// Adds every `sha256:<64 hex>` of the text.
pub(crate) fn digests_in(text: &str, found: &mut Vec<BlobDigest>) {
    const PREFIX: &str = "sha256:";
    const HEX_DIGITS: usize = 64;
    for (start, _) in text.match_indices(PREFIX) {
        let digest = text
            .get(start..start + PREFIX.len() + HEX_DIGITS)
            .and_then(|text| text.parse().ok());
        if let Some(digest) = digest
            && !found.contains(&digest)
        {
            found.push(digest);
        }
    }
}

impl Append {
    /// Checks that there is something to append and that its blocks are numbered on from the tail: for backends.
    pub fn check(&self, key: &ConversationKey) -> Result<(), LogError> {
        let mut expected = self.expected_tail.map_or(Seq::FIRST, Seq::next);
        for block in &self.blocks {
            if block.seq != expected {
                return Err(LogError::OutOfOrder {
                    id: key.id.clone(),
                    expected,
                    given: block.seq,
                });
            }
            expected = expected.next();
        }
        match self.blocks.is_empty() && self.consumes.is_empty() && self.work == Work::Keep {
            true => Err(LogError::Nothing { id: key.id.clone() }),
            false => Ok(()),
        }
    }
}
