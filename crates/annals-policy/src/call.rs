//! What the rules look at: a call, taken apart into facets.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::shell::Line;

/// What a call can reach: the facet `effect`, declared by its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// It reads what the conversation or its workspace has.
    Read,
    /// It writes to the workspace or the timeline.
    Write,
    /// It runs programs.
    Exec,
    /// It talks to other machines.
    Network,
    /// It spends money.
    Spend,
    /// It changes something outside, or nobody has said what it does.
    External,
}

impl Reach {
    /// Every one, as rules name them.
    pub const ALL: [Reach; 6] = [
        Reach::Read,
        Reach::Write,
        Reach::Exec,
        Reach::Network,
        Reach::Spend,
        Reach::External,
    ];

    /// The word in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Reach::Read => "read",
            Reach::Write => "write",
            Reach::Exec => "exec",
            Reach::Network => "network",
            Reach::Spend => "spend",
            Reach::External => "external",
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Reach {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Reach::ALL
            .into_iter()
            .find(|reach| reach.as_str() == word)
            .ok_or(())
    }
}

/// A call as the rules see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The tool, by the name people know it.
    pub tool: String,
    /// What it can reach.
    pub effects: BTreeSet<Reach>,
    /// Files it names: logical paths, or paths in the workspace.
    pub paths: Vec<String>,
    /// Hosts it talks to, in lower case, without port.
    pub hosts: Vec<String>,
    /// What it has a shell or the system run.
    pub command: Option<Command>,
}

/// A command, as it was given and as it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// As it was given; the words of an argv joined by spaces.
    pub text: String,
    /// What it runs.
    pub line: Line,
}

impl Command {
    /// A line or script for a shell.
    pub fn line(text: &str) -> Self {
        Command {
            text: text.to_owned(),
            line: Line::parse(text),
        }
    }

    /// Words that no shell reads.
    pub fn argv(words: &[String]) -> Self {
        Command {
            text: words.join(" "),
            line: Line::argv(words.iter().cloned()),
        }
    }
}

impl Call {
    /// The facets as they are written down and shown to people.
    pub fn facets(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut facets = serde_json::Map::new();
        facets.insert("tool".into(), self.tool.as_str().into());
        let effects: Vec<&str> = self.effects.iter().map(|reach| reach.as_str()).collect();
        facets.insert("effect".into(), effects.into());
        for (name, values) in [("path", &self.paths), ("host", &self.hosts)] {
            if !values.is_empty() {
                facets.insert(name.into(), values.clone().into());
            }
        }
        if let Some(command) = &self.command {
            facets.insert("command".into(), command.text.as_str().into());
        }
        facets
    }
}
