//! A model that answers at once, and knows how far it is from the id of the last call, in constant time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use annals::core::view::{Message, Messages, PieceBody};
use annals::model::{Event, EventStream, ModelError, Request, StopReason, Usage, Window};
use annals::prelude::*;
use futures::{StreamExt as _, stream};
use tokio_util::sync::CancellationToken;

/// A turn has at most this many rounds here; more are several turns of one conversation.
pub(crate) const TURN_ROUNDS: usize = 999;

/// What a prompt says before the number of rounds that lie behind it.
const GO: &str = "go from ";

/// The prompt of the turn that begins after this many rounds.
pub(crate) fn prompt(rounds_done: usize) -> String {
    format!("{GO}{rounds_done}")
}

/// Stands for the number of the round in arguments: the same call with the same result, again and again, would end the turn.
pub(crate) const ROUND: &str = "@round";

/// Calls tools for this many rounds, then answers.
#[derive(Clone)]
pub(crate) struct Scripted {
    rounds: usize,
    calls: Arc<[(&'static str, String)]>,
    delay: Duration,
    waiting: Arc<Waiting>,
}

/// How many calls wait for an answer.
#[derive(Default)]
struct Waiting {
    now: AtomicU64,
    most: AtomicU64,
}

impl Scripted {
    /// One call of this tool a round.
    pub(crate) fn new(rounds: usize, tool: &'static str, arguments: Value) -> Self {
        Self::many(rounds, vec![(tool, arguments)])
    }

    /// These calls together in each round.
    pub(crate) fn many(rounds: usize, calls: Vec<(&'static str, Value)>) -> Self {
        Scripted {
            rounds,
            calls: calls
                .into_iter()
                .map(|(tool, args)| (tool, args.to_string()))
                .collect(),
            delay: Duration::ZERO,
            waiting: Arc::default(),
        }
    }

    /// Every answer takes so long.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// The most calls that waited at once.
    pub(crate) fn most_waiting(&self) -> u64 {
        self.waiting.most.load(Ordering::Relaxed)
    }

    async fn wait(&self) {
        let now = self.waiting.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.waiting.most.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(self.delay).await;
        self.waiting.now.fetch_sub(1, Ordering::Relaxed);
    }

    fn answer(&self, done: usize, is_new_turn: bool) -> Vec<Event> {
        let finished = |stop| Event::Finished {
            stop,
            usage: Usage::default(),
        };
        let ends_turn = done.is_multiple_of(TURN_ROUNDS) && !is_new_turn;
        if done >= self.rounds || ends_turn {
            return vec![Event::Text("done".into()), finished(StopReason::EndTurn)];
        }
        let call = |(index, (tool, arguments)): (usize, &(&'static str, String))| {
            [
                Event::CallStarted {
                    index,
                    id: Some(format!("c{}_{index}", done + 1)),
                    tool: (*tool).to_owned(),
                },
                Event::CallArguments {
                    index,
                    json: numbered(arguments, done + 1),
                },
            ]
        };
        let calls = self.calls.iter().enumerate().flat_map(call);
        calls.chain([finished(StopReason::ToolUse)]).collect()
    }
}

#[async_trait]
impl Model for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn window(&self) -> Window {
        Window {
            context_tokens: 100_000_000,
            max_output_tokens: 8_000,
        }
    }

    async fn stream(&self, request: Request, _: &CancellationToken) -> Result<EventStream, ModelError> {
        let (done, is_new_turn) = rounds_done(&request.prompt.messages);
        if !self.delay.is_zero() {
            self.wait().await;
        }
        let events = self.answer(done, is_new_turn);
        Ok(stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

/// Arguments with the number of their round: bare where it is all of a text.
fn numbered(arguments: &str, round: usize) -> String {
    let round = round.to_string();
    arguments
        .replace(&format!("\"{ROUND}\""), &round)
        .replace(ROUND, &round)
}

/// How many rounds lie behind the last message that tells, and whether that is the prompt.
fn rounds_done(messages: &Messages) -> (usize, bool) {
    for message in messages.iter().rev() {
        match message {
            Message::Tool(replies) => {
                let id = replies.last().map_or("", |reply| reply.call.as_str());
                let number = id.strip_prefix('c').and_then(|id| id.split('_').next());
                return (number.and_then(|number| number.parse().ok()).unwrap_or(0), false);
            }
            Message::User(pieces) => {
                let texts = pieces.iter().filter_map(|piece| match &piece.body {
                    PieceBody::Text(text) => Some(&**text),
                    PieceBody::Media { .. } => None,
                });
                let told = texts.filter_map(|text| Some(text.split_once(GO)?.1)).next();
                if let Some(number) = told {
                    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
                    return (digits.parse().unwrap_or(0), true);
                }
            }
            Message::Assistant(_) => {}
        }
    }
    (0, true)
}
