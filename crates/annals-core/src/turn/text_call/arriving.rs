//! A text with calls in it, read while it arrives: which words people may see, and the parameters of calls as they come.
//!
//! A line is held back only as long as it may still become the opening of a call. Ephemeral, as all that is shown before
//! an answer is whole: [`parse`](super::parse) decides what the text was.

use super::{CLOSES, OPENS, SHOWN, named};

/// The head of a call is its text up to the parameters. One that is longer than this names no tool in time.
const HEAD_MAX_BYTES: usize = 2_000;

/// What became certain with a piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Words that are no part of a call.
    Words(String),
    /// A call whose tool is known and whose parameters begin to come.
    CallStarted {
        /// Which call of the text, from 0.
        index: usize,
        /// The tool it names.
        tool: String,
    },
    /// More of the parameters of that call, as JSON text.
    Arguments {
        /// Which call.
        index: usize,
        /// What is new.
        json: String,
    },
}

/// A text that is arriving.
#[derive(Debug, Default)]
pub struct Arriving {
    /// The beginning of a line that may still be a mark.
    held: String,
    /// Whether the current line is known to be no mark.
    is_plain: bool,
    place: Place,
    /// Calls that were opened.
    calls: usize,
    out: Vec<Arrived>,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Words,
    /// In a call: its head, until the parameters begin.
    Head(String),
    Arguments,
    /// A copy of the form in which past calls are shown; [`parse`](super::parse) refuses it.
    Imitation,
}

impl Arriving {
    /// What this piece makes certain.
    pub fn push(&mut self, piece: &str) -> Vec<Arrived> {
        for c in piece.chars() {
            self.take(c);
        }
        std::mem::take(&mut self.out)
    }

    /// What was held back and turned out to be words. The text has ended.
    pub fn finish(&mut self) -> Vec<Arrived> {
        let held = std::mem::take(&mut self.held);
        if matches!(self.place, Place::Words) && held.trim() != OPENS {
            self.forward(&held);
        }
        std::mem::take(&mut self.out)
    }

    fn take(&mut self, c: char) {
        if self.is_plain {
            self.forward(c.encode_utf8(&mut [0; 4]));
            self.is_plain = c != '\n';
            return;
        }
        self.held.push(c);
        if c == '\n' {
            self.end_line();
        } else if !self.may_be_mark() {
            self.is_plain = true;
            let held = std::mem::take(&mut self.held);
            self.forward(&held);
        } else if matches!(self.place, Place::Words) && self.held == SHOWN && self.calls == 0 {
            self.place = Place::Imitation;
        }
    }

    /// A whole line that was held back.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.held);
        match (&self.place, line.trim()) {
            (Place::Words, OPENS) => {
                self.place = Place::Head(String::new());
                self.calls += 1;
            }
            (Place::Head(_) | Place::Arguments, CLOSES) => self.place = Place::Words,
            _ => self.forward(&line),
        }
    }

    /// Whether more of the line may make it the mark that counts here.
    fn may_be_mark(&self) -> bool {
        let mark = match self.place {
            Place::Words => OPENS,
            Place::Head(_) | Place::Arguments => CLOSES,
            Place::Imitation => return false,
        };
        let is_copy = matches!(self.place, Place::Words) && SHOWN.starts_with(self.held.as_str());
        let line = self.held.trim_start();
        let is_whole = line.strip_prefix(mark).is_some_and(|rest| rest.trim().is_empty());
        is_copy || is_whole || mark.starts_with(line)
    }

    /// Text that is certain to belong to where it stands.
    fn forward(&mut self, text: &str) {
        match &mut self.place {
            Place::Imitation => {}
            Place::Words => match self.out.last_mut() {
                Some(Arrived::Words(words)) => words.push_str(text),
                _ if text.is_empty() => {}
                _ => self.out.push(Arrived::Words(text.to_owned())),
            },
            Place::Arguments => self.arguments(text.to_owned()),
            Place::Head(head) => {
                head.push_str(text);
                let begun = (head.len() <= HEAD_MAX_BYTES).then(|| begun(head)).flatten();
                if let Some((tool, json)) = begun {
                    let index = self.index();
                    self.out.push(Arrived::CallStarted { index, tool });
                    self.place = Place::Arguments;
                    self.arguments(json);
                }
            }
        }
    }

    fn index(&self) -> usize {
        self.calls.saturating_sub(1)
    }

    fn arguments(&mut self, text: String) {
        match self.out.last_mut() {
            Some(Arrived::Arguments { json, .. }) => json.push_str(&text),
            _ if text.is_empty() => {}
            _ => {
                let index = self.index();
                self.out.push(Arrived::Arguments { index, json: text });
            }
        }
    }
}

/// The tool of a call and the beginning of its parameters, once both have come.
fn begun(head: &str) -> Option<(String, String)> {
    let (before, after) = ["\"params\"", "\"arguments\""]
        .iter()
        .find_map(|key| head.split_once(key))?;
    let json = after.trim_start().strip_prefix(':')?;
    let tool = named(before, "tool").filter(|tool| !tool.is_empty())?;
    Some((tool.to_owned(), json.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::turn::text_call::parse;

    /// Words, and per call its tool and parameters, however the text is cut.
    fn read(text: &str, piece_chars: usize) -> (String, Vec<(String, String)>) {
        let mut arriving = Arriving::default();
        let chars: Vec<char> = text.chars().collect();
        let mut all = Vec::new();
        for piece in chars.chunks(piece_chars) {
            all.extend(arriving.push(&piece.iter().collect::<String>()));
        }
        all.extend(arriving.finish());
        let mut words = String::new();
        let mut calls: Vec<(String, String)> = Vec::new();
        for arrived in all {
            match arrived {
                Arrived::Words(more) => words.push_str(&more),
                Arrived::CallStarted { tool, .. } => calls.push((tool, String::new())),
                Arrived::Arguments { json, .. } => calls.last_mut().unwrap().1.push_str(&json),
            }
        }
        (words, calls)
    }

    const TEXT: &str = "Let me write.\n\n  ```tool_call \n{\"id\": \"a\", \"tool\": \"react.write\",\n \"params\": {\"content\": \"x\"}}\n```\n\
                        ```json\n{\"tool\": 1}\n```\nDone: ```tool_call";

    #[test]
    fn no_piece_of_a_call_is_among_the_words_however_the_text_is_cut() {
        for piece in 1..40 {
            let (words, calls) = read(TEXT, piece);
            assert_eq!(
                words, "Let me write.\n\n```json\n{\"tool\": 1}\n```\nDone: ```tool_call",
                "in pieces of {piece}"
            );
            assert_eq!(
                calls,
                [("react.write".to_owned(), " {\"content\": \"x\"}}\n".to_owned())]
            );
        }
    }

    #[test]
    fn words_are_not_held_back_longer_than_they_may_be_a_mark() {
        let mut arriving = Arriving::default();
        assert_eq!(arriving.push("Hel"), [Arrived::Words("Hel".into())]);
        assert_eq!(arriving.push("lo\n``"), [Arrived::Words("lo\n".into())]);
        assert_eq!(arriving.push("`rust\n"), [Arrived::Words("```rust\n".into())]);
        assert_eq!(arriving.push("[TOOL"), []);
        assert_eq!(arriving.push(" box]"), [Arrived::Words("[TOOL box]".into())]);
    }

    #[test]
    fn a_copy_of_how_past_calls_are_shown_is_not_shown_again() {
        for piece in 1..12 {
            let (words, calls) = read("Now:\n[TOOL CALL tc_1].call react.read\nParams:\n{}", piece);
            assert_eq!((words.as_str(), calls.len()), ("Now:\n", 0));
        }
    }

    #[test]
    fn an_unfinished_opening_is_words_and_an_unfinished_call_is_none() {
        assert_eq!(read("a\n```tool", 1).0, "a\n```tool");
        assert_eq!(read("a\n```tool_call", 1).0, "a\n");
        assert_eq!(read("a\n```tool_call\n{\"tool\": \"t", 1).0, "a\n");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_is_kept(
            pieces in proptest::collection::vec("```tool_call\n|```\n|```|\n|\\{\"tool\": \"t\", |\"params\": \\{\\}\\}|[ a-z`]{1,4}", 0..24),
            piece in 1_usize..9,
        ) {
            let text: String = pieces.concat();
            let (words, _) = read(&text, piece);
            prop_assert_eq!(words.trim_end(), parse(&text).text);
        }
    }
}
