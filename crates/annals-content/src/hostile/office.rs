//! Office files that pass as archives: what their parts do to who reads their text.

use super::archives::{Entry, zip};
use super::{Aim, Mechanism, Reader, each, mechanism, times};

const DOCX: Reader = Reader::Attachment("a.docx");
const XLSX: Reader = Reader::Attachment("a.xlsx");
const PPTX: Reader = Reader::Attachment("a.pptx");
const ODT: Reader = Reader::Attachment("a.odt");

pub(super) const ALL: &[Mechanism] = &[
    mechanism("docx-elements-in-elements", DOCX, Aim::Stack, || {
        docx(&times("<w:p>", 100_000))
    }),
    mechanism("docx-text-never-closed", DOCX, Aim::Time, || {
        docx(&times("<w:t>x", 100_000))
    }),
    mechanism("docx-entities-that-double", DOCX, Aim::Memory, || {
        let entities = each(30, |n| format!("<!ENTITY e{} '&e{n};&e{n};'>", n + 1));
        docx(&format!(
            "<!DOCTYPE x [<!ENTITY e0 'x'>{entities}]><w:t>&e30;</w:t>"
        ))
    }),
    mechanism("docx-entity-of-a-file", DOCX, Aim::Reach, || {
        docx("<!DOCTYPE x [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><w:t>&x;</w:t>")
    }),
    mechanism("docx-template-of-the-network", DOCX, Aim::Reach, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("word/document.xml", b"<w:t>x</w:t>"),
            Entry::stored(
                "word/_rels/settings.xml.rels",
                b"<Relationship Target='http://127.0.0.1:1/x.dotm' TargetMode='External'/>",
            ),
        ])
    }),
    mechanism("docx-attributes-without-end", DOCX, Aim::Time, || {
        docx(&format!("<w:p {}>", each(60_000, |n| format!("a{n}='' "))))
    }),
    mechanism("docx-tags-never-closed", DOCX, Aim::Time, || {
        docx(&times("<", 400_000))
    }),
    mechanism("docx-quotes-never-closed", DOCX, Aim::Time, || {
        docx(&times("<w:t a=\"", 100_000))
    }),
    mechanism("docx-two-documents", DOCX, Aim::Trust, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("word/document.xml", b"<w:t>one</w:t>"),
            Entry::stored("word/document.xml", b"<w:t>two</w:t>"),
        ])
    }),
    mechanism("docx-without-a-document", DOCX, Aim::Trust, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("word/other.xml", b"x"),
        ])
    }),
    mechanism("docx-of-bytes", DOCX, Aim::Trust, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("word/document.xml", &[0xff; 4_000]),
        ])
    }),
    mechanism("xlsx-cell-beyond-all", XLSX, Aim::Memory, || {
        xlsx(
            "<row r='1048576'><c r='XFD1048576'><v>1</v></c><c r='ZZZZZZZZZZ99999999999'><v>1</v></c></row>",
            "",
        )
    }),
    mechanism("xlsx-shared-text-that-is-not-there", XLSX, Aim::Trust, || {
        xlsx(
            "<row><c t='s'><v>4294967295</v></c><c t='s'><v>-1</v></c><c t='s'><v>99999999999999999999</v></c></row>",
            "",
        )
    }),
    mechanism("xlsx-one-text-shared-by-all", XLSX, Aim::Memory, || {
        xlsx(
            &times("<row><c t='s'><v>0</v></c></row>", 60_000),
            &format!("<si><t>{}</t></si>", times("x", 30_000)),
        )
    }),
    mechanism("xlsx-many-sheets", XLSX, Aim::Time, || {
        let mut entries = vec![
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("xl/workbook.xml", times("<sheet name='x'/>", 1_900).as_bytes()),
        ];
        entries.extend((0..1_900).map(|n| {
            Entry::stored(
                &format!("xl/worksheets/sheet{n}.xml"),
                b"<row><c><v>1</v></c></row>",
            )
        }));
        zip(&entries)
    }),
    mechanism("xlsx-rows-in-rows", XLSX, Aim::Stack, || {
        xlsx(&times("<row><c>", 60_000), "")
    }),
    mechanism("xlsx-many-cells", XLSX, Aim::Memory, || {
        xlsx(&format!("<row>{}</row>", times("<c><v>1</v></c>", 100_000)), "")
    }),
    mechanism("xlsx-shared-texts-in-pieces", XLSX, Aim::Memory, || {
        xlsx("", &times("<si><r><t>x</t></r>", 100_000))
    }),
    mechanism("xlsx-names-without-end", XLSX, Aim::Memory, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored(
                "xl/workbook.xml",
                format!("<sheet name='{}'/>", times("n", 1_000_000)).as_bytes(),
            ),
        ])
    }),
    mechanism("xlsx-external-links", XLSX, Aim::Reach, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("xl/workbook.xml", b"<sheet name='x'/>"),
            Entry::stored(
                "xl/worksheets/sheet1.xml",
                b"<row><c><f>WEBSERVICE(\"http://127.0.0.1:1/\")</f></c></row>",
            ),
            Entry::stored(
                "xl/externalLinks/externalLink1.xml",
                b"<externalLink href='file:///etc/passwd'/>",
            ),
        ])
    }),
    mechanism("pptx-many-slides", PPTX, Aim::Time, || {
        let mut entries = vec![Entry::stored("[Content_Types].xml", b"<Types/>")];
        entries
            .extend((0..1_900).map(|n| Entry::stored(&format!("ppt/slides/slide{n}.xml"), b"<a:t>x</a:t>")));
        zip(&entries)
    }),
    mechanism("pptx-slide-that-unpacks", PPTX, Aim::Memory, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::bomb("ppt/slides/slide1.xml", 4_000),
        ])
    }),
    mechanism("pptx-slide-numbers-beyond-all", PPTX, Aim::Trust, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("ppt/slides/slide99999999999999999999.xml", b"<a:t>x</a:t>"),
            Entry::stored("ppt/slides/slide-1.xml", b"<a:t>y</a:t>"),
        ])
    }),
    mechanism("pptx-paragraphs-in-paragraphs", PPTX, Aim::Stack, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("ppt/slides/slide1.xml", times("<a:p><a:r>", 60_000).as_bytes()),
        ])
    }),
    mechanism("odt-content-that-unpacks", ODT, Aim::Memory, || {
        zip(&[
            Entry::stored("mimetype", b"application/vnd.oasis.opendocument.text"),
            Entry::bomb("content.xml", 4_000),
        ])
    }),
    mechanism("odt-spaces-that-multiply", ODT, Aim::Memory, || {
        zip(&[
            Entry::stored("mimetype", b"application/vnd.oasis.opendocument.text"),
            Entry::stored(
                "content.xml",
                times("<text:s text:c=\"2147483647\"/>", 2_000).as_bytes(),
            ),
        ])
    }),
    mechanism("odt-elements-in-elements", ODT, Aim::Stack, || {
        zip(&[
            Entry::stored("mimetype", b"application/vnd.oasis.opendocument.text"),
            Entry::stored("content.xml", times("<text:p>", 100_000).as_bytes()),
        ])
    }),
];

fn docx(body: &str) -> Vec<u8> {
    zip(&[
        Entry::stored("[Content_Types].xml", b"<Types/>"),
        Entry::stored("word/document.xml", body.as_bytes()),
    ])
}

fn xlsx(sheet: &str, shared: &str) -> Vec<u8> {
    zip(&[
        Entry::stored("[Content_Types].xml", b"<Types/>"),
        Entry::stored("xl/workbook.xml", b"<sheet name='x'/>"),
        Entry::stored("xl/sharedStrings.xml", shared.as_bytes()),
        Entry::stored("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ])
}
