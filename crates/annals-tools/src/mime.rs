//! What a file is, by its name and its first bytes.
//!
//! A small table of what agents read and write. The content decides where it can: a picture under a text's name is
//! a picture, and bytes that are not UTF-8 are no text.

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
}
