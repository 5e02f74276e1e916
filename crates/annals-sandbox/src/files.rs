//! File operations on a workspace of this machine, under the same rules as commands.
//!
//! Programs inside may leave anything there, so every path is resolved beneath a handle by [`annals_files`]. What is
//! added here: paths as programs inside write them, read-only parts, and hard links to files outside.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use annals_files::{Draft, Errno, Links, ReadError, Root, Walk, read_at_most};
use rustix::fs::{self, AtFlags, Dir, FileType, OFlags};

use crate::failure::{Failure, FailureKind};
use crate::limits::Limits;
use crate::ops::{
    Encoding, EntryKind, FileContent, FileData, FileEntries, FileEntry, FileWriteResult, FilesExists,
    FilesList, FilesRead, FilesWrite,
};

/// How many directory entries are looked at to find the other names of a hard-linked file.
const HARD_LINK_SEARCH_ENTRIES: usize = 50_000;

/// Performs file operations beneath one directory.
#[derive(Debug)]
pub(crate) struct FileOps {
    pub(crate) root: Root,
    inside: PathBuf,
    writable_subdirs: Option<Vec<PathBuf>>,
}

impl FileOps {
    /// Works in `host`, which appears at `inside`. With `writable_subdirs`, only those may be written below.
    pub(crate) fn open(
        host: &Path,
        inside: &Path,
        writable_subdirs: Option<Vec<PathBuf>>,
    ) -> io::Result<Self> {
        Ok(Self {
            root: Root::open(host)?,
            inside: inside.to_owned(),
            writable_subdirs,
        })
    }

    /// Where the workspace appears inside.
    pub(crate) fn inside(&self) -> &Path {
        &self.inside
    }

    /// Whether a path exists; links that lead out, or nowhere, do not.
    pub(crate) fn exists(&self, op: &FilesExists) -> Result<bool, Failure> {
        let relative = self.relative(&op.path)?;
        match self.root.open_at(&relative, OFlags::PATH, Links::Inside) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(errno) => Err(path_failure("look at", &op.path, errno)),
        }
    }

    /// Reads a regular file within the bound.
    pub(crate) fn read(&self, op: &FilesRead, limits: &Limits) -> Result<FileContent, Failure> {
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
        let mut file = self.open_file(path)?;
        read_at_most(&mut file, limit_bytes).map_err(|error| match error {
            ReadError::TooLarge => {
                let message =
                    format!("`{path}` is larger than {limit_bytes} bytes; read a part of it with a command");
                Failure::new(FailureKind::OutputTooLarge, message)
            }
            ReadError::Io(error) => Failure::os(format_args!("read `{path}`"), error),
        })
    }

    /// Opens a regular file that is nobody else's.
    pub(crate) fn open_file(&self, path: &str) -> Result<std::fs::File, Failure> {
        use annals_files::OpenError;

        let relative = self.relative(path)?;
        let doing = format_args!("read `{path}`").to_string();
        let (file, stat) = match self.root.open_file(&relative, Links::Inside) {
            Ok(opened) => opened,
            Err(OpenError::Os(errno)) => return Err(path_failure("read", path, errno)),
            Err(OpenError::Directory) => return Err(Failure::os(doing, "it is a directory; list it")),
            Err(OpenError::Special) => return Err(Failure::os(doing, "it is not a regular file")),
        };
        if stat.st_nlink > 1 {
            self.refuse_outside_links(path, &stat)?;
        }
        Ok(file)
    }

    /// Replaces or creates a file: all of the new content appears at once, or none of it.
    pub(crate) fn write(&self, op: &FilesWrite) -> Result<FileWriteResult, Failure> {
        self.check_writable(&op.path, &self.relative(&op.path)?)?;
        let mut draft = self.draft(&op.path, op.mode)?;
        draft
            .file
            .write_all(&op.data)
            .map_err(|error| Failure::os(format_args!("write `{}`", op.path), error))?;
        self.publish(&op.path, draft)?;
        Ok(FileWriteResult {
            bytes_written: op.data.len() as u64,
        })
    }

    /// A draft of a file, in a read-only part as well: what programs inside may not write, the caller still brings.
    pub(crate) fn draft(&self, path: &str, mode: u32) -> Result<Draft, Failure> {
        let relative = self.relative(path)?;
        if relative.file_name().is_none() {
            let message = format!("`{path}` names no file");
            return Err(Failure::new(FailureKind::PathViolation, message));
        }
        Draft::new(&self.root, &relative, mode, Links::Inside)
            .map_err(|errno| path_failure("write", path, errno))
    }

    pub(crate) fn publish(&self, path: &str, draft: Draft) -> Result<(), Failure> {
        draft
            .publish()
            .map_err(|errno| path_failure("write", path, errno))
    }

    /// Lists a directory, sorted by name.
    pub(crate) fn list(&self, op: &FilesList, limits: &Limits) -> Result<FileEntries, Failure> {
        let relative = self.relative(&op.path)?;
        let fail = |errno| path_failure("list", &op.path, errno);
        let handle = self.root.open_dir(&relative, Links::Inside).map_err(fail)?;
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
        let entries = names.iter().filter_map(|name| entry(&handle, name)).collect();
        Ok(FileEntries { entries, total })
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

    /// A file with several names is fine if all of them are in the workspace; else it is somebody else's file.
    fn refuse_outside_links(&self, path: &str, wanted: &fs::Stat) -> Result<(), Failure> {
        let is_wanted = |stat: &fs::Stat| (stat.st_dev, stat.st_ino) == (wanted.st_dev, wanted.st_ino);
        let names = Walk::new(&self.root)
            .take(HARD_LINK_SEARCH_ENTRIES)
            .filter(|entry| is_wanted(&entry.stat));
        if Ok(names.count()) == usize::try_from(wanted.st_nlink) {
            return Ok(());
        }
        let message = format!("`{path}` is a hard link to a file outside the workspace; copy it instead");
        Err(Failure::new(FailureKind::PathViolation, message))
    }
}

/// An entry that vanished since the directory was read is no error.
fn entry(directory: &OwnedFd, name: &std::ffi::CStr) -> Option<FileEntry> {
    let stat = fs::statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
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
