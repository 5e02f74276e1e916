//! The protocol with `guest.sh`, the part of Annals inside a sandbox.
//!
//! Every call has an id and happens once, however often it is sent, so a lost answer is asked for again without fear.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// The script that is put into every sandbox.
pub(crate) const SCRIPT: &str = include_str!("guest.sh");

/// A command line longer than this goes as a file: one argument of a program has at most 128 KiB.
const LINE_MAX_BYTES: usize = 60 << 10;

/// One call of the script.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: String,
    verb: &'static str,
    arguments: Vec<String>,
}

/// A call as it is sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) command: String,
    /// Content of `runs/ID.args`, if the arguments do not fit into the command line.
    pub(crate) arguments_file: Option<String>,
}

impl Call {
    pub(crate) fn new<S: Into<String>>(
        id: String,
        verb: &'static str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        Self {
            id,
            verb,
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// Asks for the end of the call with this id.
    pub(crate) fn end(id: &str) -> Self {
        Self::new(id.to_owned(), "end", [""; 0])
    }

    pub(crate) fn sent(&self, base: &str) -> Sent {
        let script = quoted(&format!("{base}/guest.sh"));
        let (verb, id) = (self.verb, &self.id);
        let arguments = self.arguments.iter().fold(String::new(), |mut all, argument| {
            all.push(' ');
            all.push_str(&quoted(argument));
            all
        });
        if arguments.len() <= LINE_MAX_BYTES {
            return Sent {
                command: format!("exec sh {script} {verb} {id}{arguments}"),
                arguments_file: None,
            };
        }
        Sent {
            command: format!("exec sh {script} @{verb} {id}"),
            arguments_file: Some(format!("set --{arguments}\n")),
        }
    }
}

/// One word for a shell.
fn quoted(text: &str) -> String {
    let mut word = String::with_capacity(text.len() + 2);
    let _ = write!(word, "'{}'", text.replace('\'', r"'\''"));
    word
}

/// How a call ended, as its line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) kind: Kind,
    /// Exit code, for the kinds that have one.
    pub(crate) number: i32,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
}

/// What a call wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output {
    Here(Vec<u8>),
    /// In a file of the sandbox, of this size.
    There(u64),
}

impl Output {
    pub(crate) fn size_bytes(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::There(size) => *size,
        }
    }

    fn read(size: &str, text: &str) -> Option<Self> {
        let size: u64 = size.parse().ok()?;
        match text.strip_prefix('=') {
            Some(text) => {
                let bytes = BASE64.decode(text).ok()?;
                (bytes.len() as u64 == size).then_some(Self::Here(bytes))
            }
            None => (text == "-").then_some(Self::There(size)),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It ran to its end.
    Exit,
    /// It was ended from outside, or wrote more than it may.
    Ended,
    /// Its process vanished without a word.
    Lost,
    NoProgram,
    NoDirectory,
    NoFile,
    NoWorkspace,
    Outside,
    Directory,
    NotDirectory,
    Special,
    Large,
    Damaged,
    Failed,
}

impl Kind {
    const NAMES: [(&'static str, Self); 14] = [
        ("exit", Self::Exit),
        ("ended", Self::Ended),
        ("lost", Self::Lost),
        ("no_program", Self::NoProgram),
        ("no_directory", Self::NoDirectory),
        ("no_file", Self::NoFile),
        ("no_workspace", Self::NoWorkspace),
        ("outside", Self::Outside),
        ("directory", Self::Directory),
        ("not_directory", Self::NotDirectory),
        ("special", Self::Special),
        ("large", Self::Large),
        ("damaged", Self::Damaged),
        ("failed", Self::Failed),
    ];
}

impl Report {
    /// The report of the call `id`, if the line is one.
    pub(crate) fn read(line: &str, id: &str) -> Option<Self> {
        let mut words = line.trim_end().split(' ');
        if words.next()? != "annals" || words.next()? != id {
            return None;
        }
        let kind = words.next()?;
        let (_, kind) = Kind::NAMES.into_iter().find(|(name, _)| *name == kind)?;
        let number = words.next()?.parse().ok()?;
        let (out_bytes, err_bytes) = (words.next()?, words.next()?);
        Some(Self {
            kind,
            number,
            stdout: Output::read(out_bytes, words.next()?)?,
            stderr: Output::read(err_bytes, words.next()?)?,
        })
    }
}

/// Records of a listing: each begins with the call's id, so that a line break in a file's name ends none.
pub(crate) fn records<'t>(text: &'t str, id: &str, fields: usize) -> Vec<Vec<&'t str>> {
    let mark = format!("{id}|");
    let mut records = Vec::new();
    for (at, part) in text.split(&mark).enumerate() {
        // What stands before the first mark belongs to no record.
        if at == 0 {
            continue;
        }
        let part = part.strip_suffix('\n').unwrap_or(part);
        let record: Vec<&str> = part.splitn(fields, '|').collect();
        if record.len() == fields {
            records.push(record);
        }
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_for_the_shell_and_long_ones_go_as_a_file() {
        let call = Call::new("c1".into(), "run", ["it's", "$HOME", ""]);
        assert_eq!(
            call.sent("/tmp/annals").command,
            r"exec sh '/tmp/annals/guest.sh' run c1 'it'\''s' '$HOME' ''"
        );
        let long = Call::new("c2".into(), "run", ["x".repeat(LINE_MAX_BYTES)]);
        let sent = long.sent("/b");
        assert_eq!(sent.command, "exec sh '/b/guest.sh' @run c2");
        assert!(sent.arguments_file.unwrap().starts_with("set -- 'xxx"));
    }

    #[test]
    fn a_report_is_read_whole_or_not_at_all() {
        let report = Report::read("annals c1 exit 7 3 0 =aGkK =", "c1").unwrap();
        assert_eq!((report.kind, report.number), (Kind::Exit, 7));
        assert_eq!(report.stdout, Output::Here(b"hi\n".to_vec()));
        let large = Report::read("annals c1 ended 143 99999 0 - =", "c1").unwrap();
        assert_eq!(large.stdout, Output::There(99_999));
        for wrong in [
            "",
            "hello",
            "annals c2 exit 0 0 0 = =",
            "annals c1 exit 0 0 0 =",
            "annals c1 exit 0 4 0 =aGkK =",
            "annals c1 what 0 0 0 = =",
            "annals c1 exit x 0 0 = =",
        ] {
            assert_eq!(Report::read(wrong, "c1"), None, "{wrong}");
        }
    }

    #[test]
    fn a_line_break_in_a_name_does_not_end_a_record() {
        let text = "c1|5|81a4|./a\nb|c\nc1|6|81a4|./d\n";
        assert_eq!(
            records(text, "c1", 3),
            [["5", "81a4", "./a\nb|c"], ["6", "81a4", "./d"]]
        );
    }
}
