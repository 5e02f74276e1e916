//! The table and its tokenizer against the reference implementation, whose answers are in `golden.json`.

use annals_embed::StaticTable;
use annals_embed::wordpiece::WordPiece;
use proptest::prelude::*;
use serde::Deserialize;

const TOKENIZER: &[u8] = include_bytes!("../data/tokenizer.json");

#[derive(Deserialize)]
struct Case {
    text: String,
    pieces: Vec<u32>,
    vector: Vec<f32>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("golden.json")).unwrap()
}

#[test]
fn texts_are_cut_as_the_reference_cuts_them() {
    let pieces = WordPiece::parse(TOKENIZER).unwrap();
    for case in cases() {
        let mut found = Vec::new();
        pieces.pieces(&case.text, &mut found);
        assert_eq!(found, case.pieces, "{:?}", case.text);
    }
}

/// The vocabulary asked piece by piece, the longest first.
fn plainly(vocabulary: &serde_json::Map<String, serde_json::Value>, word: &str) -> Vec<u32> {
    let (mut pieces, mut rest, mut mark) = (Vec::new(), word, "");
    while !rest.is_empty() {
        let mut ends = rest.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
        let longest =
            ends.find_map(|end| Some((end, vocabulary.get(&format!("{mark}{}", &rest[..end]))?.as_u64()?)));
        let Some((end, id)) = longest else {
            return Vec::new();
        };
        pieces.push(id as u32);
        (rest, mark) = (&rest[end..], "##");
    }
    pieces
}

#[test]
fn words_are_cut_as_the_vocabulary_says_when_it_is_asked_piece_by_piece() {
    let pieces = WordPiece::parse(TOKENIZER).unwrap();
    let file: serde_json::Value = serde_json::from_slice(TOKENIZER).unwrap();
    let vocabulary = file["model"]["vocab"].as_object().unwrap();
    let found = |word: &str| {
        let mut found = Vec::new();
        pieces.pieces(word, &mut found);
        found
    };
    for (piece, id) in vocabulary {
        if piece.chars().all(|c| c.is_ascii_lowercase()) {
            assert_eq!(u64::from(found(piece)[0]), id.as_u64().unwrap(), "{piece}");
        }
    }
    let word = "[a-zаибн0-9]{1,20}|[bdflnrst][aeiou][bdflnrst][aeiou](ing|ed|s|ness|ly)?";
    proptest!(|(word in word)| prop_assert_eq!(found(&word), plainly(vocabulary, &word)));
}

#[test]
fn vectors_point_where_the_reference_points() {
    for case in cases() {
        let vector = StaticTable::shared().vector(&case.text);
        assert_eq!(vector.numbers().len(), 256);
        assert_eq!(vector.is_zero(), case.pieces.is_empty(), "{:?}", case.text);
        for (number, expected) in vector.numbers().iter().zip(&case.vector) {
            let number = f32::from(*number) / 127.0;
            assert!(
                (number - expected).abs() < 0.005,
                "{number} {expected} {:?}",
                case.text
            );
        }
    }
}

#[tokio::test]
async fn at_once_and_later_are_the_same() {
    let table = StaticTable::embedder();
    let text = "Which invoices are still unpaid?".to_owned();
    let later = table.embed(std::slice::from_ref(&text)).await.unwrap();
    assert_eq!(table.at_once(&text), Some(later[0].clone()));
    assert_eq!(table.dimension(), Some(later[0].numbers().len()));
}

#[test]
fn what_means_the_same_lies_closer_than_what_does_not() {
    let of = |text: &str| StaticTable::shared().vector(text);
    let asked = of("how much money did the customer pay");
    let same = asked.cosine(&of("the client's payment was 300 euros"));
    let other = asked.cosine(&of("the deployment failed because a container image was missing"));
    assert!(same > other + 0.1, "{same} {other}");
}
