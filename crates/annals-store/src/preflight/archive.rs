//! Zip archives, among them the office formats: how much they unpack to, and whether they hold macros.
//!
//! What an archive says of itself is not believed: entries are unpacked into nothing and counted, up to the limit.

use std::io::{Cursor, Read};

use annals_core::limits::{ZIP_MAX_ENTRIES, ZIP_MAX_RATIO, ZIP_UNPACKED_MAX_BYTES};
use flate2::read::DeflateDecoder;
use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::AttachmentRefused;

/// Refuses an archive that is too much or holds macros.
pub(super) fn check(name: &str, bytes: &[u8]) -> Result<(), AttachmentRefused> {
    let broken = |error: String| AttachmentRefused::BrokenArchive {
        name: name.to_owned(),
        reason: error,
    };
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| broken(error.to_string()))?;
    let entries = archive.len();
    if entries > ZIP_MAX_ENTRIES {
        return Err(AttachmentRefused::TooManyEntries {
            name: name.to_owned(),
            entries,
        });
    }
    if archive
        .file_names()
        .any(|entry| entry.is_ok_and(|entry| is_macro_entry(&entry)))
    {
        return Err(AttachmentRefused::Macros {
            name: name.to_owned(),
        });
    }
    // A small archive of a long, dull text is not a bomb: the ratio counts for the whole.
    let ratio_max_bytes = (bytes.len() as u64).saturating_mul(ZIP_MAX_RATIO);
    let mut unpacked = 0_u64;
    for index in 0..entries {
        let entry = archive
            .by_index_raw(index)
            .map_err(|error| broken(error.to_string()))?;
        unpacked = unpacked.saturating_add(unpacked_bytes(entry, ZIP_UNPACKED_MAX_BYTES - unpacked));
        if unpacked > ZIP_UNPACKED_MAX_BYTES {
            return Err(AttachmentRefused::UnpacksTooLarge {
                name: name.to_owned(),
            });
        }
        if unpacked > ratio_max_bytes {
            return Err(AttachmentRefused::UnpacksTooMuch {
                name: name.to_owned(),
            });
        }
    }
    Ok(())
}

/// The office format that an archive is, by the folder of its parts.
pub(super) fn office_mime(bytes: &[u8]) -> Option<&'static str> {
    const FORMATS: &[(&str, &str)] = &[
        (
            "word/",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ),
        (
            "xl/",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ),
        (
            "ppt/",
            "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        ),
    ];
    let archive = ZipArchive::new(Cursor::new(bytes)).ok()?;
    let names: Vec<String> = archive
        .file_names()
        .filter_map(|name| Some(name.ok()?.into_owned()))
        .collect();
    if !names.iter().any(|name| name == "[Content_Types].xml") {
        return None;
    }
    let has = |folder: &str| names.iter().any(|name| name.starts_with(folder));
    FORMATS
        .iter()
        .find(|(folder, _)| has(folder))
        .map(|(_, mime)| *mime)
}

/// What an entry unpacks to, counting no further than one byte past `left`. Where it cannot be unpacked (locked,
/// broken, packed in a way that nobody here reads) its own word must do.
fn unpacked_bytes<R: Read>(mut entry: ZipFile<'_, R>, left: u64) -> u64 {
    let declared = entry.size();
    if entry.compression() != CompressionMethod::Deflated {
        return declared.max(entry.compressed_size());
    }
    let mut unpacked = DeflateDecoder::new(&mut entry).take(left + 1);
    let mut piece = [0; 32 * 1024];
    let mut counted = 0;
    while let Ok(read @ 1..) = unpacked.read(&mut piece) {
        counted += read as u64;
    }
    counted.max(declared)
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
