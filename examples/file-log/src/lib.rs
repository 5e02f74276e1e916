//! A log for Annals in one plain file.
//!
//! Every command is one line of JSON with the time it came, written and synced before it is carried out. Opening the file
//! carries all of them out again: the state is a function of the lines, so a command that was refused is refused again.
//! What this gives up is size: all of it is in memory, one process has the file, and the file only grows.

mod command;
mod state;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use annals_core::block::{BlobDigest, Block};
use annals_core::ids::{ConversationKey, NodeId, Scope, Seq};
use annals_core::time::Timestamp;
use annals_store::log::{Followers, Mark};
use annals_store::{
    Answers, Append, AskingPage, BlockLog, Claimed, Claims, Clock, ConversationInfo, Cursor, IdempotencyKey, Inbox, InboxId, Lease, Listing, LogError, Member, Members, NewConversation, Owner, Pending, Post, Posted, StoredAnswer, Tails, Token, Tokens,
};
use async_trait::async_trait;
use futures::stream::BoxStream;

use command::{Command, Record};
use state::{Answer, State};

/// A log in one file.
pub struct FileLog {
    inner: Arc<Mutex<Inner>>,
    followers: Arc<Followers>,
    clock: Arc<dyn Clock>,
}

struct Inner {
    file: File,
    path: PathBuf,
    state: State,
    /// A write failed: what the file holds is not known any more.
    is_broken: bool,
}

impl FileLog {
    /// Opens the file, making it if it is missing. A last line that a crash cut off was never acknowledged and goes.
    pub fn open(path: &Path, clock: impl Clock + 'static) -> io::Result<Self> {
        let file = File::options().read(true).append(true).create(true).open(path)?;
        // One process at a time; the lock goes with the file.
        file.try_lock()
            .map_err(|_| io::Error::other("the log is open elsewhere"))?;
        let mut state = State::default();
        let mut reader = BufReader::new(&file);
        let (mut line, mut whole_bytes) = (Vec::new(), 0);
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            let record: Record = serde_json::from_slice(&line)?;
            let now = Timestamp::from_unix_micros(record.at);
            // What was refused then is refused now.
            let _ = state.answer(record.command, record.answer, now);
            whole_bytes += line.len() as u64;
            line.clear();
        }
        file.set_len(whole_bytes)?;
        (&file).seek(SeekFrom::End(0))?;
        let inner = Inner {
            file,
            path: path.to_owned(),
            state,
            is_broken: false,
        };
        Ok(FileLog {
            inner: Arc::new(Mutex::new(inner)),
            followers: Arc::default(),
            clock: Arc::new(clock),
        })
    }

    /// Writes a command down, then carries it out.
    fn execute(&self, command: Command) -> Result<Answer, LogError> {
        self.execute_answering(command, None)
    }

    fn execute_answering(&self, command: Command, answer: Option<StoredAnswer>) -> Result<Answer, LogError> {
        let now = self.clock.now();
        lock(&self.inner).execute(command, answer, now)
    }

    fn mark(&self, key: &ConversationKey) -> impl Future<Output = Result<Mark, LogError>> + Send + 'static {
        let (inner, key) = (Arc::clone(&self.inner), key.clone());
        async move { lock(&inner).state.mark(&key) }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn execute(
        &mut self,
        command: Command,
        answer: Option<StoredAnswer>,
        now: Timestamp,
    ) -> Result<Answer, LogError> {
        if self.is_broken {
            return Err(LogError::Closed);
        }
        let record = Record {
            at: now.unix_micros(),
            command,
            answer,
        };
        self.write(&record).map_err(|error| {
            self.is_broken = true;
            LogError::Storage {
                log: self.path.display().to_string(),
                detail: error.to_string(),
            }
        })?;
        self.state.answer(record.command, record.answer, now)
    }

    fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()
    }
}

#[async_trait]
impl BlockLog for FileLog {
    async fn create(&self, new: NewConversation) -> Result<(), LogError> {
        self.execute_answering(Command::create(&new, None), new.answer)
            .map(drop)
    }

    async fn get(&self, key: &ConversationKey) -> Result<ConversationInfo, LogError> {
        lock(&self.inner).state.info(key)
    }

    async fn list(&self, scope: &Scope, cursor: Option<Cursor>, limit: usize) -> Result<Listing, LogError> {
        let before = cursor.map(|cursor| cursor.number()).transpose()?;
        lock(&self.inner).state.list(scope, before, limit)
    }

    async fn asking(
        &self,
        scope: &Scope,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<AskingPage, LogError> {
        let after = cursor.map(|cursor| cursor.number()).transpose()?;
        Ok(lock(&self.inner).state.asking(scope, after.unwrap_or(0), limit))
    }

    async fn acquire(&self, key: &ConversationKey, owner: &Owner, ttl: Duration) -> Result<Lease, LogError> {
        self.execute(Command::acquire(key, owner, ttl))?.lease()
    }

    async fn renew(&self, lease: &Lease) -> Result<(), LogError> {
        self.execute(Command::Renew(lease.into())).map(drop)
    }

    async fn release(&self, lease: &Lease) -> Result<(), LogError> {
        self.execute(Command::Release(lease.into())).map(drop)
    }

    async fn append(&self, lease: &Lease, append: Append) -> Result<Option<Seq>, LogError> {
        let command = Command::append(lease, &append);
        let tail = self.execute_answering(command, append.answer)?.tail();
        self.followers.advance(lease.key(), Mark { tail, posted: None });
        Ok(tail)
    }

    async fn read(&self, key: &ConversationKey, from: Seq, limit: usize) -> Result<Vec<Block>, LogError> {
        lock(&self.inner).state.read(key, from, limit)
    }

    async fn fork(&self, parent: &ConversationKey, at: Seq, new: NewConversation) -> Result<(), LogError> {
        if parent.scope != new.key.scope {
            return Err(LogError::NotFound {
                id: parent.id.clone(),
            });
        }
        let command = Command::create(&new, Some((&parent.id, at)));
        self.execute_answering(command, new.answer).map(drop)
    }

    async fn delete(&self, lease: &Lease) -> Result<(), LogError> {
        self.execute(Command::Delete(lease.into()))?;
        self.followers.end(lease.key());
        Ok(())
    }

    async fn named_blobs(
        &self,
        after: Option<BlobDigest>,
        limit: usize,
    ) -> Result<Vec<BlobDigest>, LogError> {
        Ok(lock(&self.inner).state.named_blobs(after, limit))
    }
}

#[async_trait]
impl Inbox for FileLog {
    async fn post(&self, key: &ConversationKey, post: Post) -> Result<Posted, LogError> {
        let command = Command::post(key, &post);
        let posted = self.execute_answering(command, post.answer)?.posted()?;
        let mark = Mark {
            tail: None,
            posted: Some(posted.id()),
        };
        self.followers.advance(key, mark);
        Ok(posted)
    }

    async fn pending(&self, key: &ConversationKey) -> Result<Vec<Pending>, LogError> {
        lock(&self.inner).state.pending(key)
    }

    fn posted(
        &self,
        key: &ConversationKey,
        after: Option<InboxId>,
    ) -> BoxStream<'static, Result<InboxId, LogError>> {
        self.followers.posts(key, after, self.mark(key))
    }
}

#[async_trait]
impl Claims for FileLog {
    async fn claim(&self, owner: &Owner, ttl: Duration, limit: usize) -> Result<Vec<Claimed>, LogError> {
        Ok(self.execute(Command::claim(owner, ttl, limit))?.claimed())
    }
}

#[async_trait]
impl Members for FileLog {
    async fn join(&self, node: &NodeId, address: Option<&str>, ttl: Duration) -> Result<Owner, LogError> {
        self.execute(Command::join(node, address, ttl))?.owner()
    }

    async fn beat(&self, owner: &Owner) -> Result<(), LogError> {
        self.execute(Command::Beat(owner.into())).map(drop)
    }

    async fn leave(&self, owner: &Owner) -> Result<(), LogError> {
        self.execute(Command::Leave(owner.into())).map(drop)
    }

    async fn alive(&self) -> Result<Vec<Member>, LogError> {
        let now = self.clock.now();
        Ok(lock(&self.inner).state.alive(now))
    }
}

#[async_trait]
impl Answers for FileLog {
    async fn answered(&self, to: &IdempotencyKey) -> Result<Option<StoredAnswer>, LogError> {
        let now = self.clock.now();
        Ok(lock(&self.inner).state.answered(to, now).cloned())
    }

    async fn keep_answer(&self, answer: StoredAnswer) -> Result<(), LogError> {
        self.execute_answering(Command::KeepAnswer, Some(answer))
            .map(drop)
    }
}

#[async_trait]
impl Tokens for FileLog {
    async fn add_token(&self, token: Token) -> Result<(), LogError> {
        self.execute(Command::AddToken(token)).map(drop)
    }

    async fn find_token(&self, hash: &[u8; 32]) -> Result<Option<Token>, LogError> {
        let now = self.clock.now();
        Ok(lock(&self.inner).state.find_token(hash, now))
    }

    async fn tokens(&self) -> Result<Vec<Token>, LogError> {
        Ok(lock(&self.inner).state.tokens())
    }

    async fn revoke_token(&self, name: &str) -> Result<bool, LogError> {
        Ok(self.execute(Command::RevokeToken(name.to_owned()))?.was_there())
    }

    async fn server_key(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], LogError> {
        let name = name.to_owned();
        self.execute(Command::ServerKey { name, fresh })?.key()
    }
}

impl Tails for FileLog {
    fn follow(&self, key: &ConversationKey, after: Option<Seq>) -> BoxStream<'static, Result<Seq, LogError>> {
        self.followers.tails(key, after, self.mark(key))
    }
}
