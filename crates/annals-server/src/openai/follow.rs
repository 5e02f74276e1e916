//! Following a turn for a client: to its end or until the client has to act, whether or not the client is still there.

use annals_core::block::{Block, BlockKind};
use annals_core::ids::Seq;
use annals_core::sources::SourceRow;
use annals_runtime::{Agent, InputRequest, RunError, Subscription, Update};
use annals_store::LogError;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::ask::Face;
use super::client_tools::{CALL_ENTRY, is_for_client};
use super::error::ApiError;
use super::lineage::{ClientKey, Place};
use super::part::Part;
use super::pieces::{Piece, Pieces};
use super::sse::{stopped, stopped_for_good};
use super::transcript::Transcript;
use crate::problem::{Code, Problem};
use crate::relay;
use crate::secrets::seconds;

/// Calls of one answer that are handed to a client together.
const CALLS_MAX: usize = 1_000;

/// Somebody who follows a turn for a client.
pub(crate) struct Follow {
    face: Face,
    agent: Agent,
    part: Part,
    origin: String,
    seen: Option<Seen>,
    /// Whether the conversation is nobody's and goes with the answer.
    is_removed: bool,
}

/// What the client had seen before, to be kept with what it sees now.
pub(crate) struct Seen {
    transcript: Transcript,
    key: ClientKey,
    /// Whether what earlier answers of the turn said belongs to the same exchange.
    is_whole_turn: bool,
}

impl Seen {
    /// The exchange is the turn.
    pub(crate) fn turn(transcript: Transcript, key: ClientKey) -> Self {
        Seen {
            transcript,
            key,
            is_whole_turn: true,
        }
    }

    /// The exchange began in the middle of the turn.
    pub(crate) fn part(transcript: Transcript, key: ClientKey) -> Self {
        Seen {
            is_whole_turn: false,
            ..Self::turn(transcript, key)
        }
    }
}

type Sender = UnboundedSender<Result<Piece, ApiError>>;

impl Follow {
    pub(crate) fn new(face: &Face, agent: &Agent, part: Part, origin: String) -> Self {
        Follow {
            face: face.clone(),
            agent: agent.clone(),
            part,
            origin,
            seen: None,
            is_removed: false,
        }
    }

    /// Removes the conversation with the end.
    pub(crate) fn removing(mut self, is_removed: bool) -> Self {
        self.is_removed = is_removed;
        self
    }

    /// Keeps at the end what the client has seen by then.
    pub(crate) fn keeping(mut self, seen: Option<Seen>) -> Self {
        self.seen = seen;
        self
    }

    /// Begins with a subscription that has the turn from its first block on.
    pub(crate) fn begin(
        self,
        subscription: Subscription,
        sources: Vec<SourceRow>,
    ) -> UnboundedReceiver<Result<Piece, ApiError>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let tasks = self.face.app.tasks.clone();
        tasks.spawn(async move {
            if let Err(error) = self.run(subscription, sources, &sender).await {
                // The turn was posted before.
                let _ = sender.send(Err(error.not_again()));
            }
        });
        receiver
    }

    async fn run(
        self,
        mut subscription: Subscription,
        sources: Vec<SourceRow>,
        sender: &Sender,
    ) -> Result<(), ApiError> {
        let link = self
            .face
            .link(self.part.conversation.clone(), self.origin.clone());
        let mut pieces = Pieces::new(self.part.turn.clone(), sources, link);
        let stopping = self.face.app.stopping.clone();
        self.watch();
        loop {
            let update = tokio::select! {
                update = subscription.next() => update?,
                () = stopping.cancelled() => {
                    self.stopped(sender).await;
                    return Ok(());
                }
            };
            if let Update::Lost { .. } = update {
                let detail =
                    "the store has lost blocks of this conversation: read it again, and see what is missing";
                return Err(Problem::new(Code::Lost, detail).into());
            }
            let Update::Block(block) = &update else {
                self.send(sender, pieces.push(&update));
                continue;
            };
            if block.kind != BlockKind::ReactCompletion {
                self.watch();
            }
            if !self.part.begins_before(block.seq) {
                pieces.push(&update);
                if self.part.after == Some(block.seq) {
                    pieces.begin_part();
                }
                continue;
            }
            if self.asks_client(block).is_some() {
                let requests = self.batch(block.seq).await?;
                self.hand_over(&requests).await?;
                self.send(
                    sender,
                    pieces.handed_over(&self.part, &requests, seconds(block.ts)),
                );
                return Ok(());
            }
            let shown = pieces.push(&update);
            let is_over = shown.iter().any(Piece::is_last);
            if is_over {
                // Kept before the client hears of the end, so that its next request finds it.
                self.ended(&pieces, block.seq).await;
            }
            self.send(sender, shown);
            if is_over {
                return Ok(());
            }
        }
    }

    /// What another node produces, if it owns the conversation, is read for this client, too.
    fn watch(&self) {
        relay::watch(&self.face.app, &self.agent, &self.part.conversation);
    }

    /// A client that went away does not end the turn.
    fn send(&self, sender: &Sender, pieces: Vec<Piece>) {
        for piece in pieces {
            let _ = sender.send(Ok(piece));
        }
    }

    /// What a block of this turn asks of the client, if it does.
    fn asks_client(&self, block: &Block) -> Option<InputRequest> {
        let is_request = block.kind == BlockKind::InputRequest && block.turn == self.part.turn;
        let request = is_request.then(|| block.payload::<InputRequest>().ok())??;
        is_for_client(&request).then_some(request)
    }

    /// All requests that were written down together with this one: calls of one answer are handed over at once.
    async fn batch(&self, first: Seq) -> Result<Vec<InputRequest>, LogError> {
        let key = self.agent.key(&self.part.conversation);
        let blocks = self.agent.log().read(&key, first, CALLS_MAX).await?;
        Ok(blocks.iter().map_while(|block| self.asks_client(block)).collect())
    }

    /// Keeps where the results go, before the client hears of the calls.
    async fn hand_over(&self, requests: &[InputRequest]) -> Result<(), LogError> {
        let now = self.agent.world().now();
        for request in requests {
            let id = self.part.call_id(&request.call_id);
            let entry = self.part.to_string();
            self.face.index().set_named(CALL_ENTRY, &id, entry, now).await?;
        }
        Ok(())
    }

    /// The server stops in the middle of the turn. One that is nobody's is given up.
    async fn stopped(&self, sender: &Sender) {
        if !self.is_removed {
            let _ = sender.send(Err(stopped()));
            return;
        }
        let _ = sender.send(Err(stopped_for_good()));
        let handle = self.agent.conversation(&self.part.conversation);
        let cancelled = handle.of_turn(self.part.turn.clone()).cancel().await;
        if let Err(error) = cancelled.and(self.remove().await) {
            // What is left of it is removed at the next start.
            tracing::debug!(%error, "a request that nobody waits for any more could not be removed");
        }
    }

    async fn ended(&self, pieces: &Pieces, end: Seq) {
        let done = match &self.seen {
            Some(seen) => self.keep(seen, pieces, end).await.map_err(RunError::from),
            None if self.is_removed => self.remove().await,
            None => Ok(()),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "what a client has seen could not be kept");
        }
    }

    async fn keep(&self, seen: &Seen, pieces: &Pieces, end: Seq) -> Result<(), LogError> {
        let said = match seen.is_whole_turn {
            true => pieces.said(),
            false => pieces.said_in_part(),
        };
        let place = Place {
            conversation: self.part.conversation.clone(),
            end,
        };
        let (index, now) = (self.face.index(), self.agent.world().now());
        let mut keys = vec![seen.key.clone()];
        if seen.key != ClientKey::default() {
            keys.push(ClientKey::default());
        }
        for key in keys {
            let lineage = seen.transcript.answered(&key, &said);
            index.keep(lineage, &place, now).await?;
        }
        Ok(())
    }

    /// Removes a stand-alone conversation.
    async fn remove(&self) -> Result<(), RunError> {
        let conversation = &self.part.conversation;
        self.agent.conversation(conversation).settled().await;
        self.agent.delete_conversation(conversation).await
    }
}
