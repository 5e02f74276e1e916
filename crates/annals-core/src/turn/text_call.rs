//! Tool calls of models that cannot call tools: one fenced form in plain text, and the catalog that teaches it.
//!
//! ````text
//! ```tool_call
//! {"tool": "react.read", "params": {"paths": ["fi:turn_1.files/a.md"]}}
//! ```
//! ````
//!
//! `id` may name the call; without it Annals gives one. What is not of this form but was meant to be is reported as
//! malformed, so that it never passes for an answer.

mod arriving;

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::view::ToolSchema;

pub use arriving::{Arrived, Arriving};

const OPENS: &str = "```tool_call";
const CLOSES: &str = "```";
/// How past calls are shown, which is not the form for making one.
const SHOWN: &str = "[TOOL CALL ";

/// One call found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextCall {
    /// The call's id, if the model gave one.
    pub id: Option<String>,
    /// The tool it names; empty when that cannot be told.
    pub tool: String,
    /// The parameters as JSON text, or the whole of what was written when it is malformed.
    pub arguments: String,
}

/// A model's text taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextAnswer {
    /// What it said beside its calls.
    pub text: String,
    /// Its calls, in order, malformed ones too: their arguments are no JSON object.
    pub calls: Vec<TextCall>,
}

/// Takes the calls out of a model's text.
pub fn parse(text: &str) -> TextAnswer {
    let mut answer = TextAnswer::default();
    let mut body: Option<String> = None;
    for line in text.lines() {
        match &mut body {
            Some(written) if line.trim() == CLOSES => {
                answer.calls.push(read(written));
                body = None;
            }
            Some(written) => {
                written.push_str(line);
                written.push('\n');
            }
            None if line.trim() == OPENS => body = Some(String::new()),
            None => {
                answer.text.push_str(line);
                answer.text.push('\n');
            }
        }
    }
    // A fence that never closes was cut off, and so was its call.
    answer.calls.extend(body.map(|written| malformed(&written)));
    let imitated = answer.calls.is_empty().then(|| imitation(&answer.text)).flatten();
    if let Some(at) = imitated {
        let written = answer.text.split_off(at);
        answer.calls.push(malformed(&written));
    }
    answer.text.truncate(answer.text.trim_end().len());
    answer
}

fn read(written: &str) -> TextCall {
    #[derive(Deserialize)]
    struct Written<'a> {
        id: Option<String>,
        tool: String,
        #[serde(borrow, alias = "arguments")]
        params: Option<&'a RawValue>,
    }
    match serde_json::from_str::<Written<'_>>(written) {
        Ok(call) => TextCall {
            id: call.id,
            tool: call.tool,
            arguments: call.params.map_or("{}", RawValue::get).to_owned(),
        },
        Err(_) => malformed(written),
    }
}

/// A call that cannot be read. Its name is told if it can be seen, so that the model knows which one is meant.
fn malformed(written: &str) -> TextCall {
    let written = written.trim();
    let params = written
        .split_once("\"params\":")
        .and_then(|(_, params)| params.trim().strip_suffix('}'));
    TextCall {
        id: named(written, "id").map(str::to_owned),
        tool: named(written, "tool").unwrap_or_default().to_owned(),
        arguments: params.unwrap_or(written).to_owned(),
    }
}

/// The string that follows this key, as far as it can be seen in a text that need not be JSON.
fn named<'w>(written: &'w str, key: &str) -> Option<&'w str> {
    let (_, after) = written.split_once(&format!("\"{key}\""))?;
    after.split('"').nth(1)
}

/// Where a text copies the form in which past calls are shown.
fn imitation(text: &str) -> Option<usize> {
    text.starts_with(SHOWN)
        .then_some(0)
        .or_else(|| text.find(&format!("\n{SHOWN}")).map(|at| at + 1))
}

/// A call as a model writes it.
pub fn write(call: &TextCall) -> String {
    let id = call.id.as_ref().map_or(String::new(), |id| {
        format!("\"id\": {}, ", serde_json::Value::from(id.as_str()))
    });
    let tool = serde_json::Value::from(call.tool.as_str());
    format!(
        "{OPENS}\n{{{id}\"tool\": {tool}, \"params\": {}}}\n{CLOSES}",
        call.arguments
    )
}

/// The tools on offer and how to call them, for the system message.
pub fn catalog(tools: &[ToolSchema]) -> String {
    let mut text = String::from(
        "\n\n# Tools\nTo call a tool, write a fenced block of exactly this form, its params as one JSON object. Several \
         blocks are several calls. Write nothing after the last one: the results come in the next message. An answer \
         without such a block ends the turn.\n\n```tool_call\n{\"tool\": \"<name>\", \"params\": {…}}\n```\n",
    );
    for tool in tools {
        let _ = write!(
            text,
            "\n## {}\n{}\nparams: {}\n",
            tool.name, tool.description, tool.parameters
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn call(tool: &str, arguments: &str) -> TextCall {
        TextCall {
            id: None,
            tool: tool.into(),
            arguments: arguments.into(),
        }
    }

    #[test]
    fn calls_are_taken_out_of_the_words_around_them() {
        let answer = parse(
            "Let me look.\n```tool_call\n{\"tool\": \"react.read\", \"params\": {\"paths\": [\"a\"]}}\n```\nAnd:\n\
             ```tool_call\n{\n  \"id\": \"x\",\n  \"tool\": \"t\"\n}\n```\n",
        );
        assert_eq!(answer.text, "Let me look.\nAnd:");
        let second = TextCall {
            id: Some("x".into()),
            ..call("t", "{}")
        };
        assert_eq!(answer.calls, [call("react.read", "{\"paths\": [\"a\"]}"), second]);
    }

    #[test]
    fn other_fences_are_words() {
        let text = "```json\n{\"tool\": \"t\"}\n```";
        assert_eq!(
            parse(text),
            TextAnswer {
                text: text.into(),
                calls: vec![]
            }
        );
    }

    #[test]
    fn what_was_meant_as_a_call_never_passes_for_an_answer() {
        let broken = "{\"tool\": \"react.read\", \"params\": {paths: a}}";
        for (text, tool) in [
            (format!("```tool_call\n{broken}\n```"), "react.read"),
            ("```tool_call\n{\"tool\": \"t\", \"params\": {".into(), "t"),
            ("```tool_call\nreact.read(a)\n```".into(), ""),
            (
                "Now:\n[TOOL CALL tc_1].call react.read\ntc:turn_1.tc_1.call\nParams:\n{}".into(),
                "",
            ),
        ] {
            let answer = parse(&text);
            let [call] = &answer.calls[..] else {
                panic!("{text}: {answer:?}")
            };
            assert_eq!(call.tool, tool, "{text}");
            let arguments =
                serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&call.arguments);
            assert!(arguments.is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(tool in "[a-z_.]{1,12}", id in proptest::option::of("[a-z0-9_]{1,8}"), value in ".*") {
            let call = TextCall { id, tool, arguments: serde_json::json!({ "content": value }).to_string() };
            let text = format!("words\n{}\nmore", write(&call));
            prop_assert_eq!(parse(&text), TextAnswer { text: "words\nmore".into(), calls: vec![call] });
        }

        #[test]
        fn no_text_panics(text in "(```tool_call|```|\n|\\{|\"tool\"|[ -~]){0,20}") {
            parse(&text);
        }
    }
}
