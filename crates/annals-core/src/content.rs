//! What a file is, by its name and its first bytes: the one classification that all of Annals uses.
//!
//! A small table of what agents read and write. The content decides where it can: a picture under a text's name is
//! a picture, and bytes that are not UTF-8 are no text. Nothing here unpacks or parses; how large a picture is stands
//! in its first bytes.

use std::borrow::Cow;

/// MIME type by extension, sorted.
const BY_EXTENSION: &[(&str, &str)] = &[
    ("bash", "text/x-shellscript"),
    ("bmp", "image/bmp"),
    ("c", "text/x-c"),
    ("cc", "text/x-c++"),
    ("conf", "text/plain"),
    ("cpp", "text/x-c++"),
    ("cs", "text/x-csharp"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("diff", "text/x-diff"),
    ("doc", "application/msword"),
    (
        "docx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ),
    ("eml", "message/rfc822"),
    ("epub", "application/epub+zip"),
    ("gif", "image/gif"),
    ("go", "text/x-go"),
    ("gz", "application/gzip"),
    ("h", "text/x-c"),
    ("hpp", "text/x-c++"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("ico", "image/x-icon"),
    ("ics", "text/calendar"),
    ("ini", "text/plain"),
    ("ipynb", "application/x-ipynb+json"),
    ("java", "text/x-java"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("jsx", "text/javascript"),
    ("kt", "text/x-kotlin"),
    ("log", "text/plain"),
    ("lua", "text/x-lua"),
    ("md", "text/markdown"),
    ("markdown", "text/markdown"),
    ("mermaid", "text/vnd.mermaid"),
    ("mjs", "text/javascript"),
    ("mmd", "text/vnd.mermaid"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ndjson", "application/x-ndjson"),
    ("odp", "application/vnd.oasis.opendocument.presentation"),
    ("ods", "application/vnd.oasis.opendocument.spreadsheet"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("parquet", "application/vnd.apache.parquet"),
    ("patch", "text/x-diff"),
    ("pdf", "application/pdf"),
    ("php", "text/x-php"),
    ("png", "image/png"),
    ("ppt", "application/vnd.ms-powerpoint"),
    (
        "pptx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ),
    ("py", "text/x-python"),
    ("r", "text/x-r"),
    ("rb", "text/x-ruby"),
    ("rs", "text/x-rust"),
    ("rst", "text/x-rst"),
    ("rtf", "application/rtf"),
    ("sh", "text/x-shellscript"),
    ("sql", "application/sql"),
    ("sqlite", "application/vnd.sqlite3"),
    ("svg", "image/svg+xml"),
    ("swift", "text/x-swift"),
    ("tar", "application/x-tar"),
    ("tex", "text/x-tex"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("toml", "application/toml"),
    ("ts", "text/typescript"),
    ("tsv", "text/tab-separated-values"),
    ("tsx", "text/typescript"),
    ("txt", "text/plain"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    ("xhtml", "application/xhtml+xml"),
    ("xls", "application/vnd.ms-excel"),
    (
        "xlsx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
];

/// What the first bytes prove.
const BY_MAGIC: &[(&[u8], &str)] = &[
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
];

const UNKNOWN: &str = "application/octet-stream";

/// The MIME type of a file with this name and these bytes.
pub fn of(name: &str, bytes: &[u8]) -> &'static str {
    if let Some(proven) = by_magic(bytes) {
        return proven;
    }
    let named = by_name(name);
    match named {
        // Zip is the container of many formats, so the name says more.
        _ if bytes.starts_with(b"PK\x03\x04") => {
            named.filter(|mime| !is_text(mime)).unwrap_or("application/zip")
        }
        Some(mime) if !is_text(mime) && !claims_magic(mime) => mime,
        Some(mime) if is_text(mime) && is_utf8(bytes) => mime,
        _ if is_utf8(bytes) => "text/plain",
        _ => UNKNOWN,
    }
}

/// The MIME type the extension claims.
pub fn by_name(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit('/').next()?.rsplit_once('.')?;
    let extension = extension.to_ascii_lowercase();
    BY_EXTENSION
        .iter()
        .find(|(known, _)| *known == extension)
        .map(|(_, mime)| *mime)
}

fn by_magic(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    BY_MAGIC
        .iter()
        .find(|(magic, _)| bytes.starts_with(magic))
        .map(|(_, mime)| *mime)
}

/// Types whose bytes would have proven themselves.
fn claims_magic(mime: &str) -> bool {
    BY_MAGIC.iter().any(|(_, proven)| *proven == mime)
        || mime == "image/webp"
        || mime.starts_with("application/vnd.open")
}

fn is_utf8(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0)
}

/// Whether content of this type is text that a model reads as it is.
pub fn is_text(mime: &str) -> bool {
    const TEXT: &[&str] = &[
        "application/json",
        "application/jsonl",
        "application/x-ndjson",
        "application/x-ipynb+json",
        "application/xml",
        "application/xhtml+xml",
        "application/yaml",
        "application/toml",
        "application/sql",
        "image/svg+xml",
        "message/rfc822",
    ];
    mime.starts_with("text/") || TEXT.contains(&mime)
}

/// Whether models take content of this type as an image or a document.
pub fn is_media(mime: &str) -> bool {
    matches!(
        mime,
        "application/pdf" | "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    )
}

/// Whether files of this type enter the sources pool by themselves.
pub fn is_source(mime: &str) -> bool {
    mime.starts_with("text/") || mime.starts_with("image/") || mime == "application/pdf"
}

/// The MIME type of a text with this name.
pub fn text_mime(name: &str) -> &'static str {
    by_name(name).filter(|mime| is_text(mime)).unwrap_or("text/plain")
}

/// Width and height of a picture in pixels, as its header says.
pub fn pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    match by_magic(bytes)? {
        "image/png" => Some((be32(bytes, 16)?, be32(bytes, 20)?)),
        "image/gif" => Some((le16(bytes, 6)?, le16(bytes, 8)?)),
        "image/jpeg" => jpeg_pixels(bytes),
        "image/webp" => webp_pixels(bytes),
        _ => None,
    }
}

/// Pages of a PDF whose page objects stand outside of compressed streams.
pub fn pdf_pages(bytes: &[u8]) -> Option<u32> {
    const TYPE: &[u8] = b"/Type";
    let mut pages = 0_u32;
    let mut rest = bytes;
    while let Some(at) = rest.windows(TYPE.len()).position(|window| window == TYPE) {
        rest = &rest[at + TYPE.len()..];
        let name = rest.trim_ascii_start();
        let is_page = name
            .strip_prefix(b"/Page")
            .is_some_and(|after| !after.first().is_some_and(u8::is_ascii_alphanumeric));
        pages = pages.saturating_add(u32::from(is_page));
    }
    (pages > 0).then_some(pages)
}

fn be16(bytes: &[u8], at: usize) -> Option<u32> {
    let pair = bytes.get(at..at.checked_add(2)?)?;
    Some(u32::from(pair[0]) << 8 | u32::from(pair[1]))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(be16(bytes, at)? << 16 | be16(bytes, at + 2)?)
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    be16(bytes, at).map(|value| (value & 0xff) << 8 | value >> 8)
}

/// The size stands in the first start-of-frame segment.
fn jpeg_pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    while *bytes.get(at)? == 0xff {
        let marker = *bytes.get(at + 1)?;
        match marker {
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((be16(bytes, at + 7)?, be16(bytes, at + 5)?));
            }
            _ => at += 2 + be16(bytes, at + 2)?.max(2) as usize,
        }
    }
    None
}

/// Three forms of chunk, each with its own place for the size.
fn webp_pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    const SIDE_14_BITS: u32 = 0x3fff;
    match bytes.get(12..16)? {
        b"VP8 " => Some((le16(bytes, 26)? & SIDE_14_BITS, le16(bytes, 28)? & SIDE_14_BITS)),
        b"VP8L" => {
            let bits = le16(bytes, 21)? | le16(bytes, 23)? << 16;
            Some(((bits & SIDE_14_BITS) + 1, (bits >> 14 & SIDE_14_BITS) + 1))
        }
        b"VP8X" => {
            let side = |at: usize| Some((le16(bytes, at)? | u32::from(*bytes.get(at + 2)?) << 16) + 1);
            Some((side(24)?, side(27)?))
        }
        _ => None,
    }
}

/// Text as a model gets it; nothing when the bytes are no text.
pub fn text<'a>(mime: &str, bytes: &'a [u8]) -> Option<Cow<'a, str>> {
    is_text(mime).then(|| String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_over_the_name() {
        for (name, bytes, mime) in [
            ("a.md", &b"# hi"[..], "text/markdown"),
            ("a.MD", b"# hi", "text/markdown"),
            ("a.txt", b"%PDF-1.7 ...", "application/pdf"),
            ("a.png", b"not a picture", "text/plain"),
            ("a.png", b"\x89PNG\r\n\x1a\n....", "image/png"),
            ("a.txt", b"\xff\xfe\x00", "application/octet-stream"),
            ("a.docx", b"PK\x03\x04....", BY_EXTENSION[11].1),
            ("a.txt", b"PK\x03\x04....", "application/zip"),
            ("a", b"plain", "text/plain"),
            ("a", b"\x00\x01", "application/octet-stream"),
            ("dir.md/a", b"x", "text/plain"),
            ("a.mp4", b"\x00\x00", "video/mp4"),
            ("a.ts", b"let x;", "text/typescript"),
            ("a.json", b"", "application/json"),
        ] {
            assert_eq!(of(name, bytes), mime, "{name}");
        }
    }

    #[test]
    fn every_text_of_the_table_is_text_and_keeps_its_type() {
        for (extension, mime) in BY_EXTENSION.iter().filter(|(_, mime)| is_text(mime)) {
            assert_eq!(of(&format!("a.{extension}"), b"x = 1"), *mime, "{extension}");
        }
        for name in ["Cargo.toml", "rows.jsonl", "rows.ndjson", "q.sql", "n.ipynb"] {
            assert!(is_text(text_mime(name)), "{name}");
            assert_ne!(text_mime(name), "text/plain", "{name}");
        }
    }

    #[test]
    fn a_pictures_size_is_read_from_its_header() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x78\0\0\0\x50";
        let gif = b"GIF89a\x02\x01\x03\0";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x11\x08\x01\0\x02\0";
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x10\0\x20\0";
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x0f\xc0\x07\0";
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x0f\0\0\x1f\0\0";
        for (bytes, size) in [
            (&png[..], (120, 80)),
            (gif, (258, 3)),
            (jpeg, (512, 256)),
            (lossy, (16, 32)),
            (lossless, (16, 32)),
            (extended, (16, 32)),
        ] {
            assert_eq!(pixels(bytes), Some(size));
            for end in 0..bytes.len() {
                let _ = pixels(&bytes[..end]);
            }
        }
        assert_eq!(pixels(b"\xff\xd8\xff\xe0\xff\xff"), None);
        assert_eq!(pixels(b"<svg/>"), None);
    }

    #[test]
    fn pages_are_counted_where_they_can_be_seen() {
        let pdf = b"%PDF-1.7 /Type /Pages /Count 2 ... /Type/Page /A ... /Type /Page>> /Type /PageLabel";
        assert_eq!(pdf_pages(pdf), Some(2));
        assert_eq!(pdf_pages(b"%PDF-1.7 /ObjStm"), None);
    }
}
