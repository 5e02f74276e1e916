//! File operations on a workspace, behind the same walls as commands.
//!
//! Programs inside may leave anything in the workspace: links to the outside, pipes nobody feeds, files swapped
//! between two looks. So nothing here resolves a path by itself: the kernel does, beneath one directory handle and
//! with magic links refused, and only regular files are read. Writes go to a temporary name and are renamed.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::failure::{Failure, FailureKind};
use crate::limits::Limits;
use crate::ops::{
    Encoding, EntryKind, FileContent, FileData, FileEntries, FileEntry, FileWriteResult, FilesExists,
    FilesList, FilesRead, FilesWrite,
};

/// How many directory entries are looked at to find the other names of a hard-linked file.
const HARD_LINK_SEARCH_ENTRIES: usize = 50_000;

/// A directory handle and where it appears inside; performs file operations beneath it.
#[derive(Debug)]
pub struct Workspace {
    handle: OwnedFd,
    inside: PathBuf,
    writable_subdirs: Option<Vec<PathBuf>>,
    owner: (fs::Uid, fs::Gid),
}

impl Workspace {
    /// Opens `host`, which appears at `inside`. With `writable_subdirs`, only those may be written below.
    pub fn open(host: &Path, inside: &Path, writable_subdirs: Option<Vec<PathBuf>>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = fs::open(host, flags, Mode::empty())?;
        let stat = fs::fstat(&handle)?;
        let owner = (fs::Uid::from_raw(stat.st_uid), fs::Gid::from_raw(stat.st_gid));
        Ok(Self {
            handle,
            inside: inside.to_owned(),
            writable_subdirs,
            owner,
        })
    }

    /// User and group that own the workspace, and so what is written into it.
    pub(crate) fn owner(&self) -> (u32, u32) {
        (self.owner.0.as_raw(), self.owner.1.as_raw())
    }

    /// Where the workspace appears inside.
    pub(crate) fn inside(&self) -> &Path {
        &self.inside
    }

    /// Whether a path exists; links that lead out, or nowhere, do not.
    pub fn exists(&self, op: &FilesExists) -> Result<bool, Failure> {
        let relative = self.relative(&op.path)?;
        match self.open_beneath(&relative, OFlags::PATH, Mode::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(path_failure("look at", &op.path, errno)),
        }
    }

    /// Reads a regular file.
    pub fn read(&self, op: &FilesRead, limits: &Limits) -> Result<FileContent, Failure> {
        let bytes = self.read_bytes(&op.path, limits.read_bytes)?;
        let data = match op.encoding {
            Encoding::Bytes => FileData::Bytes(bytes),
            Encoding::Utf8 => FileData::Text(String::from_utf8(bytes).map_err(|error| {
                Failure::new(
                    FailureKind::Unsupported,
                    format!("`{}` is not UTF-8 text; read it as bytes", op.path),
                )
                .detail(format!(
                    "first invalid byte at offset {}",
                    error.utf8_error().valid_up_to()
                ))
            })?),
        };
        Ok(FileContent { data })
    }

    fn read_bytes(&self, path: &str, limit_bytes: u64) -> Result<Vec<u8>, Failure> {
        let relative = self.relative(path)?;
        // Non-blocking: opening a pipe that a program left there must not wait for its other end.
        let file = self
            .open_beneath(
                &relative,
                OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
                Mode::empty(),
            )
            .map_err(|errno| path_failure("read", path, errno))?;
        let stat = fs::fstat(&file).map_err(|errno| path_failure("read", path, errno))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => {
                return Err(Failure::os(
                    format_args!("read `{path}`"),
                    "it is a directory; list it",
                ));
            }
            _ => {
                return Err(Failure::os(
                    format_args!("read `{path}`"),
                    "it is not a regular file",
                ));
            }
        }
        if stat.st_nlink > 1 {
            self.refuse_outside_links(path, &stat)?;
        }
        let mut bytes = Vec::with_capacity(
            usize::try_from(stat.st_size)
                .unwrap_or(0)
                .min(limit_bytes as usize),
        );
        std::fs::File::from(file)
            .take(limit_bytes + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::os(format_args!("read `{path}`"), error))?;
        if bytes.len() as u64 > limit_bytes {
            let message =
                format!("`{path}` is larger than {limit_bytes} bytes; read a part of it with a command");
            return Err(Failure::new(FailureKind::OutputTooLarge, message));
        }
        Ok(bytes)
    }

    /// Replaces or creates a file: all of the new content appears at once, or none of it.
    pub fn write(&self, op: &FilesWrite) -> Result<FileWriteResult, Failure> {
        let relative = self.relative(&op.path)?;
        self.check_writable(&op.path, &relative)?;
        let name = relative.file_name().ok_or_else(|| {
            Failure::new(FailureKind::PathViolation, format!("`{}` names no file", op.path))
        })?;
        let fail = |errno| path_failure("write", &op.path, errno);
        let directory = self
            .make_parents(relative.parent().unwrap_or(Path::new("")))
            .map_err(fail)?;
        match fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                return Err(fail(Errno::ISDIR));
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(fail(errno)),
        }
        let temporary = self.write_temporary(directory.as_fd(), op)?;
        fs::renameat(&directory, &temporary, &directory, name).map_err(|errno| {
            let _ = fs::unlinkat(&directory, &temporary, AtFlags::empty());
            fail(errno)
        })?;
        Ok(FileWriteResult {
            bytes_written: op.data.len() as u64,
        })
    }

    fn write_temporary(&self, directory: BorrowedFd<'_>, op: &FilesWrite) -> Result<String, Failure> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let temporary = format!(
            ".annals-{}-{}.tmp",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let fail = |errno| path_failure("write", &op.path, errno);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(directory, &temporary, flags, Mode::from_raw_mode(0o600)).map_err(fail)?;
        let written = self.fill(file, op);
        if let Err(error) = written {
            let _ = fs::unlinkat(directory, &temporary, AtFlags::empty());
            return Err(Failure::os(format_args!("write `{}`", op.path), error));
        }
        Ok(temporary)
    }

    fn fill(&self, file: OwnedFd, op: &FilesWrite) -> io::Result<()> {
        if rustix::process::geteuid().is_root() {
            fs::fchown(&file, Some(self.owner.0), Some(self.owner.1))?;
        }
        // Never set-user-id: nothing inside may become somebody else.
        fs::fchmod(&file, Mode::from_raw_mode(op.mode & 0o777))?;
        std::fs::File::from(file).write_all(&op.data)
    }

    /// Lists a directory, sorted by name.
    pub fn list(&self, op: &FilesList, limits: &Limits) -> Result<FileEntries, Failure> {
        let relative = self.relative(&op.path)?;
        let fail = |errno| path_failure("list", &op.path, errno);
        let handle = self
            .open_beneath(&relative, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .map_err(fail)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&handle).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(entry.file_name().to_owned());
            }
        }
        names.sort();
        let total = names.len();
        names.truncate(limits.list_entries);
        let entries = names.iter().filter_map(|name| {
            // An entry that vanished since the directory was read is not an error.
            let stat = fs::statat(&handle, name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Directory,
                FileType::Symlink => EntryKind::Symlink,
                _ => EntryKind::Other,
            };
            let size_bytes = (kind == EntryKind::File).then_some(stat.st_size as u64);
            Some(FileEntry {
                name: name.to_string_lossy().into_owned(),
                kind,
                size_bytes,
            })
        });
        Ok(FileEntries {
            entries: entries.collect(),
            total,
        })
    }

    /// The path below the workspace that `path`, as seen from inside, names. Text only: links are the kernel's part.
    pub(crate) fn relative(&self, path: &str) -> Result<PathBuf, Failure> {
        let violation = |why: &str| {
            Failure::new(
                FailureKind::PathViolation,
                format!("path `{}` {why}", path.escape_debug()),
            )
        };
        if path.is_empty() {
            return Err(violation("is empty; use `.` for the workspace itself"));
        }
        if path.contains('\0') {
            return Err(violation("contains a NUL character"));
        }
        let mut relative = PathBuf::new();
        let below = match Path::new(path).strip_prefix(&self.inside) {
            Ok(below) => below,
            Err(_) if path.starts_with('/') => {
                return Err(violation("is absolute; name files relative to the workspace"));
            }
            Err(_) => Path::new(path),
        };
        for component in below.components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => relative.push(name),
                // `a/../b` is refused as well: what `a/..` means depends on links.
                _ => return Err(violation("leads upwards; name files below the workspace")),
            }
        }
        Ok(relative)
    }

    fn check_writable(&self, path: &str, relative: &Path) -> Result<(), Failure> {
        match &self.writable_subdirs {
            Some(subdirs) if !subdirs.iter().any(|subdir| relative.starts_with(subdir)) => {
                let message = format!("`{path}` is in a read-only part of the workspace");
                Err(Failure::new(FailureKind::PathViolation, message))
            }
            _ => Ok(()),
        }
    }

    fn open_beneath(&self, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let relative = if relative.as_os_str().is_empty() {
            Path::new(".")
        } else {
            relative
        };
        open_beneath(self.handle.as_fd(), relative, flags, mode)
    }

    fn make_parents(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match self.open_beneath(relative, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let parent = self.make_parents(relative.parent().unwrap_or(Path::new("")))?;
        let name = Path::new(relative.file_name().ok_or(Errno::NOENT)?);
        match fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
            Ok(()) if rustix::process::geteuid().is_root() => {
                fs::chownat(
                    &parent,
                    name,
                    Some(self.owner.0),
                    Some(self.owner.1),
                    AtFlags::SYMLINK_NOFOLLOW,
                )?;
            }
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        self.open_beneath(relative, flags, Mode::empty())
    }

    /// A file with several names is fine if all of them are in the workspace; else it is somebody else's file.
    fn refuse_outside_links(&self, path: &str, wanted: &fs::Stat) -> Result<(), Failure> {
        let mut names: usize = 0;
        let mut budget = HARD_LINK_SEARCH_ENTRIES;
        self.count_names(Path::new("."), wanted, &mut names, &mut budget);
        if Ok(names) == usize::try_from(wanted.st_nlink) {
            return Ok(());
        }
        let message = format!("`{path}` is a hard link to a file outside the workspace; copy it instead");
        Err(Failure::new(FailureKind::PathViolation, message))
    }

    fn count_names(&self, directory: &Path, wanted: &fs::Stat, names: &mut usize, budget: &mut usize) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let Ok(handle) = self.open_beneath(directory, flags, Mode::empty()) else {
            return;
        };
        let Ok(entries) = Dir::read_from(&handle) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if *budget == 0 || Ok(*names) == usize::try_from(wanted.st_nlink) {
                return;
            }
            *budget -= 1;
            let Ok(stat) = fs::statat(&handle, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            if (stat.st_dev, stat.st_ino) == (wanted.st_dev, wanted.st_ino) {
                *names += 1;
            } else if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                use std::os::unix::ffi::OsStrExt;
                let below = directory.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
                self.count_names(&below, wanted, names, budget);
            }
        }
    }
}

fn open_beneath(root: BorrowedFd<'_>, relative: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match fs::openat2(root, relative, flags | OFlags::CLOEXEC, mode, resolve) {
            // The kernel could not be sure while somebody was renaming; asking again is the documented answer.
            Err(Errno::AGAIN) => std::hint::spin_loop(),
            opened => return opened,
        }
    }
}

fn path_failure(doing: &str, path: &str, errno: Errno) -> Failure {
    match errno {
        Errno::NOENT => Failure::new(FailureKind::FileNotFound, format!("there is no `{path}`")),
        Errno::XDEV | Errno::LOOP => Failure::new(
            FailureKind::PathViolation,
            format!("`{path}` leads out of the workspace"),
        ),
        _ => Failure::os(format_args!("{doing} `{path}`"), io::Error::from(errno)),
    }
}
