//! What a model may do wrong, as codes, and which of them cost it the turn when repeated.

use super::Notice;

/// Arguments that are not a JSON object.
pub const INVALID_TOOL_ARGUMENTS: &str = "protocol_violation.invalid_tool_arguments";
/// A tool that does not exist or was not offered.
pub const UNKNOWN_TOOL: &str = "protocol_violation.unknown_tool";
/// A required parameter missing, or one of the wrong type.
pub const TOOL_SIGNATURE_RED: &str = "protocol_violation.tool_signature_red";
/// Unknown parameters, dropped.
pub const TOOL_SIGNATURE_VALIDATION: &str = "protocol_violation.tool_signature_validation";
/// Parameters in another order than the tool's.
pub const PARAM_ORDER: &str = "protocol_violation.param_order";
/// A `ref:` to something the model cannot see.
pub const PARAM_REF_NOT_VISIBLE: &str = "protocol_violation.param_ref_not_visible";
/// A contract that is not a list of files.
pub const EXEC_CONTRACT_INVALID: &str = "protocol_violation.exec_contract_invalid";
/// A path of another turn, rewritten into the current one.
pub const PATH_REWRITTEN: &str = "protocol_violation.path_rewritten";
/// An answer with neither text nor calls.
pub const EMPTY_ANSWER: &str = "protocol_violation.empty_answer";
/// More calls in one answer than are taken.
pub const TOO_MANY_CALLS: &str = "protocol_violation.too_many_calls";
/// A call id used twice; the second was given another.
pub const DUPLICATE_CALL_ID: &str = "protocol_violation.duplicate_call_id";

/// The same call with the same result, again and again.
pub const LOOP: &str = "protocol_violation.loop";
/// An answer that does not fit the schema that was asked for.
pub const ANSWER_SCHEMA: &str = "protocol_violation.answer_schema";

/// Violations after which the call did not run.
const REFUSED: [&str; 6] = [
    INVALID_TOOL_ARGUMENTS,
    UNKNOWN_TOOL,
    TOOL_SIGNATURE_RED,
    PARAM_REF_NOT_VISIBLE,
    EXEC_CONTRACT_INVALID,
    EMPTY_ANSWER,
];

/// The code of a notice that says a call was refused; `None` for notices after which the call still ran.
pub fn violation_of(notice: &str) -> Option<String> {
    let notice: Notice = serde_json::from_str(notice).ok()?;
    REFUSED.contains(&notice.code.as_str()).then_some(notice.code)
}
