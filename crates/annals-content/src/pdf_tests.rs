//! PDFs made here, and damaged here.

use lopdf::content::{Content, Operation};
use lopdf::{Dictionary, Document, Object, Stream, dictionary};
use proptest::prelude::*;

use super::*;

/// A PDF whose pages perform these operations in Helvetica.
fn pdf(pages: &[Vec<Operation>], title: Option<&str>) -> Vec<u8> {
    let mut document = Document::with_version("1.5");
    let tree = document.new_object_id();
    let widths: Vec<Object> = (32..127).map(|_| 500.into()).collect();
    let font = document.add_object(dictionary! {
        "Type" => "Font", "Subtype" => "Type1", "BaseFont" => "Helvetica", "Encoding" => "WinAnsiEncoding",
        "FirstChar" => 32, "LastChar" => 126, "Widths" => widths,
    });
    let mut kids: Vec<Object> = Vec::new();
    for operations in pages {
        let content = Content {
            operations: operations.clone(),
        }
        .encode()
        .unwrap();
        let mut stream = Stream::new(Dictionary::new(), content);
        stream.compress().unwrap();
        let content = document.add_object(stream);
        kids.push(
            document
                .add_object(dictionary! {
                    "Type" => "Page", "Parent" => tree, "Contents" => content,
                    "Resources" => dictionary! { "Font" => dictionary! { "F1" => font } },
                    "MediaBox" => vec![0.into(), 0.into(), 595.into(), 842.into()],
                })
                .into(),
        );
    }
    let count = kids.len() as i64;
    document.objects.insert(
        tree,
        dictionary! { "Type" => "Pages", "Kids" => kids, "Count" => count }.into(),
    );
    let catalog = document.add_object(dictionary! { "Type" => "Catalog", "Pages" => tree });
    document.trailer.set("Root", catalog);
    if let Some(title) = title {
        let info = document.add_object(dictionary! { "Title" => Object::string_literal(title) });
        document.trailer.set("Info", info);
    }
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    bytes
}

fn op(operator: &str, operands: Vec<Object>) -> Operation {
    Operation::new(operator, operands)
}

fn show(text: &str) -> Operation {
    op("Tj", vec![Object::string_literal(text)])
}

fn begin() -> Vec<Operation> {
    vec![op("BT", vec![]), op("Tf", vec!["F1".into(), 10.into()])]
}

#[test]
fn words_lines_and_paragraphs_follow_from_where_glyphs_are() {
    let mut page = begin();
    page.extend([
        op(
            "Tm",
            vec![1.into(), 0.into(), 0.into(), 1.into(), 50.into(), 700.into()],
        ),
        // Split words are joined, gaps are spaces: `Hel` is 15 units wide at this size.
        show("Hel"),
        op(
            "Tm",
            vec![1.into(), 0.into(), 0.into(), 1.into(), 65.into(), 700.into()],
        ),
        show("lo"),
        op(
            "Tm",
            vec![1.into(), 0.into(), 0.into(), 1.into(), 80.into(), 700.into()],
        ),
        show("world"),
        op("Td", vec![(-30).into(), (-12).into()]),
        op(
            "TJ",
            vec![Object::Array(vec![
                Object::string_literal("se"),
                20.into(),
                Object::string_literal("cond"),
                (-300).into(),
                Object::string_literal("line"),
            ])],
        ),
        op("TL", vec![12.into()]),
        op("'", vec![Object::string_literal("third")]),
        op("Td", vec![0.into(), (-30).into()]),
        show("new paragraph"),
        op("ET", vec![]),
    ]);
    let mut second = begin();
    second.extend([show("next page"), op("ET", vec![])]);
    let read = text(&pdf(&[page, second], Some("  A   title "))).unwrap();
    assert_eq!(read.title.as_deref(), Some("A title"));
    insta::assert_snapshot!(read.text, @r#"
    Hello world
    second line
    third

    new paragraph

    next page
    "#);
}

#[test]
fn a_flipped_and_scaled_page_reads_the_same() {
    let mut page = vec![
        op("q", vec![]),
        op(
            "cm",
            vec![
                0.24.into(),
                0.into(),
                0.into(),
                (-0.24).into(),
                0.into(),
                842.into(),
            ],
        ),
    ];
    page.extend([
        op("BT", vec![]),
        op("Tf", vec!["F1".into(), 50.into()]),
        op(
            "Tm",
            vec![1.into(), 0.into(), 0.into(), (-1).into(), 100.into(), 100.into()],
        ),
        show("one"),
        op(
            "Tm",
            vec![1.into(), 0.into(), 0.into(), (-1).into(), 200.into(), 100.into()],
        ),
        show("two"),
        op(
            "Tm",
            vec![1.into(), 0.into(), 0.into(), (-1).into(), 100.into(), 160.into()],
        ),
        show("three"),
        op("ET", vec![]),
        op("Q", vec![]),
    ]);
    assert_eq!(text(&pdf(&[page], None)).unwrap().text, "one two\nthree");
}

#[test]
fn a_pdf_without_text_says_so_and_rubbish_is_damaged() {
    assert!(matches!(
        text(&pdf(&[vec![]], None)),
        Err(PdfError::NoText { pages: 1 })
    ));
    for bytes in [&b""[..], b"%PDF-1.7", b"not a pdf at all"] {
        assert!(matches!(text(bytes), Err(PdfError::Damaged(_))));
    }
}

#[test]
fn a_stream_that_unpacks_to_too_much_is_not_unpacked() {
    let mut page = begin();
    page.extend([show("words"), show(&" ".repeat(2_000_000))]);
    let bytes = pdf(&[page], None);
    assert!(bytes.len() < 20_000, "{}", bytes.len());
    assert!(matches!(
        text_within(&bytes, 1_000_000),
        Err(PdfError::NoText { .. })
    ));
    assert_eq!(text_within(&bytes, 3_000_000).unwrap().text, "words");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_damaged_pdf_never_hangs_and_panics_are_caught_outside(
        flips in proptest::collection::vec((0_usize..4_000, any::<u8>()), 1..40),
        cut in 0_usize..4_000,
    ) {
        let mut page = begin();
        page.extend([show("some words"), op("ET", vec![])]);
        let mut bytes = pdf(&[page], Some("t"));
        for (at, byte) in flips {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(cut % 200));
        let _ = std::panic::catch_unwind(|| text(&bytes).is_ok());
    }
}
