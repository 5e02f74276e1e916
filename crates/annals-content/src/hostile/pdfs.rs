//! PDF files: streams that unpack, trees that turn in circles, numbers that lie.

use super::{Aim, Mechanism, Reader, each, mechanism, packed, times};

const PDF: Reader = Reader::Pdf;

pub(super) const ALL: &[Mechanism] = &[
    mechanism("pdf-type-pages-without-end", PDF, Aim::Time, || {
        raw(&times("/Type/Pages ", 90_000))
    }),
    mechanism("pdf-type-pages-in-open-dictionaries", PDF, Aim::Time, || {
        raw(&times("<</Type/Pages ", 80_000))
    }),
    mechanism("pdf-object-stream-that-unpacks", PDF, Aim::Memory, || {
        file(&[object_stream(&packed(&[b'1'; 1 << 16], 960))])
    }),
    mechanism("pdf-many-object-streams", PDF, Aim::Memory, || {
        let stream = object_stream(&packed(&[b' '; 1 << 16], 100));
        file(&vec![stream; 100])
    }),
    mechanism("pdf-object-stream-markers", PDF, Aim::Time, || {
        raw(&times("/ObjStm stream\n", 60_000))
    }),
    mechanism("pdf-states-saved-without-end", PDF, Aim::Memory, || {
        page(&packed(&b"q ".repeat(1 << 15), 950), "")
    }),
    mechanism("pdf-states-restored-without-end", PDF, Aim::Time, || {
        page(&packed(&b"Q ".repeat(1 << 15), 400), "")
    }),
    mechanism("pdf-content-that-unpacks", PDF, Aim::Memory, || {
        page(&packed(&[b' '; 1 << 16], 2_000), "")
    }),
    mechanism("pdf-content-of-operands", PDF, Aim::Memory, || {
        page(&packed(&b"1 ".repeat(1 << 15), 400), "")
    }),
    mechanism("pdf-strings-shown", PDF, Aim::Memory, || {
        page(&packed(&b"BT (xxxxxxxxxx) Tj ET ".repeat(1 << 12), 300), "")
    }),
    mechanism("pdf-arrays-of-strings", PDF, Aim::Memory, || {
        page(&packed(&b"[(x) -9999 (y)] TJ ".repeat(1 << 12), 300), "")
    }),
    mechanism("pdf-references", PDF, Aim::Memory, || {
        file(&[format!("[{}]", each(300_000, |n| format!("{} 0 R ", n % 9))).into_bytes()])
    }),
    mechanism("pdf-arrays-in-arrays", PDF, Aim::Stack, || {
        file(&[times("[", 500_000).into_bytes()])
    }),
    mechanism("pdf-dictionaries-in-dictionaries", PDF, Aim::Stack, || {
        file(&[times("<</a", 300_000).into_bytes()])
    }),
    mechanism("pdf-parentheses-in-parentheses", PDF, Aim::Stack, || {
        file(&[times("(", 900_000).into_bytes()])
    }),
    mechanism("pdf-arrays-in-content", PDF, Aim::Stack, || {
        page(&packed(&b"[".repeat(1 << 16), 40), "")
    }),
    mechanism("pdf-page-tree-in-a-circle", PDF, Aim::Trust, || {
        tree("<</Type/Pages/Count 9/Kids[2 0 R 2 0 R]>>")
    }),
    mechanism(
        "pdf-page-tree-that-doubles",
        PDF,
        Aim::Memory,
        page_tree_that_doubles,
    ),
    mechanism("pdf-page-tree-deep", PDF, Aim::Stack, || {
        let nodes = (0..50_000).map(|n| format!("<</Type/Pages/Count 1/Kids[{} 0 R]>>", n + 3).into_bytes());
        file(
            &std::iter::once(b"<</Type/Catalog/Pages 2 0 R>>".to_vec())
                .chain(nodes)
                .collect::<Vec<_>>(),
        )
    }),
    mechanism("pdf-parent-in-a-circle", PDF, Aim::Trust, || {
        file(&[
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            b"<</Type/Pages/Count 1/Kids[3 0 R]/Parent 3 0 R>>".to_vec(),
            b"<</Type/Page/Parent 2 0 R>>".to_vec(),
        ])
    }),
    mechanism("pdf-claims-many-pages", PDF, Aim::Trust, || {
        tree("<</Type/Pages/Count 2147483647/Kids[]>>")
    }),
    mechanism("pdf-many-pages", PDF, Aim::Time, || {
        let kids = each(20_000, |_| "3 0 R ".to_owned());
        file(&[
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            format!("<</Type/Pages/Count 20000/Kids[{kids}]>>").into_bytes(),
            b"<</Type/Page/Parent 2 0 R>>".to_vec(),
        ])
    }),
    mechanism("pdf-filters-in-filters", PDF, Aim::Memory, || {
        let bomb = packed(&packed(&packed(&[0; 1 << 16], 4_000), 1), 1);
        page(&bomb, "/Filter[/FlateDecode/FlateDecode/FlateDecode]")
    }),
    mechanism("pdf-predictor-of-many-columns", PDF, Aim::Memory, || {
        page(
            &packed(&[0; 1 << 16], 100),
            "/DecodeParms<</Predictor 15/Columns 2147483647/Colors 32/BitsPerComponent 16>>",
        )
    }),
    mechanism("pdf-length-of-itself", PDF, Aim::Trust, || {
        file(&[
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            b"<</Length 2 0 R>>stream\nx\nendstream".to_vec(),
        ])
    }),
    mechanism("pdf-length-that-lies", PDF, Aim::Trust, || {
        file(&[b"<</Length 99999999999>>stream\nx\nendstream".to_vec()])
    }),
    mechanism("pdf-cross-references-in-a-circle", PDF, Aim::Trust, || {
        b"%PDF-1.5\nxref\n0 1\n0000000000 65535 f \ntrailer\n<</Size 1/Prev 9/Root 1 0 R>>\nstartxref\n9\n%%EOF\n".to_vec()
    }),
    mechanism("pdf-cross-references-without-end", PDF, Aim::Memory, || {
        b"%PDF-1.5\nxref\n0 4294967295\n0000000000 65535 f \ntrailer\n<</Size 4294967295>>\nstartxref\n9\n%%EOF\n".to_vec()
    }),
    mechanism("pdf-cross-reference-stream-that-lies", PDF, Aim::Trust, || {
        let data = packed(&[0; 1 << 10], 64);
        let mut file = b"%PDF-1.5\n1 0 obj\n".to_vec();
        file.extend(format!("<</Type/XRef/W[9 9999999 9]/Index[0 4294967295]/Size 4294967295/Filter/FlateDecode/Length {}>>stream\n", data.len()).bytes());
        file.extend(data);
        file.extend(b"\nendstream endobj\nstartxref\n9\n%%EOF\n");
        file
    }),
    mechanism("pdf-character-map-of-ranges", PDF, Aim::Memory, || {
        let ranges = each(2_000, |n| format!("<{:04x}> <{:04x}> <0000>\n", n, 0xffff));
        with_font("/ToUnicode 6 0 R", &format!("beginbfrange {ranges} endbfrange"))
    }),
    mechanism("pdf-widths", PDF, Aim::Memory, || {
        with_font(
            &format!(
                "/FirstChar 0/LastChar 999999999/Widths[{}]",
                times("500 ", 200_000)
            ),
            "",
        )
    }),
    mechanism("pdf-encoding-differences", PDF, Aim::Trust, || {
        with_font(
            &format!(
                "/Encoding<</Differences[{}]>>",
                each(100_000, |n| format!("{n}/a#41#zz "))
            ),
            "",
        )
    }),
    mechanism("pdf-encrypted", PDF, Aim::Trust, || {
        b"%PDF-1.5\n1 0 obj<</Filter/Standard/V 5/R 6/O(x)/U(y)/P -1>>endobj\ntrailer<</Encrypt 1 0 R/Root 1 0 R>>\nstartxref\n0\n%%EOF".to_vec()
    }),
    mechanism("pdf-comments", PDF, Aim::Time, || raw(&times("%\n", 500_000))),
    mechanism("pdf-cut-off", PDF, Aim::Trust, || {
        page(&packed(b"BT (x) Tj ET", 1), "")[..200].to_vec()
    }),
    mechanism("pdf-behind-rubbish", PDF, Aim::Trust, || {
        let mut file = vec![0; 900];
        file.extend(page(&packed(b"BT (x) Tj ET", 1), ""));
        file
    }),
    mechanism("pdf-run-lengths", PDF, Aim::Memory, || {
        page(&b"\x81x".repeat(200_000), "/Filter/RunLengthDecode")
    }),
    mechanism("pdf-hexadecimal-without-end", PDF, Aim::Time, || {
        page(&b"20".repeat(400_000), "/Filter/ASCIIHexDecode")
    }),
    mechanism("pdf-base-85-without-end", PDF, Aim::Memory, || {
        page(&b"z".repeat(900_000), "/Filter/ASCII85Decode")
    }),
    mechanism("pdf-lzw-codes-that-lie", PDF, Aim::Trust, || {
        page(&[0xff; 4_000], "/Filter/LZWDecode")
    }),
    mechanism("pdf-same-filter-a-thousand-times", PDF, Aim::Time, || {
        page(
            &packed(&[b' '; 64], 1),
            &format!("/Filter[{}]", times("/FlateDecode", 1_000)),
        )
    }),
    mechanism("pdf-forms-of-themselves", PDF, Aim::Trust, || {
        file(&[
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>".to_vec(),
            b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</XObject<</X 4 0 R>>>>>>".to_vec(),
            stream(
                "/Type/XObject/Subtype/Form/Resources<</XObject<</X 4 0 R>>>>",
                b"/X Do /X Do",
            ),
        ])
    }),
    mechanism("pdf-names-in-a-circle", PDF, Aim::Trust, || {
        file(&[
            b"<</Type/Catalog/Pages 2 0 R/Names 3 0 R/Outlines 4 0 R>>".to_vec(),
            b"<</Type/Pages/Count 0/Kids[]>>".to_vec(),
            b"<</Kids[3 0 R 3 0 R]>>".to_vec(),
            b"<</First 4 0 R/Next 4 0 R/Parent 4 0 R>>".to_vec(),
        ])
    }),
    mechanism("pdf-title-in-a-circle", PDF, Aim::Trust, || {
        b"%PDF-1.5\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Count 0/Kids[]>>endobj\n3 0 obj<</Title 3 0 R>>endobj\ntrailer<</Root 1 0 R/Info 3 0 R>>\nstartxref\n0\n%%EOF".to_vec()
    }),
    mechanism("pdf-contents-shared-by-all-pages", PDF, Aim::Memory, || {
        let mut objects = vec![
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            format!(
                "<</Type/Pages/Count 400/Kids[{}]>>",
                each(400, |n| format!("{} 0 R ", n + 4))
            )
            .into_bytes(),
            stream(
                "/Filter/FlateDecode",
                &packed(&b"BT (x) Tj ET ".repeat(1 << 10), 20),
            ),
        ];
        objects.extend((0..400).map(|_| b"<</Type/Page/Parent 2 0 R/Contents 3 0 R>>".to_vec()));
        file(&objects)
    }),
    mechanism("pdf-contents-listed-without-end", PDF, Aim::Memory, || {
        file(&[
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>".to_vec(),
            format!(
                "<</Type/Page/Parent 2 0 R/Contents[{}]>>",
                times("4 0 R ", 60_000)
            )
            .into_bytes(),
            stream("/Filter/FlateDecode", &packed(&[b' '; 1 << 12], 4)),
        ])
    }),
    mechanism("pdf-font-map-of-long-texts", PDF, Aim::Memory, || {
        with_font(
            "/ToUnicode 6 0 R",
            &format!(
                "beginbfchar {} endbfchar",
                each(2_000, |n| format!("<{n:04x}> <{}>\n", times("0041", 200)))
            ),
        )
    }),
    mechanism("pdf-font-map-never-ended", PDF, Aim::Trust, || {
        with_font("/ToUnicode 6 0 R", &times("beginbfrange <0000> ", 40_000))
    }),
    mechanism("pdf-map-of-itself", PDF, Aim::Trust, || {
        with_font("/ToUnicode 5 0 R/DescendantFonts[5 0 R]/Encoding 5 0 R", "")
    }),
    mechanism("pdf-numbers-beyond-all", PDF, Aim::Trust, || {
        page(
            b"99999999999999999999999999 -1e999 Td 4294967296 TL BT (x) Tj ET",
            "/Filter[]",
        )
    }),
    mechanism("pdf-strings-never-closed", PDF, Aim::Time, || {
        page(&packed(&b"(\\".repeat(1 << 14), 40), "")
    }),
    mechanism("pdf-inline-pictures", PDF, Aim::Time, || {
        page(&packed(&b"BI /W 9 /H 9 ID ".repeat(1 << 12), 40), "")
    }),
    mechanism("pdf-marked-content-in-marked-content", PDF, Aim::Stack, || {
        page(&packed(&b"/a <</b".repeat(1 << 12), 40), "")
    }),
    mechanism("pdf-object-numbers-beyond-all", PDF, Aim::Trust, || {
        b"%PDF-1.5\n4294967295 65535 obj<<>>endobj 99999999999999999999 0 obj<<>>endobj\ntrailer<</Root 4294967295 65535 R>>\nstartxref\n-1\n%%EOF".to_vec()
    }),
    mechanism("pdf-same-object-many-times", PDF, Aim::Memory, || {
        raw(&times("1 0 obj<</Type/Page>>endobj ", 60_000))
    }),
    mechanism("pdf-trailers-without-end", PDF, Aim::Time, || {
        raw(&times("trailer<</Prev 9>> ", 60_000))
    }),
    mechanism("pdf-starts-late", PDF, Aim::Trust, || {
        [vec![b' '; 1_000_000], tree("<</Type/Pages/Count 0/Kids[]>>")].concat()
    }),
    mechanism("pdf-scripts-and-launches", PDF, Aim::Reach, || {
        file(&[b"<</Type/Catalog/Pages 2 0 R/OpenAction<</S/Launch/F(/bin/sh)>>/AA<</O<</S/JavaScript/JS(x)>>>>/URI<</Base(file:///etc/)>>>>".to_vec(), b"<</Type/Pages/Count 0/Kids[]>>".to_vec()])
    }),
    mechanism("pdf-stream-in-another-file", PDF, Aim::Reach, || {
        file(&[
            b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>".to_vec(),
            b"<</Type/Page/Parent 2 0 R/Contents 4 0 R>>".to_vec(),
            stream("/F(/etc/passwd)/FFilter/FlateDecode", b""),
        ])
    }),
];

fn raw(body: &str) -> Vec<u8> {
    format!("%PDF-1.5\n{body}\n%%EOF\n").into_bytes()
}

/// A file of these objects, numbered from 1; the first is its root.
pub(super) fn file(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.5\n".to_vec();
    let mut places = Vec::with_capacity(objects.len());
    for (index, object) in objects.iter().enumerate() {
        places.push(file.len());
        file.extend(format!("{} 0 obj\n", index + 1).bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let start = file.len();
    let size = objects.len() + 1;
    file.extend(format!("xref\n0 {size}\n0000000000 65535 f \n").bytes());
    for place in places {
        file.extend(format!("{place:010} 00000 n \n").bytes());
    }
    file.extend(format!("trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n").bytes());
    file
}

pub(super) fn stream(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut object = format!("<<{dictionary}/Length {}>>stream\n", data.len()).into_bytes();
    object.extend(data);
    object.extend(b"\nendstream");
    object
}

fn object_stream(data: &[u8]) -> Vec<u8> {
    stream("/Type/ObjStm/N 9/First 9/Filter/FlateDecode", data)
}

fn tree(pages: &str) -> Vec<u8> {
    file(&[
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        pages.as_bytes().to_vec(),
    ])
}

/// One page with this content, which is packed unless `filter` says how.
fn page(content: &[u8], filter: &str) -> Vec<u8> {
    let filter = if filter.contains("/Filter") {
        filter.to_owned()
    } else {
        format!("/Filter/FlateDecode{filter}")
    };
    file(&[
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>".to_vec(),
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>".to_vec(),
        stream(&filter, content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_vec(),
    ])
}

/// One page whose font has these entries, and the character map that they may name.
fn with_font(entries: &str, map: &str) -> Vec<u8> {
    file(&[
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>".to_vec(),
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>".to_vec(),
        stream("", b"BT /F 9 Tf <0001000200030004> Tj ET"),
        format!("<</Type/Font/Subtype/Type0/BaseFont/X{entries}>>").into_bytes(),
        stream("", map.as_bytes()),
    ])
}

fn page_tree_that_doubles() -> Vec<u8> {
    const LEVELS: usize = 30;
    let nodes =
        (0..LEVELS).map(|n| format!("<</Type/Pages/Count 9/Kids[{0} 0 R {0} 0 R]>>", n + 3).into_bytes());
    let mut objects = vec![b"<</Type/Catalog/Pages 2 0 R>>".to_vec()];
    objects.extend(nodes);
    objects.push(b"<</Type/Page>>".to_vec());
    file(&objects)
}
