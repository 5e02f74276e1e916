//! What is derived from blocks and kept in the same file: the index of memory search.

use annals_core::block::Block;
use rusqlite::Connection;

/// Follows every change of the log inside the transaction that makes it, so that what it derives is durable
/// exactly when the blocks are; or later, in transactions of its own, so that nobody waits for it.
///
/// 1. It runs on the writing thread: it must be quick, and must neither commit nor roll back.
/// 2. An error refuses the append; return one only for storage that failed. An error of [`catch_up`](Self::catch_up)
///    refuses nothing.
/// 3. Work may be rolled back and done again: keep state in the database, or be ready to recompute it.
/// 4. Its tables are its own; it reads the log's but does not change them.
pub(super) trait LogObserver: Send {
    /// Called once for each open of the log.
    fn prepare(&mut self, tx: &Connection) -> rusqlite::Result<()> {
        let _ = tx;
        Ok(())
    }

    /// Blocks were added.
    fn appended(&mut self, blocks: &[Block]) {
        let _ = blocks;
    }

    /// Of the conversation with this key in the table, the blocks above a place are gone: all of them (0), or all but
    /// those that forks share. A removal may take conversations with it that were kept for it alone.
    fn removed(&mut self, tx: &Connection, conversation: i64, above: u64) -> rusqlite::Result<()> {
        let _ = (tx, conversation, above);
        Ok(())
    }

    /// Whether it left so much for later that it wants to do it now. Asked after every commit, when those who waited
    /// for it have their answers.
    fn is_behind(&self) -> bool {
        false
    }

    /// Does some of what it left for later; asked again as long as it is behind. Power loss may take this transaction
    /// back, whole, though never a block that it saw: note in it how far it came.
    fn catch_up(&mut self, tx: &Connection) -> rusqlite::Result<()> {
        let _ = tx;
        Ok(())
    }
}
