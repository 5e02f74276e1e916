//! The table and its tokenizer against the reference implementation, whose answers are in `golden.json`.

use annals_embed::StaticTable;
use annals_embed::wordpiece::WordPiece;
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
        pieces.pieces(&case.text, |piece| found.push(piece));
        assert_eq!(found, case.pieces, "{:?}", case.text);
    }
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
