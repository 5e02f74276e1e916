//! A text cut into the pieces of words that a table has rows for, by the rules of BERT's uncased tokenizer.
//!
//! What `tokenizer.json` calls `BertNormalizer`, `BertPreTokenizer` and `WordPiece`: control characters go, Chinese
//! characters stand alone, accents go, letters become small, punctuation stands alone, and each word is cut into the
//! longest pieces that the vocabulary has, from the left. It must not know what the pieces are for.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use unicode_general_category::{GeneralCategory as Category, get_general_category};

use crate::fold;
use crate::trie::Trie;

/// A longer word is one unknown piece.
const WORD_MAX_CHARS: usize = 100;

/// Marks a piece that does not begin a word.
const CONTINUES: &str = "##";

/// The number of a piece: its row.
pub type PieceId = u32;

/// The pieces there are.
#[derive(Debug)]
pub struct WordPiece {
    /// Pieces that begin a word ([`FIRST`]), and those that go on with one, without their mark ([`FURTHER`]).
    pieces: Trie,
}

const FIRST: usize = 0;
const FURTHER: usize = 1;

#[derive(Deserialize)]
struct File<'j> {
    #[serde(borrow)]
    model: Model<'j>,
}

#[derive(Deserialize)]
struct Model<'j> {
    #[serde(borrow)]
    vocab: Vocabulary<'j>,
}

/// A JSON object as a list: nobody asks it for a key.
struct Vocabulary<'j>(Vec<(Cow<'j, str>, PieceId)>);

impl<'de: 'j, 'j> Deserialize<'de> for Vocabulary<'j> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vocabulary<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("pieces with their numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((Piece(piece), id)) = map.next_entry()? {
                    pairs.push((piece, id));
                }
                Ok(Vocabulary(pairs))
            }
        }
        json.deserialize_map(Pairs)
    }
}

/// Borrowed from the file where it has no escapes.
#[derive(Deserialize)]
struct Piece<'j>(#[serde(borrow)] Cow<'j, str>);

impl WordPiece {
    /// Reads the vocabulary of a `tokenizer.json`.
    pub fn parse(tokenizer_json: &[u8]) -> Result<Self, serde_json::Error> {
        let file: File<'_> = serde_json::from_slice(tokenizer_json)?;
        let (mut first, mut further) = (Vec::new(), Vec::new());
        for (piece, id) in &file.model.vocab.0 {
            match piece.strip_prefix(CONTINUES) {
                Some(rest) => further.push((rest.as_bytes(), *id)),
                None => first.push((piece.as_bytes(), *id)),
            }
        }
        Ok(WordPiece {
            pieces: Trie::of([&mut first, &mut further]),
        })
    }

    /// Adds the pieces of a text that have a row, in order. A word that cannot be cut has none.
    pub fn pieces(&self, text: &str, found: &mut Vec<PieceId>) {
        words(text, |word| {
            let before = found.len();
            if !self.cut(word, found) {
                found.truncate(before);
            }
        });
    }

    /// Cuts a word; false if some part of it is in no piece.
    fn cut(&self, word: &str, found: &mut Vec<PieceId>) -> bool {
        if word.len() > WORD_MAX_CHARS && word.chars().count() > WORD_MAX_CHARS {
            return false;
        }
        let mut rest = word.as_bytes();
        let mut set = FIRST;
        while !rest.is_empty() {
            let Some(longest) = self.pieces.longest(set, rest) else {
                return false;
            };
            found.push(longest.number);
            rest = &rest[longest.bytes..];
            set = FURTHER;
        }
        true
    }
}

/// Tells `seen` the words of a text: small letters without accents, each mark of punctuation and each Chinese character
/// a word of its own.
fn words(text: &str, mut seen: impl FnMut(&str)) {
    let mut word = String::new();
    let end = |word: &mut String, seen: &mut dyn FnMut(&str)| {
        if !word.is_empty() {
            seen(word);
            word.clear();
        }
    };
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // Most words are written in plain letters.
        let plain = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        if plain > 0 {
            let start = word.len();
            word.push_str(&rest[..plain]);
            word[start..].make_ascii_lowercase();
            rest = &rest[plain..];
            continue;
        }
        match kind(c) {
            Kind::Nothing => {}
            Kind::Space => end(&mut word, &mut seen),
            Kind::Alone => {
                end(&mut word, &mut seen);
                seen(c.encode_utf8(&mut [0; 4]));
            }
            Kind::Letter => fold::push(&mut word, c),
        }
        rest = &rest[c.len_utf8()..];
    }
    end(&mut word, &mut seen);
}

/// What a character does to the word it stands in.
enum Kind {
    Letter,
    Alone,
    Space,
    Nothing,
}

fn kind(c: char) -> Kind {
    if c.is_ascii() {
        return match c {
            '\t' | '\n' | '\r' | ' ' => Kind::Space,
            c if c.is_ascii_control() => Kind::Nothing,
            c if c.is_ascii_punctuation() => Kind::Alone,
            _ => Kind::Letter,
        };
    }
    if c == char::REPLACEMENT_CHARACTER {
        return Kind::Nothing;
    }
    if c.is_whitespace() {
        return Kind::Space;
    }
    if is_chinese(c) {
        return Kind::Alone;
    }
    match get_general_category(c) {
        Category::Control | Category::Format | Category::PrivateUse | Category::Surrogate => Kind::Nothing,
        Category::Unassigned => Kind::Nothing,
        Category::ConnectorPunctuation
        | Category::DashPunctuation
        | Category::OpenPunctuation
        | Category::ClosePunctuation
        | Category::InitialPunctuation
        | Category::FinalPunctuation
        | Category::OtherPunctuation => Kind::Alone,
        _ => Kind::Letter,
    }
}

/// The blocks that BERT takes for Chinese. Japanese syllables and Korean are not among them.
fn is_chinese(c: char) -> bool {
    matches!(u32::from(c),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F
        | 0x2B740..=0x2B81F | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        words(text, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn words_are_small_and_plain_and_marks_stand_alone() {
        assert_eq!(
            of("  Café—Zürich, it's\u{0} A\u{301}"),
            ["cafe", "—", "zurich", ",", "it", "'", "s", "a"]
        );
        assert_eq!(of("記憶x\u{200b}y"), ["記", "憶", "xy"]);
        assert!(of(" \n\t ").is_empty());
    }
}
