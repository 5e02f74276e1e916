//! Secrets: their values by name, and texts without them.
//!
//! A [`Redactor`] replaces the value of every configured secret, and whatever has the shape of a vendor's key, by
//! `[secret:NAME]`. It is pure and linear in the text, and a text that comes in pieces loses the same characters as
//! the whole. Bytes of files are never changed: this is for texts that are written down or shown.

mod blocks;
mod safe_url;
mod shapes;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

pub use safe_url::SafeUrl;

use crate::limits;

/// Secrets by name. Values are never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, Arc<str>>);

/// Why a secret cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The name has other characters, none, or too many.
    #[error("`{0}` is no name for a secret: use 1 to 64 of `A-Z a-z 0-9 _ -`")]
    Name(String),
    /// The value is so short that ordinary text would be replaced.
    #[error(
        "the secret `{0}` has fewer than {min} characters: ordinary text would be taken for it",
        min = limits::SECRET_MIN_CHARS
    )]
    TooShort(String),
    /// The value is part of what stands in its place.
    #[error(
        "the value of the secret `{0}` is part of `[secret:…]`, which stands in its place: choose another"
    )]
    LikeMarker(String),
}

impl Secrets {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more, which replaces one of the same name.
    pub fn insert(&mut self, name: &str, value: &str) -> Result<(), SecretError> {
        let is_name = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if !is_name {
            return Err(SecretError::Name(name.to_owned()));
        }
        if value.chars().count() < limits::SECRET_MIN_CHARS {
            return Err(SecretError::TooShort(name.to_owned()));
        }
        let is_like_marker = self
            .0
            .keys()
            .map(String::as_str)
            .chain([name])
            .any(|name| marker(name).contains(value))
            || shapes::names().any(|name| marker(name).contains(value));
        if is_like_marker {
            return Err(SecretError::LikeMarker(name.to_owned()));
        }
        self.0.insert(name.to_owned(), Arc::from(value));
        Ok(())
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<str>> {
        self.0.get(name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

fn marker(name: &str) -> String {
    format!("[secret:{name}]")
}

/// One way in which a value is written.
struct Spelling {
    text: String,
    marker: Arc<str>,
}

/// Takes secrets out of texts.
pub struct Redactor {
    /// The longest first, so that a value that begins with another one is found whole.
    spellings: Vec<Spelling>,
    begins: Beginnings,
}

/// The first two bytes of everything that is looked for: for each first byte a set of second ones, told apart by their last six
/// bits. What is in none of the sets begins no secret, which is true of most of a text.
struct Beginnings([u64; 256]);

impl Beginnings {
    fn of<'t>(wanted: impl Iterator<Item = &'t str>) -> Self {
        let mut sets = [0; 256];
        for text in wanted {
            if let [first, second, ..] = text.as_bytes() {
                sets[usize::from(*first)] |= 1 << (second & 63);
            }
        }
        Beginnings(sets)
    }

    /// The first place where something may begin. At the end that is said by one byte.
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        let found = bytes
            .windows(2)
            .position(|pair| self.0[usize::from(pair[0])] >> (pair[1] & 63) & 1 == 1);
        found.or_else(|| {
            let last = bytes.len().checked_sub(1)?;
            (self.0[usize::from(bytes[last])] != 0).then_some(last)
        })
    }
}

impl Default for Redactor {
    fn default() -> Self {
        Redactor::new(&Secrets::new())
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

/// Whether more text may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Final,
}

/// What stands at a place in a text.
enum SecretAt {
    /// Nothing secret.
    Nothing,
    /// These bytes from the place on, and what takes their place.
    Secret {
        range: std::ops::Range<usize>,
        marker: Arc<str>,
    },
    /// Cannot be said before more text has come.
    NeedsMore,
}

impl Redactor {
    /// For these secrets, and for everything that has the shape of a vendor's key.
    pub fn new(secrets: &Secrets) -> Self {
        let mut spellings = Vec::new();
        for (name, value) in &secrets.0 {
            let marker: Arc<str> = marker(name).into();
            for text in spellings_of(value) {
                spellings.push(Spelling {
                    text,
                    marker: marker.clone(),
                });
            }
        }
        spellings.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.text.cmp(&b.text)));
        let wanted = spellings.iter().map(|spelling| spelling.text.as_str());
        Redactor {
            begins: Beginnings::of(shapes::beginnings().chain(wanted)),
            spellings,
        }
    }

    /// The text without secrets; the text itself if there are none in it.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = String::new();
        match self.pass(text, None, End::Final, &mut out) {
            0 => Cow::Borrowed(text),
            copied => {
                out.push_str(&text[copied..]);
                Cow::Owned(out)
            }
        }
    }

    /// For a text that comes in pieces.
    pub fn stream(self: &Arc<Self>) -> RedactedStream {
        RedactedStream {
            redactor: self.clone(),
            held: String::new(),
            before: None,
        }
    }

    /// Copies the text to `out` as far as a secret ends or must be waited for, and says how far that is. What is
    /// left after the last secret of a final text is not copied, so that a text without any costs no copy.
    fn pass(&self, text: &str, before: Option<u8>, end: End, out: &mut String) -> usize {
        let bytes = text.as_bytes();
        let (mut at, mut copied) = (0, 0);
        while let Some(next) = self.begins.find(&bytes[at..]) {
            at += next;
            // After a secret stands the end of what took its place.
            let previous = match at.checked_sub(1) {
                Some(_) if at == copied => Some(b']'),
                Some(previous) => Some(bytes[previous]),
                None => before,
            };
            match self.look(text, at, previous, end) {
                SecretAt::Nothing => at += 1,
                SecretAt::Secret { range, marker } => {
                    out.push_str(&text[copied..range.start]);
                    out.push_str(&marker);
                    (at, copied) = (range.end, range.end);
                }
                SecretAt::NeedsMore => {
                    out.push_str(&text[copied..at]);
                    return at;
                }
            }
        }
        if end == End::Open {
            out.push_str(&text[copied..]);
            return text.len();
        }
        copied
    }

    fn look(&self, text: &str, at: usize, previous: Option<u8>, end: End) -> SecretAt {
        let rest = &text.as_bytes()[at..];
        for spelling in &self.spellings {
            let wanted = spelling.text.as_bytes();
            if rest.starts_with(wanted) {
                return SecretAt::Secret {
                    range: at..at + wanted.len(),
                    marker: spelling.marker.clone(),
                };
            }
            if end == End::Open && wanted.starts_with(rest) {
                return SecretAt::NeedsMore;
            }
        }
        shapes::look(text, at, previous, end)
    }
}

/// A value as it may stand in a text: as it is, inside JSON, inside an address, in base64.
fn spellings_of(value: &str) -> Vec<String> {
    let mut spellings = vec![value.to_owned()];
    let json = serde_json::Value::from(value).to_string();
    spellings.push(json[1..json.len() - 1].to_owned());
    let in_url: String = value
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    spellings.push(in_url);
    // The last group depends on what follows the value.
    let whole_groups = value.len() / 3 * 3;
    spellings.push(STANDARD_NO_PAD.encode(&value.as_bytes()[..whole_groups]));
    spellings.sort();
    spellings.dedup();
    spellings.retain(|spelling| spelling.len() >= limits::SECRET_MIN_CHARS);
    spellings
}

/// Takes secrets out of a text that comes in pieces. What may be the beginning of one is held back.
#[derive(Debug)]
pub struct RedactedStream {
    redactor: Arc<Redactor>,
    held: String,
    /// The last byte that was given out.
    before: Option<u8>,
}

impl RedactedStream {
    /// The next piece, as far as it can be given out.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut out = String::with_capacity(self.held.len());
        let given = self.redactor.pass(&self.held, self.before, End::Open, &mut out);
        self.before = out.as_bytes().last().copied().or(self.before);
        self.held.drain(..given);
        out
    }

    /// What was held back, at the end of the text. The stream may be used for another one.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let before = self.before.take();
        let mut out = String::new();
        let copied = self.redactor.pass(&held, before, End::Final, &mut out);
        out.push_str(&held[copied..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor(secrets: &[(&str, &str)]) -> Arc<Redactor> {
        let mut all = Secrets::new();
        for (name, value) in secrets {
            all.insert(name, value).unwrap();
        }
        Arc::new(Redactor::new(&all))
    }

    fn in_pieces(redactor: &Arc<Redactor>, text: &str, cuts: &[usize]) -> String {
        let mut stream = redactor.stream();
        let mut cuts: Vec<usize> = cuts
            .iter()
            .map(|cut| text.floor_char_boundary(cut % (text.len() + 1)))
            .collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut out: String = cuts
            .windows(2)
            .map(|pair| stream.push(&text[pair[0]..pair[1]]))
            .collect();
        out.push_str(&stream.finish());
        out
    }

    #[test]
    fn a_value_is_replaced_as_it_is_and_in_json_addresses_and_base64() {
        let redactor = redactor(&[("DB", "p\"ss word/é1")]);
        for text in [
            "x p\"ss word/é1 y",
            r#"{"a":"p\"ss word/é1"}"#,
            "https://h/?p=p%22ss%20word%2F%C3%A91&q",
            "cCJzcyB3b3JkL8Op", // "p\"ss word/é" in base64
        ] {
            let redacted = redactor.redact(text);
            assert!(redacted.contains("[secret:DB]"), "{text} became {redacted}");
            assert!(!redacted.contains("word"), "{redacted}");
        }
    }

    #[test]
    fn names_and_values_that_cannot_work_are_refused() {
        let mut secrets = Secrets::new();
        assert_eq!(
            secrets.insert("a b", "0123456789"),
            Err(SecretError::Name("a b".into()))
        );
        assert_eq!(
            secrets.insert("A", "short"),
            Err(SecretError::TooShort("A".into()))
        );
        assert_eq!(
            secrets.insert("A", "[secret:"),
            Err(SecretError::LikeMarker("A".into()))
        );
        secrets.insert("A", "0123456789").unwrap();
        assert_eq!(format!("{secrets:?}"), r#"{"A"}"#);
    }

    #[test]
    fn a_text_without_secrets_is_not_copied() {
        let redactor = redactor(&[("A", "0123456789")]);
        assert!(matches!(
            redactor.redact("skip this task, please"),
            Cow::Borrowed(_)
        ));
    }

    /// Texts made of pieces of secrets and of what stands around them.
    fn texts() -> impl Strategy<Value = String> {
        let pieces = [
            "hunter2hunter2",
            "hunter2",
            "hunter2hunter2-and-more",
            "sk-ant-api03-0123456789abcdefghij",
            "sk-",
            "ghp_",
            "0123456789abcdefghijklmnopqrstuvwxyz",
            "AKIA",
            "ABCDEFGHIJ234567",
            "-----BEGIN PRIVATE KEY-----",
            "\nMIIB\n",
            "-----END PRIVATE KEY-----",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
            "https://user:",
            "pass@host",
            "://",
            "@",
            ".",
            " ",
            "\n",
            "é",
            "\"",
            "x",
        ];
        proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..24)
            .prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn no_value_survives_and_pieces_give_the_same_as_the_whole(
            text in texts(),
            cuts in proptest::collection::vec(0usize..400, 0..12),
        ) {
            let redactor = redactor(&[("A", "hunter2hunter2"), ("B", "hunter2hunter2-and-more")]);
            let whole = redactor.redact(&text);
            prop_assert!(!whole.contains("hunter2hunter2"), "{}", whole);
            prop_assert_eq!(in_pieces(&redactor, &text, &cuts), whole.as_ref());
        }

        #[test]
        fn any_value_is_found_in_any_text(
            value in "[ -Z^-~éü日]{8,24}",
            before in "\\PC{0,20}",
            after in "\\PC{0,20}",
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let mut secrets = Secrets::new();
            prop_assume!(secrets.insert("V", &value).is_ok());
            let redactor = Arc::new(Redactor::new(&secrets));
            let text = format!("{before}{value}{after}");
            prop_assert!(!redactor.redact(&text).contains(&value));
            prop_assert!(!in_pieces(&redactor, &text, &cuts).contains(&value));
            let json = serde_json::json!({ "a": text }).to_string();
            let redacted = redactor.redact(&json);
            let parsed: serde_json::Value = serde_json::from_str(&redacted).unwrap();
            prop_assert!(!parsed["a"].as_str().unwrap().contains(&value));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,80}") {
            redactor(&[]).redact(&text);
        }
    }
}
