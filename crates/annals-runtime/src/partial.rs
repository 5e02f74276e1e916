//! Reading a tool call while it is still arriving, so that what `react.write` writes is seen as it is written.
//!
//! Content flows as soon as `path` and `channel` are known; that is why the tool wants them first. What is shown here is
//! ephemeral: the call itself is parsed whole, later, elsewhere.

use std::collections::HashMap;

use crate::listen::{Delta, DeltaChannel};

/// Tools whose content is shown while it arrives.
const WATCHED: [&str; 2] = ["react.write", "react.stream"];

/// The calls of one answer that are being watched.
#[derive(Default)]
pub(crate) struct WriteWatch {
    calls: HashMap<usize, Arriving>,
}

impl WriteWatch {
    pub(crate) fn started(&mut self, index: usize, tool: &str) {
        if WATCHED.contains(&tool) {
            self.calls.insert(index, Arriving::default());
        }
    }

    /// What became visible with this piece of the arguments.
    pub(crate) fn arrived(&mut self, index: usize, json: &str) -> Option<Delta> {
        let call = self.calls.get_mut(&index)?;
        json.chars().for_each(|c| call.scan(c));
        let channel = match call.fields.get("channel")?.as_str() {
            "canvas" => DeltaChannel::Canvas,
            "timeline_text" => DeltaChannel::TimelineText,
            _ => return None,
        };
        let path = call.fields.get("path")?.clone();
        let text = std::mem::take(&mut call.content);
        (!text.is_empty()).then_some(Delta {
            channel,
            text,
            path: Some(path),
        })
    }
}

/// A JSON object read character by character, as far as its top-level strings go.
#[derive(Default)]
struct Arriving {
    state: State,
    depth: u32,
    key: String,
    text: String,
    /// Finished string fields.
    fields: HashMap<String, String>,
    /// New text of `content` since it was last taken.
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
        if self.key == "content" {
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
    use super::*;

    fn watch(json: &str, piece: usize) -> (String, Option<String>) {
        let mut watch = WriteWatch::default();
        watch.started(0, "react.write");
        let chars: Vec<char> = json.chars().collect();
        let mut text = String::new();
        let mut path = None;
        for piece in chars.chunks(piece) {
            if let Some(delta) = watch.arrived(0, &piece.iter().collect::<String>()) {
                text.push_str(&delta.text);
                path = delta.path;
            }
        }
        (text, path)
    }

    #[test]
    fn content_arrives_whole_however_it_is_cut() {
        let content = "# Über \"alles\"\n\t\\ 😀 \u{1}";
        let json = serde_json::json!({
            "path": "a.md", "channel": "canvas", "extra": {"content": ["no"]}, "n": 1.5, "content": content,
        });
        let ascii = r#"{"path":"a.md","channel":"canvas","content":"\ud83d\ude00\u00fc"}"#;
        for piece in 1..12 {
            assert_eq!(
                watch(&json.to_string(), piece),
                (content.to_owned(), Some("a.md".to_owned()))
            );
            assert_eq!(watch(ascii, piece).0, "😀ü");
        }
    }

    #[test]
    fn nothing_flows_before_path_and_channel_are_known() {
        assert_eq!(watch(r#"{"content":"x","kind":"file"}"#, 3).0, "");
    }

    #[test]
    fn internal_notes_are_not_shown() {
        assert_eq!(
            watch(r#"{"path":"a","channel":"internal","content":"x"}"#, 3).0,
            ""
        );
    }
}
