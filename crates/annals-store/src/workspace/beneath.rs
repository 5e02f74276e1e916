//! Opening below a folder without ever leaving it.
//!
//! Reading asks the kernel to resolve beneath the folder (openat2), so symlinks work as long as they stay inside.
//! Writing walks part by part and follows no symlink at all, so that a file lands where its path says. A kernel
//! without openat2 reads the same strict way.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use annals_core::path::PhysicalPath;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// Files that are being written begin with this.
pub(super) const DRAFT_PREFIX: &str = ".annals-draft-";

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A FIFO that executed code left must not block whoever opens it.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

/// The handle that everything goes through.
pub(super) fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    openat(
        CWD,
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Opens a file for reading, following only symlinks that stay beneath `root`.
pub(super) fn open_file(root: &OwnedFd, path: &str) -> Result<File, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(root, path, READ, Mode::empty(), resolve) {
            Ok(file) => return Ok(file.into()),
            // A rename elsewhere in the tree made the kernel unsure; it asks to be asked again.
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM) => return open_file_strictly(root, path),
            Err(errno) => return Err(errno),
        }
    }
}

fn open_file_strictly(root: &OwnedFd, path: &str) -> Result<File, Errno> {
    let (folder, name) = open_parent(root, path)?;
    Ok(openat(&folder, name, READ | OFlags::NOFOLLOW, Mode::empty())?.into())
}

/// The folder that a path's last part lies in, and that part. No part on the way may be a symlink.
pub(super) fn open_parent<'p>(root: &OwnedFd, path: &'p str) -> Result<(OwnedFd, &'p str), Errno> {
    walk(root, path, open_folder)
}

/// The same, making folders that are missing.
fn make_parent<'p>(root: &OwnedFd, path: &'p str) -> Result<(OwnedFd, &'p str), Errno> {
    walk(root, path, |folder, part| match open_folder(folder, part) {
        Err(Errno::NOENT) => {
            match rustix::fs::mkdirat(folder, part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            open_folder(folder, part)
        }
        opened => opened,
    })
}

fn walk<'p>(
    root: &OwnedFd,
    path: &'p str,
    step: impl Fn(BorrowedFd<'_>, &str) -> Result<OwnedFd, Errno>,
) -> Result<(OwnedFd, &'p str), Errno> {
    let (folders, name) = path.rsplit_once('/').ok_or(Errno::INVAL)?;
    let mut here: Option<OwnedFd> = None;
    for part in folders.split('/') {
        let from = here.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        here = Some(step(from, part)?);
    }
    Ok((here.ok_or(Errno::INVAL)?, name))
}

/// Opens a folder by one part of a path. A symlink there is told from a file, because one is an attack and the
/// other a mistake.
pub(super) fn open_folder(folder: BorrowedFd<'_>, part: &str) -> Result<OwnedFd, Errno> {
    openat(folder, part, FOLDER, Mode::empty()).map_err(|errno| {
        let stat = rustix::fs::statat(folder, part, AtFlags::SYMLINK_NOFOLLOW);
        match stat {
            Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_symlink() => Errno::LOOP,
            _ => errno,
        }
    })
}

/// A file that has no name of its own yet. Dropped, it leaves nothing.
pub(super) struct Draft {
    pub(super) file: File,
    folder: OwnedFd,
    draft_name: String,
    name: String,
    published: bool,
}

impl Draft {
    pub(super) fn new(root: &OwnedFd, path: &PhysicalPath) -> Result<Self, Errno> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (folder, name) = make_parent(root, path.as_str())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let draft_name = format!("{DRAFT_PREFIX}{}-{number}", std::process::id());
            match openat(&folder, &draft_name, flags, Mode::from_raw_mode(0o644)) {
                // Left by a process of the same number that died.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
                Ok(file) => {
                    let name = name.to_owned();
                    return Ok(Draft {
                        file: file.into(),
                        folder,
                        draft_name,
                        name,
                        published: false,
                    });
                }
            }
        }
    }

    /// Gives the file its name.
    pub(super) fn publish(mut self) -> Result<(), Errno> {
        rustix::fs::renameat(&self.folder, &self.draft_name, &self.folder, &self.name)?;
        self.published = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            let _ = rustix::fs::unlinkat(&self.folder, &self.draft_name, AtFlags::empty());
        }
    }
}
