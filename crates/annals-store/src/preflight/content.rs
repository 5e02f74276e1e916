//! What a file is, by its first bytes; and whether it holds macros.

use annals_core::path::RelPath;
use serde::{Deserialize, Serialize};

use super::archive;

/// What can be done with an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AttachmentKind {
    /// Readable text: shown to the model.
    Text,
    /// A picture: shown to the model.
    Image,
    /// A PDF: shown to the model.
    Pdf,
    /// Anything else: only its metadata is shown.
    Other,
}

/// Office formats that exist to carry macros.
const MACRO_EXTENSIONS: &[&str] = &[
    "docm", "dotm", "potm", "ppam", "ppsm", "pptm", "sldm", "xlam", "xlm", "xlsm", "xltm",
];

fn extension(name: &RelPath) -> String {
    name.extension().unwrap_or_default().to_ascii_lowercase()
}

/// Whether the name claims a format that carries macros.
pub(super) fn has_macro_name(name: &RelPath) -> bool {
    MACRO_EXTENSIONS.contains(&extension(name).as_str())
}

/// Whether the content is a zip archive, also an empty one.
pub(super) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// Whether the content is a compound document, as old Office files are.
pub(super) fn is_compound(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1])
}

/// Whether the marker of a PDF stands near the beginning. It may come after some bytes of rubbish, as readers allow.
pub(super) fn has_pdf_marker(bytes: &[u8]) -> bool {
    pdf_marker(bytes).is_some()
}

fn pdf_marker(bytes: &[u8]) -> Option<usize> {
    const WITHIN_BYTES: usize = 1024;
    find(&bytes[..bytes.len().min(WITHIN_BYTES)], b"%PDF-")
}

/// Whether an old Office file (compound document) holds a macro project. Its directory names are UTF-16.
pub(super) fn has_ole_macros(bytes: &[u8]) -> bool {
    if !is_compound(bytes) {
        return false;
    }
    ["_VBA_PROJECT", "VBA_PROJECT_CUR"].iter().any(|name| {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        find(bytes, &name).is_some()
    })
}

/// Where `wanted` first occurs.
pub(super) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = bytes.get(from..)?.iter().position(|byte| *byte == first) {
        let start = from + at;
        if bytes[start..].starts_with(wanted) {
            return Some(start);
        }
        from = start + 1;
    }
    None
}

/// The MIME type, and what can be done with it.
pub(super) fn judge(name: &RelPath, bytes: &[u8]) -> (String, AttachmentKind) {
    if pdf_marker(bytes).is_some_and(|at| at == 0 || !is_text(bytes)) {
        return ("application/pdf".to_owned(), AttachmentKind::Pdf);
    }
    // A text that merely mentions the marker of a PDF is a text.
    let is_magic =
        |found: &infer::Type| !found.mime_type().starts_with("text/") && found.extension() != "pdf";
    if let Some(found) = infer::get(bytes).filter(is_magic) {
        let kind = match found.matcher_type() {
            infer::MatcherType::Image => AttachmentKind::Image,
            _ => AttachmentKind::Other,
        };
        let office = is_zip(bytes).then(|| archive::office_mime(bytes)).flatten();
        return (office.unwrap_or(found.mime_type()).to_owned(), kind);
    }
    if is_text(bytes) {
        return (
            annals_core::content::text_mime(name.as_str()).to_owned(),
            AttachmentKind::Text,
        );
    }
    ("application/octet-stream".to_owned(), AttachmentKind::Other)
}

/// UTF-8 without the control characters that no text has.
fn is_text(bytes: &[u8]) -> bool {
    let is_odd = |byte: &u8| *byte < 0x20 && !matches!(*byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    !bytes.iter().any(is_odd) && std::str::from_utf8(bytes).is_ok()
}
