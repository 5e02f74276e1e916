//! The `ar:` paths: a turn's records by their dotted names, one function for each that Annals writes.

use super::{LogicalPath, PathError};
use crate::ids::{CallId, PlanId, TurnId, is_id_byte};
use crate::limits;

pub(super) const FORM: &str =
    "`ar:<turn>.<name>`, the name of dotted words of `A-Z a-z 0-9 _ - :`, such as `user.prompt`";

/// `ar:<turn>.artifacts.<path>` is read as the file `<path>`, so no name begins like that.
pub(super) const ARTIFACTS_ALIAS: &str = "artifacts.";

/// Whether a text is a dotted name that stands for itself.
pub(super) fn is_name(text: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|b| is_id_byte(b) || b == b':');
    text.len() <= limits::NAME_MAX_BYTES && !text.starts_with(ARTIFACTS_ALIAS) && text.split('.').all(word)
}

impl LogicalPath {
    /// `ar:<turn>.<name>` for a dotted name.
    pub fn named(turn: &TurnId, name: &str) -> Result<Self, PathError> {
        if is_name(name) {
            Ok(Self::build_named(turn, format_args!("{name}")))
        } else {
            Err(PathError::malformed(name, FORM))
        }
    }

    /// `ar:<turn>.turn.header`.
    pub fn turn_header(turn: &TurnId) -> Self {
        Self::build_named(turn, format_args!("turn.header"))
    }

    /// `ar:<turn>.user.prompt`.
    pub fn user_prompt(turn: &TurnId) -> Self {
        Self::build_named(turn, format_args!("user.prompt"))
    }

    /// `ar:<turn>.user.instructions`.
    pub fn user_instructions(turn: &TurnId) -> Self {
        Self::build_named(turn, format_args!("user.instructions"))
    }

    /// `ar:<turn>.user.steer.<n>`.
    pub fn user_steer(turn: &TurnId, n: u32) -> Self {
        Self::build_named(turn, format_args!("user.steer.{n}"))
    }

    /// `ar:<turn>.user.attachment.text.<n>`: the text of the turn's `n`th attachment.
    pub fn attachment_text(turn: &TurnId, n: u32) -> Self {
        Self::build_named(turn, format_args!("user.attachment.text.{n}"))
    }

    /// `ar:<turn>.tools.table.<n>`.
    pub fn tools_table(turn: &TurnId, n: u32) -> Self {
        Self::build_named(turn, format_args!("tools.table.{n}"))
    }

    /// `ar:<turn>.react.tool.started.<call>`.
    pub fn tool_started(turn: &TurnId, call: &CallId) -> Self {
        Self::build_named(turn, format_args!("react.tool.started.{call}"))
    }

    /// `ar:<turn>.approval.request.<call>`.
    pub fn approval_request(turn: &TurnId, call: &CallId) -> Self {
        Self::build_named(turn, format_args!("approval.request.{call}"))
    }

    /// `ar:<turn>.approval.decision.<call>`.
    pub fn approval_decision(turn: &TurnId, call: &CallId) -> Self {
        Self::build_named(turn, format_args!("approval.decision.{call}"))
    }

    /// `ar:<turn>.input.request.<call>`.
    pub fn input_request(turn: &TurnId, call: &CallId) -> Self {
        Self::build_named(turn, format_args!("input.request.{call}"))
    }

    /// `ar:<turn>.input.response.<call>`.
    pub fn input_response(turn: &TurnId, call: &CallId) -> Self {
        Self::build_named(turn, format_args!("input.response.{call}"))
    }

    /// `ar:<turn>.child.result.<call>`.
    pub fn child_result(turn: &TurnId, call: &CallId) -> Self {
        Self::build_named(turn, format_args!("child.result.{call}"))
    }

    /// `ar:<turn>.agent.log.header`.
    pub fn agent_log_header(turn: &TurnId) -> Self {
        Self::build_named(turn, format_args!("agent.log.header"))
    }

    /// `ar:<turn>.react.thinking.<n>`.
    pub fn thinking(turn: &TurnId, n: u32) -> Self {
        Self::build_named(turn, format_args!("react.thinking.{n}"))
    }

    /// `ar:<turn>.react.notes.<call>`: what the model said beside a call.
    pub fn notes(turn: &TurnId, call: &CallId) -> Self {
        Self::build_named(turn, format_args!("react.notes.{call}"))
    }

    /// `ar:<turn>.react.note.<call>`: what the model wrote to itself.
    pub fn note(turn: &TurnId, call: &CallId) -> Self {
        Self::build_named(turn, format_args!("react.note.{call}"))
    }

    /// `ar:<turn>.react.plan.<plan_id>`.
    pub fn plan(turn: &TurnId, plan: &PlanId) -> Self {
        Self::build_named(turn, format_args!("react.plan.{plan}"))
    }

    /// `ar:<turn>.react.plan.ack.<n>`.
    pub fn plan_ack(turn: &TurnId, n: u32) -> Self {
        Self::build_named(turn, format_args!("react.plan.ack.{n}"))
    }

    /// `ar:<turn>.react.decision.raw.<n>`.
    pub fn decision_raw(turn: &TurnId, n: u32) -> Self {
        Self::build_named(turn, format_args!("react.decision.raw.{n}"))
    }

    /// `ar:<turn>.assistant.completion`.
    pub fn assistant_completion(turn: &TurnId) -> Self {
        Self::build_named(turn, format_args!("assistant.completion"))
    }

    /// `ar:<turn>.react.completion`.
    pub fn react_completion(turn: &TurnId) -> Self {
        Self::build_named(turn, format_args!("react.completion"))
    }

    /// `ar:<turn>.stage.<name>`, such as `clarification.resolved`.
    pub fn stage(turn: &TurnId, name: &str) -> Result<Self, PathError> {
        Self::named(turn, &format!("stage.{name}"))
    }

    /// `ar:<turn>.system.message.<kind>`.
    pub fn system_message(turn: &TurnId, kind: &str) -> Result<Self, PathError> {
        Self::named(turn, &format!("system.message.{kind}"))
    }

    /// `ar:<turn>.timeline.hide.<n>`.
    pub fn timeline_hide(turn: &TurnId, n: u32) -> Self {
        Self::build_named(turn, format_args!("timeline.hide.{n}"))
    }
}
