//! The block log: the only truth about a conversation, as a contract that several backends keep.
//!
//! Keeps the trait and the plain data it speaks of. It must not know SQL, files or turns. A backend is right when
//! it passes every function of [`crate::testing`].

mod conversation;
mod error;
mod lease;

pub use conversation::{Ancestor, ConversationInfo, Cursor, Listing, NewConversation, Operator};
pub use error::{LogError, Stale};
pub(crate) use lease::expiry;
pub use lease::{Holding, Lease};

use std::time::Duration;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationId, Scope, Seq};
use annals_core::time::Timestamp;
use async_trait::async_trait;

/// An append-only log of blocks, one sequence per conversation.
///
/// Every backend keeps these rules; [`crate::testing`] has a function for each.
///
/// 1. **Durable when `Ok`.** What `create`, `append`, `fork` and `delete` acknowledged survives the death of the
///    process and of the machine. What they refused has changed nothing.
/// 2. **Whole or not at all.** All blocks of one `append` become visible together, or none does.
/// 3. **No gaps, no edits.** A conversation's blocks are numbered 1, 2, 3, …; a block that was read once reads
///    the same for ever.
/// 4. **One writer.** Each `acquire` raises the conversation's fencing token. `append`, `renew` and `delete`
///    with an older token fail with [`LogError::Conflict`]; so does an `append` whose `expected_tail` is not the
///    last block. An expired lease still appends as long as nobody else has taken the conversation.
/// 5. **Held means held.** `acquire` fails with [`LogError::Held`] while another holder's lease lasts. It succeeds
///    when the lease was released, has expired by the caller's clock, belongs to the same holder, or when the
///    backend can prove that its process is gone.
/// 6. **The caller owns time.** No method reads a clock. A clock that went backwards can make a lease last
///    longer, never shorter: an expiry only moves forward.
/// 7. **Order is `seq`.** Times of blocks are stored as given and decide nothing.
/// 8. **Forks share.** A fork costs the same at any length, sees the parent's blocks up to its cut, and keeps
///    them when the parent goes on or is deleted.
/// 9. **Readers never wait for a writer, nor a writer for readers.**
///
/// A future that is dropped before it answers may or may not have taken effect, as if the process had died.
#[async_trait]
pub trait BlockLog: Send + Sync {
    /// Makes an empty conversation. Fails with [`LogError::Exists`] when the id is taken.
    async fn create(&self, new: NewConversation) -> Result<(), LogError>;

    /// What is known of a conversation apart from its blocks.
    async fn get(&self, id: &ConversationId) -> Result<ConversationInfo, LogError>;

    /// Conversations of a scope, the newest first, at most `limit` of them, going on after `cursor`.
    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError>;

    /// Takes the right to write for `ttl` from `now`, and fences every earlier holder.
    async fn acquire(
        &self,
        id: &ConversationId,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Lease, LogError>;

    /// Keeps a lease for its full time from `now`. For long waits: `append` does the same with its last block's
    /// time.
    async fn renew(&self, lease: &Lease, now: Timestamp) -> Result<(), LogError>;

    /// Gives the right to write back; the lease writes no more. Releasing a lease that somebody else has taken over does nothing.
    async fn release(&self, lease: &Lease) -> Result<(), LogError>;

    /// Adds blocks after `expected_tail` (`None`: the log is empty) and gives the new tail. The blocks are
    /// numbered on from there, or the call fails with [`LogError::OutOfOrder`]; without blocks it fails with
    /// [`LogError::Nothing`].
    async fn append(
        &self,
        lease: &Lease,
        expected_tail: Option<Seq>,
        blocks: Vec<Block>,
    ) -> Result<Seq, LogError>;

    /// Blocks from `from` on, in order, at most `limit` of them; fewer only at the end of the log.
    async fn read(&self, id: &ConversationId, from: Seq, limit: usize) -> Result<Vec<Block>, LogError>;

    /// Makes a conversation that begins with `parent`'s blocks up to and including `at`. Lineage is in `new`.
    async fn fork(&self, parent: &ConversationId, at: Seq, new: NewConversation) -> Result<(), LogError>;

    /// Removes a conversation; whoever does so must hold it. Forks keep the blocks they share.
    async fn delete(&self, lease: &Lease) -> Result<(), LogError>;

    /// Every digest that any block of any conversation names: what garbage collection must keep.
    async fn named_blobs(&self) -> Result<Vec<BlobDigest>, LogError>;
}

/// Sugar over [`BlockLog`], the same for every backend.
#[async_trait]
pub trait BlockLogExt: BlockLog {
    /// The last block's place, if there is one.
    async fn tail(&self, id: &ConversationId) -> Result<Option<Seq>, LogError> {
        Ok(self.get(id).await?.tail)
    }

    /// The whole conversation. A long one is read in two halves at once: blocks never change, so they fit together.
    async fn read_all(&self, id: &ConversationId) -> Result<Vec<Block>, LogError> {
        const WORTH_HALVING_BLOCKS: u64 = 5_000;
        let tail = self.tail(id).await?.map_or(0, Seq::get);
        let Some(middle) = Seq::try_new(tail / 2)
            .ok()
            .filter(|_| tail >= WORTH_HALVING_BLOCKS)
        else {
            return self.read(id, Seq::FIRST, usize::MAX).await;
        };
        let (mut blocks, later) = futures::try_join!(
            self.read(id, Seq::FIRST, middle.get() as usize),
            self.read(id, middle.next(), usize::MAX)
        )?;
        blocks.extend(later);
        Ok(blocks)
    }

    /// Blocks after `seq` (`None`: all of them), at most `limit`.
    async fn read_after(
        &self,
        id: &ConversationId,
        seq: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Block>, LogError> {
        self.read(id, seq.map_or(Seq::FIRST, Seq::next), limit).await
    }
}

impl<T: BlockLog + ?Sized> BlockLogExt for T {}

/// The digests that a block names, in its body or anywhere in its metadata.
///
/// Metadata is searched as text, so that a field this version does not know still protects its bytes.
pub fn named_by(block: &Block) -> Vec<BlobDigest> {
    let mut named: Vec<BlobDigest> = block.blob().map(|blob| blob.digest).into_iter().collect();
    if let Some(meta) = &block.meta {
        let text = serde_json::to_string(meta).expect("plain data always serialises to JSON");
        digests_in(&text, &mut named);
    }
    named
}

/// The digests whose bytes a block cannot do without: its body's, its file's, and those of cut parameters. What
/// merely looks like a digest in further metadata may be anything.
pub(crate) fn needed_by(block: &Block) -> Vec<BlobDigest> {
    let meta = block.meta();
    let body = block.blob().map(|blob| blob.digest);
    let file = meta.file.as_ref().and_then(|file| file.content_digest);
    body.into_iter()
        .chain(file)
        .chain(meta.cut.iter().map(|cut| cut.blob))
        .collect()
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

/// Checks that blocks are numbered on from `tail`, and gives the last one.
pub(crate) fn check_order<'b>(
    id: &ConversationId,
    tail: Option<Seq>,
    blocks: &'b [Block],
) -> Result<&'b Block, LogError> {
    let mut expected = tail.map_or(Seq::FIRST, Seq::next);
    for block in blocks {
        if block.seq != expected {
            return Err(LogError::OutOfOrder {
                id: id.clone(),
                expected,
                given: block.seq,
            });
        }
        expected = expected.next();
    }
    blocks.last().ok_or_else(|| LogError::Nothing { id: id.clone() })
}
