//! The rules in force: where they come from, and what they look at in a call.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annals_core::ids::Scope;
use annals_core::settings::BudgetSettings;
use annals_core::turn::outcome::{GateNote, GateRule};
use annals_policy::{Call, DEFAULT_RULE, Decide, Deciding, Judgement, KnownTool, Layer, Policy, PolicyError};
use annals_tools::facet::call_of;
use annals_tools::{Tool, dispatch};
use async_trait::async_trait;
use serde_json::Value;

use crate::agent::Agent;
use crate::approval::Ask;
use crate::error::RunError;

/// Where the rules of a policy come from, and where those go that a person wants kept.
#[async_trait]
pub trait PolicySource: Send + Sync {
    /// The rules in force for a scope. Asked at the start of every turn.
    async fn read(&self, scope: &Scope, tools: &[KnownTool]) -> Result<Policy, PolicyFault>;

    /// Keeps these rules, written as in a file of rules. Keeping the same ones again changes nothing.
    async fn remember(&self, scope: &Scope, rules: &str) -> Result<(), PolicyFault>;

    /// What a scope may use up, given what holds in general. Asked at the start of every turn, too.
    async fn budget(&self, scope: &Scope, general: &BudgetSettings) -> Result<BudgetSettings, PolicyFault> {
        let _ = scope;
        Ok(general.clone())
    }
}

/// Why there are no rules to go by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyFault {
    /// The rules make no sense.
    #[error(transparent)]
    Rules(#[from] PolicyError),
    /// They cannot be read or written.
    #[error("the rules in `{file}` cannot be {what}: {reason}")]
    File {
        /// The file.
        file: String,
        /// `read` or `written`.
        what: &'static str,
        /// What the system said.
        reason: String,
    },
}

/// Rules in two files: the owner's `policy.toml`, and those of the user's configuration.
#[derive(Clone, Debug)]
pub struct PolicyFiles {
    owner: PathBuf,
    user: PathBuf,
}

impl PolicyFiles {
    /// The owner's file of rules, and the user's configuration, which may hold `[[rule]]` entries beside other things.
    /// Either may be absent.
    pub fn new(owner: impl Into<PathBuf>, user: impl Into<PathBuf>) -> Self {
        PolicyFiles {
            owner: owner.into(),
            user: user.into(),
        }
    }

    /// Reads both.
    pub fn load(&self, tools: &[KnownTool]) -> Result<Policy, PolicyFault> {
        let (owner, user) = (read(&self.owner)?, read(&self.user)?);
        Ok(Policy {
            owner: Layer::parse(&shown(&self.owner), &owner, tools)?,
            user: Layer::parse_within(&shown(&self.user), &user, tools)?,
            ..Policy::default()
        })
    }

    /// Adds what is not there yet at the end of the user's file. What stands before it stays as it is.
    fn add(&self, rules: &str) -> Result<(), PolicyFault> {
        let failed = |error: io::Error| fault(&self.user, "written", &error);
        // Another process may add rules at the same time.
        let lock = File::create(self.user.with_extension("toml.lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let before = read(&self.user)?;
        let text = with_entries(&shown(&self.user), &before, rules)?;
        match text == before {
            true => Ok(()),
            false => replace(&self.user, &text).map_err(failed),
        }
    }
}

#[async_trait]
impl PolicySource for PolicyFiles {
    async fn read(&self, _: &Scope, tools: &[KnownTool]) -> Result<Policy, PolicyFault> {
        self.load(tools)
    }

    async fn remember(&self, _: &Scope, rules: &str) -> Result<(), PolicyFault> {
        self.add(rules)
    }
}

/// A text of rules with these at its end, as far as they are not there yet.
pub(crate) fn with_entries(name: &str, before: &str, rules: &str) -> Result<String, PolicyFault> {
    let known = Layer::parse_within(name, before, &[])?;
    let mut text = before.to_owned();
    for entry in entries(rules).filter(|entry| !holds(&known, entry)) {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str("\n# Kept because somebody answered \"always\".\n");
        text.push_str(entry);
    }
    Layer::parse_within(name, &text, &[])?;
    Ok(text)
}

/// The single rules of a text that holds several.
fn entries(rules: &str) -> impl Iterator<Item = &str> {
    const HEAD: &str = "[[rule]]";
    let starts: Vec<usize> = rules
        .match_indices(HEAD)
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || rules.as_bytes()[at - 1] == b'\n')
        .collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([rules.len()]).collect();
    starts
        .into_iter()
        .zip(ends)
        .map(|(start, end)| &rules[start..end])
}

fn holds(known: &Layer, entry: &str) -> bool {
    let Ok(read) = Layer::parse("proposed", entry, &[]) else {
        return false;
    };
    read.rules
        .iter()
        .all(|rule| known.rules.iter().any(|known| known.id == rule.id))
}

fn fault(file: &Path, what: &'static str, error: &io::Error) -> PolicyFault {
    PolicyFault::File {
        file: shown(file),
        what,
        reason: error.to_string(),
    }
}

fn read(file: &Path) -> Result<String, PolicyFault> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(String::new())
        }
        Err(error) => Err(fault(file, "read", &error)),
    }
}

/// Writes beside the file and puts the new one in its place, so that a reader finds the old or the new one, whole.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::Builder::new().prefix(".rules-").tempfile_in(folder)?;
    draft.write_all(text.as_bytes())?;
    if let Ok(old) = fs::metadata(file) {
        draft.as_file().set_permissions(old.permissions())?;
    }
    draft.as_file().sync_all()?;
    draft.persist(file).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

fn shown(file: &Path) -> String {
    let name = file.file_name().unwrap_or(file.as_os_str());
    name.to_string_lossy().into_owned()
}

/// A call as the rules see it, and what they say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judged {
    /// The call.
    pub call: Call,
    /// What the rules say.
    pub judgement: Judgement,
}

impl Agent {
    /// What the rules in force say of a call, were it made now in a new conversation. A tool that others pass calls on to
    /// may be named itself.
    pub async fn judge(&self, tool: &str, args: &Value) -> Result<Judged, RunError> {
        let tools = &self.parts.tools;
        let is_named = |known: &Arc<dyn Tool>| {
            let name = known.spec().name();
            name.as_str() == tool || name.wire() == tool
        };
        let found = tools.get_wire(tool).cloned();
        let found = found.or_else(|| tools.reachable().find(is_named));
        let found = found.ok_or_else(|| RunError::NoSuchTool(tool.to_owned()))?;
        let way = dispatch::way(&found, args);
        let policy = self.parts.read_policy().await?.unwrap_or_default();
        let turn = self.world().turn_id();
        let as_call = |(tool, args): &(Arc<dyn Tool>, Value)| {
            call_of(tool.spec(), &turn, args, self.parts.is_isolated())
        };
        let mut passed: Vec<Call> = way.iter().map(as_call).collect();
        let call = passed.pop().unwrap_or_default();
        let judgement = judge_way(&policy, &call, &passed);
        Ok(Judged { call, judgement })
    }
}

/// What a judgement means for a call that is about to run.
pub(crate) enum Passage {
    Allow(Option<Box<GateNote>>),
    Deny(String, Option<Box<GateNote>>),
    Ask(Ask),
}

/// What the rules say of a call: of the tool that runs it, and of those that pass it on where a rule speaks of these. The
/// strictest holds.
fn judge_way(policy: &Policy, call: &Call, passed: &[Call]) -> Judgement {
    let own = policy.judge(call);
    let is_by_a_rule = |judgement: &Judgement| judgement.by.iter().any(|by| by.place.is_some());
    let on_the_way = passed.iter().map(|call| policy.judge(call)).filter(is_by_a_rule);
    on_the_way.fold(own, |strictest, other| match other.decide > strictest.decide {
        true => other,
        false => strictest,
    })
}

/// What the rules mean for a call that is about to run.
pub(crate) fn judge(policy: &Policy, call: &Call, passed: &[Call]) -> Passage {
    let judgement = judge_way(policy, call, passed);
    match judgement.decide {
        Decide::Allow => Passage::Allow(note("allow", &judgement)),
        Decide::Deny => {
            let why = format!("a policy does not allow this call: {}", judgement.reason());
            Passage::Deny(why, note("deny", &judgement))
        }
        Decide::Ask => Passage::Ask(ask(call, judgement)),
    }
}

/// What is kept of a judgement. That the default let a call pass is not worth a note.
fn note(decide: &str, judgement: &Judgement) -> Option<Box<GateNote>> {
    let rule = |deciding: &Deciding| GateRule {
        id: deciding.id.clone(),
        place: deciding.place.map(|(layer, line)| match layer {
            "conversation" => layer.to_owned(),
            file => format!("{file}:{line}"),
        }),
        why: deciding.why.clone(),
    };
    let is_told = |deciding: &&Deciding| decide != "allow" || deciding.id != DEFAULT_RULE;
    let by: Vec<GateRule> = judgement.by.iter().filter(is_told).map(rule).collect();
    (!by.is_empty()).then(|| {
        Box::new(GateNote {
            decide: decide.to_owned(),
            by,
        })
    })
}

fn ask(call: &Call, judgement: Judgement) -> Ask {
    Ask {
        facets: call.facets(),
        rule: Some(judgement.ids().join(", ")),
        why: Some(judgement.reason()),
        proposed_rule: judgement.proposed,
        expires_in: judgement.expires,
    }
}
