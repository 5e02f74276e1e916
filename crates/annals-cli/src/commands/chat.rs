//! `annals chat`: talk to the agent. Streams the answer, shows tools at work, keeps a history of what was typed.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::{Path, PathBuf};

use annals::core::path::RangedPath;
use annals::core::timeline::Timeline;
use annals::runtime::Attachment;
use annals::{Session, TurnRequest};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::{mcp, read, run as run_once, timeline::tree};
use crate::args::{ApprovalsArg, ChatArgs};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BOLD, DIM, NAME, WARN, styled};
use crate::screen::Shows;
use crate::screen_text::ScreenText;
use crate::setup::{Needs, Setup};
use crate::shown;
use crate::turn::{self, Form};

const HELP: &str = "\
/attach FILE    send a file with the next prompt, or `mcp:SERVER/URI`
/files          files of this conversation
/timeline       everything that happened, as a tree
/read PATH      what a logical path names, such as fi:turn_1.files/report.md
/plan           the plan and how far it is
/help           this
/quit           leave; the conversation stays (Ctrl-D does the same)
Ctrl-C cancels a running turn; twice quits.
";

/// What a line asks for.
enum Line {
    Prompt(String),
    Command { name: String, argument: String },
    Nothing,
}

impl Line {
    fn parse(text: &str) -> Self {
        let text = text.trim();
        match text.strip_prefix('/') {
            _ if text.is_empty() => Line::Nothing,
            Some(command) => {
                let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
                Line::Command {
                    name: name.to_owned(),
                    argument: argument.trim().to_owned(),
                }
            }
            None => Line::Prompt(text.to_owned()),
        }
    }
}

pub(crate) async fn run(args: ChatArgs, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::Model).await?;
    let session = run_once::open(&setup, args.conversation.as_deref(), "chat").await?;
    greet(&setup, &session)?;
    let mut keyboard = Keyboard::open(setup.config.home.value.join("history"));
    let mut chat = Chat {
        setup,
        session,
        attached: Vec::new(),
    };
    let ended = loop {
        let (returned, line) = keyboard.next().await?;
        keyboard = returned;
        let Some(line) = line else { break Ok(Ended::Well) };
        match chat.act(Line::parse(&line)).await {
            Ok(true) => {}
            Ok(false) => break Ok(Ended::Well),
            Err(Failure::Usage(message)) => paint::error(message),
            Err(failure) => break Err(failure),
        }
    };
    let id = chat.session.id().clone();
    chat.session.close().await?;
    paint::say(styled(
        DIM,
        format!("go on with: annals chat --conversation {id}"),
    ));
    ended
}

fn greet(setup: &Setup, session: &Session) -> Result<(), Failure> {
    let turns = session.timeline(|timeline| timeline.turns().len());
    let so_far = if turns == 0 {
        String::new()
    } else {
        format!(", {turns} turns so far")
    };
    paint::print(shown!(
        "{} {}\n",
        styled(BOLD, "annals"),
        styled(DIM, format!("{}{so_far} · /help", setup.agent.model().name()))
    ))?;
    if session.is_unfinished() {
        let id = session.id();
        paint::say(styled(
            WARN,
            format!(
                "the last turn is unfinished: a new prompt closes it; `annals resume {id}` goes on with it"
            ),
        ));
    }
    Ok(())
}

struct Chat {
    setup: Setup,
    session: Session,
    attached: Vec<Attachment>,
}

impl Chat {
    /// Does what a line asks for; false when it asks to leave.
    async fn act(&mut self, line: Line) -> Result<bool, Failure> {
        match line {
            Line::Nothing => Ok(true),
            Line::Prompt(prompt) => self.ask(prompt).await.map(|()| true),
            Line::Command { name, argument } => self.command(&name, &argument).await,
        }
    }

    async fn ask(&mut self, prompt: String) -> Result<(), Failure> {
        let mut request = TurnRequest::new(prompt);
        for attachment in self.attached.drain(..) {
            request = request.attach(attachment);
        }
        let form = Form::Screen(Shows::Everything);
        let end = turn::perform(&self.setup, &self.session, request, form, ApprovalsArg::Ask).await?;
        match turn::judge(&self.setup, &self.session, end) {
            // A model that is away may be back for the next prompt.
            Err(Failure::Environment(message)) => paint::error(message),
            other => drop(other?),
        }
        paint::print("\n")
    }

    async fn command(&mut self, name: &str, argument: &str) -> Result<bool, Failure> {
        match name {
            "quit" | "exit" | "q" => return Ok(false),
            "attach" => self.attach(argument).await?,
            "timeline" => {
                let name = self.session.id().clone();
                paint::print(
                    self.session
                        .timeline(|timeline| tree::draw(name.as_str(), timeline, None)),
                )?;
            }
            "files" => paint::print(
                self.session
                    .timeline(|timeline| files(timeline, &self.setup.workspace(self.session.id()))),
            )?,
            "plan" => paint::print(self.session.timeline(|view| plan(view)))?,
            "read" => {
                let path = RangedPath::parse(argument).map_err(Failure::usage)?;
                let bytes = read::content(self.session.cx(), &path).await?;
                paint::print_content(&bytes)?;
                paint::print("\n")?;
            }
            "help" | "?" => paint::print(HELP)?,
            other => {
                return Err(Failure::usage(format!(
                    "there is no command `/{other}`: see /help"
                )));
            }
        }
        Ok(true)
    }

    async fn attach(&mut self, named: &str) -> Result<(), Failure> {
        let before = self.attached.len();
        self.attached
            .extend(mcp::attachments(named, &self.setup.config).await?);
        if let Err(error) = self.setup.agent.check_attachments(&self.attached).await {
            self.attached.truncate(before);
            return Err(Failure::usage(error));
        }
        paint::say(styled(DIM, format!("`{named}` goes with the next prompt")));
        Ok(())
    }
}

/// Files of a conversation, each a link to where it lies.
pub(crate) fn files(timeline: &Timeline, out_dir: &Path) -> ScreenText {
    let mut out = ScreenText::default();
    for block in timeline.files() {
        let Some(path) = &block.path else { continue };
        let size = block
            .meta()
            .file
            .as_ref()
            .and_then(|file| file.size_bytes)
            .map(paint::size)
            .unwrap_or_default();
        let name = match path.physical() {
            Some(physical) if std::io::stdout().is_terminal() => {
                paint::link(&out_dir.join(physical.as_str()), path)
            }
            _ => ScreenText::from(path),
        };
        out.push(shown!(
            "  {} {} {}\n",
            styled(NAME, name),
            styled(DIM, &block.mime),
            styled(DIM, size)
        ));
    }
    out
}

fn plan(timeline: &Timeline) -> String {
    match timeline.plan() {
        Some(plan) => plan.lines().iter().map(|line| format!("  {line}\n")).collect(),
        None => "there is no plan\n".to_owned(),
    }
}

/// Where lines come from: an editor with history on a terminal, plain lines otherwise.
enum Keyboard {
    Editor {
        editor: Box<DefaultEditor>,
        history: PathBuf,
        interrupts: u32,
    },
    Plain,
}

impl Keyboard {
    fn open(history: PathBuf) -> Self {
        if !std::io::stdin().is_terminal() {
            return Keyboard::Plain;
        }
        match DefaultEditor::new() {
            Ok(mut editor) => {
                // There is none the first time.
                let _ = editor.load_history(&history);
                Keyboard::Editor {
                    editor: Box::new(editor),
                    history,
                    interrupts: 0,
                }
            }
            Err(_) => Keyboard::Plain,
        }
    }

    /// The next line; none at the end. Waits on a thread of its own, so that the session's lease is kept.
    async fn next(self) -> Result<(Self, Option<String>), Failure> {
        let mut keyboard = self;
        let read = tokio::task::spawn_blocking(move || {
            let line = keyboard.read();
            (keyboard, line)
        });
        read.await.map_err(Failure::environment)
    }

    fn read(&mut self) -> Option<String> {
        let Keyboard::Editor {
            editor,
            history,
            interrupts,
        } = self
        else {
            return std::io::stdin().lock().lines().next()?.ok();
        };
        loop {
            match editor.readline("› ") {
                Ok(line) => {
                    *interrupts = 0;
                    if !line.trim().is_empty() {
                        // A history that cannot be kept is no reason to stop talking.
                        let _ = editor
                            .add_history_entry(&line)
                            .and_then(|_| editor.append_history(history));
                    }
                    return Some(line);
                }
                Err(ReadlineError::Interrupted) if *interrupts == 0 => {
                    *interrupts = 1;
                    paint::say(styled(DIM, "press Ctrl-C again to quit, or go on"));
                }
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_prompt_unless_it_begins_with_a_slash() {
        assert!(matches!(Line::parse("  "), Line::Nothing));
        assert!(matches!(Line::parse(" hello / there "), Line::Prompt(text) if text == "hello / there"));
        let Line::Command { name, argument } = Line::parse("/attach  a b.csv ") else {
            panic!("a command")
        };
        assert_eq!((name.as_str(), argument.as_str()), ("attach", "a b.csv"));
    }
}
