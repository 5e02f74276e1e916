//! Reading a tool call while it is still arriving, so that a document is seen as it is written.
//!
//! Which parameter is a document a tool declares ([`BodyParam`]). Where it has the parameters `path` and `channel`, its
//! text flows as soon as both are known; that is why such tools want them first. What is shown here is ephemeral: the call
//! itself is parsed whole, later, elsewhere.

use std::collections::HashMap;

use annals_tools::{BodyParam, ToolTable};

use crate::listen::DeltaChannel;

/// The calls of one answer that are being watched.
pub(crate) struct WriteWatch<'t> {
    tools: &'t ToolTable,
    calls: HashMap<usize, Arriving>,
}

/// A piece of a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) channel: DeltaChannel,
    pub(crate) text: String,
    pub(crate) path: Option<String>,
}

impl<'t> WriteWatch<'t> {
    pub(crate) fn new(tools: &'t ToolTable) -> Self {
        WriteWatch {
            tools,
            calls: HashMap::new(),
        }
    }

    /// The answer so far is void.
    pub(crate) fn restart(&mut self) {
        self.calls.clear();
    }

    pub(crate) fn started(&mut self, index: usize, tool: &str) {
        let Some(spec) = self.tools.get_wire(tool).map(|tool| tool.spec()) else {
            return;
        };
        if let Some(BodyParam::Content(body) | BodyParam::Streamed(body)) = spec.body() {
            let arriving = Arriving {
                body,
                wants_channel: spec.has_parameter("channel"),
                wants_path: spec.has_parameter("path"),
                ..Arriving::default()
            };
            self.calls.insert(index, arriving);
        }
    }

    /// What became visible with this piece of the arguments.
    pub(crate) fn arrived(&mut self, index: usize, json: &str) -> Option<Seen> {
        let call = self.calls.get_mut(&index)?;
        json.chars().for_each(|c| call.scan(c));
        call.take()
    }
}

/// A JSON object read character by character, as far as its top-level strings go.
#[derive(Default)]
struct Arriving {
    /// The parameter that is a document.
    body: &'static str,
    wants_channel: bool,
    wants_path: bool,
    state: State,
    depth: u32,
    key: String,
    text: String,
    /// Finished string fields.
    fields: HashMap<String, String>,
    /// New text of the document since it was last taken.
    content: String,
    surrogate: Option<u16>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    BeforeKey,
    Key,
    BeforeValue,
    Text,
    Escape,
    Unicode(u8, u16),
    /// A value that is not a string, or lies deeper: skipped.
    Other,
    OtherText,
    OtherEscape,
}

impl Arriving {
    /// The new text, once it is known where it belongs.
    fn take(&mut self) -> Option<Seen> {
        let channel = match (self.wants_channel, self.fields.get("channel").map(String::as_str)) {
            (false, _) | (true, Some("canvas")) => DeltaChannel::Canvas,
            (true, Some("timeline_text")) => DeltaChannel::TimelineText,
            (true, _) => return None,
        };
        let path = self.fields.get("path").cloned();
        if (self.wants_path && path.is_none()) || self.content.is_empty() {
            return None;
        }
        Some(Seen {
            channel,
            text: std::mem::take(&mut self.content),
            path,
        })
    }

    fn scan(&mut self, c: char) {
        self.state = match (self.state, c) {
            (State::BeforeKey, '"') => {
                self.key.clear();
                State::Key
            }
            (State::BeforeKey, _) => State::BeforeKey,
            (State::Key, '"') => State::BeforeValue,
            (State::Key, c) => {
                self.key.push(c);
                State::Key
            }
            (State::BeforeValue, '"') => {
                self.text.clear();
                State::Text
            }
            (State::BeforeValue, c) if c == ':' || c.is_whitespace() => State::BeforeValue,
            (State::BeforeValue, c) => {
                self.depth = u32::from(matches!(c, '{' | '['));
                State::Other
            }
            (State::Text, '"') => {
                self.fields
                    .insert(self.key.clone(), std::mem::take(&mut self.text));
                State::BeforeKey
            }
            (State::Text, '\\') => State::Escape,
            (State::Text, c) => self.put(c),
            (State::Escape, 'u') => State::Unicode(0, 0),
            (State::Escape, c) => self.put(unescaped(c)),
            (State::Unicode(digits, value), c) => self.unicode(digits, value, c),
            (State::Other, '"') => State::OtherText,
            (State::Other, c) => self.skip(c),
            (State::OtherText, '"') => State::Other,
            (State::OtherText, '\\') => State::OtherEscape,
            (State::OtherText | State::OtherEscape, _) => State::OtherText,
        };
    }

    fn put(&mut self, c: char) -> State {
        if self.key == self.body {
            self.content.push(c);
        } else {
            self.text.push(c);
        }
        State::Text
    }

    fn unicode(&mut self, digits: u8, value: u16, c: char) -> State {
        let value = value << 4 | c.to_digit(16).unwrap_or(0) as u16;
        if digits < 3 {
            return State::Unicode(digits + 1, value);
        }
        match (self.surrogate.take(), value) {
            (_, 0xd800..=0xdbff) => {
                self.surrogate = Some(value);
                State::Text
            }
            (Some(high), low) => {
                let pair = char::decode_utf16([high, low]).next().and_then(Result::ok);
                self.put(pair.unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            (None, value) => self.put(char::from_u32(value.into()).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }

    fn skip(&mut self, c: char) -> State {
        match c {
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth = self.depth.saturating_sub(1),
            ',' if self.depth == 0 => return State::BeforeKey,
            _ => {}
        }
        State::Other
    }
}

fn unescaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use annals_tools::{DynamicTool, ToolSpec};
    use serde_json::json;

    use super::*;

    fn table() -> ToolTable {
        let schema =
            json!({"type": "object", "properties": {"to": {"type": "string"}, "letter": {"type": "string"}}});
        let spec = ToolSpec::builder("write_letter")
            .parameters(schema)
            .body(BodyParam::Streamed("letter"));
        let own = DynamicTool::with_spec(spec.build().unwrap(), |_, _| async { Ok(json!(null)) });
        let tools = ToolTable::builder().add_all(annals_tools::react::all());
        tools.add(own).build().unwrap()
    }

    fn watch(tool: &str, json: &str, piece: usize) -> (String, Option<String>) {
        let table = table();
        let mut watch = WriteWatch::new(&table);
        watch.started(0, tool);
        let chars: Vec<char> = json.chars().collect();
        let mut text = String::new();
        let mut path = None;
        for piece in chars.chunks(piece) {
            if let Some(seen) = watch.arrived(0, &piece.iter().collect::<String>()) {
                text.push_str(&seen.text);
                path = seen.path;
            }
        }
        (text, path)
    }

    #[test]
    fn content_arrives_whole_however_it_is_cut() {
        let content = "# Über \"alles\"\n\t\\ 😀 \u{1}";
        let json = json!({
            "path": "a.md", "channel": "canvas", "extra": {"content": ["no"]}, "n": 1.5, "content": content,
        });
        let ascii = r#"{"path":"a.md","channel":"canvas","content":"\ud83d\ude00\u00fc"}"#;
        for piece in 1..12 {
            assert_eq!(
                watch("react.write", &json.to_string(), piece),
                (content.to_owned(), Some("a.md".to_owned()))
            );
            assert_eq!(watch("react.write", ascii, piece).0, "😀ü");
        }
    }

    #[test]
    fn every_tool_that_declares_a_document_streams_it() {
        let patch = r#"{"path":"a.md","channel":"canvas","patch":"@@ -1 +1 @@","kind":"file"}"#;
        assert_eq!(
            watch("react.patch", patch, 4),
            ("@@ -1 +1 @@".to_owned(), Some("a.md".to_owned()))
        );
        assert_eq!(
            watch("write_letter", r#"{"to":"Ann","letter":"Dear Ann"}"#, 4),
            ("Dear Ann".to_owned(), None)
        );
        assert_eq!(watch("react.read", r#"{"paths":["content"]}"#, 4).0, "");
        assert_eq!(watch("no_such_tool", r#"{"content":"x"}"#, 4).0, "");
    }

    #[test]
    fn nothing_flows_before_path_and_channel_are_known() {
        assert_eq!(watch("react.write", r#"{"content":"x","kind":"file"}"#, 3).0, "");
    }

    #[test]
    fn internal_notes_are_not_shown() {
        let internal = r#"{"path":"a","channel":"internal","content":"x"}"#;
        assert_eq!(watch("react.write", internal, 3).0, "");
    }
}
