//! Tools that the client performs: offered with a request, called by an answer that ends there, and gone on with by the
//! request that brings their results.
//!
//! Between the two the turn waits in the log like one that waits for a person, in no process at all if need be.

use annals_core::block::{BlobDigest, BlockKind};
use annals_core::ids::Seq;
use annals_core::timeline::Ask as Asked;
use annals_core::view::View;
use annals_runtime::{ClientFunction, InputAction, InputRequest, InputResponse, RunError};
use annals_store::LogError;
use http::StatusCode;
use serde_json::{Value, json};

use super::ask::{Ask, Face, Started};
use super::error::ApiError;
use super::follow::{Follow, Seen};
use super::part::Part;
use super::transcript::{ToolOutput, Transcript};
use crate::idempotency;

/// The kind of index entry that says which part a call belongs to.
pub(crate) const CALL_ENTRY: &str = "t";

/// A call that the client is to perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCall {
    /// The name under which the client gives the result.
    pub(crate) id: String,
    /// The client's name for its function.
    pub(crate) name: String,
    /// The arguments, as JSON.
    pub(crate) arguments: String,
}

/// Whether a request in the log is one to the client.
pub(crate) fn is_for_client(request: &InputRequest) -> bool {
    ClientFunction::performs(&request.tool)
}

/// The functions among the tools of a request. Other kinds, such as a provider's own search, mean nothing here.
pub(crate) fn functions(tools: &[Value], choice: Option<&Value>) -> Result<Vec<ClientFunction>, ApiError> {
    if choice.is_some_and(|choice| choice == "none") {
        return Ok(Vec::new());
    }
    let functions = tools.iter().filter(|tool| tool["type"] == "function");
    functions
        .map(|tool| {
            // Chat Completions has it one level deeper than Responses.
            let function = if tool["function"].is_object() {
                &tool["function"]
            } else {
                tool
            };
            let name = function["name"].as_str().filter(|name| !name.is_empty());
            let name =
                name.ok_or_else(|| ApiError::invalid("tools", "invalid_tool", "a function needs a `name`"))?;
            let parameters = &function["parameters"];
            Ok(ClientFunction {
                name: name.to_owned(),
                description: function["description"].as_str().unwrap_or_default().to_owned(),
                parameters: match parameters.is_object() {
                    true => parameters.clone(),
                    false => json!({"type": "object", "properties": {}}),
                },
            })
        })
        .collect()
}

/// What one result means for the turn that asked for it.
enum Given {
    /// The turn waits for it.
    Now(InputResponse),
    /// It was given before.
    Before,
}

impl Face {
    /// Goes on with the turn whose calls these are the results of.
    pub(crate) async fn deliver(&self, mut ask: Ask) -> Result<Started, ApiError> {
        let outputs = std::mem::take(&mut ask.transcript.outputs);
        let waiting = self.part_of(&outputs).await?;
        let timeline = self.agent.timeline(&waiting.conversation).await?;
        let (after, given) = matched(&timeline, &waiting, &outputs)?;
        let part = Part {
            after: Some(after),
            ..waiting
        };
        let handle = self
            .agent
            .conversation(&part.conversation)
            .of_turn(part.turn.clone());
        // Words that come with the results are heard after them.
        let words = ask.transcript.prompt.text.clone();
        let has_words = !words.trim().is_empty();
        let last = given.iter().rposition(|given| matches!(given, Given::Now(_)));
        if has_words && last.is_some() {
            // Under a name that follows from what is said, so that it is said once also when a process dies in between.
            let said = format!("{part} {words}");
            let said = format!("words {}", BlobDigest::of(said.as_bytes()));
            handle.steer_as(said, words).await?;
        }
        // With the last result the request has had its whole effect.
        let mut answer = ask.once.answer(StatusCode::OK, part.to_string().into_bytes());
        for (at, given) in given.into_iter().enumerate() {
            let Given::Now(response) = given else { continue };
            let with_last = answer.take_if(|_| Some(at) == last);
            match handle.clone().answering(with_last).respond(response).await {
                Err(RunError::NothingToDecide(_)) => return Err(already_given()),
                Err(RunError::Log(LogError::Answered { .. })) => return self.answered_meanwhile(&ask).await,
                responded => responded?,
            }
        }
        idempotency::keep(&self.app, answer)
            .await
            .map_err(|error| ApiError::from(error).not_again())?;
        self.remember(&ask, &part).await.map_err(ApiError::not_again)?;
        let key = ask.names.key();
        let seen = match has_words {
            true => Some(Seen::part(ask.transcript, key)),
            false => ask
                .transcript
                .reopened()
                .map(|transcript| Seen::turn(transcript, key)),
        };
        let follow = Follow::new(self, &self.agent, part.clone(), ask.origin).keeping(seen);
        let before = timeline.turn(&part.turn).map(|turn| turn.first_seq().get() - 1);
        let subscription = self
            .agent
            .subscribe(&part.conversation, before.and_then(|seq| Seq::try_new(seq).ok()))
            .await?;
        Ok(Started {
            pieces: follow.begin(subscription, timeline.pool().iter().cloned().collect()),
            part,
            is_stand_alone: false,
            is_replayed: false,
        })
    }

    /// Whether an answer has ended with calls for the client.
    pub(crate) fn is_handed_over(&self, timeline: &View, part: &Part) -> bool {
        let blocks = timeline
            .turn(&part.turn)
            .map_or(&[][..], |turn| timeline.turn_blocks(turn));
        blocks.iter().any(|block| {
            let request =
                (block.kind == BlockKind::InputRequest).then(|| block.payload::<InputRequest>().ok());
            part.begins_before(block.seq) && request.flatten().is_some_and(|request| is_for_client(&request))
        })
    }

    /// The one turn that all these results belong to.
    async fn part_of(&self, outputs: &[ToolOutput]) -> Result<Part, ApiError> {
        let mut found: Option<Part> = None;
        for ToolOutput { call, .. } in outputs {
            let entry = self.index().named(CALL_ENTRY, call).await?;
            let part = entry.as_deref().and_then(|id| Part::parse(id).ok());
            let part = part.ok_or_else(|| unknown_call(call))?;
            match &found {
                Some(other) if (&other.conversation, &other.turn) != (&part.conversation, &part.turn) => {
                    let message = "the results belong to different answers: give those of one at a time";
                    return Err(ApiError::invalid("messages", "mixed_results", message));
                }
                _ => found = Some(part),
            }
        }
        found.ok_or_else(|| unknown_call(""))
    }
}

/// Which of the results the turn waits for, and after which block it goes on.
fn matched(timeline: &View, part: &Part, outputs: &[ToolOutput]) -> Result<(Seq, Vec<Given>), ApiError> {
    let mut given = Vec::new();
    let mut last = None;
    let is_current = timeline.current_turn().is_some_and(|turn| turn.id == part.turn);
    let asked = if is_current { timeline.requests() } else { &[] };
    for request in asked {
        let Asked::Input {
            request: input,
            response,
        } = &request.ask
        else {
            continue;
        };
        if !is_for_client(input) {
            continue;
        }
        let id = part.call_id(&input.call_id);
        let output = outputs.iter().find(|output| output.call == id);
        match (output, response) {
            (Some(output), None) => given.push(Given::Now(output.response(input))),
            (Some(output), Some(earlier)) if earlier.content == Some(output.content()) => {
                given.push(Given::Before)
            }
            (Some(_), Some(_)) => return Err(already_given()),
            (None, None) => {
                let message =
                    format_args!("the call `{id}` waits for its result too: give all of them at once");
                return Err(ApiError::invalid("messages", "missing_tool_output", message));
            }
            (None, Some(_)) => continue,
        }
        last = last.max(Some(request.seq));
    }
    last.map(|last| (last, given)).ok_or_else(already_given)
}

fn unknown_call(call: &str) -> ApiError {
    let call: String = call.chars().take(64).collect();
    let message = format_args!(
        "no call `{}` was made here: give results under the ids they were asked for with",
        call.escape_default()
    );
    ApiError::invalid("messages", "unknown_call", message)
}

fn already_given() -> ApiError {
    let message =
        "the call has another result already, or its turn is over: send the prompt again to begin anew";
    ApiError::new(http::StatusCode::CONFLICT, "already_given", message)
}

impl ToolOutput {
    fn content(&self) -> Value {
        Value::String(self.text.clone())
    }

    fn response(&self, request: &InputRequest) -> InputResponse {
        InputResponse {
            input_id: request.input_id.clone(),
            action: InputAction::Accept,
            content: Some(self.content()),
            by: "client".to_owned(),
            via: "openai".to_owned(),
        }
    }
}

impl Transcript {
    /// The transcript as it was when its last prompt was asked: what has been answered since belongs to the same turn.
    fn reopened(mut self) -> Option<Self> {
        let open = self.history.pop()?;
        self.prompt = open.user;
        Some(self)
    }
}
