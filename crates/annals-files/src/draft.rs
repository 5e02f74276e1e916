//! Files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::resolve::{Links, Root};

/// Files that are being written begin with this.
pub const DRAFT_PREFIX: &str = ".annals-draft-";

/// A file that has no name of its own yet. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct Draft {
    /// What is written here appears when the draft is published.
    pub file: File,
    folder: OwnedFd,
    draft_name: String,
    name: OsString,
    is_published: bool,
}

impl Draft {
    /// A draft of the file at `path`, whose folders are made as needed.
    pub fn new(root: &Root, path: &Path, mode: u32, links: Links) -> Result<Self, Errno> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let folder = root.make_dir(path.parent().unwrap_or(Path::new("")), links)?;
        match fs::statat(&folder, Path::new(&name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode).is_dir() => return Err(Errno::ISDIR),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let draft_name = format!("{DRAFT_PREFIX}{}-{number}", std::process::id());
            match fs::openat(&folder, &draft_name, flags, Mode::from_raw_mode(0o600)) {
                // Left by a process of the same number that died.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
                Ok(file) => {
                    let draft = Draft {
                        file: file.into(),
                        folder,
                        draft_name,
                        name,
                        is_published: false,
                    };
                    if let Some((user, group)) = root.owns_others() {
                        fs::fchown(&draft.file, Some(user), Some(group))?;
                    }
                    fs::fchmod(&draft.file, Mode::from_raw_mode(mode & 0o777))?;
                    return Ok(draft);
                }
            }
        }
    }

    /// Gives the file its name, replacing what was there.
    pub fn publish(mut self) -> Result<(), Errno> {
        fs::renameat(
            &self.folder,
            &self.draft_name,
            &self.folder,
            Path::new(&self.name),
        )?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = fs::unlinkat(&self.folder, &self.draft_name, AtFlags::empty());
        }
    }
}
