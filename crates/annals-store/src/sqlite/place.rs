//! Whether a log may be written where it lies, and what to read where it may not.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::disk;

/// What may be opened.
pub(super) enum Place {
    /// The file itself, private now.
    Writable,
    /// A copy of it: SQLite cannot read a log with a write-ahead log, or of an older schema, without writing.
    Copied(tempfile::TempDir),
}

/// Makes the folders and the file, private, or a copy of what may not be written.
pub(super) fn prepare(path: &Path) -> io::Result<Place> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if path.is_file() && !is_writable(path, folder)? {
        return copy(path).map(Place::Copied);
    }
    disk::make_folders(folder)?;
    disk::make_private_file(path)?;
    for file in files(path) {
        disk::make_private(&file);
    }
    Ok(Place::Writable)
}

fn is_writable(path: &Path, folder: &Path) -> io::Result<bool> {
    match File::options().append(true).open(path) {
        Ok(_) => Ok(access(folder, Access::WRITE_OK).is_ok()),
        Err(error) if disk::is_read_only(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The database and its write-ahead log; the index of that is made again.
fn copy(path: &Path) -> io::Result<tempfile::TempDir> {
    let copy = tempfile::tempdir()?;
    for (from, name) in files(path).into_iter().zip(["annals.db", "annals.db-wal"]) {
        match File::open(&from) {
            // Not with its mode: the copy is written to.
            Ok(mut source) => drop(io::copy(&mut source, &mut File::create(copy.path().join(name))?)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(copy)
}

/// The database, its write-ahead log and the index of that.
fn files(path: &Path) -> [PathBuf; 3] {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    [path.to_owned(), beside("-wal"), beside("-shm")]
}
