//! The few steps on files and folders that durability is made of: write, fsync, rename, fsync of the folder.
//!
//! With the feature `failpoints` every step can be recorded, so that a test can lose what was not synced.

use std::fs::{self, File};
use std::io;
#[cfg(feature = "sqlite")]
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// One step that matters when power is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskStep {
    /// A file came to be, empty.
    Created(PathBuf),
    /// Its bytes were written.
    Wrote(PathBuf),
    /// Its bytes reached the disk.
    SyncedFile(PathBuf),
    /// It got another name.
    Renamed(PathBuf, PathBuf),
    /// A folder came to be.
    MadeFolder(PathBuf),
    /// The names in a folder reached the disk.
    SyncedFolder(PathBuf),
}

/// What a conversation says is nobody else's business: only its owner may enter what is made here.
const PRIVATE_FOLDER: u32 = 0o700;
#[cfg(feature = "sqlite")]
const PRIVATE_FILE: u32 = 0o600;

/// Makes a file that only its owner may read, unless there is one. What SQLite makes beside a database has its mode.
#[cfg(feature = "sqlite")]
pub(crate) fn make_private_file(path: &Path) -> io::Result<()> {
    let made = File::options()
        .write(true)
        .create_new(true)
        .mode(PRIVATE_FILE)
        .open(path);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Takes the rights of others away from a file or folder of ours, which an earlier version may have made with them. Where
/// that is not allowed, the owner of the directory has decided so.
pub(crate) fn make_private(path: &Path) {
    const OTHERS: u32 = 0o077;
    if let Ok(meta) = fs::metadata(path)
        && meta.permissions().mode() & OTHERS != 0
    {
        let private = fs::Permissions::from_mode(meta.permissions().mode() & 0o777 & !OTHERS);
        let _ = fs::set_permissions(path, private);
    }
}

/// Whether this says that nothing may be written there.
pub(crate) fn is_read_only(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), ReadOnlyFilesystem | PermissionDenied)
}

/// Makes a folder and its parents, private, each of them durable when this returns.
pub(crate) fn make_folders(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_folders(parent)?;
    match fs::DirBuilder::new().mode(PRIVATE_FOLDER).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => trace(|| DiskStep::MadeFolder(folder.to_path_buf())),
    }
    sync_folder(parent)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()?;
    trace(|| DiskStep::SyncedFolder(folder.to_path_buf()));
    Ok(())
}

/// Makes the bytes of a file durable.
pub(crate) fn sync_file(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    trace(|| DiskStep::SyncedFile(path.to_path_buf()));
    Ok(())
}

/// Gives a temporary file its name, replacing what had it.
pub(crate) fn rename(temp: TempPath, place: &Path) -> io::Result<()> {
    let from = temp.to_path_buf();
    temp.persist(place).map_err(|error| error.error)?;
    trace(|| DiskStep::Renamed(from, place.to_path_buf()));
    Ok(())
}

/// Notes a step, if a test listens.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub(crate) fn trace(_step: impl FnOnce() -> DiskStep) {}

/// Notes a step, if a test listens.
#[cfg(feature = "failpoints")]
pub(crate) fn trace(step: impl FnOnce() -> DiskStep) {
    if let Some(steps) = &mut *recorded() {
        steps.push(step());
    }
}

#[cfg(feature = "failpoints")]
fn recorded() -> std::sync::MutexGuard<'static, Option<Vec<DiskStep>>> {
    static RECORDED: std::sync::Mutex<Option<Vec<DiskStep>>> = std::sync::Mutex::new(None);
    RECORDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Records the steps of this process from now on.
#[cfg(feature = "failpoints")]
pub fn record_steps() {
    recorded().get_or_insert_default();
}

/// The steps recorded so far.
#[cfg(feature = "failpoints")]
pub fn recorded_steps() -> Vec<DiskStep> {
    recorded().clone().unwrap_or_default()
}
