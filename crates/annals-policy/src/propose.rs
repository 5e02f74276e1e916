//! The narrow rules that a person's "always" writes: this question, for calls like this one, and nothing else.

use crate::call::Call;
use crate::file::Layer;
use crate::policy::{COMPUTED_RULE, Judgement};
use crate::rule::Rule;

/// The rules that would answer what is asked about this call, as they stand in a file; none when the call has nothing by
/// which calls like it can be told.
pub(crate) fn rules(call: &Call, judgement: &Judgement, answers: impl Fn(&Rule) -> bool) -> Option<String> {
    let mut text = String::new();
    for asked in &judgement.by {
        for facets in narrow(call, &asked.id) {
            let rule = format!(
                "[[rule]]\ntool = {}\n{facets}decide = \"allow\"\nanswers = {}\n",
                quoted(&call.tool),
                quoted(&asked.id)
            );
            let read = Layer::parse("proposed", &rule, &[]).ok()?;
            if read.rules.iter().any(&answers) {
                text.push_str(&rule);
            }
        }
    }
    (!text.is_empty()).then_some(text)
}

/// What tells calls like this one: the exact words of each command, the whole line where words do not say it all, the
/// paths, the hosts; for a call with none of these, the tool.
fn narrow(call: &Call, asked: &str) -> Vec<String> {
    if let Some(command) = &call.command {
        let own: Vec<_> = command
            .line
            .commands
            .iter()
            .filter(|command| !command.is_wrapped)
            .collect();
        let is_literal = own
            .iter()
            .all(|command| command.words.iter().all(|word| word.is_literal));
        if !command.line.is_plain() || !is_literal || own.is_empty() || asked == COMPUTED_RULE {
            return vec![format!("command = {}\n", quoted(&command.text))];
        }
        let words = own.iter().map(|command| {
            let words: Vec<String> = command.words.iter().map(|word| quoted(&word.text)).collect();
            format!("command = [{}]\nexact = true\n", words.join(", "))
        });
        let mut distinct: Vec<String> = Vec::new();
        for rule in words {
            if !distinct.contains(&rule) {
                distinct.push(rule);
            }
        }
        return distinct;
    }
    let list = |name: &str, values: &[String]| {
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        match values.is_empty() {
            true => String::new(),
            false => format!("{name} = [{}]\n", values.join(", ")),
        }
    };
    let is_pattern = |values: &[String]| values.iter().any(|value| value.contains(['*', '?']));
    if is_pattern(&call.paths) || is_pattern(&call.hosts) {
        // A name with a star in it would be a pattern, and match more than it says.
        return Vec::new();
    }
    vec![format!(
        "{}{}",
        list("path", &call.paths),
        list("host", &call.hosts)
    )]
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
