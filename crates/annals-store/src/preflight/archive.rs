//! Zip archives, among them the office formats: how much they unpack to, and whether they hold macros.
//!
//! What an archive says of itself is not believed: entries are unpacked into nothing and counted, up to the limit.

use std::io::{Cursor, Read};

use annals_core::limits::{ZIP_MAX_ENTRIES, ZIP_MAX_RATIO, ZIP_UNPACKED_MAX_BYTES};
use zip::ZipArchive;
use zip::read::ZipFile;

use super::AttachmentRefused;

/// Whether the content is a zip archive, also an empty one.
pub(super) fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06")
}

/// Refuses an archive that is too much or holds macros.
pub(super) fn check(name: &str, bytes: &[u8]) -> Result<(), AttachmentRefused> {
    let broken = |error: String| AttachmentRefused::BrokenArchive { name: name.to_owned(), reason: error };
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken(error.to_string()))?;
    let entries = archive.len();
    if entries > ZIP_MAX_ENTRIES {
        return Err(AttachmentRefused::TooManyEntries { name: name.to_owned(), entries });
    }
    if archive.file_names().any(|entry| entry.is_ok_and(|entry| is_macro_entry(&entry))) {
        return Err(AttachmentRefused::Macros { name: name.to_owned() });
    }
    // A small archive of a long, dull text is not a bomb: the ratio counts for the whole.
    let ratio_max_bytes = (bytes.len() as u64).saturating_mul(ZIP_MAX_RATIO);
    let mut unpacked = 0;
    for index in 0..entries {
        let left = ZIP_UNPACKED_MAX_BYTES - unpacked;
        let counted = archive.by_index(index).ok().map(|entry| unpacked_bytes(entry, left));
        unpacked = unpacked.saturating_add(match counted {
            Some(counted) => counted,
            // Locked or packed in another way: nobody here will unpack it, its own word must do.
            None => archive.by_index_raw(index).map_err(|error| broken(error.to_string()))?.size(),
        });
        if unpacked > ZIP_UNPACKED_MAX_BYTES {
            return Err(AttachmentRefused::UnpacksTooLarge { name: name.to_owned() });
        }
        if unpacked > ratio_max_bytes {
            return Err(AttachmentRefused::UnpacksTooMuch { name: name.to_owned() });
        }
    }
    Ok(())
}

/// What an entry unpacks to, or one byte more than `left` if it is more.
fn unpacked_bytes<R: Read>(entry: ZipFile<'_, R>, left: u64) -> u64 {
    let declared = entry.size();
    let counted = std::io::copy(&mut entry.take(left + 1), &mut std::io::sink());
    // A broken entry is a broken file inside, not a danger; count what it claims, within reason.
    counted.unwrap_or_else(|_| declared.min(left + 1))
}

/// Parts that hold macros in the office formats: VBA projects, and sheets of the older macro language.
fn is_macro_entry(entry: &str) -> bool {
    let entry = entry.to_ascii_lowercase();
    let file = entry.rsplit('/').next().unwrap_or(&entry);
    file == "vbaproject.bin"
        || file == "vbadata.xml"
        || entry.starts_with("xl/macrosheets/")
        || entry.starts_with("basic/script-lb.xml")
}
