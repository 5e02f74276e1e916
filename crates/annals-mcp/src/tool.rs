//! A server's tools as tools of an agent: pinned, named, ordered, and each failure a result that the model reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals_core::block::payload::InputRequest;
use annals_core::code::Code;
use annals_core::timeline::Ask;
use annals_core::turn::outcome::{Notice, Outcome};
use annals_tools::schema::Schema;
use annals_tools::{
    Effect, Family, InputAsk, SpecError, Tool, ToolCx, ToolFailure, ToolName, ToolProgress, ToolSpec, Uses,
    serialise,
};
use async_trait::async_trait;
use rmcp::model::CallToolResult;
use serde_json::Value;
use tokio::time::Instant;

use crate::call::{Call, CallState};
use crate::connection::Progress;
use crate::definition::{Definition, Digest};
use crate::limits;
use crate::name;
use crate::parked::{self, Parked};
use crate::pins::Pins;
use crate::question::{self, Question};
use crate::result::{self, Origin};
use crate::server::{Again, RemoteServer, ServerError};
use crate::text;

/// The last bound of a call; those of the connection come first.
pub(crate) const TIMEOUT: Duration =
    Duration::from_secs(limits::CALL_TIMEOUT_TOTAL.as_secs() + 2 * limits::STARTUP_TIMEOUT.as_secs());

/// One tool of a server.
pub struct RemoteTool {
    spec: ToolSpec,
    server: Arc<RemoteServer>,
    definition: Definition,
    /// What was accepted of the server.
    accepted: Arc<BTreeMap<String, Digest>>,
    output: Option<Schema>,
    /// Whether the model can read what its results link to.
    links_are_read: bool,
}

/// The accepted tools of a server, and a sentence for each that cannot be offered, or not as its server means it.
pub fn tools(server: &Arc<RemoteServer>, pins: &Pins) -> (Vec<RemoteTool>, Vec<String>) {
    let config = server.config();
    let names = name::tool_names(
        Some(&config.namespace),
        pins.tools.iter().map(|tool| tool.name.as_str()),
    );
    let accepted = Arc::new(pins.digests());
    let mut complaints = Vec::new();
    let mut offered = Vec::new();
    for definition in &pins.tools {
        let Some(name) = names.get(definition.name.as_str()) else {
            continue;
        };
        if !config.offered.includes(&definition.name) {
            continue;
        }
        if let Some(fault) = definition.output_schema_fault() {
            complaints.push(format!(
                "the output schema of `{name}` cannot be used, so its structured answers are not checked: {fault}"
            ));
        }
        match RemoteTool::new(server.clone(), name, definition.clone(), accepted.clone()) {
            Ok(tool) => offered.push(RemoteTool {
                links_are_read: pins.has_resources,
                ..tool
            }),
            Err(error) => complaints.push(error.to_string()),
        }
    }
    (offered, complaints)
}

impl RemoteTool {
    fn new(
        server: Arc<RemoteServer>,
        name: &ToolName,
        definition: Definition,
        accepted: Arc<BTreeMap<String, Digest>>,
    ) -> Result<Self, SpecError> {
        let config = server.config();
        let is_renamed =
            name.as_str().strip_prefix(&format!("{}.", config.namespace)) != Some(&definition.name);
        let session = Uses::named(format!("mcp:{}", config.namespace));
        let mut spec = ToolSpec::builder(name.as_str())
            .description(definition.shown_description(&config.name, is_renamed))
            .parameters(definition.shown_schema())
            .family(Family::Plain)
            .effect(effect(&definition, &config.replay))
            .timeout(TIMEOUT);
        // Calls to one server run in their order; those that say they only read run together. A lie costs order, no more.
        spec = match definition.hint("readOnlyHint") {
            Some(true) => spec.reads(session),
            _ => spec.writes(session),
        };
        if is_renamed {
            spec = spec.known_as(text::one_line(&definition.name, 128));
        }
        let output = definition.output_schema.as_ref();
        Ok(RemoteTool {
            spec: spec.build()?,
            // One that cannot be used is told of by `Definition::output_schema_fault`.
            output: output.and_then(|schema| Schema::new(schema).ok()),
            links_are_read: false,
            accepted,
            server,
            definition,
        })
    }

    /// Its server's configuration name.
    pub fn server(&self) -> &str {
        &self.server.config().name
    }
}

/// A lost call runs again only if the server says that this is harmless *and* the person names the tool.
fn effect(definition: &Definition, replay: &[String]) -> Effect {
    let is_harmless =
        definition.hint("idempotentHint") == Some(true) || definition.hint("readOnlyHint") == Some(true);
    match is_harmless && replay.contains(&definition.name) {
        true => Effect::Replayable,
        false => Effect::Once,
    }
}

#[async_trait]
impl Tool for RemoteTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn abandoned(&self, cx: &ToolCx) {
        self.server.abandon(&parked::key(cx));
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let arguments = match args {
            Value::Object(arguments) => arguments,
            _ => serde_json::Map::new(),
        };
        let mut asides = Asides::default();
        let mut outcome = match self.perform(cx, arguments, &mut asides).await {
            Ok(result) => {
                let origin = Origin {
                    server: &self.server.config().namespace,
                    spec: &self.spec,
                    output: self.output.as_ref(),
                    links_are_read: self.links_are_read,
                };
                result::outcome(cx, origin, result).await
            }
            Err(Stop::Asks(question)) => return serialise::failed(&question),
            Err(Stop::Failed(error)) => {
                let words = self.server.hidden(&error.to_string()).into_owned();
                serialise::answer(cx, &self.spec, Err(ToolFailure::new(error.code(), words))).await
            }
        };
        let notice =
            |code| move |message| Notice::new(code, message).with("tool_id", self.spec.name().as_str());
        let declined = asides
            .declined
            .said("questions were declined")
            .map(notice(Code::McpResult));
        let refused = asides
            .kept_from
            .said("hosts were refused")
            .map(notice(Code::McpHostRefused));
        let news = asides.news.said("differences").map(notice(Code::McpResult));
        outcome.notices.splice(0..0, news.chain(declined).chain(refused));
        outcome
    }
}

/// What is said of a call beside its result.
#[derive(Default)]
struct Asides {
    /// What the server offers otherwise than it was accepted.
    news: Few,
    /// Questions that nobody could be asked.
    declined: Few,
    /// Hosts that the server tried to reach and may not.
    kept_from: Few,
}

/// The first of any number of sentences, and how many more there were.
#[derive(Default)]
pub(crate) struct Few {
    first: Vec<String>,
    more: usize,
}

impl Few {
    pub(crate) fn push(&mut self, sentence: String) {
        match self.first.len() < limits::NOTICES_MAX {
            true => self.first.push(sentence),
            false => self.more += 1,
        }
    }

    /// Before all others, and whatever their number.
    pub(crate) fn begin_with(&mut self, sentence: String) {
        self.first.insert(0, sentence);
    }

    /// The sentences; the last one counts those that are left out, which `what` names.
    pub(crate) fn said(self, what: &str) -> impl Iterator<Item = String> + use<> {
        let more = (self.more > 0).then(|| format!("{} more {what}", self.more));
        self.first.into_iter().chain(more)
    }
}

/// Signs of life that people are shown: not more often than they can read.
#[derive(Default)]
struct Reports(Mutex<Option<Instant>>);

impl Reports {
    fn pass_on(&self, cx: &ToolCx, sign: &Progress) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < limits::PROGRESS_PAUSE) {
            return;
        }
        *last = Some(Instant::now());
        cx.report(ToolProgress {
            progress: sign.progress,
            total: sign.total,
            message: sign.message.clone(),
        });
    }
}

/// Why a call has no result.
enum Stop {
    /// A person is asked first.
    Asks(ToolFailure),
    Failed(ServerError),
}

impl RemoteTool {
    /// The call up to its result, with the answers that a person gave.
    async fn perform(
        &self,
        cx: &ToolCx,
        arguments: serde_json::Map<String, Value>,
        asides: &mut Asides,
    ) -> Result<CallToolResult, Stop> {
        let server = &self.server;
        let reports = Reports::default();
        let key = parked::key(cx);
        let (mut call, mut waiting, mut answered) = match server.parked(&key) {
            Some(parked) => {
                // What came before the question that waits was told to the server already.
                for _ in 0..parked.answered {
                    cx.ask(InputAsk::new("")).map_err(Stop::Asks)?;
                }
                (parked.call, Some(parked.question), parked.answered)
            }
            None => {
                let begun = self.begin(cx, arguments, asides).await;
                (begun.map_err(Stop::Failed)?, None, 0)
            }
        };
        loop {
            let question = match waiting.take() {
                Some(question) => question,
                None => {
                    let next = call.next(cx.cancel(), |sign| reports.pass_on(cx, sign)).await;
                    for host in call.connection().kept_from() {
                        asides.kept_from.push(host);
                    }
                    match next {
                        Ok(CallState::Done(result)) => return Ok(result),
                        Ok(CallState::Asks(question)) => question,
                        Err(error) => return Err(Stop::Failed(server.failed(error))),
                    }
                }
            };
            let Some(ask) = self.asked(cx, &question, asides) else {
                call.answer(question::declined());
                continue;
            };
            let is_other = |asked: &InputRequest| asked.message != ask.message || asked.schema != ask.schema;
            if recorded(cx).get(answered).is_some_and(is_other) {
                let server = server.config().name.clone();
                return Err(Stop::Failed(ServerError::Lost { server }));
            }
            match cx.ask(ask) {
                Ok(answer) => {
                    call.answer(question.reply(&answer));
                    answered += 1;
                }
                Err(asks) => {
                    let parked = Parked {
                        call,
                        question,
                        answered,
                    };
                    server.park(key, parked).await;
                    return Err(Stop::Asks(asks));
                }
            }
        }
    }

    /// What a person is asked; none where nobody is, which is noted.
    fn asked(&self, cx: &ToolCx, question: &Question, asides: &mut Asides) -> Option<InputAsk> {
        let ask = question.ask(&self.server.config().name);
        let declined = match &ask {
            Some(_) if cx.is_attended() => return ask,
            Some(ask) => format!(
                "the server asked, and nobody can be asked in this run, so it was declined: {}",
                ask.message
            ),
            None => "the server asked for something that is not shown to people; it was declined".to_owned(),
        };
        asides.declined.push(declined);
        None
    }

    /// Makes the call. One that was made before, and asked, is made again only where that is harmless.
    async fn begin(
        &self,
        cx: &ToolCx,
        arguments: serde_json::Map<String, Value>,
        asides: &mut Asides,
    ) -> Result<Call, ServerError> {
        let is_again = !recorded(cx).is_empty();
        let again = match is_again && self.spec.effect() != Effect::Replayable {
            true => Again::OnlyInRounds,
            false => Again::Freely,
        };
        let name = &self.definition.name;
        let accepted = self.accepted.get(name);
        let begun = self
            .server
            .begin(name, accepted, arguments, again, cx.cancel())
            .await?;
        let config = self.server.config();
        let news = begun
            .connection()
            .news(&self.accepted, |tool| config.offered.includes(tool));
        if let Some(news) = news {
            asides.news.push(format!(
                "what the MCP server `{name}` offers is not what was accepted: {}; a person can compare and accept it with \
                 `annals mcp inspect {name}`",
                news.summary(),
                name = config.name,
            ));
        }
        Ok(begun)
    }
}

/// What a person was asked for this call so far.
fn recorded(cx: &ToolCx) -> Vec<InputRequest> {
    cx.timeline(|timeline| {
        let asked = timeline.requests_of(cx.call());
        asked
            .filter_map(|request| match &request.ask {
                Ask::Input { request, .. } => Some((**request).clone()),
                _ => None,
            })
            .collect()
    })
}
