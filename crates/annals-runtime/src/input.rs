//! Calls that wait for what only a person or a client can give: what is asked, what came, and whether it fits.

use annals_core::block::NewBlock;
use annals_core::block::payload::{InputAction, InputRequest, InputResponse};
use annals_core::ids::{CallId, RequestId, TurnId};
use annals_core::time::Timestamp;
use annals_core::timeline::{Ask, Timeline};
use annals_tools::{InputAsk, validate};

/// The request that is written down.
pub(crate) fn request(
    timeline: &Timeline,
    turn: &TurnId,
    call: &CallId,
    tool: &str,
    ask: InputAsk,
    now: Timestamp,
) -> InputRequest {
    let earlier = timeline.requests_of(call).count();
    let expires = ask.expires_in.map(|after| {
        let micros = i64::try_from(after.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_unix_micros(now.unix_micros().saturating_add(micros))
    });
    InputRequest {
        input_id: RequestId::of(turn, call, earlier as u32 + 1),
        call_id: call.clone(),
        tool: tool.to_owned(),
        message: ask.message,
        schema: ask.schema,
        url: ask.url,
        expires,
    }
}

/// What the turn waits for.
pub(crate) fn pending(timeline: &Timeline) -> impl Iterator<Item = &InputRequest> {
    timeline.waiting().filter_map(|request| match &request.ask {
        Ask::Input { request, .. } => Some(&**request),
        _ => None,
    })
}

/// What was given for a call so far, in the order of its questions.
pub(crate) fn answers(timeline: &Timeline, call: &CallId) -> Vec<InputResponse> {
    let asked = timeline.requests_of(call);
    asked.filter_map(|request| request.response()).cloned().collect()
}

/// Why an answer does not fit its request, if it does not.
pub(crate) fn misfit(request: &InputRequest, response: &InputResponse) -> Option<String> {
    let (InputAction::Accept, Some(schema)) = (response.action, &request.schema) else {
        return None;
    };
    let given = response.content.clone().unwrap_or_default();
    validate::misfit(schema, &given)
}

/// The block that writes an answer down; none when nothing waits for it any more.
pub(crate) fn response_block(
    timeline: &Timeline,
    turn: &TurnId,
    response: &InputResponse,
) -> Option<NewBlock> {
    let request = pending(timeline).find(|request| request.input_id == response.input_id)?;
    Some(response.block(turn, &request.call_id))
}
