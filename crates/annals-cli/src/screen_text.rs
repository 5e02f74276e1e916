//! Text that may be sent to a terminal, and the only way to make it.
//!
//! What a model, a tool, a page, a file or an error says is foreign. Foreign text enters by [`From`], which takes secrets
//! out of it and shows the characters that steer a terminal, reorder a line or hide in it instead of sending them. [`ScreenText`] has no
//! `Display` on purpose: it cannot get into a format string, so whatever was formatted is foreign again. Start at
//! [`shown!`](crate::shown).

use std::fmt::Display;
use std::sync::{Arc, LazyLock, OnceLock};

use annals::core::redact::{RedactedStream, Redactor, Secrets};
use anstyle::Style;

/// Text that may be sent to a terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenText(String);

/// Pieces put in place of each `{}` of a text of ours.
#[macro_export]
macro_rules! shown {
    ($form:literal $(, $piece:expr)* $(,)?) => {
        $crate::screen_text::ScreenText::fill($form, &[$($crate::screen_text::ScreenText::from($piece)),*])
    };
}

impl<T: Display> From<T> for ScreenText {
    fn from(foreign: T) -> Self {
        ScreenText(escaped(&redactor().redact(&foreign.to_string())))
    }
}

impl From<&ScreenText> for ScreenText {
    fn from(text: &ScreenText) -> Self {
        text.clone()
    }
}

impl FromIterator<ScreenText> for ScreenText {
    fn from_iter<I: IntoIterator<Item = ScreenText>>(pieces: I) -> Self {
        ScreenText(pieces.into_iter().map(|piece| piece.0).collect())
    }
}

impl ScreenText {
    /// What the macro [`shown!`](crate::shown) does. The form is a literal of the program's own.
    pub(crate) fn fill(form: &'static str, pieces: &[ScreenText]) -> Self {
        let mut out =
            String::with_capacity(form.len() + pieces.iter().map(|piece| piece.0.len()).sum::<usize>());
        let mut parts = form.split("{}");
        out.push_str(parts.next().unwrap_or_default());
        let mut pieces = pieces.iter();
        for part in parts {
            out.push_str(pieces.next().map_or("", |piece| &piece.0));
            out.push_str(part);
        }
        debug_assert!(pieces.next().is_none(), "`{form}` has fewer places than pieces");
        ScreenText(out)
    }

    /// In a style, which ends with it.
    pub(crate) fn styled(self, style: Style) -> Self {
        ScreenText(format!("{style}{}{style:#}", self.0))
    }

    /// Where a style begins, for text that is still to come.
    pub(crate) fn begin(style: Style) -> Self {
        ScreenText(style.render().to_string())
    }

    /// Where every style ends.
    pub(crate) fn reset() -> Self {
        ScreenText(anstyle::Reset.render().to_string())
    }

    /// A text that a terminal opens this address for. An address that could end the sequence it travels in is left out.
    pub(crate) fn linked(self, address: &str) -> Self {
        let is_plain = address.bytes().all(|byte| (0x21..0x7f).contains(&byte));
        match is_plain {
            true => ScreenText(format!("\u{1b}]8;;{address}\u{1b}\\{}\u{1b}]8;;\u{1b}\\", self.0)),
            false => self,
        }
    }

    /// With more behind it.
    pub(crate) fn push(&mut self, more: impl Into<ScreenText>) {
        self.0.push_str(&more.into().0);
    }

    /// With one foreign character behind it.
    pub(crate) fn push_char(&mut self, c: char) {
        push_escaped(&mut self.0, c);
    }

    /// With every line but the first behind this margin.
    pub(crate) fn with_margin(self, margin: &ScreenText) -> Self {
        ScreenText(self.0.replace('\n', &format!("\n{}", margin.0)))
    }

    /// Without white space at its end.
    pub(crate) fn trim_end(mut self) -> Self {
        self.0.truncate(self.0.trim_end().len());
        self
    }

    /// Whether there is nothing to see.
    pub(crate) fn is_blank(&self) -> bool {
        anstream::adapter::strip_str(&self.0).to_string().is_empty()
    }

    /// What is sent.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Foreign bytes that come in pieces: what a boundary cuts in two, a character or a secret, is put together again first.
pub(crate) struct ScreenStream {
    /// The beginning of a character.
    begun: Vec<u8>,
    redacted: RedactedStream,
    /// Whether the last character was a carriage return, which the next one may make part of a line end.
    has_returned: bool,
}

impl Default for ScreenStream {
    fn default() -> Self {
        ScreenStream {
            begun: Vec::new(),
            redacted: redactor().stream(),
            has_returned: false,
        }
    }
}

impl ScreenStream {
    /// What may be shown after one more piece.
    pub(crate) fn push(&mut self, piece: &[u8]) -> ScreenText {
        let mut bytes = std::mem::take(&mut self.begun);
        bytes.extend_from_slice(piece);
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let is_begun = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_begun && chunks.peek().is_none() {
                self.begun = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        let text = self.redacted.push(&text);
        self.show(text)
    }

    /// What was held back.
    pub(crate) fn finish(mut self) -> ScreenText {
        let mut text = match self.begun.is_empty() {
            true => String::new(),
            false => self.redacted.push("\u{fffd}"),
        };
        text.push_str(&self.redacted.finish());
        let mut shown = self.show(text);
        if self.has_returned {
            shown.push_char('\r');
        }
        shown
    }

    fn show(&mut self, mut text: String) -> ScreenText {
        if text.is_empty() {
            return ScreenText::default();
        }
        if std::mem::take(&mut self.has_returned) {
            text.insert(0, '\r');
        }
        if text.ends_with('\r') {
            text.pop();
            self.has_returned = true;
        }
        ScreenText(escaped(&text))
    }
}

static CONFIGURED: OnceLock<Arc<Redactor>> = OnceLock::new();

/// From now on these secrets are not shown.
pub(crate) fn hide(secrets: &Secrets) {
    // A process has one configuration.
    let _ = CONFIGURED.set(Arc::new(Redactor::new(secrets)));
}

fn redactor() -> &'static Arc<Redactor> {
    static UNCONFIGURED: LazyLock<Arc<Redactor>> = LazyLock::new(Arc::default);
    CONFIGURED.get().unwrap_or(&UNCONFIGURED)
}

/// A foreign text with what must not reach a terminal made visible.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        // A line end of other systems is a line end.
        if c == '\r' && rest.peek() == Some(&'\n') {
            continue;
        }
        push_escaped(&mut out, c);
    }
    out
}

fn push_escaped(out: &mut String, c: char) {
    match must_be_shown(c) {
        true => out.extend(c.escape_default()),
        false => out.push(c),
    }
}

/// JSON that means the same and steers no terminal.
pub(crate) fn json_for_terminal(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match must_be_shown(c) {
            true => c
                .encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            false => out.push(c),
        }
    }
    out
}

/// Whether a character steers a terminal (C0, C1, DEL), changes the order in which others are read, or hides.
///
/// The joiners that scripts and emoji need, and the marks that give direction to a single sign, are not among them.
pub(crate) fn must_be_shown(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
            | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{180e}' | '\u{200b}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown_and_not_sent() {
        let text = ScreenText::from("a\u{1b}]52;c;eA==\u{7}b\u{9b}2Jc\u{202e}d\u{e0041}e\rf\r\n\tg");
        assert_eq!(
            text.as_str(),
            "a\\u{1b}]52;c;eA==\\u{7}b\\u{9b}2Jc\\u{202e}d\\u{e0041}e\\rf\n\tg"
        );
    }

    #[test]
    fn what_comes_in_pieces_is_shown_as_if_it_came_whole() {
        let key = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ";
        let text = format!("é日👩‍💻 \u{9b}2J\r\na\rb \u{202e} token {key} end\r\n\u{1b}[2J 日");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&[b' ', 0xff, b'x', 0xe6, 0x97]);
        let whole = ScreenText::from(String::from_utf8_lossy(&bytes));
        assert!(!whole.as_str().contains(key), "{whole:?}");
        for length in 1..bytes.len() {
            let mut stream = ScreenStream::default();
            let mut shown: ScreenText = bytes.chunks(length).map(|piece| stream.push(piece)).collect();
            shown.push(stream.finish());
            assert_eq!(shown, whole, "in pieces of {length}");
        }
    }

    #[test]
    fn scripts_and_emoji_stay_as_they_are() {
        let text = "می‌خواهم 👩‍💻 é ✊🏽 日本語 क्‍ष";
        assert_eq!(ScreenText::from(text).as_str(), text);
    }

    #[test]
    fn a_style_of_ours_survives_and_one_in_foreign_text_does_not() {
        let ours = ScreenText::from("\u{1b}[8mhidden").styled(Style::new().bold());
        assert_eq!(
            shown!("<{}>", ours).as_str(),
            "<\u{1b}[1m\\u{1b}[8mhidden\u{1b}[0m>"
        );
    }

    #[test]
    fn an_address_that_could_end_its_sequence_is_no_link() {
        let linked = |address: &str| ScreenText::from("x").linked(address);
        assert!(
            linked("https://a.example/?b=c")
                .as_str()
                .contains("]8;;https://a.example")
        );
        for bad in [
            "https://a\u{7}b",
            "https://a\u{1b}\\b",
            "https://a b",
            "https://a\u{9c}b",
        ] {
            assert_eq!(linked(bad).as_str(), "x", "{bad:?}");
        }
    }

    #[test]
    fn json_for_a_terminal_means_the_same() {
        let value = serde_json::json!({"a": "\u{9b}2J \u{202e} \u{e0041} \u{1b}[0m é"});
        let shown = json_for_terminal(&value.to_string());
        assert!(!shown.chars().any(must_be_shown), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
