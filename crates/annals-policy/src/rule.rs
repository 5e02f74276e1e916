//! One rule: which calls it is about, and what it says of them.

use std::fmt;
use std::time::Duration;

use crate::call::{Call, Reach};
use crate::glob::Glob;
use crate::shell::{Simple, Word, base_name};

/// What is decided about a call; the later, the stricter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Decide {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run.
    Deny,
}

impl Decide {
    /// The word in rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Decide::Allow => "allow",
            Decide::Ask => "ask",
            Decide::Deny => "deny",
        }
    }
}

impl fmt::Display for Decide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which commands a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CommandPattern {
    /// Commands that begin with these words; with `is_exact`, that have no others.
    Words {
        /// The alternatives for each place.
        words: Vec<Vec<String>>,
        /// Whether nothing may follow.
        is_exact: bool,
    },
    /// A whole line, letter by letter: what a person has once seen and allowed.
    Line(String),
}

/// A rule. All facets that it names must match; one that it does not name matches anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What names it, in results and in rules that answer it.
    pub id: String,
    /// Where its file has it.
    pub line: usize,
    /// Tools, any of these.
    pub tool: Vec<Glob>,
    /// Paths, any of these.
    pub path: Vec<Glob>,
    /// Hosts, any of these.
    pub host: Vec<Glob>,
    /// Effects, any of these.
    pub effect: Vec<Reach>,
    /// Commands.
    pub command: Option<CommandPattern>,
    /// What it says.
    pub decide: Decide,
    /// Why, for the model and for people.
    pub why: Option<String>,
    /// Whether allow rules of a lower layer count against it. Only an ask can be loosened.
    pub may_loosen: bool,
    /// The ask rule that this one answers: an allow that overrides that rule and no other.
    pub answers: Option<String>,
    /// How long a person has to answer.
    pub expires: Option<Duration>,
}

impl Rule {
    /// Whether the rule speaks of this call, as far as one of its simple commands is concerned; `None` when the call has
    /// none.
    pub(crate) fn matches(&self, call: &Call, command: Option<&Simple>) -> bool {
        self.matches_but_command(call) && self.matches_command(call, command)
    }

    /// Whether everything but the command fits.
    pub(crate) fn matches_but_command(&self, call: &Call) -> bool {
        let tool = self.tool.is_empty() || self.tool.iter().any(|glob| glob.matches(&call.tool));
        let effect = self.effect.is_empty() || self.effect.iter().any(|effect| call.effects.contains(effect));
        tool && effect
            && self.matches_each(&self.path, &call.paths)
            && self.matches_each(&self.host, &call.hosts)
    }

    /// An allow must fit everything that a call names, a deny or an ask anything of it.
    fn matches_each(&self, globs: &[Glob], values: &[String]) -> bool {
        let fits = |value: &String| globs.iter().any(|glob| glob.matches(value));
        match (globs.is_empty(), self.decide) {
            (true, _) => true,
            (false, Decide::Allow) => !values.is_empty() && values.iter().all(fits),
            (false, _) => values.iter().any(fits),
        }
    }

    /// Whether the rule would speak of the command if its computed words turned out so.
    pub(crate) fn may_match(&self, command: &Simple) -> bool {
        match &self.command {
            Some(CommandPattern::Words { words, is_exact }) => may_apply(words, *is_exact, command),
            _ => false,
        }
    }

    fn matches_command(&self, call: &Call, command: Option<&Simple>) -> bool {
        let Some(pattern) = &self.command else {
            return true;
        };
        let Some(given) = &call.command else {
            return false;
        };
        match (pattern, command) {
            (CommandPattern::Line(line), _) => *line == given.text,
            (CommandPattern::Words { .. }, None) => false,
            (CommandPattern::Words { words, is_exact }, Some(command)) => match self.decide {
                Decide::Allow => given.line.is_plain() && allows(words, *is_exact, command),
                _ => applies(words, *is_exact, command),
            },
        }
    }
}

/// Whether the program gets exactly what the rule says, and no other program is run.
fn allows(words: &[Vec<String>], is_exact: bool, command: &Simple) -> bool {
    let given = &command.words;
    let fits = words
        .iter()
        .zip(given)
        .all(|(any, word)| word.is_literal && any.contains(&word.text));
    let is_long_enough = given.len() >= words.len();
    let ends = !is_exact || given.len() == words.len();
    !command.is_wrapped && is_long_enough && ends && fits
}

/// Whether the rule is meant: the program counts by its name, wherever it lies.
fn applies(words: &[Vec<String>], is_exact: bool, command: &Simple) -> bool {
    fits(words, is_exact, command, |any, word| {
        word.is_literal && any.contains(&word.text)
    })
}

/// Whether the rule would be meant if computed words turned out so.
fn may_apply(words: &[Vec<String>], is_exact: bool, command: &Simple) -> bool {
    fits(words, is_exact, command, |any, word| {
        !word.is_literal || any.contains(&word.text)
    })
}

fn fits(
    words: &[Vec<String>],
    is_exact: bool,
    command: &Simple,
    same: impl Fn(&[String], &Word) -> bool,
) -> bool {
    let given = &command.words;
    let (Some(names), Some(program)) = (words.first(), given.first()) else {
        return false;
    };
    let is_named = names
        .iter()
        .any(|name| *name == program.text || name == base_name(program));
    let rest = words.iter().zip(given).skip(1);
    let is_long_enough = given.len() >= words.len() && (!is_exact || given.len() == words.len());
    is_named && is_long_enough && rest.into_iter().all(|(any, word)| same(any, word))
}
