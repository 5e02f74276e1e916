//! The layers of rules together, and what they say of a call.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::call::{Call, Reach};
use crate::file::Layer;
use crate::propose;
use crate::rule::{Decide, Rule};
use crate::shell::Simple;

/// What happens to calls that no rule speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unlisted {
    /// What stays in the sandbox or only reads is allowed, the rest is asked about.
    #[default]
    AllowSandboxed,
    /// Everything is asked about.
    AskAll,
    /// Everything is denied.
    DenyUnlisted,
    /// Everything is allowed.
    AllowAll,
}

impl Unlisted {
    /// Every one, as files name them.
    pub const ALL: [Unlisted; 4] = [
        Unlisted::AllowSandboxed,
        Unlisted::AskAll,
        Unlisted::DenyUnlisted,
        Unlisted::AllowAll,
    ];

    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Unlisted::AllowSandboxed => "allow-sandboxed",
            Unlisted::AskAll => "ask-all",
            Unlisted::DenyUnlisted => "deny-unlisted",
            Unlisted::AllowAll => "allow-all",
        }
    }

    fn decide(self, call: &Call) -> Decide {
        let leaves = |reach: &Reach| match reach {
            Reach::Read | Reach::Write | Reach::Exec => false,
            // Reading what others publish changes nothing outside; a rule may still ask for it.
            Reach::Network => !call.effects.contains(&Reach::Read) || call.effects.len() > 2,
            Reach::Spend | Reach::External => true,
        };
        match self {
            Unlisted::AllowSandboxed if call.effects.is_empty() || call.effects.iter().any(leaves) => {
                Decide::Ask
            }
            Unlisted::AllowSandboxed | Unlisted::AllowAll => Decide::Allow,
            Unlisted::AskAll => Decide::Ask,
            Unlisted::DenyUnlisted => Decide::Deny,
        }
    }
}

impl fmt::Display for Unlisted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Unlisted {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let found = Unlisted::ALL.into_iter().find(|default| default.as_str() == word);
        found.ok_or(())
    }
}

/// The id under which the default asks.
pub const DEFAULT_RULE: &str = "default";
/// The id under which a command is asked about that cannot be told from its text, where rules deny or ask about commands.
pub const COMPUTED_RULE: &str = "computed-command";

/// The rules in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// The owner's: `policy.toml`.
    pub owner: Layer,
    /// The user's: rules in `config.toml`. They may tighten what the owner says; they loosen it only where the owner lets
    /// them, and where they answer a question that was put to the user.
    pub user: Layer,
    /// The scope's own, kept beside its conversations. They weigh what the user's do.
    pub scope: Layer,
    /// What was decided for this conversation.
    pub conversation: Vec<Rule>,
}

/// What the rules say of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What is decided.
    pub decide: Decide,
    /// By what: the rules that were strictest, or the default.
    pub by: Vec<Deciding>,
    /// How long a person has to answer.
    pub expires: Option<Duration>,
    /// The narrow rules that `always` would write, as they stand in a file; none when nothing narrow can be said.
    pub proposed: Option<String>,
}

/// What decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deciding {
    /// Its id.
    pub id: String,
    /// Where it stands: `policy.toml`, `config.toml`, `scope`, `conversation`, or nowhere.
    pub place: Option<(&'static str, usize)>,
    /// Why, in the rule's words.
    pub why: Option<String>,
}

impl Judgement {
    /// The ids of what decided.
    pub fn ids(&self) -> Vec<&str> {
        self.by.iter().map(|deciding| deciding.id.as_str()).collect()
    }

    /// Why, as the model and people read it.
    pub fn reason(&self) -> String {
        let said = |deciding: &Deciding| match &deciding.why {
            Some(why) => format!("{why} (rule `{}`)", deciding.id),
            None => format!("rule `{}`", deciding.id),
        };
        let reasons: Vec<String> = self.by.iter().map(said).collect();
        reasons.join("; ")
    }
}

/// What is said of one part of a call.
struct Said {
    decide: Decide,
    by: Vec<Deciding>,
    expires: Option<Duration>,
}

impl Policy {
    /// What the rules say of a call. Each of its simple commands is judged, and the strictest judgement holds.
    pub fn judge(&self, call: &Call) -> Judgement {
        let commands: Vec<Option<&Simple>> = match &call.command {
            Some(command) if !command.line.commands.is_empty() => {
                command.line.commands.iter().map(Some).collect()
            }
            _ => vec![None],
        };
        let mut judgement = Judgement {
            decide: Decide::Allow,
            by: Vec::new(),
            expires: None,
            proposed: None,
        };
        for command in commands {
            judgement.take(self.judge_one(call, command));
        }
        if let Some(said) = self.computed(call) {
            judgement.take(said);
        }
        if judgement.decide == Decide::Ask {
            judgement.proposed = propose::rules(call, &judgement, |rule| self.would_answer(call, rule));
        }
        judgement
    }

    fn judge_one(&self, call: &Call, command: Option<&Simple>) -> Said {
        let speak = |layer: &'static str, rules: &[Rule]| -> Vec<(&'static str, Rule)> {
            let about = |rule: &&Rule| rule.answers.is_none() && rule.matches(call, command);
            rules
                .iter()
                .filter(about)
                .map(|rule| (layer, rule.clone()))
                .collect()
        };
        let own = speak("policy.toml", &self.owner.rules);
        let lower: Vec<_> = speak("config.toml", &self.user.rules)
            .into_iter()
            .chain(speak("scope", &self.scope.rules))
            .chain(speak("conversation", &self.conversation))
            .collect();
        // What a wrapper runs may be denied or asked about; that nothing speaks of it changes nothing.
        let is_wrapped = command.is_some_and(|command| command.is_wrapped);
        let mut said = match strictest(&own) {
            Some(said) => said,
            None if is_wrapped => Said::nothing(),
            None => self.by_default(call),
        };
        let asking = || own.iter().filter(|(_, rule)| rule.decide == Decide::Ask);
        let may_loosen = match own.is_empty() {
            // The owner's own default stands; without one there is nothing of the owner's to loosen.
            true => self.owner.default.is_none(),
            false => said.decide == Decide::Ask && asking().all(|(_, rule)| rule.may_loosen),
        };
        if let Some(lower) = strictest(&lower) {
            let counts = match lower.decide.cmp(&said.decide) {
                Ordering::Greater => true,
                Ordering::Less => may_loosen,
                Ordering::Equal => own.is_empty(),
            };
            if counts {
                said = lower;
            }
        }
        if said.decide == Decide::Ask
            && let Some(by) = self.answered_by(call, command, &said)
        {
            return Said {
                by,
                ..Said::nothing()
            };
        }
        said
    }

    fn by_default(&self, call: &Call) -> Said {
        let default = self.owner.default.unwrap_or_default();
        let decide = default.decide(call);
        let effects: Vec<&str> = call.effects.iter().map(|reach| reach.as_str()).collect();
        let why = match decide {
            Decide::Allow => None,
            _ => Some(format!(
                "no rule speaks of a call with the effects {}, and the default is `{default}`",
                effects.join(", ")
            )),
        };
        Said {
            decide,
            by: vec![Deciding {
                id: DEFAULT_RULE.to_owned(),
                place: None,
                why,
            }],
            expires: self.owner.expires,
        }
    }

    /// Where rules deny or ask about commands of this tool, a program that cannot be told from the text is asked about.
    fn computed(&self, call: &Call) -> Option<Said> {
        let command = call.command.as_ref()?;
        let is_about_commands = |rule: &&Rule| {
            let may_be_meant = || {
                let is_open = |one: &Simple| rule.may_match(one) && !rule.matches(call, Some(one));
                command.line.commands.iter().any(is_open)
            };
            rule.decide > Decide::Allow
                && rule.command.is_some()
                && rule.matches_but_command(call)
                && (command.line.is_computed || may_be_meant())
        };
        let rules = || {
            self.owner
                .rules
                .iter()
                .chain(&self.user.rules)
                .chain(&self.scope.rules)
                .chain(&self.conversation)
        };
        rules().find(is_about_commands)?;
        let said = Said {
            decide: Decide::Ask,
            by: vec![Deciding {
                id: COMPUTED_RULE.to_owned(),
                place: None,
                why: Some(
                    "which program it runs cannot be told from the text, and there are rules about programs"
                        .to_owned(),
                ),
            }],
            expires: self.owner.expires,
        };
        let is_line = |rule: &Rule| rule.matches(call, command.line.commands.first());
        let answered = rules().any(|rule| rule.answers.as_deref() == Some(COMPUTED_RULE) && is_line(rule));
        (!answered).then_some(said)
    }

    /// The rules that answer every rule that asks, for calls like this one; none if a question is left.
    fn answered_by(&self, call: &Call, command: Option<&Simple>, said: &Said) -> Option<Vec<Deciding>> {
        let remembered = || {
            let user = self.user.rules.iter().map(|rule| ("config.toml", rule));
            let scope = self.scope.rules.iter().map(|rule| ("scope", rule));
            let conversation = self.conversation.iter().map(|rule| ("conversation", rule));
            let owner = self.owner.rules.iter().map(|rule| ("policy.toml", rule));
            user.chain(scope).chain(conversation).chain(owner)
        };
        let answer = |asks: &Deciding| {
            let is_answer =
                |rule: &Rule| rule.answers.as_deref() == Some(&asks.id) && rule.matches(call, command);
            let (layer, rule) = remembered().find(|(_, rule)| is_answer(rule))?;
            Some(deciding(layer, rule))
        };
        said.by.iter().map(answer).collect()
    }

    /// Whether a rule would answer a question about this call.
    fn would_answer(&self, call: &Call, rule: &Rule) -> bool {
        match &call.command {
            Some(command) if !command.line.commands.is_empty() => command
                .line
                .commands
                .iter()
                .any(|command| rule.matches(call, Some(command))),
            _ => rule.matches(call, None),
        }
    }
}

/// The rules with the strictest decision, together.
fn strictest(rules: &[(&'static str, Rule)]) -> Option<Said> {
    let decide = rules.iter().map(|(_, rule)| rule.decide).max()?;
    let strict = rules.iter().filter(|(_, rule)| rule.decide == decide);
    let expires = strict.clone().filter_map(|(_, rule)| rule.expires).min();
    let by = strict.map(|(layer, rule)| deciding(layer, rule)).collect();
    Some(Said { decide, by, expires })
}

fn deciding(layer: &'static str, rule: &Rule) -> Deciding {
    Deciding {
        id: rule.id.clone(),
        place: Some((layer, rule.line)),
        why: rule.why.clone(),
    }
}

impl Said {
    /// Nothing that would change another judgement.
    fn nothing() -> Self {
        Said {
            decide: Decide::Allow,
            by: Vec::new(),
            expires: None,
        }
    }
}

impl Judgement {
    /// The stricter holds; two that are equally strict hold together.
    fn take(&mut self, said: Said) {
        if said.decide > self.decide || self.by.is_empty() && said.decide == self.decide {
            (self.decide, self.by, self.expires) = (said.decide, said.by, said.expires);
        } else if said.decide == self.decide {
            let is_new = |deciding: &Deciding| !self.by.contains(deciding);
            let new: Vec<Deciding> = said.by.into_iter().filter(is_new).collect();
            self.by.extend(new);
            self.expires = self.expires.into_iter().chain(said.expires).min();
        }
    }
}
