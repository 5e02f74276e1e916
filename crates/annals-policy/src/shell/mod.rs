//! Shell command lines, read by the shell's grammar: which programs a line runs, and whether that is all it does.
//!
//! Two questions are asked of a line, and they err on opposite sides. *May an allow rule speak for it?* Only when the line
//! is [plain](Line::is_plain): simple commands of literal words, joined by operators. *May a deny or ask rule apply?* For
//! that, [`Line::commands`] has every simple command that can be found anywhere in it, in substitutions, compound commands,
//! here-documents for a shell and behind wrappers such as `sudo`, rather one too many than one too few.

mod read;
mod wrapper;

use read::Reader;
pub(crate) use wrapper::base_name;

/// How deep substitutions and wrappers are followed.
const DEPTH_MAX: u32 = 16;

/// A command line, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Every simple command, in the order of appearance.
    pub commands: Vec<Simple>,
    /// What no allow rule can speak for, if the line has any of it.
    pub beyond: Option<Beyond>,
    /// Whether some program that it runs cannot be told from the text.
    pub is_computed: bool,
}

/// What goes beyond simple commands of literal words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Beyond {
    /// `$(…)`, backquotes, `<(…)`.
    Substitution,
    /// `$name`, `${…}`, `$((…))`, `$'…'`.
    Expansion,
    /// Output or input from anywhere but `/dev/null` or another descriptor; here-documents.
    Redirection,
    /// `NAME=value` before a command.
    Assignment,
    /// `if`, `for`, `{ … }`, `( … )`, functions, `!`.
    Compound,
    /// A quote that does not end, an operator without operand, a control character.
    Malformed,
}

impl Beyond {
    /// As people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Beyond::Substitution => "a command substitution",
            Beyond::Expansion => "an expansion",
            Beyond::Redirection => "a redirection",
            Beyond::Assignment => "an assignment before a command",
            Beyond::Compound => "a compound command",
            Beyond::Malformed => "something that cannot be read",
        }
    }
}

/// One simple command: the program and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simple {
    /// The words, without quotes.
    pub words: Vec<Word>,
    /// Whether it was found behind a wrapper such as `sudo`.
    pub is_wrapped: bool,
}

/// One word of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Its text without quotes; what the shell would put in place of an expansion is not there.
    pub text: String,
    /// Whether the program gets exactly this text: nothing in it is expanded.
    pub is_literal: bool,
}

impl Word {
    /// A word that stands for itself.
    pub fn literal(text: impl Into<String>) -> Self {
        Word {
            text: text.into(),
            is_literal: true,
        }
    }
}

impl Line {
    /// Reads a line or script for a shell.
    pub fn parse(text: &str) -> Self {
        Self::parse_at(text, 0)
    }

    /// A command that no shell reads: these words, as they are.
    pub fn argv<T: Into<String>>(words: impl IntoIterator<Item = T>) -> Self {
        let words = words.into_iter().map(Word::literal).collect();
        let command = Simple {
            words,
            is_wrapped: false,
        };
        let mut line = Line {
            commands: vec![command],
            ..Line::default()
        };
        line.unwrap_wrappers(0);
        line
    }

    /// Whether all it does is to run its commands, each with exactly the words shown or with what patterns of file names
    /// make of them.
    pub fn is_plain(&self) -> bool {
        self.beyond.is_none()
    }

    fn parse_at(text: &str, depth: u32) -> Self {
        let mut line = Reader::new(text, depth).line();
        line.unwrap_wrappers(depth);
        line
    }

    /// Adds the commands that wrappers among its commands run.
    fn unwrap_wrappers(&mut self, depth: u32) {
        let mut inner = Vec::new();
        for command in &self.commands {
            if command.words.first().is_some_and(|name| !name.is_literal) {
                self.is_computed = true;
            }
            let found = wrapper::look_through(command, depth);
            self.is_computed |= found.is_computed;
            inner.extend(found.commands);
        }
        self.commands.extend(inner);
    }

    fn note(&mut self, beyond: Beyond) {
        self.beyond.get_or_insert(beyond);
        self.is_computed |= beyond == Beyond::Malformed;
    }

    /// Takes in what was found inside: its commands count, whatever surrounds them is beyond.
    fn absorb(&mut self, inner: Line, beyond: Beyond) {
        self.note(beyond);
        self.is_computed |= inner.is_computed;
        self.commands.extend(inner.commands);
    }
}

#[cfg(test)]
mod tests;
