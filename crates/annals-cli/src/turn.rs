//! One turn from the command line: watched, cancellable, and judged by how it ended.

use std::io::Write as _;
use std::sync::Arc;

use annals::core::block::{BlockJson, BlockKind};
use annals::core::turn::{TurnEnd, TurnReport};
use annals::runtime::{Listen, Update};
use annals::{Session, TurnRequest};
use tokio_util::sync::CancellationToken;

use crate::failure::{Ended, Failure};
use crate::paint;
use crate::screen::{Screen, Shows};
use crate::setup::Setup;

/// What the shell of many systems expects of a program that Ctrl-C ended.
const INTERRUPTED_CODE: i32 = 130;

/// How a turn is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Screen(Shows),
    /// Every block as a line of JSON, as soon as it is durable.
    Json,
}

impl Form {
    /// The form that `--json` asks for, or what standard output wants.
    pub(crate) fn of(json: bool) -> Self {
        if json {
            Form::Json
        } else {
            Form::Screen(Shows::for_stdout())
        }
    }
}

/// What to do in a session.
pub(crate) enum Work {
    /// A new turn.
    Run(TurnRequest),
    /// The turn that was left open.
    Resume,
}

/// Prints every block as a line of JSON.
pub(crate) struct JsonLines;

impl Listen for JsonLines {
    fn on(&self, update: Update) {
        if let Update::Block(block) = update {
            print_block(&BlockJson::from(&*block));
        }
    }
}

/// One line, flushed. When nobody reads, the turn goes on all the same.
fn print_block(block: &BlockJson) {
    let mut line = serde_json::to_string(block).expect("plain data always serialises to JSON");
    line.push('\n');
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Does the work, shows it in this form, and lets Ctrl-C cancel it; twice quits.
pub(crate) async fn perform(
    setup: &Setup,
    session: &mut Session,
    work: Work,
    form: Form,
) -> Result<TurnEnd, Failure> {
    let cancel = CancellationToken::new();
    let watch = tokio::spawn(cancel_on_ctrl_c(cancel.clone()));
    let screen = match form {
        Form::Screen(shows) => Some(Screen::open(shows, setup.workspace(session.id()))),
        Form::Json => None,
    };
    let listener: Arc<dyn Listen> = match &screen {
        Some(screen) => Arc::new(screen.listener()),
        None => Arc::new(JsonLines),
    };
    let end = match work {
        Work::Run(request) => {
            setup
                .agent
                .run_in(session, request.listen(listener).cancel(cancel))
                .await
        }
        Work::Resume => setup.agent.resume(session, listener, cancel).await,
    };
    watch.abort();
    if let Some(screen) = screen {
        screen.close();
    }
    Ok(end?)
}

async fn cancel_on_ctrl_c(cancel: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    cancel.cancel();
    paint::say("cancelling; press Ctrl-C again to quit at once (nothing written so far is lost)");
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(INTERRUPTED_CODE);
    }
}

/// What the exit code says of a turn that has ended, with a sentence when it did not end well.
pub(crate) fn judge(setup: &Setup, session: &Session, end: TurnEnd) -> Result<Ended, Failure> {
    if end.is_success() {
        return Ok(Ended::Well);
    }
    let report = last_report(session);
    let reason = report
        .as_ref()
        .and_then(|report| report.error.clone())
        .unwrap_or_default();
    let sentence = match end {
        TurnEnd::ModelError => explain(setup, &reason),
        TurnEnd::Cancelled => format!(
            "the turn was cancelled; go on with a new prompt in `{}`",
            session.id()
        ),
        other => {
            let reason = if reason.is_empty() {
                String::new()
            } else {
                format!(": {reason}")
            };
            format!(
                "the turn ended with `{}`{reason}; see `annals timeline show {}`",
                other.as_str(),
                session.id()
            )
        }
    };
    let is_script = setup.agent.model().name().starts_with("script:");
    let never_answered = report.is_some_and(|report| report.iterations == 0);
    if end == TurnEnd::ModelError && never_answered && !is_script {
        return Err(Failure::Environment(sentence));
    }
    paint::error(&sentence);
    Ok(Ended::Otherwise)
}

/// Why the model failed, and what to look at.
fn explain(setup: &Setup, reason: &str) -> String {
    let config = &setup.config;
    let model = setup.agent.model().name();
    let variable = match model.split(':').next() {
        Some("anthropic") => annals::model::ANTHROPIC_API_KEY,
        _ => annals::model::OPENAI_API_KEY,
    };
    let kind = reason.split(':').next().unwrap_or_default();
    let hint = match (kind, &config.base_url) {
        ("auth", _) => format!("; check `{variable}`"),
        ("network" | "malformed" | "bad_request" | "stalled", Some(url)) if !model.starts_with("script:") => {
            format!("; check that `{}` ({}) is a model server", url.value, url.origin)
        }
        ("network" | "stalled", None) if !model.starts_with("script:") => {
            "; check the network, or name a server with `--base-url`".to_owned()
        }
        _ => String::new(),
    };
    format!("`{model}` gave no answer: {reason}{hint}")
}

/// How the last turn says that it ended.
pub(crate) fn last_report(session: &Session) -> Option<TurnReport> {
    session.timeline(|timeline| {
        let turn = timeline.current_turn()?;
        let blocks = timeline.turn_blocks(turn).iter().rev();
        let completion = blocks
            .into_iter()
            .find(|block| block.kind == BlockKind::ReactCompletion)?;
        serde_json::from_str(completion.text()?).ok()
    })
}
