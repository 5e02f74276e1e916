//! The turn machine: from the folded state to the one thing to do now. It performs nothing.

use super::budget::Budget;
use crate::ids::CallId;
use crate::limits;
use crate::timeline::Turn;
use crate::turn::TurnEnd;
use crate::view::View;
use crate::view::compact::{self, CompactionPlan, Force};

/// What happens next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Ask the model.
    CallModel(CallModel),
    /// Run the calls that have no result, in this order.
    CallTools(Vec<CallId>),
    /// Summarise before going on.
    Compact(Box<CompactionPlan>),
    /// Nothing until somebody prompts, or answers what [`Timeline::waiting`] lists.
    Wait,
    /// Write down that the turn ended so.
    Done(TurnEnd),
}

/// One model call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallModel {
    /// Which of the turn it is, from 1.
    pub step: u32,
    /// Whether it may call tools.
    pub offer: Offer,
}

/// What the model is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// All tools of the step.
    Tools,
    /// None: it must answer now.
    AnswerOnly,
}

/// What happens next in this conversation.
pub fn next(view: &View, budget: &Budget) -> Next {
    let Some(turn) = open_turn(view) else {
        return Next::Wait;
    };
    if let Some(next) = calls(view) {
        return next;
    }
    if turn.prompt.is_none() {
        // It was for its calls, and no model is asked.
        return Next::Done(TurnEnd::Complete);
    }
    if turn.answer.is_some() {
        return Next::Done(answered_at(turn, turn.steps, budget));
    }
    let stuck_at = stuck_at(turn);
    if turn.clarified {
        return Next::Done(TurnEnd::Clarify);
    }
    if let Some(plan) = compaction(view, budget) {
        return Next::Compact(Box::new(plan));
    }
    match turn.steps {
        // Words that came after the last answer are answered, once.
        steps if steps > budget.max_iterations && turn.steered_at != Some(steps) => {
            Next::Done(TurnEnd::MaxIterations)
        }
        steps => {
            // A model that keeps getting a call wrong is asked once for what it has.
            let offer = if steps >= budget.max_iterations || stuck_at == Some(steps) {
                Offer::AnswerOnly
            } else {
                Offer::Tools
            };
            Next::CallModel(CallModel {
                step: steps + 1,
                offer,
            })
        }
    }
}

/// How the turn ends with an answer that is about to be written down for this step, unless somebody says something first;
/// none where something else is to be done before its end.
pub fn ends_with_answer(view: &View, step: u32, budget: &Budget) -> Option<TurnEnd> {
    let turn = open_turn(view)?;
    match calls(view) {
        Some(_) => None,
        None => Some(answered_at(turn, turn.steps.max(step), budget)),
    }
}

fn open_turn(view: &View) -> Option<&Turn> {
    view.current_turn().filter(|turn| turn.end.is_none())
}

/// How a turn ends whose last answer is that of this step.
fn answered_at(turn: &Turn, step: u32, budget: &Budget) -> TurnEnd {
    match step {
        step if stuck_at(turn) == step.checked_sub(1) => TurnEnd::ProtocolViolation,
        step if step > budget.max_iterations => TurnEnd::MaxIterations,
        _ => TurnEnd::Complete,
    }
}

/// The step at which the model got the same thing wrong once too often.
fn stuck_at(turn: &Turn) -> Option<u32> {
    let streak = turn.streak.as_ref();
    streak
        .filter(|streak| streak.length >= limits::VIOLATIONS_IN_A_ROW_MAX)
        .map(|streak| streak.step)
}

/// What is to be done about calls without a result. Those after a call that waits wait too, because results are
/// written in the order of the calls.
fn calls(view: &View) -> Option<Next> {
    let stopped_by = view.stopped_by();
    if stopped_by.is_none() && view.open_calls().next().is_none() {
        return None;
    }
    let open: Vec<&CallId> = view.open_calls().map(|call| &call.id).collect();
    if let Some(stopped_by) = stopped_by {
        return Some(match open.contains(&stopped_by) {
            true => Next::CallTools(vec![stopped_by.clone()]),
            false => Next::Done(TurnEnd::Cancelled),
        });
    }
    let waits = |call: &CallId| view.waiting().any(|request| request.call == *call);
    let ready: Vec<CallId> = open
        .iter()
        .copied()
        .take_while(|call| !waits(call))
        .cloned()
        .collect();
    Some(match ready.is_empty() {
        true => Next::Wait,
        false => Next::CallTools(ready),
    })
}

fn compaction(view: &View, budget: &Budget) -> Option<CompactionPlan> {
    let turn = view.current_turn()?;
    let view_tokens = view.view_tokens();
    let was_refused = turn
        .context_limit
        .is_some_and(|refused| view.last_summary() < Some(refused));
    // A small view was not what was too long: the instructions and tools were, and a summary would not help.
    let force = match was_refused && view_tokens >= limits::COMPACTION_REFUSED_MIN_VIEW_TOKENS {
        true => Force::Refused,
        false if view_tokens > u64::from(budget.view_tokens()) => Force::Budget,
        false => return None,
    };
    compact::plan(view, budget.view_tokens(), force)
}
