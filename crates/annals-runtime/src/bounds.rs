//! What ends a turn that the model would go on with: a budget that is used up, and repeating the same call without learning
//! anything. Follows the turn's blocks, each once, so that a process that takes the turn up comes to the same.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use annals_core::block::payload::{CallText, Notice, TurnReport};
use annals_core::block::{Block, BlockKind};
use annals_core::code::Code;
use annals_core::ids::{CallId, TurnId};
use annals_core::limits;
use annals_core::settings::{BudgetSettings, SpendingLimits};
use annals_core::time::Timestamp;
use annals_core::timeline::Timeline;
use annals_core::turn::{TurnEnd, TurnUsage};
use annals_model::{Price, Usage};
use serde::{Deserialize, Serialize};

/// How a turn stands.
#[derive(Default)]
pub(crate) struct Bounds {
    /// How many of the turn's blocks were followed.
    followed: usize,
    spent: Spent,
    /// What the turns before this one have used, if that is bounded.
    before: Option<Spent>,
    /// What other turns of the scope have used in the period, if that is bounded.
    others: Option<Spent>,
    started: Option<Timestamp>,
    waits: Waits,
    /// Whether it is known what the model costs.
    is_priced: bool,
    /// Calls without a result, as tool and arguments.
    made: HashMap<CallId, u64>,
    /// How often each call came to each result.
    repeats: HashMap<u64, u32>,
    worst: u32,
    /// The call that came to the same most often.
    repeated: Option<CallId>,
    is_told: bool,
    /// Whether it went on repeating itself after it was told.
    is_stuck: bool,
    /// Answers that did not fit the schema of the turn.
    pub(crate) misfits: u32,
}

/// What was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spent {
    pub(crate) usage: TurnUsage,
    pub(crate) model_calls: u64,
    pub(crate) nanousd: u64,
    pub(crate) millis: u64,
}

/// Why a turn has to end.
pub(crate) struct Reached {
    pub(crate) end: TurnEnd,
    pub(crate) reason: String,
    /// Whether not even an answer is left to be paid for.
    pub(crate) is_final: bool,
}

impl Bounds {
    /// Takes in the blocks that are new, at this price.
    pub(crate) fn follow(
        &mut self,
        timeline: &Timeline,
        turn: &TurnId,
        bounds: &BudgetSettings,
        price: Option<Price>,
    ) {
        let Some(record) = timeline.turn(turn) else {
            return;
        };
        if self.before.is_none() && bounds.conversation != SpendingLimits::default() {
            let earlier = record.first_seq().get() as usize - 1;
            self.before = Some(Spent::of(&timeline.blocks()[..earlier], price));
        }
        (self.started, self.is_priced) = (Some(record.started), price.is_some());
        let blocks = timeline.turn_blocks(record);
        for block in blocks.iter().skip(self.followed) {
            self.take(block, price);
        }
        self.followed = blocks.len();
    }

    fn take(&mut self, block: &Block, price: Option<Price>) {
        self.spent.add(block, price);
        self.waits.take(block);
        match (&block.kind, &block.meta().call) {
            (BlockKind::ToolCall, Some(call)) => {
                if let Some(text) = block.text().and_then(CallText::parse) {
                    self.made
                        .insert(call.clone(), hash_of(&(text.tool_id.as_ref(), text.params.get())));
                }
            }
            (BlockKind::ToolResult, Some(call)) => {
                let Some(made) = self.made.remove(call) else {
                    return;
                };
                let came_to = hash_of(&(made, without_time(block.text().unwrap_or_default())));
                let count = self.repeats.entry(came_to).or_default();
                *count += 1;
                self.is_stuck |= self.is_told && *count >= limits::REPEATED_CALLS_TOLD;
                if *count > self.worst {
                    (self.worst, self.repeated) = (*count, Some(call.clone()));
                }
            }
            (BlockKind::Notice, _) => match block
                .payload::<Notice>()
                .ok()
                .and_then(|notice| Code::of(&notice.code))
            {
                Some(Code::ViolationLoop) => self.is_told = true,
                Some(Code::ViolationAnswerSchema) => self.misfits += 1,
                _ => {}
            },
            _ => {}
        }
    }

    /// What the model is told, once, when it repeats itself, and about which call.
    pub(crate) fn warning(&self) -> Option<(CallId, Notice)> {
        let is_due = self.worst >= limits::REPEATED_CALLS_TOLD && !self.is_told;
        let call = self.repeated.clone().filter(|_| is_due)?;
        let message = format!(
            "this call came to the same result {} times in this turn: do something else, or answer with what you have",
            self.worst
        );
        Some((call, Notice::new(Code::ViolationLoop, message)))
    }

    /// Why the turn has to end, if it has to.
    pub(crate) fn reached(&self, bounds: &BudgetSettings, now: Timestamp) -> Option<Reached> {
        if self.is_stuck {
            let reason = format!("the same call came to the same result {} times", self.worst);
            return Some(Reached {
                end: TurnEnd::Loop,
                reason,
                is_final: false,
            });
        }
        if let Some(whose) = bounded_in_cents(bounds).filter(|_| !self.is_priced) {
            // Unbounded, it would cost what nobody allowed.
            let reason = format!(
                "`budget.{whose}.cents` is set, and what the model costs is not known: write its price into \
                 `catalog.toml`, or bound `tokens` instead"
            );
            return Some(Reached {
                end: TurnEnd::BudgetExceeded,
                reason,
                is_final: true,
            });
        }
        let turn = self.spent(now);
        let conversation = self.before.unwrap_or_default().and(turn);
        let others = self.others.unwrap_or_default();
        let scope_over = |spent: Spent| {
            let over = spent.over("scope", &bounds.scope.limits())?;
            Some(format!("{over} in this {}", bounds.scope.period.as_str()))
        };
        let over = turn
            .over("turn", &bounds.turn)
            .or_else(|| conversation.over("conversation", &bounds.conversation))
            .or_else(|| scope_over(others.and(turn)));
        over.map(|reason| Reached {
            end: TurnEnd::BudgetExceeded,
            reason,
            // A turn that begins when its scope has nothing left uses nothing: there is no end to turns.
            is_final: turn.model_calls == 0 && scope_over(others).is_some(),
        })
    }

    /// What the turn has used until now. The time in which a person was asked is not its own.
    pub(crate) fn spent(&self, now: Timestamp) -> Spent {
        let micros = self.started.map_or(0, |started| now.micros_since(started));
        let millis = micros.saturating_sub(self.waits.micros(now)) / 1_000;
        Spent { millis, ..self.spent }
    }

    /// Other turns of the scope have used this.
    pub(crate) fn others_used(&mut self, spent: Spent) {
        self.others = Some(spent);
    }
}

impl Spent {
    fn of(blocks: &[std::sync::Arc<Block>], price: Option<Price>) -> Self {
        let (mut spent, mut waits) = (Spent::default(), Waits::default());
        for block in blocks {
            spent.add(block, price);
            waits.take(block);
            if block.kind == BlockKind::ReactCompletion {
                let waited = std::mem::take(&mut waits).micros(block.ts) / 1_000;
                let took = block
                    .payload::<TurnReport>()
                    .map_or(0, |report| report.elapsed_ms);
                spent.millis += took.saturating_sub(waited);
            }
        }
        spent
    }

    fn add(&mut self, block: &Block, price: Option<Price>) {
        if let Some(usage) = block.meta().usage() {
            self.usage.add(usage);
            self.model_calls += 1;
            self.nanousd += price.map_or(0, |price| Usage::from(usage).cost(&price).total_nanousd());
        }
    }

    pub(crate) fn and(mut self, other: Spent) -> Self {
        self.usage.add(other.usage);
        self.model_calls += other.model_calls;
        self.nanousd += other.nanousd;
        self.millis += other.millis;
        self
    }

    /// Which limit is met, in words.
    fn over(&self, whose: &str, limits: &SpendingLimits) -> Option<String> {
        const NANOUSD_PER_CENT: u64 = 10_000_000;
        let tokens = self.usage.input_tokens + self.usage.output_tokens;
        let bounded = [
            ("tokens", limits.tokens, tokens),
            ("cents", limits.cents, self.nanousd / NANOUSD_PER_CENT),
            ("model_calls", limits.model_calls, self.model_calls),
            ("seconds", limits.seconds, self.millis / 1_000),
        ];
        bounded.into_iter().find_map(|(name, limit, spent)| {
            let limit = limit.filter(|limit| spent >= *limit)?;
            Some(format!(
                "`budget.{whose}.{name}` is {limit}, and {spent} are used"
            ))
        })
    }
}

/// How long a turn waited for what only people and clients can give.
#[derive(Default)]
struct Waits {
    unanswered: u32,
    /// Since when something is unanswered.
    since: Option<Timestamp>,
    micros: u64,
}

impl Waits {
    fn take(&mut self, block: &Block) {
        match block.kind {
            BlockKind::ApprovalRequest | BlockKind::InputRequest => {
                self.unanswered += 1;
                self.since.get_or_insert(block.ts);
            }
            BlockKind::ApprovalDecision | BlockKind::InputResponse => {
                self.unanswered = self.unanswered.saturating_sub(1);
                if self.unanswered == 0 {
                    self.micros = self.micros(block.ts);
                    self.since = None;
                }
            }
            _ => {}
        }
    }

    fn micros(&self, now: Timestamp) -> u64 {
        self.micros + self.since.map_or(0, |since| now.micros_since(since))
    }
}

/// Whose budget bounds money, if one does.
fn bounded_in_cents(bounds: &BudgetSettings) -> Option<&'static str> {
    let each = [
        ("turn", bounds.turn.cents),
        ("conversation", bounds.conversation.cents),
        ("scope", bounds.scope.cents),
    ];
    each.into_iter().find_map(|(whose, cents)| cents.map(|_| whose))
}

fn hash_of(value: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A result without how long it took, which differs each time and says nothing.
fn without_time(text: &str) -> String {
    const FIELD: &str = "\"elapsed_ms\":";
    match text.split_once(FIELD) {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
            format!("{before}{rest}")
        }
        None => text.to_owned(),
    }
}
