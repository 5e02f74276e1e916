//! A real agent in a folder of its own: script model, react and system tools, SQLite, files on disk.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod store;

use std::sync::{Arc, Mutex};

use annals_core::block::{Block, Body};
use annals_core::ids::TurnId;
use annals_core::view::Layout;
use annals_model::ScriptModel;
use annals_model::script::Script;
use annals_requirements::LAYOUT_VARIABLE;
use annals_runtime::{Agent, AgentBuilder, Session, TurnRequest, Update, World};
use annals_tools::Tool;
use serde_json::{Value, json};

pub fn layout() -> Layout {
    match std::env::var(LAYOUT_VARIABLE).as_deref() {
        Ok("timeline") => Layout::Timeline,
        _ => Layout::Chat,
    }
}

/// An agent whose model plays these steps.
pub struct Bench {
    pub home: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Bench {
            home: tempfile::tempdir().unwrap(),
        }
    }

    pub fn builder(&self, script: Value) -> AgentBuilder {
        let script = Script::parse(&script.to_string()).unwrap();
        Agent::builder()
            .model(ScriptModel::new("test", script))
            .tools(annals_tools::react::all())
            .home(self.home.path())
            .layout(layout())
            .world(World::seeded(7))
    }

    pub async fn agent(&self, steps: Value) -> Agent {
        self.agent_with(steps, Vec::new()).await
    }

    pub async fn agent_with(&self, steps: Value, tools: Vec<Arc<dyn Tool>>) -> Agent {
        self.builder(json!({ "steps": steps }))
            .tools(tools)
            .build()
            .await
            .unwrap()
    }

    /// One turn `turn_1` of a new conversation `c`.
    pub async fn run(&self, steps: Value) -> Session {
        let agent = self.agent(steps).await;
        turn(&agent, agent.session("c").await.unwrap(), "turn_1", "Do it").await
    }
}

pub async fn turn(agent: &Agent, session: Session, id: &str, prompt: &str) -> Session {
    agent
        .run(
            session,
            TurnRequest::new(prompt).turn_id(TurnId::parse(id).unwrap()),
        )
        .await
        .unwrap()
        .into_session()
}

/// A listener that remembers.
#[derive(Clone, Default)]
pub struct Heard(pub Arc<Mutex<Vec<Update>>>);

impl Heard {
    pub fn listener(&self) -> impl annals_runtime::Listen + 'static {
        let heard = self.0.clone();
        move |update| heard.lock().unwrap().push(update)
    }
}

/// One line a block: place, type, path, and what it carries.
pub fn shape(session: &Session) -> String {
    session.timeline(|timeline| timeline.blocks().iter().map(|block| line(block) + "\n").collect())
}

pub fn line(block: &Block) -> String {
    let path = block.path.as_ref().map_or("-", |path| path.as_str());
    let body = match &block.body {
        Body::Empty => format!("({})", block.mime),
        Body::Blob(blob) => format!("<{} {} bytes>", block.mime, blob.size_bytes),
        // How many tokens the instructions have is no part of a shape.
        Body::Text(text) if block.kind.tag() == "react.completion" => brief(&outcome(text)),
        // What each tool says of itself neither.
        Body::Text(_) if block.kind.tag() == "tools.table" => "…".to_owned(),
        Body::Text(text) => brief(text),
    };
    format!("{:02} {} {path} {body}", block.seq, block.kind)
}

fn outcome(completion: &str) -> String {
    let report: Value = serde_json::from_str(completion).unwrap();
    json!({"outcome": report["outcome"], "rounds": report["rounds"], "iterations": report["iterations"]})
        .to_string()
}

fn brief(text: &str) -> String {
    cut(&text.replace('\n', "⏎"), 150)
}

fn cut(line: &str, max_chars: usize) -> String {
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// The blocks of one turn with long lines, without what differs from run to run: times, sizes of rendered files, and
/// `places`, such as a server's address, which become their names.
pub fn turn_shape(session: &Session, turn: &str, places: &[(&str, &str)]) -> String {
    let wide = |block: &Block| {
        let path = block.path.as_ref().map_or("-", |path| path.as_str());
        let body = match &block.body {
            Body::Empty => format!("({})", block.mime),
            Body::Blob(_) => format!("<{}>", block.mime),
            Body::Text(text) if block.kind.tag() == "react.completion" => outcome(text),
            Body::Text(_) if block.kind.tag() == "tools.table" => "…".to_owned(),
            Body::Text(text) => text.replace('\n', "⏎"),
        };
        let mut line = format!("{} {path} {body}", block.kind);
        for (place, name) in places {
            line = line.replace(place, name);
        }
        for (before, after) in [
            ("\"size_bytes\":", ""),
            ("\"tokens\":", ""),
            ("\"total_tokens\":", ""),
            ("\"ts\":\"", "\""),
        ] {
            line = masked(&line, before, after);
        }
        cut(&line, 700)
    };
    session.timeline(|timeline| {
        let of_turn = timeline
            .blocks()
            .iter()
            .filter(|block| block.turn.as_str() == turn);
        of_turn.map(|block| wide(block) + "\n").collect()
    })
}

/// The text with what stands between `before` and `after` (a number, when `after` is empty) replaced by `_`.
fn masked(text: &str, before: &str, after: &str) -> String {
    let mut pieces = text.split(before);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = match after {
            "" => piece.trim_start_matches(|c: char| c.is_ascii_digit()),
            after => piece.find(after).map_or(piece, |end| &piece[end..]),
        };
        out.push_str(before);
        out.push('_');
        out.push_str(rest);
    }
    out
}

pub fn types(session: &Session) -> Vec<String> {
    session.timeline(|timeline| {
        timeline
            .blocks()
            .iter()
            .map(|block| block.kind.to_string())
            .collect()
    })
}

/// The texts of all blocks of a type.
pub fn texts(session: &Session, kind: &str) -> Vec<String> {
    session.timeline(|timeline| {
        let of_kind = timeline.blocks().iter().filter(|block| block.kind.tag() == kind);
        of_kind
            .map(|block| block.text().unwrap_or_default().to_owned())
            .collect()
    })
}
