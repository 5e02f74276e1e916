//! A text as lines that keep their own ends.

/// One line: what it says, and how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// Without its end. May itself end in `\r` when the end is `\n`.
    pub(super) text: &'a str,
    /// Whether `\n` follows. Only the last line may lack it.
    pub(super) ended: bool,
}

impl<'a> Line<'a> {
    /// The text without the `\r` of a `\r\n`.
    pub(super) fn bare(&self) -> &'a str {
        self.text.strip_suffix('\r').unwrap_or(self.text)
    }
}

/// The lines of a text; joined with their ends they are the text again.
pub(super) fn split(text: &str) -> Vec<Line<'_>> {
    text.split_inclusive('\n')
        .map(|piece| match piece.strip_suffix('\n') {
            Some(text) => Line { text, ended: true },
            None => Line {
                text: piece,
                ended: false,
            },
        })
        .collect()
}
