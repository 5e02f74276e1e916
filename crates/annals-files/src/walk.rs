//! Walking a tree that somebody else may be changing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;

use crate::draft::DRAFT_PREFIX;
use crate::resolve::{Links, Root};

/// Programs may nest folders without end; no path that anybody can name is deeper.
const DEPTH_MAX_FOLDERS: usize = 512;

/// One version of a file, told from others without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    size_bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp in what the kernel says of a file.
    pub fn of(stat: &Stat) -> Self {
        Stamp {
            inode: stat.st_ino,
            size_bytes: size(stat),
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    /// The file's size.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

/// Something a walk came by.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it lies below the root.
    pub path: PathBuf,
    /// What the kernel says of it; links are not followed.
    pub stat: Stat,
}

impl Entry {
    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode).is_file()
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        size(&self.stat)
    }

    /// What it takes on disk; of a file with several names each has its part.
    #[allow(
        clippy::unnecessary_cast,
        reason = "the fields' types differ between architectures"
    )]
    pub fn disk_bytes(&self) -> u64 {
        self.stat.st_blocks as u64 * 512 / (self.stat.st_nlink as u64).max(1)
    }

    /// Its last change, in microseconds since 1970.
    pub fn modified_micros(&self) -> i64 {
        let micros = self.stat.st_mtime.saturating_mul(1_000_000);
        micros.saturating_add(self.stat.st_mtime_nsec as i64 / 1_000)
    }
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// Everything below a root but drafts, folders before what is in them.
///
/// A folder that may not be read, or that vanished since it was seen, is stepped over and counted in
/// [`unreadable`](Self::unreadable).
#[derive(Debug)]
pub struct Walk<'r> {
    root: &'r Root,
    waiting: Vec<PathBuf>,
    found: Vec<Entry>,
    /// Folders that could not be looked into.
    pub unreadable: usize,
}

impl<'r> Walk<'r> {
    /// A walk of everything beneath `root`.
    pub fn new(root: &'r Root) -> Self {
        Walk {
            root,
            waiting: vec![PathBuf::new()],
            found: Vec::new(),
            unreadable: 0,
        }
    }

    fn look_into(&mut self, folder: &Path) -> Result<(), Errno> {
        // Opened again from the root, so that a folder that became a symlink is not entered.
        let handle = self.root.open_dir(folder, Links::Never)?;
        for entry in Dir::read_from(&handle)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || name.starts_with(DRAFT_PREFIX.as_bytes()) {
                continue;
            }
            // An entry that vanished since the folder was read is no error.
            let Ok(stat) = fs::statat(&handle, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let path = folder.join(OsStr::from_bytes(name));
            self.found.push(Entry { path, stat });
        }
        Ok(())
    }
}

impl Iterator for Walk<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.found.pop() {
                let is_folder = FileType::from_raw_mode(entry.stat.st_mode).is_dir();
                if is_folder && entry.path.components().count() <= DEPTH_MAX_FOLDERS {
                    self.waiting.push(entry.path.clone());
                }
                return Some(entry);
            }
            let folder = self.waiting.pop()?;
            if self.look_into(&folder).is_err() {
                self.unreadable += 1;
            }
        }
    }
}
