//! What a person sees of a running turn: the answer as it streams, tools with how long they took, files as links.
//!
//! One thread owns the terminal; the turn only sends to it. Nothing here knows how a turn works.
//! Every text of a turn is foreign and becomes [`ScreenText`] before it is written.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use annals::core::block::payload::Notice;
use annals::core::block::{Block, BlockKind, SafeDigest};
use annals::core::ids::{CallId, Sid};
use annals::runtime::{Delta, DeltaChannel, Listen, Update};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::citations::{self, Source};
use crate::markdown::{Find, Markdown};
use crate::paint::{self, BAD, DIM, GOOD, NAME, WARN, styled};
use crate::screen_text::ScreenText;
use crate::shown;

/// How much of a turn is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shows {
    #[default]
    /// The answer alone, whole, at its end: for pipes.
    AnswerOnly,
    /// Everything, as it comes: for people.
    Everything,
}

impl Shows {
    /// What standard output wants.
    pub(crate) fn for_stdout() -> Self {
        match std::io::stdout().is_terminal() {
            true => Shows::Everything,
            false => Shows::AnswerOnly,
        }
    }
}

/// A screen being written to.
pub(crate) struct Screen {
    sender: UnboundedSender<Told>,
    thread: std::thread::JoinHandle<std::io::Result<()>>,
}

/// What the terminal's thread is told.
enum Told {
    Update(Update),
    /// Nothing more is to be shown, although others may still send.
    End,
}

/// Tells a screen what happens in a turn.
pub(crate) struct Listener(UnboundedSender<Told>);

impl Listen for Listener {
    fn on(&self, update: Update) {
        // A screen that broke shows nothing more.
        let _ = self.0.send(Told::Update(update));
    }
}

impl Screen {
    /// A screen for a turn whose OUT_DIR is here, and whose sources are looked up so.
    pub(crate) fn open(
        shows: Shows,
        out_dir: PathBuf,
        find: impl Fn(Sid) -> Option<Source> + Clone + Send + 'static,
    ) -> Self {
        let (sender, receiver) = unbounded_channel();
        let thread = std::thread::spawn(move || show(View::new(shows, out_dir, find), receiver));
        Screen { sender, thread }
    }

    /// Where the turn tells what happens.
    pub(crate) fn listener(&self) -> Listener {
        Listener(self.sender.clone())
    }

    /// Waits until everything is shown; an error if standard output did not take it all.
    pub(crate) fn close(self) -> std::io::Result<()> {
        let _ = self.sender.send(Told::End);
        // A screen that broke has shown what it could.
        self.thread.join().unwrap_or(Ok(()))
    }
}

fn show(mut view: View, mut told: UnboundedReceiver<Told>) -> std::io::Result<()> {
    while let Some(Told::Update(update)) = told.blocking_recv() {
        view.on(update);
    }
    view.end_text();
    view.written
}

/// What is on the screen right now.
struct View {
    shows: Shows,
    out_dir: PathBuf,
    find: Find,
    markdown: Markdown,
    text: Text,
    spinners: MultiProgress,
    tools: HashMap<CallId, Running>,
    /// The first error of standard output. The turn goes on: its blocks are durable either way.
    written: std::io::Result<()>,
}

/// Whose text is being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Text {
    #[default]
    None,
    Answer,
    Thinking,
    Document(String),
}

struct Running {
    tool: ScreenText,
    since: Instant,
    spinner: Option<ProgressBar>,
}

impl View {
    fn new(
        shows: Shows,
        out_dir: PathBuf,
        find: impl Fn(Sid) -> Option<Source> + Clone + Send + 'static,
    ) -> Self {
        View {
            shows,
            out_dir,
            markdown: Markdown::new(Box::new(find.clone())),
            find: Box::new(find),
            text: Text::None,
            spinners: MultiProgress::new(),
            tools: HashMap::new(),
            written: Ok(()),
        }
    }

    fn on(&mut self, update: Update) {
        if self.shows == Shows::AnswerOnly {
            return self.answer_only(&update);
        }
        match update {
            Update::Delta(delta) => self.delta(delta),
            Update::ToolStarted { call, tool } => self.started(call, tool),
            Update::ToolProgress {
                call,
                progress,
                total,
                message,
                ..
            } => self.progressed(&call, progress, total, message.as_deref()),
            Update::Block(block) => self.block(&block),
            Update::Restarted { reason, .. } => {
                self.end_text();
                self.line(styled(WARN, format!("the model is asked again: {reason}")));
            }
            Update::TurnEnded { .. } => self.end_text(),
            _ => {}
        }
    }

    fn answer_only(&mut self, update: &Update) {
        if let Update::Block(block) = update
            && matches!(
                block.kind,
                BlockKind::AssistantCompletion | BlockKind::StageClarification
            )
            && let Some(text) = block.text()
        {
            // A pipe gets the text as it is: what it means there is not ours to say.
            let answer = citations::answer(text, &self.find);
            let mut out = std::io::stdout().lock();
            let written = out.write_all(answer.as_bytes()).and_then(|()| out.flush());
            self.took(written);
        }
    }

    fn delta(&mut self, delta: Delta) {
        let text = match (delta.channel, delta.path) {
            (DeltaChannel::Answer, _) => Text::Answer,
            (DeltaChannel::Thinking, _) => Text::Thinking,
            (_, path) => Text::Document(path.unwrap_or_default()),
        };
        if text != self.text {
            self.end_text();
            if let Text::Document(path) = &text {
                let head = shown!(
                    "{} {}\n{}",
                    styled(DIM, "┌"),
                    styled(NAME, path),
                    styled(DIM, "│ ")
                );
                self.write(head);
            }
            self.text = text;
        }
        let shown = match &self.text {
            Text::Thinking => styled(DIM, &delta.text),
            Text::Document(_) => self.markdown.push(&delta.text).with_margin(&styled(DIM, "│ ")),
            Text::Answer | Text::None => self.markdown.push(&delta.text),
        };
        self.write(shown);
    }

    /// Ends the text that is being written, so that a line may follow.
    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        if text == Text::None {
            return;
        }
        let (rest, sources) = self.markdown.finish();
        let corner = match text {
            Text::Document(_) => styled(DIM, "\n└"),
            _ => ScreenText::default(),
        };
        self.write(shown!("{}{}\n{}", rest, corner, sources));
    }

    fn started(&mut self, call: CallId, tool: String) {
        self.end_text();
        let tool = ScreenText::from(tool);
        let spinner = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}");
            let spinner = self
                .spinners
                .add(ProgressBar::new_spinner().with_message(tool.as_str().to_owned()));
            spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            spinner.enable_steady_tick(Duration::from_millis(90));
            spinner
        });
        self.tools.insert(
            call,
            Running {
                tool,
                since: Instant::now(),
                spinner,
            },
        );
    }

    /// How far a tool has come stands beside its name while it runs.
    fn progressed(&self, call: &CallId, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some(Running {
            tool,
            spinner: Some(spinner),
            ..
        }) = self.tools.get(call)
        else {
            return;
        };
        let how_far = match total {
            Some(total) => format!("{progress}/{total}"),
            None => progress.to_string(),
        };
        let words = paint::gist(message.unwrap_or_default(), 60);
        let said = shown!(
            "{} {} {}",
            styled(NAME, tool),
            styled(DIM, how_far),
            styled(DIM, words)
        );
        spinner.set_message(said.as_str().trim_end().to_owned());
    }

    fn block(&mut self, block: &Block) {
        match &block.kind {
            BlockKind::ToolResult => self.result(block),
            BlockKind::Notice => self.notice(block),
            BlockKind::PlanAck => {
                self.end_text();
                for line in block.text().unwrap_or_default().lines() {
                    self.line(styled(GOOD, format!("  {line}")));
                }
            }
            BlockKind::StageClarification => {
                self.end_text();
                self.line(block.text().unwrap_or_default());
            }
            BlockKind::SystemMessage => {
                self.end_text();
                self.line(styled(WARN, paint::gist(block.text().unwrap_or_default(), 160)));
            }
            _ => {}
        }
    }

    /// The first result of a call ends it on the screen; what it made is listed below.
    fn result(&mut self, block: &Block) {
        let meta = block.meta();
        if let Some(running) = meta.call.as_ref().and_then(|call| self.tools.remove(call)) {
            if let Some(spinner) = &running.spinner {
                spinner.finish_and_clear();
            }
            self.end_text();
            let took = paint::seconds(u64::try_from(running.since.elapsed().as_millis()).unwrap_or(u64::MAX));
            let mark = if meta.error.is_some() {
                styled(BAD, "✗")
            } else {
                styled(GOOD, "✓")
            };
            let why = meta.error.as_ref().map(|error| {
                styled(
                    BAD,
                    format!(" — {} {}", error.code, paint::gist(&error.message, 120)),
                )
            });
            self.line(shown!(
                "{} {} {}{}",
                mark,
                styled(NAME, &running.tool),
                styled(DIM, took),
                why.unwrap_or_default()
            ));
        }
        if meta.is_digest
            && let Ok(digest) = block.payload::<SafeDigest>()
            && digest.error.is_none()
        {
            self.file(&digest);
        }
    }

    fn file(&mut self, digest: &SafeDigest) {
        let size = digest.size_bytes.map(paint::size).unwrap_or_default();
        let name = digest.artifact_path.as_str();
        let shown = match &digest.physical_path {
            Some(path) if std::io::stdout().is_terminal() => {
                paint::link(&self.out_dir.join(path.as_str()), name)
            }
            _ => ScreenText::from(name),
        };
        self.line(shown!("  {} {} {}", styled(DIM, "→"), shown, styled(DIM, size)));
    }

    fn notice(&mut self, block: &Block) {
        let said = match block.payload::<Notice>() {
            Ok(notice) => format!("{}: {}", notice.code, paint::gist(&notice.message, 120)),
            Err(malformed) => malformed.to_string(),
        };
        self.end_text();
        self.line(styled(WARN, format!("  ! {said}")));
    }

    fn line(&mut self, text: impl Into<ScreenText>) {
        self.write(shown!("{}\n", text.into()));
    }

    fn write(&mut self, text: ScreenText) {
        // Tools that are still running stay below what is written.
        let written = self.spinners.suspend(|| {
            let mut out = anstream::stdout().lock();
            out.write_all(text.as_str().as_bytes()).and_then(|()| out.flush())
        });
        self.took(written);
    }

    fn took(&mut self, written: std::io::Result<()>) {
        if self.written.is_ok() {
            self.written = written;
        }
    }
}
