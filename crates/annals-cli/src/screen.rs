//! What a person sees of a running turn: the answer as it streams, tools with how long they took, files as links.
//!
//! One thread owns the terminal; the turn only sends to it. Nothing here knows how a turn works.

use std::collections::HashMap;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use annals::core::block::{Block, BlockKind, SafeDigest};
use annals::core::ids::CallId;
use annals::runtime::{Delta, DeltaChannel, Listen, Update};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::markdown::Markdown;
use crate::paint::{self, BAD, DIM, GOOD, NAME, WARN, styled};

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
    thread: std::thread::JoinHandle<()>,
}

/// What the terminal's thread is told.
enum Told {
    Update(Update),
    /// Nothing more is to be shown, whoever else may still send.
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
    /// A screen for a turn whose OUT_DIR is here.
    pub(crate) fn open(shows: Shows, out_dir: PathBuf) -> Self {
        let (sender, receiver) = unbounded_channel();
        let thread = std::thread::spawn(move || show(shows, out_dir, receiver));
        Screen { sender, thread }
    }

    /// Where the turn tells what happens.
    pub(crate) fn listener(&self) -> Listener {
        Listener(self.sender.clone())
    }

    /// Waits until everything is shown.
    pub(crate) fn close(self) {
        let _ = self.sender.send(Told::End);
        // A screen that broke has shown what it could.
        let _ = self.thread.join();
    }
}

fn show(shows: Shows, out_dir: PathBuf, mut told: UnboundedReceiver<Told>) {
    let mut view = View {
        shows,
        out_dir,
        ..View::default()
    };
    while let Some(Told::Update(update)) = told.blocking_recv() {
        view.on(update);
    }
    view.end_text();
}

/// What is on the screen right now.
#[derive(Default)]
struct View {
    shows: Shows,
    out_dir: PathBuf,
    markdown: Markdown,
    text: Text,
    spinners: MultiProgress,
    tools: HashMap<CallId, Running>,
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
    tool: String,
    since: Instant,
    spinner: Option<ProgressBar>,
}

impl View {
    fn on(&mut self, update: Update) {
        if self.shows == Shows::AnswerOnly {
            return self.answer_only(&update);
        }
        match update {
            Update::Delta(delta) => self.delta(delta),
            Update::ToolStarted { call, tool } => self.started(call, tool),
            Update::Block(block) => self.block(&block),
            Update::Restarted { reason } => {
                self.end_text();
                self.line(&styled(WARN, format!("the model is asked again: {reason}")));
            }
            Update::TurnEnded { .. } => self.end_text(),
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
            self.write(&format!("{}\n", text.trim_end()));
        }
    }

    fn delta(&mut self, delta: Delta) {
        let text = match (delta.channel, delta.path) {
            (DeltaChannel::Answer, _) => Text::Answer,
            (DeltaChannel::Thinking, _) => Text::Thinking,
            (DeltaChannel::Canvas | DeltaChannel::TimelineText, path) => {
                Text::Document(path.unwrap_or_default())
            }
        };
        if text != self.text {
            self.end_text();
            if let Text::Document(path) = &text {
                self.line(&format!("{} {}", styled(DIM, "┌"), styled(NAME, path)));
                self.write(&styled(DIM, "│ "));
            }
            self.text = text;
        }
        let shown = match &self.text {
            Text::Thinking => styled(DIM, &delta.text),
            Text::Document(_) => self
                .markdown
                .push(&delta.text)
                .replace('\n', &format!("\n{}", styled(DIM, "│ "))),
            Text::Answer | Text::None => self.markdown.push(&delta.text),
        };
        self.write(&shown);
    }

    /// Ends the text that is being written, so that a line may follow.
    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        if text == Text::None {
            return;
        }
        let rest = self.markdown.finish();
        let corner = if matches!(text, Text::Document(_)) {
            styled(DIM, "\n└")
        } else {
            String::new()
        };
        self.write(&format!("{rest}{corner}\n"));
    }

    fn started(&mut self, call: CallId, tool: String) {
        self.end_text();
        let spinner = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}");
            let spinner = self
                .spinners
                .add(ProgressBar::new_spinner().with_message(tool.clone()));
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

    fn block(&mut self, block: &Block) {
        match &block.kind {
            BlockKind::ToolResult => self.result(block),
            BlockKind::Notice => self.notice(block),
            BlockKind::PlanAck => {
                let lines: Vec<&str> = block.text().unwrap_or_default().lines().collect();
                self.end_text();
                lines
                    .into_iter()
                    .for_each(|line| self.line(&styled(GOOD, format!("  {line}"))));
            }
            BlockKind::StageClarification => {
                self.end_text();
                self.line(block.text().unwrap_or_default());
            }
            BlockKind::SystemMessage => {
                self.end_text();
                self.line(&styled(WARN, paint::gist(block.text().unwrap_or_default(), 160)));
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
            self.line(&format!(
                "{mark} {} {}{}",
                styled(NAME, &running.tool),
                styled(DIM, took),
                why.unwrap_or_default()
            ));
        }
        if meta.is_digest
            && let Some(digest) = block
                .text()
                .and_then(|text| serde_json::from_str::<SafeDigest>(text).ok())
            && digest.error.is_none()
        {
            self.file(&digest);
        }
    }

    fn file(&self, digest: &SafeDigest) {
        let size = digest.size_bytes.map(paint::size).unwrap_or_default();
        let name = digest.artifact_path.as_str();
        let shown = match &digest.physical_path {
            Some(path) if std::io::stdout().is_terminal() => {
                paint::link(&self.out_dir.join(path.as_str()), name)
            }
            _ => name.to_owned(),
        };
        self.line(&format!("  {} {shown} {}", styled(DIM, "→"), styled(DIM, size)));
    }

    fn notice(&mut self, block: &Block) {
        let notice: Value = block
            .text()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let field = |name: &str| {
            notice
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        self.end_text();
        self.line(&styled(
            WARN,
            format!("  ! {}: {}", field("code"), paint::gist(&field("message"), 120)),
        ));
    }

    fn line(&self, text: &str) {
        self.write(&format!("{text}\n"));
    }

    fn write(&self, text: &str) {
        // Tools that are still running stay below what is written.
        self.spinners.suspend(|| {
            let mut out = anstream::stdout().lock();
            // The turn goes on when nobody reads; its blocks are durable either way.
            let _ = write!(out, "{text}").and_then(|()| out.flush());
        });
    }
}
