//! Resolving a path beneath a handle: openat2, or part by part where the kernel does not offer it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

/// Which symlinks are followed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Those that stay beneath the root.
    Inside,
    /// None, not even as the last part: a file lies exactly where its path says.
    Never,
}

/// Why a file was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The kernel refused; `XDEV` and `LOOP` mean that a symlink leads out.
    Os(Errno),
    /// A directory.
    Directory,
    /// A FIFO, a socket or a device.
    Special,
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        OpenError::Os(errno)
    }
}

/// A directory that everything is resolved beneath.
#[derive(Debug)]
pub struct Root {
    handle: OwnedFd,
    /// Given to what is made here when the caller is root, so that files belong to whom the directory belongs.
    owner: (Uid, Gid),
}

/// Opening a FIFO must not wait for its other end, nor a terminal become ours.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

impl Root {
    /// Opens the directory at `path`, which is trusted.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = fs::open(path, flags, Mode::empty())?;
        let stat = fs::fstat(&handle)?;
        let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        Ok(Root { handle, owner })
    }

    /// User and group that own the directory.
    pub fn owner(&self) -> (u32, u32) {
        (self.owner.0.as_raw(), self.owner.1.as_raw())
    }

    /// Opens whatever is at `path` beneath the root; `""` is the root itself.
    pub fn open_at(&self, path: &Path, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let flags = flags | OFlags::CLOEXEC;
        let resolve = match links {
            Links::Inside => ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
            Links::Never => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
        };
        loop {
            match fs::openat2(&self.handle, path, flags, Mode::empty(), resolve) {
                // A rename elsewhere in the tree made the kernel unsure; asking again is the documented answer.
                Err(Errno::AGAIN) => std::hint::spin_loop(),
                Err(Errno::NOSYS | Errno::PERM) => return self.open_by_parts(path, flags),
                opened => return opened,
            }
        }
    }

    /// Without openat2 no symlink is followed at all: the strict half of the rule holds on every kernel.
    fn open_by_parts(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut here = fs::openat(&self.handle, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mut parts = path
            .components()
            .filter(|part| *part != Component::CurDir)
            .peekable();
        if parts.peek().is_none() {
            return fs::openat(&here, ".", flags, Mode::empty());
        }
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else {
                return Err(Errno::XDEV);
            };
            let flags = match parts.peek() {
                Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                None => flags,
            };
            let name = Path::new(name);
            here = fs::openat(&here, name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(|errno| {
                // Here a symlink is no directory. One is an attack, the other a mistake.
                let found = fs::statat(&here, name, AtFlags::SYMLINK_NOFOLLOW);
                let is_link = found.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink());
                if is_link { Errno::LOOP } else { errno }
            })?;
        }
        Ok(here)
    }

    /// Opens a regular file for reading, with what is known of it.
    pub fn open_file(&self, path: &Path, links: Links) -> Result<(File, Stat), OpenError> {
        let file = self.open_at(path, READ, links)?;
        let stat = fs::fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((file.into(), stat)),
            FileType::Directory => Err(OpenError::Directory),
            _ => Err(OpenError::Special),
        }
    }

    /// A handle to the directory at `path`.
    pub fn open_dir(&self, path: &Path, links: Links) -> Result<OwnedFd, Errno> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY, links)
    }

    /// The same, making directories that are missing.
    pub fn make_dir(&self, path: &Path, links: Links) -> Result<OwnedFd, Errno> {
        match self.open_dir(path, links) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let parent = self.make_dir(path.parent().unwrap_or(Path::new("")), links)?;
        let name = Path::new(path.file_name().ok_or(Errno::NOENT)?);
        match fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => self.give(parent.as_fd(), name)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        self.open_dir(path, links)
    }

    fn give(&self, parent: BorrowedFd<'_>, name: &Path) -> Result<(), Errno> {
        let owned = self.owns_others();
        owned.map_or(Ok(()), |(user, group)| {
            fs::chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    /// Whom new files are given to, when that is not who makes them.
    pub(crate) fn owns_others(&self) -> Option<(Uid, Gid)> {
        rustix::process::geteuid().is_root().then_some(self.owner)
    }

    /// Removes a file, or the symlink that stands in its place.
    pub fn remove(&self, path: &Path) -> Result<(), Errno> {
        let folder = self.open_dir(path.parent().unwrap_or(Path::new("")), Links::Never)?;
        let name = Path::new(path.file_name().ok_or(Errno::ISDIR)?);
        fs::unlinkat(&folder, name, AtFlags::empty())
    }
}
