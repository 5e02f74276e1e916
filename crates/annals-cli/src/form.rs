//! A question of a tool as a form on the terminal: one field after the other, then all of it once more before it is sent.
//!
//! [`Form`] is what the schema wants and what was given so far, and knows no terminal; [`ask`] is the person in front of it.
//! Every word of the question is a stranger's and passes [`ScreenText`].

use annals::runtime::{ConversationHandle, InputAction, InputRequest, InputResponse, RunError};
use annals::tools::validate;
use serde_json::{Map, Value};

use crate::approval::{Stopped, read_line};
use crate::failure::Failure;
use crate::paint::{self, BOLD, DIM, NAME, WARN, styled};
use crate::screen_text::ScreenText;
use crate::shown;

const DECLINE: &str = "/decline";
const CANCEL: &str = "/cancel";

/// More fields than anybody fills in on a terminal; the rest is left to the server's defaults.
const FIELDS_MAX: usize = 100;
/// Choices of a field that are shown.
const CHOICES_SHOWN_MAX: usize = 40;

/// What a schema wants of a person.
struct Form {
    fields: Vec<Field>,
    given: Map<String, Value>,
}

struct Field {
    name: String,
    title: Option<String>,
    description: Option<String>,
    schema: Value,
    is_required: bool,
    default: Option<Value>,
    wants: Wants,
}

enum Wants {
    Text,
    Number,
    Yes,
    /// One of these.
    One(Vec<Choice>),
    /// Any of these.
    Several(Vec<Choice>),
    /// Something that has no form: JSON as it is.
    Json,
}

struct Choice {
    value: Value,
    title: String,
}

/// What a person's line means for a field.
#[derive(Debug, PartialEq)]
enum Entry {
    Value(Value),
    LeftOut,
}

impl Form {
    /// The fields of a schema, in its own order.
    fn of(schema: Option<&Value>) -> Self {
        let required: Vec<&str> = schema
            .and_then(|schema| schema.get("required")?.as_array())
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
        let fields = properties.into_iter().flatten().map(|(name, property)| {
            let words = |key: &str| property.get(key).and_then(Value::as_str).map(str::to_owned);
            Field {
                name: name.clone(),
                title: words("title"),
                description: words("description"),
                schema: property.clone(),
                is_required: required.contains(&name.as_str()),
                default: property.get("default").filter(|value| !value.is_null()).cloned(),
                wants: Wants::of(property),
            }
        });
        let (mut needed, mut free): (Vec<Field>, Vec<Field>) = (Vec::new(), Vec::new());
        for field in fields {
            match field.is_required {
                true => needed.push(field),
                false => free.push(field),
            }
        }
        // What is required must be asked, however much there is.
        free.truncate(FIELDS_MAX.saturating_sub(needed.len()));
        needed.extend(free);
        Form {
            fields: needed,
            given: Map::new(),
        }
    }

    /// Takes a line for the field at this place, or says what to write instead.
    fn enter(&mut self, at: usize, line: &str) -> Result<(), String> {
        let field = &self.fields[at];
        match field.read(line)? {
            Entry::Value(value) => self.given.insert(field.name.clone(), value),
            Entry::LeftOut => self.given.shift_remove(&field.name),
        };
        Ok(())
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// What will be sent, for a last look.
    fn review(&self) -> ScreenText {
        let line = |field: &Field| {
            let value = match self.given.get(&field.name) {
                Some(value) => ScreenText::from(as_text(value)),
                None => styled(DIM, "left out"),
            };
            shown!("  {}  {}\n", styled(NAME, field.name.as_str()), value)
        };
        self.fields.iter().map(line).collect::<ScreenText>().trim_end()
    }
}

impl Wants {
    fn of(property: &Value) -> Self {
        if let Some(choices) = choices(property) {
            return Wants::One(choices);
        }
        match property.get("type").and_then(Value::as_str) {
            Some("string") => Wants::Text,
            Some("number" | "integer") => Wants::Number,
            Some("boolean") => Wants::Yes,
            Some("array") => match property.get("items").and_then(choices) {
                Some(choices) => Wants::Several(choices),
                None => Wants::Json,
            },
            _ => Wants::Json,
        }
    }
}

/// The values of a field that has only some, in any of the ways in which schemas say it.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    let titled = schema.get("oneOf").or_else(|| schema.get("anyOf"));
    if let Some(titled) = titled.and_then(Value::as_array) {
        let choice = |option: &Value| {
            let value = option.get("const")?.clone();
            let title = option.get("title").and_then(Value::as_str);
            Some(Choice {
                title: title.map_or_else(|| as_text(&value), str::to_owned),
                value,
            })
        };
        return titled.iter().map(choice).collect();
    }
    let names = schema.get("enumNames").and_then(Value::as_array);
    let values = schema.get("enum")?.as_array()?;
    let choice = |(at, value): (usize, &Value)| {
        let name = names.and_then(|names| names.get(at)?.as_str());
        Choice {
            title: name.map_or_else(|| as_text(value), str::to_owned),
            value: value.clone(),
        }
    };
    Some(values.iter().enumerate().map(choice).collect())
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(items) => items.iter().map(as_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

impl Field {
    /// What is asked, with everything that one has to know to answer.
    fn shown(&self) -> ScreenText {
        let mut notes = vec![match &self.wants {
            Wants::Text => match self.schema.get("format").and_then(Value::as_str) {
                Some(format) => format!("text, {format}"),
                None => "text".to_owned(),
            },
            Wants::Number if self.schema["type"] == "integer" => "whole number".to_owned(),
            Wants::Number => "number".to_owned(),
            Wants::Yes => "yes or no".to_owned(),
            Wants::One(_) => "one of these, by its number or as it is".to_owned(),
            Wants::Several(_) => "any of these, with commas between them".to_owned(),
            Wants::Json => "JSON".to_owned(),
        }];
        for (key, word) in [("minimum", "at least"), ("maximum", "at most")] {
            if let Some(bound) = self.schema.get(key) {
                notes.push(format!("{word} {bound}"));
            }
        }
        for (key, word) in [("minLength", "at least"), ("maxLength", "at most")] {
            if let Some(bound) = self.schema.get(key) {
                notes.push(format!("{word} {bound} characters"));
            }
        }
        match (&self.default, self.is_required) {
            (Some(default), _) => notes.push(format!("an empty line is `{}`", as_text(default))),
            (None, true) => notes.push("required".to_owned()),
            (None, false) => notes.push("an empty line leaves it out".to_owned()),
        }
        let about = [self.title.as_deref(), self.description.as_deref()];
        let about: Vec<&str> = about.into_iter().flatten().collect();
        let mut out = shown!(
            "{}  {}  {}",
            styled(NAME, self.name.as_str()),
            about.join(": "),
            styled(DIM, format!("({})", notes.join("; ")))
        );
        if let Wants::One(choices) | Wants::Several(choices) = &self.wants {
            for (at, choice) in choices.iter().take(CHOICES_SHOWN_MAX).enumerate() {
                out.push(shown!(
                    "\n  {} {}",
                    styled(DIM, format!("{}", at + 1)),
                    choice.title.as_str()
                ));
            }
            let more = choices.len().saturating_sub(CHOICES_SHOWN_MAX);
            if more > 0 {
                out.push(shown!("\n  {}", styled(DIM, format!("… {more} more"))));
            }
        }
        out
    }

    fn read(&self, line: &str) -> Result<Entry, String> {
        let line = line.trim();
        if line.is_empty() {
            return match (&self.default, self.is_required) {
                (Some(default), _) => Ok(Entry::Value(default.clone())),
                (None, true) => Err(format!("`{}` is required", self.name)),
                (None, false) => Ok(Entry::LeftOut),
            };
        }
        let value = match &self.wants {
            Wants::Text => Value::from(line),
            Wants::Number => {
                let number: Option<serde_json::Number> = line.parse().ok();
                Value::Number(number.ok_or_else(|| format!("`{line}` is no number"))?)
            }
            Wants::Yes => match line.to_lowercase().as_str() {
                "y" | "yes" | "true" => Value::Bool(true),
                "n" | "no" | "false" => Value::Bool(false),
                _ => return Err("answer yes or no".to_owned()),
            },
            Wants::One(choices) => chosen(choices, line)?,
            Wants::Several(choices) => {
                let parts = line.split(',').map(str::trim).filter(|part| !part.is_empty());
                let values: Result<Vec<Value>, String> = parts.map(|part| chosen(choices, part)).collect();
                Value::Array(values?)
            }
            Wants::Json => serde_json::from_str(line).map_err(|error| format!("that is no JSON: {error}"))?,
        };
        match validate::misfit(&self.schema, &value) {
            Some(why) => Err(why),
            None => Ok(Entry::Value(value)),
        }
    }
}

/// A choice by its value, its title or its number, in this order: a value may look like a number.
fn chosen(choices: &[Choice], line: &str) -> Result<Value, String> {
    let by_words = choices
        .iter()
        .find(|choice| as_text(&choice.value) == line || choice.title == line);
    let by_number = || {
        line.parse::<usize>()
            .ok()?
            .checked_sub(1)
            .and_then(|at| choices.get(at))
    };
    let choice = by_words.or_else(by_number);
    let choice = choice.ok_or_else(|| {
        format!(
            "`{line}` is none of them: give a number from 1 to {}",
            choices.len()
        )
    })?;
    Ok(choice.value.clone())
}

/// What a person said to the whole question.
type Said = (InputAction, Option<Value>);

/// Asks the person at the terminal, and passes the answer on.
pub(crate) async fn ask(conversation: &ConversationHandle, request: InputRequest) -> Result<(), Failure> {
    paint::say(shown!(
        "{} {}\n{}",
        styled(WARN, "a tool asks:"),
        styled(BOLD, request.tool.clone()),
        request.message.clone()
    ));
    loop {
        let schema = request.schema.clone();
        let answered = tokio::task::spawn_blocking(move || fill_in(schema.as_ref())).await;
        let (action, content) = answered.map_err(Failure::environment)?;
        let response = InputResponse {
            input_id: request.input_id.clone(),
            action,
            content,
            by: "person".to_owned(),
            via: "chat".to_owned(),
        };
        match conversation.respond(response).await {
            Err(RunError::NothingToDecide(_)) => {
                paint::say("somebody else has answered meanwhile, or the turn has ended");
                return Ok(());
            }
            Err(error @ RunError::InputMisfit { .. }) => paint::error(error),
            answered => return Ok(answered?),
        }
    }
}

/// Reads lines until the question is answered. The end of the input cancels it, and so does Ctrl-C.
fn fill_in(schema: Option<&Value>) -> Said {
    let mut form = Form::of(schema);
    if form.fields.is_empty() {
        // A form without fields is answered by one that is empty, the wish to have a page opened by a mere yes.
        return agree(schema.map(|_| Value::Object(form.given)));
    }
    paint::say(styled(
        DIM,
        format!("a line for each field; {DECLINE} says no, {CANCEL} goes away from the question"),
    ));
    for at in 0..form.fields.len() {
        if let Err(said) = fill_in_field(&mut form, at) {
            return said;
        }
    }
    loop {
        paint::say(form.review());
        paint::say(styled(
            DIM,
            format!("an empty line sends this; a field's name changes it; {DECLINE} or {CANCEL}"),
        ));
        let line = match line() {
            Ok(line) => line,
            Err(said) => return said,
        };
        match (line.is_empty(), form.find(&line)) {
            (true, _) => return (InputAction::Accept, Some(Value::Object(form.given))),
            (false, Some(at)) => {
                if let Err(said) = fill_in_field(&mut form, at) {
                    return said;
                }
            }
            (false, None) => paint::error(format!("there is no field `{line}`")),
        }
    }
}

fn fill_in_field(form: &mut Form, at: usize) -> Result<(), Said> {
    paint::say(form.fields[at].shown());
    loop {
        let line = line()?;
        match form.enter(at, &line) {
            Ok(()) => return Ok(()),
            Err(why) => paint::error(why),
        }
    }
}

/// A question that wants no more than a yes, such as whether a page was opened.
fn agree(content: Option<Value>) -> Said {
    loop {
        paint::say(styled(
            DIM,
            format!("yes to agree; {DECLINE} says no, {CANCEL} goes away from the question"),
        ));
        match line() {
            Ok(line) if matches!(line.as_str(), "y" | "yes") => return (InputAction::Accept, content),
            Ok(line) if matches!(line.as_str(), "n" | "no") => return (InputAction::Decline, None),
            Ok(_) => {}
            Err(said) => return said,
        }
    }
}

/// A line that is no command; what a command says otherwise.
fn line() -> Result<String, Said> {
    match read_line() {
        Ok(Some(line)) => match line.trim() {
            DECLINE => Err((InputAction::Decline, None)),
            CANCEL => Err((InputAction::Cancel, None)),
            line => Ok(line.to_owned()),
        },
        Ok(None) | Err(Stopped) => Err((InputAction::Cancel, None)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(property: Value) -> Field {
        let schema = json!({"type": "object", "properties": {"x": property}});
        Form::of(Some(&schema)).fields.remove(0)
    }

    #[test]
    fn a_line_becomes_a_value_of_the_fields_type() {
        let colours = json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]});
        let titled = json!({"type": "string", "oneOf": [{"const": "a", "title": "First"}, {"const": "2", "title": "Two"}]});
        let several = json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}});
        for (property, line, value) in [
            (json!({"type": "string"}), " 12A ", json!("12A")),
            (json!({"type": "string"}), "/etc/hosts", json!("/etc/hosts")),
            (json!({"type": "integer"}), "-3", json!(-3)),
            (json!({"type": "number"}), "2.5", json!(2.5)),
            (json!({"type": "boolean"}), "Yes", json!(true)),
            (json!({"type": "boolean"}), "n", json!(false)),
            (colours.clone(), "2", json!("g")),
            (colours.clone(), "Red", json!("r")),
            (colours, "g", json!("g")),
            // A value that looks like a number is the value.
            (titled.clone(), "2", json!("2")),
            (titled, "1", json!("a")),
            (several.clone(), "a, 2", json!(["a", "b"])),
            (json!({"type": "object"}), "{\"a\": 1}", json!({"a": 1})),
        ] {
            assert_eq!(
                field(property.clone()).read(line),
                Ok(Entry::Value(value)),
                "{property} {line}"
            );
        }
        for (property, line) in [
            (json!({"type": "integer"}), "2.5"),
            (json!({"type": "integer", "maximum": 5}), "6"),
            (json!({"type": "number"}), "many"),
            (json!({"type": "string", "minLength": 3}), "ab"),
            (json!({"type": "boolean"}), "maybe"),
            (json!({"type": "string", "enum": ["a"]}), "2"),
            (several, "a, c"),
            (json!({"type": "object"}), "{"),
        ] {
            assert!(field(property.clone()).read(line).is_err(), "{property} {line}");
        }
    }

    #[test]
    fn an_empty_line_is_the_default_or_leaves_out_what_is_not_required() {
        let schema = json!({"type": "object", "required": ["a", "b"], "properties": {
            "c": {"type": "string"}, "a": {"type": "string"}, "b": {"type": "integer", "default": 7}}});
        let mut form = Form::of(Some(&schema));
        let names: Vec<&str> = form.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"], "what is required comes first");
        assert!(form.enter(0, " ").unwrap_err().contains("`a` is required"));
        form.enter(0, "x").unwrap();
        form.enter(1, "").unwrap();
        form.enter(2, "y").unwrap();
        form.enter(2, "").unwrap();
        assert_eq!(Value::Object(form.given.clone()), json!({"a": "x", "b": 7}));
        assert!(form.review().as_str().contains("left out"));
    }

    #[test]
    fn a_strangers_words_steer_no_terminal() {
        let schema = json!({"properties": {"x\u{1b}[2J": {
            "type": "string", "title": "a\u{1b}]0;b\u{7}", "enum": ["\u{202e}c"], "default": "\u{1b}[31m"}}});
        let form = Form::of(Some(&schema));
        let shown = form.fields[0].shown().as_str().to_owned();
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert!(!plain.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown:?}");
        assert!(
            !shown.contains("\u{1b}[2J") && !shown.contains("\u{1b}]0"),
            "{shown:?}"
        );
    }
}
