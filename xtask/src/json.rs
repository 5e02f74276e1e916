//! As much JSON as the tasks need: values read from a tool's output, and values written to a file.
//!
//! Here instead of a dependency, so that the first `cargo xtask` of a fresh clone starts in seconds. Keys keep their
//! order.

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

use anyhow::{Context as _, bail};

/// A JSON value. Numbers are kept as they were written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// All values of a text, one after the other: one document, or JSON Lines.
    pub(crate) fn parse_all(text: &str) -> anyhow::Result<Vec<Json>> {
        let mut reader = Reader {
            chars: text.chars().peekable(),
        };
        let mut values = Vec::new();
        while reader.peek_token().is_some() {
            values.push(reader.value()?);
        }
        Ok(values)
    }

    /// A text.
    pub(crate) fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    /// The member of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements; none unless it is a list.
    pub(crate) fn elements(&self) -> &[Json] {
        match self {
            Json::List(elements) => elements,
            _ => &[],
        }
    }

    /// The members; none unless it is an object.
    pub(crate) fn members(&self) -> &[(String, Json)] {
        match self {
            Json::Object(members) => members,
            _ => &[],
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Number(digits) => f.write_str(digits),
            Json::Text(text) => quoted(text, f),
            Json::List(elements) => {
                f.write_str("[")?;
                for (at, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (at, (name, value)) in members.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    quoted(name, f)?;
                    write!(f, ": {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\n' => f.write_str("\\n")?,
            c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
            c => write!(f, "{c}")?,
        }
    }
    f.write_str("\"")
}

struct Reader<'t> {
    chars: Peekable<Chars<'t>>,
}

impl Reader<'_> {
    fn peek_token(&mut self) -> Option<char> {
        while self.chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        self.chars.peek().copied()
    }

    fn expect(&mut self, wanted: char) -> anyhow::Result<()> {
        match self.peek_token() {
            Some(found) if found == wanted => {
                self.chars.next();
                Ok(())
            }
            found => bail!("not JSON: `{wanted}` expected, found {found:?}"),
        }
    }

    fn value(&mut self) -> anyhow::Result<Json> {
        match self.peek_token().context("not JSON: the text ends early")? {
            '{' => self.object(),
            '[' => self.list(),
            '"' => Ok(Json::Text(self.string()?)),
            _ => self.word(),
        }
    }

    fn object(&mut self) -> anyhow::Result<Json> {
        self.expect('{')?;
        let mut members = Vec::new();
        while self.peek_token() != Some('}') {
            if !members.is_empty() {
                self.expect(',')?;
            }
            let name = self.string()?;
            self.expect(':')?;
            members.push((name, self.value()?));
        }
        self.expect('}')?;
        Ok(Json::Object(members))
    }

    fn list(&mut self) -> anyhow::Result<Json> {
        self.expect('[')?;
        let mut elements = Vec::new();
        while self.peek_token() != Some(']') {
            if !elements.is_empty() {
                self.expect(',')?;
            }
            elements.push(self.value()?);
        }
        self.expect(']')?;
        Ok(Json::List(elements))
    }

    fn word(&mut self) -> anyhow::Result<Json> {
        let mut word = String::new();
        while let Some(c) = self
            .chars
            .next_if(|c| c.is_ascii_alphanumeric() || "+-.".contains(*c))
        {
            word.push(c);
        }
        match word.as_str() {
            "null" => Ok(Json::Null),
            "true" => Ok(Json::Bool(true)),
            "false" => Ok(Json::Bool(false)),
            _ if word.parse::<f64>().is_ok() => Ok(Json::Number(word)),
            _ => bail!("not JSON: `{word}`"),
        }
    }

    fn string(&mut self) -> anyhow::Result<String> {
        self.expect('"')?;
        let mut units = Vec::new();
        loop {
            let c = self.chars.next().context("not JSON: a text without end")?;
            let c = match c {
                '"' => return String::from_utf16(&units).context("not JSON: half a surrogate pair"),
                '\\' => match self.chars.next().context("not JSON: a text without end")? {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'u' => {
                        let hex: String = self.chars.by_ref().take(4).collect();
                        units.push(
                            u16::from_str_radix(&hex, 16).context("not JSON: `\\u` and no four digits")?,
                        );
                        continue;
                    }
                    other => other,
                },
                c => c,
            };
            units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let text = r#"{"a": [1, -2.5e3, true, null, "x\"\\\ny\u0001ä"], "b": {}, "c": []}"#;
        let values = Json::parse_all(text).unwrap();
        assert_eq!(values[0].to_string(), text);
        assert_eq!(Json::parse_all(&values[0].to_string()).unwrap(), values);
    }

    #[test]
    fn lines_are_several_values_and_escapes_are_read() {
        let values = Json::parse_all("{\"n\":\"\\u00e4\\ud83d\\ude00\"}\n[]\n").unwrap();
        assert_eq!(values[0].get("n").and_then(Json::as_text), Some("ä😀"));
        assert_eq!(values.len(), 2);
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for text in ["{", "[1 2]", "\"a", "{\"a\" 1}", "nope", "\"\\ud800\""] {
            assert!(Json::parse_all(text).is_err(), "{text}");
        }
    }
}
