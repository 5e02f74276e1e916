//! Archives and office files: what they unpack to, and what they say of themselves.

use super::{Aim, Mechanism, Reader, deflated, mechanism};

const ZIP: Reader = Reader::Attachment("a.zip");
const DOCX: Reader = Reader::Attachment("a.docx");
const XLSX: Reader = Reader::Attachment("a.xlsx");
const DOC: Reader = Reader::Attachment("a.doc");

pub(super) const ALL: &[Mechanism] = &[
    mechanism("zip-that-unpacks", ZIP, Aim::Memory, || {
        zip(&[Entry::bomb("a", 4_000)])
    }),
    mechanism("zip-of-many-bombs", ZIP, Aim::Memory, || {
        zip(&(0..60)
            .map(|n| Entry::bomb(&format!("a{n}"), 160))
            .collect::<Vec<_>>())
    }),
    mechanism("zip-of-many-entries", ZIP, Aim::Time, || {
        zip(&(0..30_000)
            .map(|n| Entry::stored(&format!("{n}"), b""))
            .collect::<Vec<_>>())
    }),
    mechanism("zip-entries-that-overlap", ZIP, Aim::Memory, overlapping),
    mechanism("zip-that-lies-about-sizes", ZIP, Aim::Trust, || {
        zip(&[Entry {
            claimed: Some(1),
            ..Entry::bomb("a", 4_000)
        }])
    }),
    mechanism("zip-that-claims-all-memory", ZIP, Aim::Memory, || {
        zip(&[Entry {
            claimed: Some(u32::MAX),
            ..Entry::stored("a", b"x")
        }])
    }),
    mechanism("zip-directory-that-lies", ZIP, Aim::Trust, || {
        let mut file = zip(&[Entry::stored("a", b"x")]);
        let end = file.len() - 22;
        file[end + 8..end + 12].copy_from_slice(&[0xff; 4]);
        file
    }),
    mechanism("zip-directory-outside", ZIP, Aim::Trust, || {
        let mut file = zip(&[Entry::stored("a", b"x")]);
        let end = file.len() - 22;
        file[end + 12..end + 20].copy_from_slice(&[0xff; 8]);
        file
    }),
    mechanism("zip-ends-within-its-comment", ZIP, Aim::Time, || {
        let mut file = zip(&[Entry::stored("a", b"x")]);
        file.extend(b"PK\x05\x06".repeat(200_000));
        file
    }),
    mechanism("zip-names-without-end", ZIP, Aim::Memory, || {
        zip(&(0..32)
            .map(|n| Entry::stored(&format!("{n}{}", "n".repeat(60_000)), b""))
            .collect::<Vec<_>>())
    }),
    mechanism("zip-names-that-climb", ZIP, Aim::Reach, || {
        zip(&[
            Entry::stored("../../../etc/passwd", b"x"),
            Entry::stored("/etc/shadow", b"x"),
            Entry::stored("a\0b", b"x"),
        ])
    }),
    mechanism("zip-in-zip", ZIP, Aim::Memory, || {
        let mut inner = zip(&[Entry::bomb("a", 400)]);
        for _ in 0..8 {
            inner = zip(&[Entry::stored("a.zip", &inner)]);
        }
        inner
    }),
    mechanism("zip-of-nothing", ZIP, Aim::Trust, || zip(&[])),
    mechanism("zip-cut-off", ZIP, Aim::Trust, || {
        zip(&[Entry::bomb("a", 40)])[..40].to_vec()
    }),
    mechanism("zip-broken-data", ZIP, Aim::Trust, || {
        zip(&[Entry {
            method: 8,
            ..Entry::stored("a", &[0xff; 4_000])
        }])
    }),
    mechanism("zip-unknown-method", ZIP, Aim::Trust, || {
        zip(&[Entry {
            method: 99,
            ..Entry::stored("a", b"xxxxxxxx")
        }])
    }),
    mechanism("docx-that-unpacks", DOCX, Aim::Memory, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::bomb("word/document.xml", 4_000),
        ])
    }),
    mechanism("docx-with-macros", DOCX, Aim::Reach, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("word/vbaProject.bin", b"x"),
        ])
    }),
    mechanism("xlsx-of-shared-texts", XLSX, Aim::Memory, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::bomb("xl/sharedStrings.xml", 3_000),
        ])
    }),
    mechanism("xlsx-with-old-macros", XLSX, Aim::Reach, || {
        zip(&[
            Entry::stored("[Content_Types].xml", b"<Types/>"),
            Entry::stored("xl/macrosheets/sheet1.xml", b"x"),
        ])
    }),
    mechanism("doc-compound-with-macros", DOC, Aim::Reach, || {
        let mut file = vec![0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
        file.extend([0; 504]);
        file.extend("_VBA_PROJECT".encode_utf16().flat_map(u16::to_le_bytes));
        file
    }),
    mechanism("doc-compound-of-underscores", DOC, Aim::Time, || {
        let mut file = vec![0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
        file.extend(b"_\0V\0B\0A\0".repeat(200_000));
        file
    }),
];

pub(super) struct Entry {
    name: String,
    data: Vec<u8>,
    unpacked_bytes: u32,
    method: u16,
    /// A size that is said to be the unpacked one.
    claimed: Option<u32>,
}

impl Entry {
    pub(super) fn stored(name: &str, data: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            data: data.to_vec(),
            unpacked_bytes: data.len() as u32,
            method: 0,
            claimed: None,
        }
    }

    /// Zeros, in units of 64 KiB.
    pub(super) fn bomb(name: &str, units: usize) -> Self {
        Self {
            data: deflated(&[0; 1 << 16], units),
            unpacked_bytes: (units << 16) as u32,
            method: 8,
            ..Self::stored(name, &[])
        }
    }

    fn fields(&self) -> Vec<u8> {
        let mut fields = vec![20, 0, 0, 0];
        fields.extend(self.method.to_le_bytes());
        fields.extend([0; 8]);
        fields.extend((self.data.len() as u32).to_le_bytes());
        fields.extend(self.claimed.unwrap_or(self.unpacked_bytes).to_le_bytes());
        fields.extend((self.name.len() as u16).to_le_bytes());
        fields.extend([0, 0]);
        fields
    }
}

pub(super) fn zip(entries: &[Entry]) -> Vec<u8> {
    let (mut file, mut places) = (Vec::new(), Vec::new());
    for entry in entries {
        places.push(file.len() as u32);
        file.extend(b"PK\x03\x04");
        file.extend(entry.fields());
        file.extend(entry.name.bytes());
        file.extend(&entry.data);
    }
    finish(file, entries.iter().zip(places))
}

/// Every entry of the directory is the same bomb.
fn overlapping() -> Vec<u8> {
    let bomb = Entry::bomb("a", 160);
    let mut file = b"PK\x03\x04".to_vec();
    file.extend(bomb.fields());
    file.extend(bomb.name.bytes());
    file.extend(&bomb.data);
    finish(file, std::iter::repeat_n((&bomb, 0), 9_000))
}

fn finish<'a>(mut file: Vec<u8>, entries: impl Iterator<Item = (&'a Entry, u32)>) -> Vec<u8> {
    let start = file.len() as u32;
    let mut count = 0_u16;
    for (entry, place) in entries {
        file.extend(b"PK\x01\x02\x14\0");
        file.extend(entry.fields());
        file.extend([0; 10]);
        file.extend(place.to_le_bytes());
        file.extend(entry.name.bytes());
        count += 1;
    }
    let length = file.len() as u32 - start;
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend(count.to_le_bytes());
    file.extend(count.to_le_bytes());
    file.extend(length.to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0, 0]);
    file
}
