//! Listing the files of a workspace.

use std::os::fd::{AsFd, OwnedFd};

use annals_core::path::PhysicalPath;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use super::beneath::{DRAFT_PREFIX, open_folder};

/// A file of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Where it lies.
    pub path: PhysicalPath,
    /// How many bytes it has.
    pub size_bytes: u64,
    /// When it was last written, in microseconds since 1970.
    pub modified_micros: i64,
}

/// Executed code may nest folders without end; no safe path is deeper than this.
const DEPTH_MAX_FOLDERS: usize = 512;

/// Regular files whose path begins with `prefix`, sorted.
pub(super) fn list(root: &OwnedFd, prefix: &str) -> Result<Vec<FileEntry>, Errno> {
    let mut found = Vec::new();
    // Folders are opened again by each step, part by part, so a folder that becomes a symlink is not entered.
    let mut waiting = vec![String::new()];
    while let Some(path) = waiting.pop() {
        let folder = match open_path(root, &path) {
            Ok(folder) => folder,
            // It was removed, or turned into something else, since it was seen.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(errno) => return Err(errno),
        };
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name == "." || name == ".." || name.starts_with(DRAFT_PREFIX) {
                continue;
            }
            let whole = if path.is_empty() {
                name.to_owned()
            } else {
                format!("{path}/{name}")
            };
            let Ok(stat) = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory if is_on_the_way(&whole, prefix) => waiting.push(whole),
                FileType::RegularFile if whole.starts_with(prefix) => {
                    let Ok(path) = PhysicalPath::parse(&whole) else {
                        continue;
                    };
                    let micros = stat.st_mtime.saturating_mul(1_000_000);
                    let modified_micros = micros.saturating_add(stat.st_mtime_nsec as i64 / 1_000);
                    let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
                    found.push(FileEntry {
                        path,
                        size_bytes,
                        modified_micros,
                    });
                }
                _ => {}
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn is_on_the_way(folder: &str, prefix: &str) -> bool {
    let shallow = folder.bytes().filter(|byte| *byte == b'/').count() < DEPTH_MAX_FOLDERS;
    let inside = format!("{folder}/");
    shallow && (inside.starts_with(prefix) || prefix.starts_with(&inside))
}

fn open_path(root: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let mut here = root.try_clone().map_err(|_| Errno::MFILE)?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        here = open_folder(here.as_fd(), part)?;
    }
    Ok(here)
}
