//! Colours, and how numbers are shown to people. Colours are left out where the stream takes none.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const NAME: Style = AnsiColor::Cyan.on_default();
pub(crate) const LINK: Style = Style::new().underline();
pub(crate) const TITLE: Style = AnsiColor::Magenta.on_default().bold();

/// A text in a style.
pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints to standard output; a reader that went away ends the program quietly.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    write!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Prints bytes to standard output as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

/// Says what went wrong, in one sentence.
pub(crate) fn error(message: &str) {
    say(&format!("{} {message}", styled(BAD.bold(), "error:")));
}

/// Says something beside the result, on standard error.
pub(crate) fn say(message: &str) {
    // When nobody reads, nobody needs to hear it.
    let _ = writeln!(anstream::stderr().lock(), "{message}");
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

/// The first line of a text, cut to so many characters.
pub(crate) fn gist(text: &str, max_chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A file that a terminal opens when its name is clicked.
pub(crate) fn link(path: &Path, text: &str) -> String {
    format!(
        "\u{1b}]8;;file://{}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\",
        path.display()
    )
}

/// Whether an address may be opened by a click; nothing in it can end the sequence that carries it.
pub(crate) fn is_web_address(address: &str) -> bool {
    let is_web = ["https://", "http://", "mailto:"]
        .iter()
        .any(|scheme| address.starts_with(scheme));
    is_web && !address.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// A web address that a terminal opens when the text is clicked.
pub(crate) fn web_link(address: &str, text: &str) -> String {
    format!("{LINK}\u{1b}]8;;{address}\u{1b}\\{text}\u{1b}]8;;\u{1b}\\{LINK:#}")
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
}
