//! What may come in as an attachment, decided before anything is kept.
//!
//! A file's type is read from its content; the name only tells texts apart. Limits are those of
//! [`annals_core::limits`]. Checking never unpacks more than they allow. Content for which [`needs_parser`] says so is
//! checked in a helper process, which calls [`check_attachment`] there.

#[cfg(feature = "parsers")]
mod archive;
mod content;
mod describe;
#[cfg(feature = "parsers")]
mod markup;
#[cfg(not(feature = "parsers"))]
mod no_parsers;
#[cfg(feature = "parsers")]
mod office;
#[cfg(feature = "parsers")]
mod pdf;

use annals_core::limits::{
    ATTACHMENT_MAX_BYTES, PDF_MAX_PAGES, TEXT_ATTACHMENT_MAX_BYTES, ZIP_MAX_ENTRIES, ZIP_MAX_RATIO,
    ZIP_UNPACKED_MAX_BYTES,
};
use annals_core::path::RelPath;
use serde::{Deserialize, Serialize};

pub use content::AttachmentKind;
pub use describe::{Described, describe};
#[cfg(not(feature = "parsers"))]
use no_parsers::{archive, office, pdf};

/// An attachment that may come in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Its name, safe to be a file's.
    pub name: RelPath,
    /// The MIME type of its content.
    pub mime: String,
    /// What can be done with it.
    pub kind: AttachmentKind,
    /// Pages, if it is a PDF whose pages could be counted.
    pub pages: Option<u32>,
}

/// Why an attachment may not come in.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AttachmentRefused {
    /// It has no name.
    #[error("an attachment needs a name")]
    NoName,
    /// Its name cannot be a file's.
    #[error("attachment `{name}` has a name that cannot be used: {reason}; rename it")]
    BadName {
        /// The name given.
        name: String,
        /// Which rule it breaks.
        reason: String,
    },
    /// It is too large.
    #[error("attachment `{name}` has {size_bytes} bytes, at most {max_bytes} are accepted")]
    TooLarge {
        /// Its name.
        name: String,
        /// Its size.
        size_bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// It is text, and too much of it.
    #[error("attachment `{name}` has {size_bytes} bytes of text, at most {max_bytes} are accepted: split it")]
    TextTooLarge {
        /// Its name.
        name: String,
        /// Its size.
        size_bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// Its archive cannot be read.
    #[error("attachment `{name}` is an archive that cannot be read: {reason}")]
    BrokenArchive {
        /// Its name.
        name: String,
        /// What was wrong.
        reason: String,
    },
    /// Its archive has too many entries.
    #[error("attachment `{name}` is an archive of {entries} entries, at most {ZIP_MAX_ENTRIES} are accepted")]
    TooManyEntries {
        /// Its name.
        name: String,
        /// How many.
        entries: usize,
    },
    /// Its archive unpacks to too much.
    #[error("attachment `{name}` unpacks to more than {ZIP_UNPACKED_MAX_BYTES} bytes")]
    UnpacksTooLarge {
        /// Its name.
        name: String,
    },
    /// Its archive is packed suspiciously well.
    #[error(
        "attachment `{name}` unpacks to more than {ZIP_MAX_RATIO} times its size: it looks like a zip bomb"
    )]
    UnpacksTooMuch {
        /// Its name.
        name: String,
    },
    /// It holds macros.
    #[error("attachment `{name}` holds macros: save it in a format without them, such as `.docx` or `.xlsx`")]
    Macros {
        /// Its name.
        name: String,
    },
    /// It has too many pages.
    #[error("attachment `{name}` has {pages} pages, at most {PDF_MAX_PAGES} are accepted: split it")]
    TooManyPages {
        /// Its name.
        name: String,
        /// How many.
        pages: u32,
    },
    /// It has to be parsed, and there is nothing built in that does.
    #[error("attachment `{name}` has to be parsed, which was not built in: feature `local-sandbox`")]
    NotBuilt {
        /// Its name.
        name: String,
    },
}

/// Whether checking this content means parsing a format that a stranger may have built against its parser: archives, PDF,
/// compound documents. Everything else is told by its first bytes and one pass over it.
pub fn needs_parser(bytes: &[u8]) -> bool {
    content::is_zip(bytes) || content::has_pdf_marker(bytes) || content::is_compound(bytes)
}

/// Checks an attachment by its name and content.
pub fn check_attachment(name: &str, bytes: &[u8]) -> Result<Checked, AttachmentRefused> {
    if name.trim().is_empty() {
        return Err(AttachmentRefused::NoName);
    }
    let rel = RelPath::parse(name).map_err(|error| AttachmentRefused::BadName {
        name: shown(name),
        reason: error.to_string(),
    })?;
    let name = shown(name);
    if cfg!(not(feature = "parsers")) && needs_parser(bytes) {
        return Err(AttachmentRefused::NotBuilt { name });
    }
    let size_bytes = bytes.len() as u64;
    if size_bytes > ATTACHMENT_MAX_BYTES {
        return Err(AttachmentRefused::TooLarge {
            name,
            size_bytes,
            max_bytes: ATTACHMENT_MAX_BYTES,
        });
    }
    if content::has_macro_name(&rel) || content::has_ole_macros(bytes) {
        return Err(AttachmentRefused::Macros { name });
    }
    let (mime, kind) = content::judge(&rel, bytes);
    let mut pages = None;
    match kind {
        AttachmentKind::Text if size_bytes > TEXT_ATTACHMENT_MAX_BYTES => {
            return Err(AttachmentRefused::TextTooLarge {
                name,
                size_bytes,
                max_bytes: TEXT_ATTACHMENT_MAX_BYTES,
            });
        }
        AttachmentKind::Pdf => {
            pages = pdf::count_pages(bytes);
            if let Some(pages) = pages.filter(|pages| *pages > PDF_MAX_PAGES) {
                return Err(AttachmentRefused::TooManyPages { name, pages });
            }
        }
        _ if content::is_zip(bytes) => archive::check(&name, bytes)?,
        _ => {}
    }
    Ok(Checked {
        name: rel,
        mime,
        kind,
        pages,
    })
}

/// A name as it may stand in a message.
fn shown(name: &str) -> String {
    const SHOWN_MAX_CHARS: usize = 80;
    name.chars()
        .take(SHOWN_MAX_CHARS)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
