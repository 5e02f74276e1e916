//! A text cut into the pieces of words that a table has rows for, by the rules of BERT's uncased tokenizer.
//!
//! What `tokenizer.json` calls `BertNormalizer`, `BertPreTokenizer` and `WordPiece`: control characters go, Chinese
//! characters stand alone, accents go, letters become small, punctuation stands alone, and each word is cut into the
//! longest pieces that the vocabulary has, from the left. It must not know what the pieces are for.

use hashbrown::HashMap;
use serde::Deserialize;
use unicode_general_category::{GeneralCategory as Category, get_general_category};

use crate::fold;

/// A longer word is one unknown piece.
const WORD_MAX_CHARS: usize = 100;

/// Marks a piece that does not begin a word.
const CONTINUES: &str = "##";

/// The number of a piece: its row.
pub type PieceId = u32;

/// The pieces there are.
#[derive(Debug)]
pub struct WordPiece {
    /// Pieces that begin a word.
    first: HashMap<Box<str>, PieceId>,
    /// Pieces that go on with one, without their mark.
    further: HashMap<Box<str>, PieceId>,
    longest_bytes: usize,
}

#[derive(Deserialize)]
struct File {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    vocab: std::collections::HashMap<String, PieceId>,
}

impl WordPiece {
    /// Reads the vocabulary of a `tokenizer.json`.
    pub fn parse(tokenizer_json: &[u8]) -> Result<Self, serde_json::Error> {
        let file: File = serde_json::from_slice(tokenizer_json)?;
        let vocab = file.model.vocab;
        let mut pieces = WordPiece {
            first: HashMap::with_capacity(vocab.len()),
            further: HashMap::new(),
            longest_bytes: 0,
        };
        for (piece, id) in vocab {
            pieces.longest_bytes = pieces.longest_bytes.max(piece.len());
            match piece.strip_prefix(CONTINUES) {
                Some(further) => pieces.further.insert(further.into(), id),
                None => pieces.first.insert(piece.into(), id),
            };
        }
        Ok(pieces)
    }

    /// Tells `seen` every piece of a text that has a row, in order. A word that cannot be cut has none.
    pub fn pieces(&self, text: &str, mut seen: impl FnMut(PieceId)) {
        let mut cut = Vec::new();
        words(text, |word| {
            if self.cut(word, &mut cut) {
                cut.iter().copied().for_each(&mut seen);
            }
            cut.clear();
        });
    }

    /// Cuts a word; false if some part of it is in no piece.
    fn cut(&self, word: &str, pieces: &mut Vec<PieceId>) -> bool {
        if word.len() > WORD_MAX_CHARS && word.chars().count() > WORD_MAX_CHARS {
            return false;
        }
        let mut rest = word;
        let mut map = &self.first;
        while !rest.is_empty() {
            let mut end = rest.len().min(self.longest_bytes);
            let found = loop {
                if let Some(id) = rest.get(..end).and_then(|piece| map.get(piece)) {
                    break Some(*id);
                }
                if end <= 1 {
                    break None;
                }
                end -= 1;
            };
            let Some(id) = found else { return false };
            pieces.push(id);
            rest = &rest[end..];
            map = &self.further;
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
    for c in text.chars() {
        match kind(c) {
            Kind::Nothing => {}
            Kind::Space => end(&mut word, &mut seen),
            Kind::Alone => {
                end(&mut word, &mut seen);
                seen(c.encode_utf8(&mut [0; 4]));
            }
            Kind::Letter => fold::push(&mut word, c),
        }
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
