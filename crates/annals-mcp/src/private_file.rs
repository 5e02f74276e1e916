//! Files of the home that nobody else may read, whole or not at all: lists of servers carry tokens, and so do logins.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// The content of a file; none if it is not there.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts a value in the place of the file, with its folder if there is none.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(io::Error::other)?;
    bytes.push(b'\n');
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    make_folder(folder)?;
    let (draft, mut file) = draft(path)?;
    let replaced = file
        .write_all(&bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&draft, path));
    if let Err(error) = replaced {
        // The error that is told is why it was not written.
        let _ = std::fs::remove_file(&draft);
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

/// Removes a file; says whether it was there.
pub(crate) fn remove(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a folder that nobody else may look into.
pub(crate) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A new file beside this one. What a process that died has left is never written to: it may have another mode, and
/// somebody may have it open.
fn draft(path: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let draft = path.with_file_name(format!(".{name}.{}-{number}", std::process::id()));
        let mut options = OpenOptions::new();
        match options.create_new(true).write(true).mode(0o600).open(&draft) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((draft, opened?)),
        }
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::{Value, json};

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_its_owners_alone_and_comes_and_goes_whole() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("new/deep");
        let path = folder.join("a.json");
        assert_eq!(read(&path).unwrap(), None);
        assert!(!remove(&path).unwrap());
        write_json(&path, &json!({"a": 1})).unwrap();
        write_json(&path, &json!({"a": 2})).unwrap();
        assert_eq!((mode(&path), mode(&folder)), (0o600, 0o700));
        let read: Value = serde_json::from_slice(&read(&path).unwrap().unwrap()).unwrap();
        assert_eq!(read, json!({"a": 2}));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
        assert!(remove(&path).unwrap());
    }

    #[test]
    fn what_a_crash_left_for_everybody_to_read_is_not_written_to() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.json");
        // Whatever number comes next, its draft is there.
        let (first, _) = draft(&path).unwrap();
        let name = first.file_name().unwrap().to_str().unwrap();
        let (stem, number) = name.rsplit_once('-').unwrap();
        let number: u64 = number.parse().unwrap();
        let left: Vec<PathBuf> = (1..=3)
            .map(|next| home.path().join(format!("{stem}-{}", number + next)))
            .collect();
        left.iter().for_each(|draft| std::fs::write(draft, "").unwrap());
        write_json(&path, &json!("secret")).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(left.iter().all(|draft| std::fs::read(draft).unwrap().is_empty()));
    }

    #[test]
    fn a_file_that_cannot_take_its_place_leaves_no_draft() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.json");
        std::fs::create_dir_all(path.join("in the way")).unwrap();
        assert!(write_json(&path, &json!(1)).is_err());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
