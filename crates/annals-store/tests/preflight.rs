//! Attachments: what comes in, what does not, and what people are told.

use std::io::{Cursor, Write};

use annals_store::preflight::{AttachmentKind, AttachmentRefused, check_attachment};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn refused(name: &str, bytes: &[u8]) -> String {
    check_attachment(name, bytes).unwrap_err().to_string()
}

fn archive(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, bytes) in entries {
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Bytes that do not pack well.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn pdf(pages: usize) -> Vec<u8> {
    let mut text = format!("%PDF-1.4\n1 0 obj <</Type /Pages /Count {pages} /Kids []>> endobj\n");
    for page in 0..pages {
        text.push_str(&format!(
            "{} 0 obj <</Type/Page/Parent 1 0 R>> endobj\n",
            page + 2
        ));
    }
    text.into_bytes()
}

#[test]
fn the_content_decides_the_type_and_the_name_only_tells_texts_apart() {
    let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &noise(40)].concat();
    let docx = archive(&[
        ("[Content_Types].xml", b"<x/>".to_vec()),
        ("word/document.xml", b"<x/>".to_vec()),
    ]);
    let shown: Vec<String> = [
        ("a.png", png.clone()),
        ("a.txt", png),
        ("a.md", b"# Title".to_vec()),
        ("a.csv", b"x,y\n1,2\n".to_vec()),
        ("A.JSON", b"{}".to_vec()),
        ("a.pdf", b"just text".to_vec()),
        ("a.txt", pdf(2)),
        ("a.docx", docx),
        ("noise", noise(100)),
        ("empty", Vec::new()),
        (
            "script.svg",
            b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec(),
        ),
        ("mention.txt", b"a text that mentions %PDF-1.7 somewhere".to_vec()),
    ]
    .into_iter()
    .map(|(name, bytes)| {
        let checked = check_attachment(name, &bytes).unwrap();
        format!("{name}: {} {:?} {:?}", checked.mime, checked.kind, checked.pages)
    })
    .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    a.png: image/png Image None
    a.txt: image/png Image None
    a.md: text/markdown Text None
    a.csv: text/csv Text None
    A.JSON: application/json Text None
    a.pdf: text/plain Text None
    a.txt: application/pdf Pdf Some(2)
    a.docx: application/vnd.openxmlformats-officedocument.wordprocessingml.document Other None
    noise: application/octet-stream Other None
    empty: text/plain Text None
    script.svg: image/svg+xml Text None
    mention.txt: text/plain Text None
    ");
}

#[test]
fn names_must_be_safe() {
    assert_eq!(check_attachment("", b"x"), Err(AttachmentRefused::NoName));
    assert_eq!(check_attachment(" \t", b"x"), Err(AttachmentRefused::NoName));
    for bad in ["../x", "/etc/passwd", "a\0b", "a\\b", "a//b"] {
        assert!(
            matches!(
                check_attachment(bad, b"x"),
                Err(AttachmentRefused::BadName { .. })
            ),
            "{bad:?}"
        );
    }
}

#[test]
fn sizes_are_limited_and_text_more_than_the_rest() {
    insta::assert_snapshot!(refused("big.bin", &vec![0; 50_000_001]), @"attachment `big.bin` has 50000001 bytes, at most 50000000 are accepted");
    insta::assert_snapshot!(refused("big.txt", &vec![b'x'; 10_000_001]), @"attachment `big.txt` has 10000001 bytes of text, at most 10000000 are accepted: split it");
    assert!(check_attachment("ok.txt", &vec![b'x'; 10_000_000]).is_ok());
}

#[test]
fn archives_that_unpack_to_too_much_are_refused() {
    let bomb = archive(&[("zeros", vec![0; 20_000_000])]);
    insta::assert_snapshot!(refused("bomb.zip", &bomb), @"attachment `bomb.zip` unpacks to more than 200 times its size: it looks like a zip bomb");
    let mut large = vec![("noise", noise(2_000_000))];
    large.push(("zeros", vec![0; 119_000_000]));
    insta::assert_snapshot!(refused("large.zip", &archive(&large)), @"attachment `large.zip` unpacks to more than 120000000 bytes");
    let names: Vec<String> = (0..2_001).map(|n| n.to_string()).collect();
    let many: Vec<(&str, Vec<u8>)> = names.iter().map(|name| (name.as_str(), Vec::new())).collect();
    insta::assert_snapshot!(refused("many.zip", &archive(&many)), @"attachment `many.zip` is an archive of 2001 entries, at most 2000 are accepted");
    assert!(check_attachment("many.zip", &archive(&many[..2_000])).is_ok());
}

#[test]
fn an_archive_that_lies_about_its_size_is_counted_not_believed() {
    let mut bomb = archive(&[("zeros", vec![0; 20_000_000])]);
    // The size stands in the local header and in the central directory.
    let size = 20_000_000_u32.to_le_bytes();
    let places: Vec<usize> = bomb
        .windows(4)
        .enumerate()
        .filter(|(_, w)| *w == size)
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty());
    places
        .into_iter()
        .for_each(|at| bomb[at..at + 4].copy_from_slice(&100_u32.to_le_bytes()));
    assert!(check_attachment("liar.zip", &bomb).is_err());
}

#[test]
fn a_broken_archive_is_refused_and_breaks_nothing() {
    let good = archive(&[("a.txt", noise(500))]);
    for cut in [5, 30, good.len() / 2, good.len() - 5] {
        let refused = check_attachment("cut.zip", &good[..cut]);
        assert!(
            matches!(refused, Err(AttachmentRefused::BrokenArchive { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn macros_are_refused_by_name_and_by_content() {
    let with_macros = archive(&[
        ("word/document.xml", b"<x/>".to_vec()),
        ("word/vbaProject.bin", noise(50)),
    ]);
    insta::assert_snapshot!(refused("innocent.docx", &with_macros), @"attachment `innocent.docx` holds macros: save it in a format without them, such as `.docx` or `.xlsx`");
    let old_sheet = archive(&[("xl/macrosheets/sheet1.xml", b"<x/>".to_vec())]);
    assert!(matches!(
        check_attachment("a.xlsx", &old_sheet),
        Err(AttachmentRefused::Macros { .. })
    ));
    assert!(matches!(
        check_attachment("a.DOCM", b"anything"),
        Err(AttachmentRefused::Macros { .. })
    ));
    let mut compound = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1].to_vec();
    compound.extend(noise(600));
    assert!(!matches!(
        check_attachment("a.doc", &compound),
        Err(AttachmentRefused::Macros { .. })
    ));
    compound.extend("_VBA_PROJECT".encode_utf16().flat_map(u16::to_le_bytes));
    assert!(matches!(
        check_attachment("a.doc", &compound),
        Err(AttachmentRefused::Macros { .. })
    ));
}

#[test]
fn pages_are_counted_also_in_packed_objects() {
    assert_eq!(check_attachment("a.pdf", &pdf(500)).unwrap().pages, Some(500));
    insta::assert_snapshot!(refused("a.pdf", &pdf(501)), @"attachment `a.pdf` has 501 pages, at most 500 are accepted: split it");
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&pdf(700)[9..]).unwrap();
    let mut file =
        b"%PDF-1.5\n5 0 obj <</Type /ObjStm /N 3 /Filter /FlateDecode /Length 9>>\nstream\r\n".to_vec();
    file.extend(packed.finish().unwrap());
    file.extend(b"\nendstream endobj");
    assert_eq!(
        check_attachment("a.pdf", &file),
        Err(AttachmentRefused::TooManyPages {
            name: "a.pdf".to_owned(),
            pages: 700
        })
    );
    let hidden = check_attachment("a.pdf", b"%PDF-1.7\n\x00\x01 encrypted").unwrap();
    assert_eq!((hidden.kind, hidden.pages), (AttachmentKind::Pdf, None));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(300))]

    #[test]
    fn no_bytes_make_the_check_panic(start in 0..6_usize, bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        let starts: [&[u8]; 6] = [b"", b"PK\x03\x04", b"%PDF-1.5 /Type /Pages /Count ", b"%PDF- /ObjStm stream\n", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"\x89PNG\r\n"];
        let _ = check_attachment("x", &[starts[start], &bytes].concat());
    }
}
