//! One turn from the command line: watched, cancellable, and judged by how it ended.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use annals::core::block::BlockJson;
use annals::core::ids::Sid;
use annals::core::redact::SafeUrl;
use annals::core::turn::{TurnEnd, TurnReport};
use annals::runtime::{Listen, Update};
use annals::{Session, TurnRequest};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::approval::{self, Asked, Questions};
use crate::args::ApprovalsArg;
use crate::citations::Source;
use crate::failure::{Ended, Failure, INTERRUPTED_CODE};
use crate::form;
use crate::paint;
use crate::screen::{Screen, Shows};
use crate::setup::Setup;

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

/// Prints every block as a line of JSON, flushed. When a line cannot be written, the turn goes on all the same.
#[derive(Default)]
pub(crate) struct JsonLines {
    error: Mutex<Option<io::Error>>,
}

impl JsonLines {
    /// An error if standard output did not take every line.
    pub(crate) fn close(&self) -> io::Result<()> {
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.map_or(Ok(()), Err)
    }
}

impl Listen for JsonLines {
    fn on(&self, update: Update) {
        let Update::Block(block) = update else { return };
        let line = serde_json::to_string(&BlockJson::from(&*block));
        let written = line.map_err(io::Error::from).and_then(|mut line| {
            line.push('\n');
            paint::write_json(&line)
        });
        if let Err(error) = written {
            self.error
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(error);
        }
    }
}

/// A turn whose output was not taken has not done what was asked; a reader that went away has had enough.
pub(crate) fn output_taken(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::environment(format!(
            "standard output did not take everything: {error}; the turn is on the timeline"
        ))),
        _ => Ok(()),
    }
}

/// Runs the turn, shows it in this form, and lets Ctrl-C cancel it; twice quits.
pub(crate) async fn perform(
    setup: &Setup,
    session: &Session,
    request: TurnRequest,
    form: Form,
    approvals: ApprovalsArg,
) -> Result<TurnEnd, Failure> {
    let cancel = CancellationToken::new();
    let watch = tokio::spawn(cancel_on_ctrl_c(cancel.clone()));
    let lines = Arc::new(JsonLines::default());
    let screen = match form {
        Form::Screen(shows) => Some(Screen::open(
            shows,
            setup.workspace(session.id()),
            sources_of(session),
        )),
        Form::Json => None,
    };
    let listener: Arc<dyn Listen> = match &screen {
        Some(screen) => Arc::new(screen.listener()),
        None => lines.clone(),
    };
    let (asks, questions) = unbounded_channel();
    let listener = Questions { listener, asks };
    let request = request.listen(listener).cancel(cancel);
    let end = answering(setup, session, request, approvals, questions).await;
    watch.abort();
    let written = screen.map_or_else(|| lines.close(), Screen::close);
    let end = end?;
    output_taken(written)?;
    Ok(end)
}

/// What a person was told elsewhere to a turn that nobody ran is taken in this soon after it is run; nobody is asked for it
/// again.
const SETTLING: Duration = Duration::from_secs(1);

/// What the turn waits for a person with.
fn waiting(session: &Session) -> Vec<Asked> {
    session.timeline(|timeline| timeline.waiting().filter_map(Asked::of).collect())
}

/// Runs the turn, and sees to what a person is asked meanwhile.
async fn answering(
    setup: &Setup,
    session: &Session,
    request: TurnRequest,
    approvals: ApprovalsArg,
    mut questions: UnboundedReceiver<Asked>,
) -> Result<TurnEnd, Failure> {
    let conversation = setup.agent.conversation(session.id());
    let mut left = waiting(session);
    let mut turn = std::pin::pin!(setup.agent.run_in(session, request));
    if !left.is_empty() {
        tokio::select! {
            end = &mut turn => return Ok(end?),
            () = tokio::time::sleep(SETTLING) => {}
        }
        let now = waiting(session);
        left.retain(|asked| now.iter().any(|waits| waits.id() == asked.id()));
    }
    let mut left = left.into_iter();
    loop {
        let asked = match left.next() {
            Some(asked) => asked,
            None => tokio::select! {
                end = &mut turn => return Ok(end?),
                Some(asked) = questions.recv() => asked,
            },
        };
        match (approvals, asked) {
            (ApprovalsArg::Ask, Asked::Approval(asked)) => {
                approval::ask(session, &conversation, asked).await?;
            }
            (ApprovalsArg::Ask, Asked::Input(asked)) => form::ask(&conversation, asked).await?,
            (ApprovalsArg::Wait | ApprovalsArg::Deny, Asked::Approval(asked)) => paint::say(format!(
                "waits for a decision: annals approve {} {}",
                session.id(),
                asked.approval_id
            )),
            (ApprovalsArg::Wait | ApprovalsArg::Deny, Asked::Input(asked)) => paint::say(format!(
                "{}\nwaits for an answer: annals answer {} {} JSON (`annals inputs` shows what fits)",
                asked.message,
                session.id(),
                asked.input_id
            )),
        }
    }
}

/// Looks sources up in the session's timeline as it is at that moment.
fn sources_of(session: &Session) -> impl Fn(Sid) -> Option<Source> + Clone + Send + 'static {
    let cx = session.cx().clone();
    move |sid| {
        let timeline = cx.timeline.read().unwrap_or_else(PoisonError::into_inner);
        Source::find(timeline.pool(), sid)
    }
}

async fn cancel_on_ctrl_c(cancel: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_err() {
        return;
    }
    cancel.cancel();
    paint::say("cancelling; press Ctrl-C again to quit at once (nothing written so far is lost)");
    if tokio::signal::ctrl_c().await.is_ok() {
        std::process::exit(i32::from(INTERRUPTED_CODE));
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
    paint::error(sentence);
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
            format!(
                "; check that `{}` ({}) is a model server",
                SafeUrl(&url.value),
                url.origin
            )
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
    session.timeline(|timeline| timeline.report(timeline.current_turn()?))
}
