//! A file of rules: read, checked, its rules' own tests run.
//!
//! A misspelt key, a rule that can never match and a test that fails are errors that name the line. A rule that silently
//! does nothing is worse than none.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::call::{Call, Command, Reach};
use crate::error::PolicyError;
use crate::glob::Glob;
use crate::policy::Unlisted;
use crate::rule::{CommandPattern, Decide, Rule};

/// What is known of a tool, so that rules about it can be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownTool {
    /// Its name.
    pub name: String,
    /// What its calls can reach.
    pub effects: Vec<Reach>,
    /// Whether its calls have the facet `command`.
    pub has_command: bool,
    /// Whether its calls have the facet `path`.
    pub has_path: bool,
    /// Whether its calls have the facet `host`.
    pub has_host: bool,
}

/// The rules of one file, ready to be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer {
    /// What happens to calls that no rule speaks of; none when the file does not say.
    pub default: Option<Unlisted>,
    /// How long a person has to answer, unless a rule says otherwise.
    pub expires: Option<Duration>,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    default: Option<Spanned<String>>,
    ask_expires: Option<Spanned<String>>,
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

/// A file that has other things beside rules.
#[derive(Deserialize)]
struct RulesWithin {
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    name: Option<String>,
    tool: Option<OneOrMany>,
    path: Option<OneOrMany>,
    host: Option<OneOrMany>,
    effect: Option<OneOrMany>,
    command: Option<CommandText>,
    #[serde(default)]
    exact: bool,
    decide: Spanned<String>,
    why: Option<String>,
    #[serde(default)]
    may_loosen: bool,
    answers: Option<String>,
    expires: Option<Spanned<String>>,
    test: Option<TestText>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum CommandText {
    Line(String),
    Words(Vec<OneOrMany>),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TestText {
    r#match: Vec<String>,
    not: Vec<String>,
}

impl OneOrMany {
    fn into_vec(self) -> Vec<String> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}

impl Layer {
    /// Reads a file of rules. `name` is what errors call it; `known` are the tools there are.
    pub fn parse(name: &str, text: &str, known: &[KnownTool]) -> Result<Self, PolicyError> {
        let source = Source { name, text };
        let read: FileText = toml::from_str(text).map_err(|error| source.syntax(&error))?;
        let layer = Layer {
            default: read.default.map(|word| source.default(&word)).transpose()?,
            expires: read.ask_expires.map(|time| source.duration(&time)).transpose()?,
            rules: Vec::new(),
        };
        layer.with(read.rule, &source, known)
    }

    /// Reads the rules of a file that has other things, too.
    pub fn parse_within(name: &str, text: &str, known: &[KnownTool]) -> Result<Self, PolicyError> {
        let source = Source { name, text };
        let read: RulesWithin = toml::from_str(text).map_err(|error| source.syntax(&error))?;
        Layer::default().with(read.rule, &source, known)
    }

    fn with(
        mut self,
        rules: Vec<Spanned<RuleText>>,
        source: &Source<'_>,
        known: &[KnownTool],
    ) -> Result<Self, PolicyError> {
        for rule in rules {
            let checked = source.rule(rule, known)?;
            if let Some(twin) = self.rules.iter().find(|rule| rule.id == checked.id) {
                let message = match twin.decide == checked.decide {
                    true => format!(
                        "the rule `{}` is here twice, first in line {}: delete one",
                        twin.id, twin.line
                    ),
                    false => format!(
                        "the name `{}` is taken by the rule in line {}: choose another",
                        twin.id, twin.line
                    ),
                };
                return Err(source.error(checked.line, message));
            }
            if let Some(shadow) = self.rules.iter().find(|rule| is_shadowed(&checked, rule)) {
                return Err(source.never(&checked, shadow));
            }
            if let Some(shadowed) = self.rules.iter().find(|rule| is_shadowed(rule, &checked)) {
                return Err(source.never(shadowed, &checked));
            }
            self.rules.push(checked);
        }
        Ok(self)
    }
}

/// Whether another rule speaks of the same calls and is stricter.
fn is_shadowed(rule: &Rule, by: &Rule) -> bool {
    let facets = |rule: &Rule| {
        (
            rule.tool.clone(),
            rule.path.clone(),
            rule.host.clone(),
            rule.effect.clone(),
            rule.command.clone(),
        )
    };
    rule.decide < by.decide && rule.answers.is_none() && facets(rule) == facets(by)
}

/// Whether calls of a tool have a facet that a rule names.
type HasFacet = fn(&KnownTool, &Rule) -> bool;

/// A file and its text, for errors.
struct Source<'t> {
    name: &'t str,
    text: &'t str,
}

impl Source<'_> {
    fn line_of(&self, span: &Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn error(&self, line: usize, message: impl Into<String>) -> PolicyError {
        PolicyError {
            file: self.name.to_owned(),
            line,
            message: message.into(),
        }
    }

    fn syntax(&self, error: &toml::de::Error) -> PolicyError {
        let line = error.span().map_or(1, |span| self.line_of(&span));
        self.error(line, error.message().trim_end().to_owned())
    }

    fn never(&self, rule: &Rule, by: &Rule) -> PolicyError {
        let message = format!(
            "this rule can never decide: the rule in line {} says `{}` of the same calls; delete one of them",
            by.line, by.decide
        );
        self.error(rule.line, message)
    }

    fn default(&self, word: &Spanned<String>) -> Result<Unlisted, PolicyError> {
        word.get_ref().parse().map_err(|()| {
            let names: Vec<String> = Unlisted::ALL
                .iter()
                .map(|default| format!("`{default}`"))
                .collect();
            let message = format!("`default` is `{}`: give {}", word.get_ref(), names.join(", "));
            self.error(self.line_of(&word.span()), message)
        })
    }

    fn duration(&self, time: &Spanned<String>) -> Result<Duration, PolicyError> {
        parse_duration(time.get_ref()).ok_or_else(|| {
            let message = format!(
                "`{}` is no length of time: give a number and `s`, `m`, `h` or `d`, such as `30m`",
                time.get_ref()
            );
            self.error(self.line_of(&time.span()), message)
        })
    }

    fn rule(&self, text: Spanned<RuleText>, known: &[KnownTool]) -> Result<Rule, PolicyError> {
        let line = self.line_of(&text.span());
        let text = text.into_inner();
        let wrong = |message: String| Err(self.error(line, message));
        let decide = match text.decide.get_ref().as_str() {
            "allow" => Decide::Allow,
            "ask" => Decide::Ask,
            "deny" => Decide::Deny,
            other => return wrong(format!("`decide` is `{other}`: give `allow`, `ask` or `deny`")),
        };
        let globs = |name: &str, given: Option<OneOrMany>| match given.map(OneOrMany::into_vec) {
            None => Ok(Vec::new()),
            Some(texts) if texts.is_empty() || texts.iter().any(String::is_empty) => {
                let message = format!(
                    "`{name}` is empty, so the rule can never match: name something, or leave it out"
                );
                Err(self.error(line, message))
            }
            Some(texts) => Ok(texts.into_iter().map(Glob::new).collect::<Vec<_>>()),
        };
        let expires = text
            .expires
            .as_ref()
            .map(|time| self.duration(time))
            .transpose()?;
        let mut rule = Rule {
            id: String::new(),
            line,
            tool: globs("tool", text.tool)?,
            path: globs("path", text.path)?,
            host: globs("host", text.host)?,
            effect: self.effects(line, text.effect)?,
            command: text
                .command
                .map(|command| self.command(line, command, text.exact, decide))
                .transpose()?,
            decide,
            why: text.why,
            may_loosen: text.may_loosen,
            answers: text.answers,
            expires,
        };
        if text.exact && rule.command.is_none() {
            return wrong("`exact` is about a `command`: give one, or leave it out".to_owned());
        }
        if rule.answers.is_some() && decide != Decide::Allow {
            return wrong("`answers` belongs to a rule that allows: write `decide = \"allow\"`".to_owned());
        }
        if rule.may_loosen && decide != Decide::Ask {
            return wrong("only a rule that asks can be loosened: leave `may_loosen` out".to_owned());
        }
        if rule.expires.is_some() && decide != Decide::Ask {
            return wrong("only a rule that asks can expire: leave `expires` out".to_owned());
        }
        rule.id = text.name.unwrap_or_else(|| derived_id(&rule));
        self.check_hosts(&rule)?;
        self.check_tools(&rule, known)?;
        self.run_tests(&rule, text.test.unwrap_or_default())?;
        Ok(rule)
    }

    fn effects(&self, line: usize, given: Option<OneOrMany>) -> Result<Vec<Reach>, PolicyError> {
        let words = given.map(OneOrMany::into_vec).unwrap_or_default();
        let parse = |word: String| {
            word.parse().map_err(|()| {
                let names: Vec<String> = Reach::ALL.iter().map(|reach| format!("`{reach}`")).collect();
                self.error(line, format!("`{word}` is no effect: give {}", names.join(", ")))
            })
        };
        words.into_iter().map(parse).collect()
    }

    fn command(
        &self,
        line: usize,
        given: CommandText,
        is_exact: bool,
        decide: Decide,
    ) -> Result<CommandPattern, PolicyError> {
        let wrong = |message: &str| Err(self.error(line, message));
        let words: Vec<Vec<String>> = match given {
            CommandText::Line(text) if decide == Decide::Allow => return Ok(CommandPattern::Line(text)),
            CommandText::Line(text) => {
                let words: Vec<String> = text
                    .split_whitespace()
                    .map(|word| format!("\"{word}\""))
                    .collect();
                let message = format!(
                    "a text matches one whole line letter by letter, which only a rule that allows may do: write \
                     `command = [{}]`",
                    words.join(", ")
                );
                return Err(self.error(line, message));
            }
            CommandText::Words(words) => words.into_iter().map(OneOrMany::into_vec).collect(),
        };
        if words.is_empty() || words.iter().any(Vec::is_empty) {
            return wrong(
                "`command` has a place without a word, so the rule can never match: give words, or leave it out",
            );
        }
        if words[0]
            .iter()
            .any(|name| name.is_empty() || name.contains(char::is_whitespace))
        {
            return wrong(
                "the first word of `command` has blanks, and no program is called so: give each word by itself, such \
                 as `[\"git\", \"status\"]`",
            );
        }
        Ok(CommandPattern::Words { words, is_exact })
    }

    fn check_hosts(&self, rule: &Rule) -> Result<(), PolicyError> {
        let is_host = |glob: &&Glob| {
            let text = glob.as_str();
            !text.contains(['/', ':', ' ', '@']) && !text.chars().any(char::is_uppercase)
        };
        match rule.host.iter().find(|glob| !is_host(glob)) {
            None => Ok(()),
            Some(glob) => {
                let message = format!(
                    "`{}` can never match: a host is a name in lower case without scheme, port and path, such as \
                     `*.example.com`",
                    glob.as_str()
                );
                Err(self.error(rule.line, message))
            }
        }
    }

    /// Refuses rules about tools that do not exist, and facets that no tool they name has.
    fn check_tools(&self, rule: &Rule, known: &[KnownTool]) -> Result<(), PolicyError> {
        for glob in &rule.tool {
            if is_ours(glob, known) && !known.iter().any(|tool| glob.matches(&tool.name)) {
                let message = format!(
                    "there is no tool `{}`{}",
                    glob.as_str(),
                    nearest(glob.as_str(), known)
                );
                return Err(self.error(rule.line, message));
            }
        }
        // A tool of somebody else's may have any facet.
        let all_known = !rule.tool.is_empty() && rule.tool.iter().all(|glob| is_ours(glob, known));
        let named = || {
            known
                .iter()
                .filter(|tool| rule.tool.iter().any(|glob| glob.matches(&tool.name)))
        };
        let facets: [(&str, bool, HasFacet); 4] = [
            ("command", rule.command.is_some(), |tool, _| tool.has_command),
            ("path", !rule.path.is_empty(), |tool, _| tool.has_path),
            ("host", !rule.host.is_empty(), |tool, _| tool.has_host),
            ("effect", !rule.effect.is_empty(), |tool, rule| {
                rule.effect.iter().any(|effect| tool.effects.contains(effect))
            }),
        ];
        for (facet, is_named, has) in facets {
            if all_known && is_named && !named().any(|tool| has(tool, rule)) {
                let names: Vec<String> = named().map(|tool| format!("`{}`", tool.name)).collect();
                let message = format!(
                    "this rule can never match: no call of {} has such `{facet}`; leave `{facet}` out or name \
                     another tool",
                    names.join(", ")
                );
                return Err(self.error(rule.line, message));
            }
        }
        Ok(())
    }

    fn run_tests(&self, rule: &Rule, test: TestText) -> Result<(), PolicyError> {
        let wanted = test.r#match.into_iter().map(|text| (text, true));
        for (text, wanted) in wanted.chain(test.not.into_iter().map(|text| (text, false))) {
            if is_about(rule, &text) != wanted {
                let message = match wanted {
                    true => format!(
                        "the test fails: `{text}` should match and does not{}",
                        hint(rule, &text)
                    ),
                    false => format!("the test fails: `{text}` should not match and does"),
                };
                return Err(self.error(rule.line, message));
            }
        }
        Ok(())
    }
}

/// Why an allow rule does not match a line, if that is because of the line's form.
fn hint(rule: &Rule, text: &str) -> String {
    let line = Command::line(text).line;
    match (&rule.command, rule.decide, line.beyond) {
        (Some(_), Decide::Allow, Some(beyond)) => {
            format!(
                ", because it has {} and no allow rule speaks for that",
                beyond.as_str()
            )
        }
        _ => String::new(),
    }
}

/// Whether a rule is about a test's text: a command line, a path, a host or a tool, whatever the rule names first in this
/// order. Its other facets are taken to match.
fn is_about(rule: &Rule, text: &str) -> bool {
    let first = |globs: &[Glob]| globs.first().map(|glob| glob.as_str().to_owned());
    let mut call = Call {
        tool: first(&rule.tool).unwrap_or_default(),
        effects: rule.effect.iter().copied().collect(),
        paths: first(&rule.path).into_iter().collect(),
        hosts: first(&rule.host).into_iter().collect(),
        command: None,
    };
    if rule.command.is_some() {
        call.command = Some(Command::line(text));
    } else if !rule.path.is_empty() {
        call.paths = vec![text.to_owned()];
    } else if !rule.host.is_empty() {
        call.hosts = vec![text.to_owned()];
    } else {
        call.tool = text.to_owned();
    }
    let Some(command) = &call.command else {
        return rule.matches(&call, None);
    };
    let commands = &command.line.commands;
    match rule.decide {
        Decide::Allow => {
            let own = || commands.iter().filter(|command| !command.is_wrapped);
            own().next().is_some() && own().all(|command| rule.matches(&call, Some(command)))
        }
        _ => commands.iter().any(|command| rule.matches(&call, Some(command))),
    }
}

/// Whether a pattern is about tools of ours: without a namespace, or in one of those that built-ins have.
fn is_ours(glob: &Glob, known: &[KnownTool]) -> bool {
    if glob.as_str().starts_with('*') || known.is_empty() {
        return false;
    }
    match glob.as_str().split_once('.') {
        None => glob.is_literal(),
        Some((space, _)) => known
            .iter()
            .any(|tool| tool.name.split_once('.').is_some_and(|(own, _)| own == space)),
    }
}

fn nearest(name: &str, known: &[KnownTool]) -> String {
    let close = known
        .iter()
        .map(|tool| (strsim::jaro_winkler(name, &tool.name), &tool.name))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match close {
        Some((score, name)) if score > 0.8 => format!(": did you mean `{name}`?"),
        _ => ": see `annals tool list`".to_owned(),
    }
}

/// A number and its unit.
fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let number: u64 = text.strip_suffix(unit)?.parse().ok()?;
    (number > 0).then(|| Duration::from_secs(number.saturating_mul(seconds)))
}

/// A name for a rule without one: the same wherever in a file it stands, another once it says something else.
fn derived_id(rule: &Rule) -> String {
    let said = BTreeMap::from([
        ("command", format!("{:?}", rule.command)),
        ("decide", rule.decide.to_string()),
        ("effect", format!("{:?}", rule.effect)),
        ("host", format!("{:?}", rule.host)),
        ("path", format!("{:?}", rule.path)),
        ("tool", format!("{:?}", rule.tool)),
        ("answers", format!("{:?}", rule.answers)),
    ]);
    // FNV-1a: it has to be the same in every process and version, and nothing more.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in said
        .iter()
        .flat_map(|(name, value)| name.bytes().chain(value.bytes()))
    {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("rule-{:08x}", hash >> 32)
}
