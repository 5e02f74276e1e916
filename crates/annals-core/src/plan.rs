//! Plans: steps the model set itself, and how its notes say that they went.
//!
//! A plan is a snapshot; every change is a new snapshot under the same id, and the latest one counts. The model
//! reports in its notes (`✓ [1]`, `✗ [2] … — why`, `→ [3]`); nothing here writes blocks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::PlanId;
use crate::limits;
use crate::time::Timestamp;

/// How a step stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    InProgress,
    /// Finished.
    Done,
    /// Given up.
    Failed,
}

impl StepStatus {
    /// The mark that stands before a step in this state.
    pub fn mark(self) -> char {
        match self {
            Self::Pending => '□',
            Self::InProgress => '…',
            Self::Done => '✓',
            Self::Failed => '✗',
        }
    }
}

/// What `react.plan` is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanMode {
    /// A plan of its own, which replaces the active one.
    New,
    /// Other steps under the same id; a step whose text stays keeps its state.
    Update,
    /// The end of the plan.
    Close,
}

/// Why steps do not make a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There are no steps.
    #[error("a plan needs at least one step")]
    NoSteps,
    /// There are too many.
    #[error("a plan has at most {} steps, not {given}: join some", limits::PLAN_MAX_STEPS)]
    TooManySteps {
        /// How many were given.
        given: usize,
    },
    /// A step says nothing.
    #[error("step {step} is empty: say what is to be done")]
    EmptyStep {
        /// Which one, from 1.
        step: usize,
    },
    /// A step says too much.
    #[error(
        "step {step} is longer than {} characters: shorten it",
        limits::PLAN_STEP_MAX_CHARS
    )]
    LongStep {
        /// Which one, from 1.
        step: usize,
    },
}

/// A snapshot of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Snapshot", into = "Snapshot")]
pub struct Plan {
    /// Shared by all its snapshots.
    pub plan_id: PlanId,
    /// When it was made.
    pub created_ts: Timestamp,
    /// When it last changed.
    pub last_ts: Timestamp,
    /// When it was closed, if it was.
    pub closed_ts: Option<Timestamp>,
    steps: Vec<PlanStep>,
}

#[derive(Debug, Clone, PartialEq)]
struct PlanStep {
    text: String,
    status: StepStatus,
}

/// The JSON form.
#[derive(Serialize, Deserialize)]
struct Snapshot {
    plan_id: PlanId,
    steps: Vec<String>,
    #[serde(default)]
    status: BTreeMap<u32, StepStatus>,
    created_ts: Timestamp,
    last_ts: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    closed_ts: Option<Timestamp>,
}

impl From<Snapshot> for Plan {
    fn from(snapshot: Snapshot) -> Self {
        let status = |number| snapshot.status.get(&number).copied().unwrap_or_default();
        let steps = snapshot
            .steps
            .into_iter()
            .zip(1..)
            .map(|(text, number)| PlanStep {
                text,
                status: status(number),
            });
        Self {
            plan_id: snapshot.plan_id,
            steps: steps.collect(),
            created_ts: snapshot.created_ts,
            last_ts: snapshot.last_ts,
            closed_ts: snapshot.closed_ts,
        }
    }
}

impl From<Plan> for Snapshot {
    fn from(plan: Plan) -> Self {
        Self {
            plan_id: plan.plan_id,
            status: (1..)
                .zip(&plan.steps)
                .map(|(number, step)| (number, step.status))
                .collect(),
            steps: plan.steps.into_iter().map(|step| step.text).collect(),
            created_ts: plan.created_ts,
            last_ts: plan.last_ts,
            closed_ts: plan.closed_ts,
        }
    }
}

impl Plan {
    /// A new plan, all steps pending.
    pub fn try_new(plan_id: PlanId, steps: Vec<String>, now: Timestamp) -> Result<Self, PlanError> {
        let steps = checked(steps)?.into_iter().map(|text| PlanStep {
            text,
            status: StepStatus::Pending,
        });
        Ok(Self {
            plan_id,
            steps: steps.collect(),
            created_ts: now,
            last_ts: now,
            closed_ts: None,
        })
    }

    /// This plan with other steps; a step whose text stays keeps its state, wherever it moves.
    pub fn try_updated(&self, steps: Vec<String>, now: Timestamp) -> Result<Self, PlanError> {
        let mut before: Vec<Option<&PlanStep>> = self.steps.iter().map(Some).collect();
        let mut kept = |text: &str| {
            let same = before
                .iter_mut()
                .find(|step| step.is_some_and(|step| step.text == text))?;
            same.take().map(|step| step.status)
        };
        let steps = checked(steps)?.into_iter().map(|text| PlanStep {
            status: kept(&text).unwrap_or_default(),
            text,
        });
        Ok(Self {
            steps: steps.collect(),
            last_ts: now,
            closed_ts: None,
            ..self.clone()
        })
    }

    /// This plan, closed.
    #[must_use]
    pub fn closed(&self, now: Timestamp) -> Self {
        Self {
            last_ts: now,
            closed_ts: Some(now),
            ..self.clone()
        }
    }

    /// Takes acknowledgements in and returns those that changed a step, one for each, in order. Those of steps
    /// that do not exist, and those that say what is known, change nothing.
    pub fn apply(&mut self, acks: &[Ack], now: Timestamp) -> Vec<Ack> {
        let mut last_word: Vec<&Ack> = Vec::new();
        for ack in acks
            .iter()
            .filter(|ack| (1..=self.steps.len()).contains(&(ack.step as usize)))
        {
            match last_word.iter_mut().find(|known| known.step == ack.step) {
                Some(known) => *known = ack,
                None => last_word.push(ack),
            }
        }
        let mut changed = Vec::new();
        for ack in last_word {
            let step = (ack.step as usize)
                .checked_sub(1)
                .and_then(|index| self.steps.get_mut(index));
            if let Some(step) = step.filter(|step| step.status != ack.status) {
                step.status = ack.status;
                changed.push(ack.clone());
            }
        }
        if !changed.is_empty() {
            self.last_ts = now;
        }
        changed
    }

    /// Its steps with their states, in order.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = (&str, StepStatus)> {
        self.steps.iter().map(|step| (step.text.as_str(), step.status))
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed_ts.is_some()
    }

    /// One line a step, with its mark: `✓ 1. …`, `□ 2. …`.
    pub fn lines(&self) -> Vec<String> {
        (1..)
            .zip(&self.steps)
            .map(|(number, step)| line(step.status, number, &step.text, None))
            .collect()
    }

    /// The text of a `react.plan.ack` block: one line for each acknowledgement, with the step's own words.
    pub fn ack_text(&self, acks: &[Ack]) -> String {
        let lines = acks.iter().filter_map(|ack| {
            let step = self.steps.get((ack.step as usize).checked_sub(1)?)?;
            let why = match ack.status {
                StepStatus::InProgress => Some("in progress"),
                StepStatus::Failed => ack.why.as_deref(),
                _ => None,
            };
            Some(line(ack.status, ack.step, &step.text, why))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn line(status: StepStatus, number: u32, text: &str, why: Option<&str>) -> String {
    let why = why.map_or_else(String::new, |why| format!(" — {why}"));
    format!("{} {number}. {text}{why}", status.mark())
}

fn checked(steps: Vec<String>) -> Result<Vec<String>, PlanError> {
    if steps.is_empty() {
        return Err(PlanError::NoSteps);
    }
    if steps.len() > limits::PLAN_MAX_STEPS {
        return Err(PlanError::TooManySteps { given: steps.len() });
    }
    // A step is one line wherever it appears.
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let steps: Vec<String> = steps.into_iter().map(one_line).collect();
    for (text, step) in steps.iter().zip(1..) {
        if text.is_empty() {
            return Err(PlanError::EmptyStep { step });
        }
        if text.chars().count() > limits::PLAN_STEP_MAX_CHARS {
            return Err(PlanError::LongStep { step });
        }
    }
    Ok(steps)
}

/// What the model's notes say of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// The step, from 1.
    pub step: u32,
    /// How it stands now.
    pub status: StepStatus,
    /// Why it failed, if the notes say so.
    pub why: Option<String>,
}

/// The acknowledgements in the model's notes, in order.
///
/// A mark and a number in brackets count anywhere (`✓ [1]`, `✓[1]`); a bare number only at the start of a line
/// and only with a dot or bracket behind it (`✓ 1.`, `- ✗ 2) …`), because prose has arrows and numbers too. The
/// reason of a failure follows a dash and ends with the line or the next acknowledgement.
pub fn acks(notes: &str) -> Vec<Ack> {
    notes.lines().flat_map(line_acks).collect()
}

fn line_acks(line: &str) -> Vec<Ack> {
    let mut acks: Vec<Ack> = Vec::new();
    // Where the text behind the last acknowledgement begins.
    let mut text_at = 0;
    let line_start = line.len() - line.trim_start_matches([' ', '\t', '-', '*', '•']).len();
    let mut at = 0;
    while let Some((index, mark)) = line[at..].char_indices().find(|(_, c)| status_of(*c).is_some()) {
        let mark_at = at + index;
        at = mark_at + mark.len_utf8();
        let bare = (mark_at == line_start)
            .then(|| bare_number(&line[at..]))
            .flatten();
        let Some((step, length)) = bare.or_else(|| bracketed_number(&line[at..])) else {
            continue;
        };
        if let Some(last) = acks.last_mut() {
            last.why = reason(last.status, &line[text_at..mark_at]);
        }
        acks.extend(status_of(mark).map(|status| Ack {
            step,
            status,
            why: None,
        }));
        at += length;
        text_at = at;
    }
    if let Some(last) = acks.last_mut() {
        last.why = reason(last.status, &line[text_at..]);
    }
    acks
}

fn status_of(mark: char) -> Option<StepStatus> {
    match mark {
        '✓' | '✔' | '✅' | '☑' => Some(StepStatus::Done),
        '✗' | '✘' | '✖' | '❌' | '☒' => Some(StepStatus::Failed),
        '→' | '➜' | '➡' | '▶' | '…' => Some(StepStatus::InProgress),
        _ => None,
    }
}

/// Emoji marks are often followed by an invisible variation selector.
const AFTER_MARK: [char; 3] = ['\u{fe0f}', ' ', '\t'];

/// Reads `[n]`; gives the number and how long it was.
fn bracketed_number(text: &str) -> Option<(u32, usize)> {
    let inner = text.trim_start_matches(AFTER_MARK).strip_prefix('[')?;
    let (step, rest) = leading_number(inner.trim_start_matches(' '))?;
    let rest = rest.trim_start_matches(' ').strip_prefix(']')?;
    Some((step, text.len() - rest.len()))
}

/// Reads `n.` or `n)` before white space or the end; gives the number and how long it was.
fn bare_number(text: &str) -> Option<(u32, usize)> {
    let (step, rest) = leading_number(text.trim_start_matches(AFTER_MARK))?;
    let rest = rest.strip_prefix(['.', ')'])?;
    let ends = rest.is_empty() || rest.starts_with(char::is_whitespace);
    ends.then_some((step, text.len() - rest.len()))
}

fn leading_number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number = text[..digits].parse().ok().filter(|number| *number > 0)?;
    Some((number, &text[digits..]))
}

/// The reason of a failure: what follows the first dash in the text behind it.
fn reason(status: StepStatus, text: &str) -> Option<String> {
    if status != StepStatus::Failed {
        return None;
    }
    let dashes = ["—", "–", " - "];
    let (at, dash) = dashes
        .iter()
        .filter_map(|dash| text.find(dash).map(|at| (at, dash)))
        .min()?;
    let why = text[at + dash.len()..].trim().trim_end_matches([';', ',']).trim();
    (!why.is_empty()).then(|| why.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::ids::TurnId;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_unix_millis(second * 1_000)
    }

    fn plan(steps: &[&str]) -> Plan {
        let id = PlanId::made(&TurnId::parse("turn_1").unwrap(), [0; 4]);
        Plan::try_new(id, steps.iter().map(|s| (*s).to_owned()).collect(), at(1)).unwrap()
    }

    fn shape(notes: &str) -> String {
        let one = |ack: Ack| {
            format!(
                "{:?} {}{}",
                ack.status,
                ack.step,
                ack.why.map_or("".into(), |w| format!(" ({w})"))
            )
        };
        acks(notes).into_iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_snapshot_has_the_documented_json() {
        let mut plan = plan(&["Locate sources", "Draft report"]);
        plan.apply(&acks("✓ [1]"), at(2));
        let value = json!({
            "plan_id": "plan:turn_1:aaaa",
            "steps": ["Locate sources", "Draft report"],
            "status": {"1": "done", "2": "pending"},
            "created_ts": "1970-01-01T00:00:01.000000Z",
            "last_ts": "1970-01-01T00:00:02.000000Z"
        });
        assert_eq!(serde_json::to_string(&plan).unwrap(), value.to_string());
        assert_eq!(serde_json::from_value::<Plan>(value).unwrap(), plan);
        let closed = plan.closed(at(3));
        assert!(closed.is_closed());
        assert_eq!(
            serde_json::from_str::<Plan>(&serde_json::to_string(&closed).unwrap()).unwrap(),
            closed
        );
    }

    #[test]
    fn notes_say_how_steps_went_in_many_spellings() {
        assert_eq!(shape("✓ [1] found them"), "Done 1");
        assert_eq!(
            shape("✓[1] ✗ [2] no access — login needed"),
            "Done 1; Failed 2 (login needed)"
        );
        assert_eq!(
            shape("✗ [2] site down – 503; → [3]"),
            "Failed 2 (503); InProgress 3"
        );
        assert_eq!(
            shape("✓ 1. Locate sources\n- ✗ 2) Draft - no time\n… 3. Review"),
            "Done 1; Failed 2 (no time); InProgress 3"
        );
        assert_eq!(shape("✅ [1]\n✔️ [2]\n❌ [3]"), "Done 1; Done 2; Failed 3");
        assert_eq!(shape("All good. ✓ [ 4 ]"), "Done 4");
    }

    #[test]
    fn prose_with_arrows_and_numbers_is_not_an_acknowledgement() {
        for notes in [
            "→ 2 items",
            "a → 3. b",
            "✓ 1.5 percent",
            "✓",
            "✓ []",
            "✓ [0]",
            "[1] ✓",
            "✓ [99999999999]",
            "…",
            "[x] 1.",
        ] {
            assert_eq!(shape(notes), "", "{notes}");
        }
    }

    #[test]
    fn only_acknowledgements_that_change_a_step_count() {
        let mut plan = plan(&["a", "b", "c"]);
        let notes = acks("→ [1]\n✓ [1]\n✓ [1]\n✗ [2] nothing — not reachable\n→ [3]\n✓ [9]");
        let changed = plan.apply(&notes, at(5));
        assert_eq!(plan.last_ts, at(5));
        insta::assert_snapshot!(plan.ack_text(&changed), @r"
        ✓ 1. a
        ✗ 2. b — not reachable
        … 3. c — in progress
        ");
        insta::assert_snapshot!(plan.lines().join("\n"), @r"
        ✓ 1. a
        ✗ 2. b
        … 3. c
        ");
        assert!(plan.apply(&notes[4..], at(6)).is_empty());
        assert_eq!(plan.last_ts, at(5));
    }

    #[test]
    fn an_update_keeps_the_state_of_the_steps_that_stay() {
        let mut plan = plan(&["a", "b", "b"]);
        plan.apply(&acks("✓ [1] ✓ [2]"), at(2));
        let steps = ["b", "new", "a", "b", "b"].map(str::to_owned).to_vec();
        let updated = plan.try_updated(steps, at(3)).unwrap();
        assert_eq!(
            updated.lines().join("\n"),
            "✓ 1. b\n□ 2. new\n✓ 3. a\n□ 4. b\n□ 5. b"
        );
        assert_eq!(
            (&updated.plan_id, updated.created_ts, updated.last_ts),
            (&plan.plan_id, at(1), at(3))
        );
    }

    #[test]
    fn steps_that_make_no_plan_are_refused() {
        let refused =
            |steps: Vec<String>| Plan::try_new(PlanId::parse("plan:x").unwrap(), steps, at(1)).unwrap_err();
        assert_eq!(refused(vec![]), PlanError::NoSteps);
        assert_eq!(
            refused(vec!["a".into(), " \n".into()]),
            PlanError::EmptyStep { step: 2 }
        );
        assert_eq!(
            refused(vec!["x".into(); 51]),
            PlanError::TooManySteps { given: 51 }
        );
        assert_eq!(refused(vec!["x".repeat(501)]), PlanError::LongStep { step: 1 });
    }

    proptest! {
        #[test]
        fn no_notes_panic(notes in "[✓✗→…\\[\\]0-9. )—\\-\n a\u{fe0f}]{0,40}|\\PC{0,40}") {
            let mut plan = plan(&["a", "b"]);
            let changed = plan.apply(&acks(&notes), at(2));
            prop_assert!(plan.ack_text(&changed).lines().count() == changed.len());
        }
    }
}
