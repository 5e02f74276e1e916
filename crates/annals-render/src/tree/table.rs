//! Separated values as rows and columns, after RFC 4180: quotes protect separators, line breaks and doubled quotes.

use serde_json::{Value, json};

use crate::limits::MAX_COLUMNS;

pub(super) const ROWS_SHOWN: usize = 1000;
const CELL_MAX_CHARS: usize = 400;

pub(super) fn draw(text: &str, separator: char) -> Value {
    let mut rows = Rows::new(text.trim_start_matches('\u{feff}'), separator);
    let columns = rows.next().unwrap_or_default();
    let mut shown = Vec::new();
    let mut total = 0_usize;
    for row in rows {
        if shown.len() < ROWS_SHOWN {
            shown.push(row);
        }
        total += 1;
    }
    json!({ "columns": columns, "rows": shown, "total": total })
}

struct Rows<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    separator: char,
}

impl<'a> Rows<'a> {
    fn new(text: &'a str, separator: char) -> Self {
        Rows {
            chars: text.chars().peekable(),
            separator,
        }
    }

    /// One value, and whether another follows in its row.
    fn value(&mut self) -> (String, bool) {
        let mut value = CutText::default();
        let mut is_quoted = self.chars.next_if_eq(&'"').is_some();
        while let Some(c) = self.chars.next() {
            match c {
                '"' if is_quoted => match self.chars.next_if_eq(&'"') {
                    Some(quote) => value.push(quote),
                    None => is_quoted = false,
                },
                c if is_quoted => value.push(c),
                c if c == self.separator => return (value.text, true),
                '\r' if self.chars.peek() == Some(&'\n') => {}
                '\n' => return (value.text, false),
                c => value.push(c),
            }
        }
        (value.text, false)
    }
}

impl Iterator for Rows<'_> {
    type Item = Vec<String>;

    fn next(&mut self) -> Option<Vec<String>> {
        self.chars.peek()?;
        let mut row = Vec::new();
        loop {
            let (value, has_more) = self.value();
            if row.len() < MAX_COLUMNS {
                row.push(value);
            }
            if !has_more {
                return Some(row);
            }
        }
    }
}

/// A value as a cell shows it.
pub(super) fn cut(text: &str) -> String {
    let mut value = CutText::default();
    text.chars().for_each(|c| value.push(c));
    value.text
}

/// A value that says when it was cut.
#[derive(Default)]
struct CutText {
    text: String,
    chars: usize,
}

impl CutText {
    fn push(&mut self, c: char) {
        self.chars += 1;
        match self.chars.cmp(&CELL_MAX_CHARS) {
            std::cmp::Ordering::Less => self.text.push(c),
            std::cmp::Ordering::Equal => self.text.push('…'),
            std::cmp::Ordering::Greater => {}
        }
    }
}
