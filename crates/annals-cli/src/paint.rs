//! Colours, and how numbers are shown to people. Colours are left out where the stream takes none.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;
use crate::screen_text::{ScreenStream, ScreenText, json_for_terminal};
use crate::shown;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
pub(crate) const LINK: Style = Style::new().underline();
pub(crate) const TITLE: Style = AnsiColor::Magenta.on_default().bold();

/// A text in a style.
pub(crate) fn styled(style: Style, text: impl Into<ScreenText>) -> ScreenText {
    text.into().styled(style)
}

/// Prints to standard output; a reader that went away ends the program quietly.
pub(crate) fn print(text: impl Into<ScreenText>) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.into().as_str().as_bytes())?;
    Ok(out.flush()?)
}

/// Content that is printed piece by piece: every byte of it to a file or a pipe, its text for eyes on a terminal.
pub(crate) struct Printed(Option<ScreenStream>);

impl Printed {
    pub(crate) fn new() -> Self {
        Printed(std::io::stdout().is_terminal().then(ScreenStream::default))
    }

    pub(crate) fn piece(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.0 {
            Some(stream) => print(stream.push(bytes)),
            None => print_bytes(bytes),
        }
    }

    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.0.map_or(Ok(()), |stream| print(stream.finish()))
    }
}

/// Prints content that is whole.
pub(crate) fn print_content(bytes: &[u8]) -> Result<(), Failure> {
    let mut printed = Printed::new();
    printed.piece(bytes)?;
    printed.finish()
}

/// Prints lines of JSON, the same values everywhere.
pub(crate) fn print_json(json: &str) -> Result<(), Failure> {
    Ok(write_json(json)?)
}

/// Writes lines of JSON to standard output.
pub(crate) fn write_json(json: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.is_terminal() {
        true => out.write_all(json_for_terminal(json).as_bytes())?,
        false => out.write_all(json.as_bytes())?,
    }
    out.flush()
}

/// Prints bytes of ours as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Says what went wrong, in one sentence.
pub(crate) fn error(message: impl Into<ScreenText>) {
    say(shown!("{} {}", styled(BAD.bold(), "error:"), message.into()));
}

/// Says something beside the result, on standard error.
pub(crate) fn say(message: impl Into<ScreenText>) {
    // When nobody reads, nobody needs to hear it.
    let _ = writeln!(anstream::stderr().lock(), "{}", message.into().as_str());
}

/// A whole number with its thousands set apart.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} KB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// A duration for people.
pub(crate) fn seconds(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        _ => format!("{:.1} s", ms as f64 / 1e3),
    }
}

/// A text on one line, cut to this many characters.
pub(crate) fn gist(text: &str, max_chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A file that a terminal opens when its name is clicked. Terminals resolve no relative path.
pub(crate) fn link(path: &Path, text: impl Display) -> ScreenText {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut address = String::from("file://");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'~' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
                address.push(char::from(*byte));
            }
            other => address.push_str(&format!("%{other:02X}")),
        }
    }
    ScreenText::from(text).linked(&address)
}

/// Whether an address is one that a click may open.
pub(crate) fn is_web_address(address: &str) -> bool {
    let is_web = ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| address.starts_with(scheme));
    is_web && !address.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// A web address that a terminal opens when the text is clicked.
pub(crate) fn web_link(address: &str, text: impl Into<ScreenText>) -> ScreenText {
    text.into().linked(address).styled(LINK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_for_people() {
        assert_eq!(
            ["7", "1,234", "12,345,678"],
            [number(7), number(1_234), number(12_345_678)]
                .each_ref()
                .map(String::as_str)
        );
        assert_eq!(
            (size(999).as_str(), size(1_500).as_str(), size(2_000_000).as_str()),
            ("999 B", "1.5 KB", "2.0 MB")
        );
        assert_eq!(
            (seconds(12).as_str(), seconds(1_240).as_str()),
            ("12 ms", "1.2 s")
        );
    }

    #[test]
    fn a_gist_is_one_line_of_whole_characters() {
        assert_eq!(gist("a\n b  ü", 10), "a b ü");
        assert_eq!(gist("üüüü", 2), "üü…");
    }

    #[test]
    fn a_link_to_a_file_carries_any_name() {
        let link = link(Path::new("/a b/ü\u{1b}"), "x");
        assert!(
            link.as_str()
                .starts_with("\u{1b}]8;;file:///a%20b/%C3%BC%1B\u{1b}\\x")
        );
    }

    #[test]
    fn a_link_to_a_file_of_a_relative_home_is_absolute() {
        let link = link(Path::new("folder/a.md"), "x");
        assert!(
            link.as_str().starts_with("\u{1b}]8;;file:///"),
            "{}",
            link.as_str()
        );
        assert!(link.as_str().contains("/folder/a.md\u{1b}"), "{}", link.as_str());
    }
}
