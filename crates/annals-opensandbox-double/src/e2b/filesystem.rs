//! Files and folders, as calls.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::connect::{io_refusal, refusal};

#[derive(Deserialize)]
pub(super) struct At {
    path: String,
    #[serde(default)]
    depth: usize,
}

#[derive(Deserialize)]
pub(super) struct Move {
    source: String,
    destination: String,
}

/// Writes a file, and the folders above it.
pub(super) fn store(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

fn describe(path: &Path) -> io::Result<Value> {
    let meta = fs::symlink_metadata(path)?;
    let kind = if meta.is_dir() {
        "FILE_TYPE_DIRECTORY"
    } else if meta.is_symlink() {
        "FILE_TYPE_SYMLINK"
    } else {
        "FILE_TYPE_FILE"
    };
    let modified = jiff::Timestamp::from_second(meta.mtime()).unwrap_or_default();
    Ok(json!({
        "name": path.file_name().unwrap_or_default().to_string_lossy(), "type": kind, "path": path,
        // A number of 64 bits is a text in this protocol's JSON.
        "size": meta.len().to_string(), "mode": meta.permissions().mode() & 0o777,
        "permissions": format!("{:o}", meta.permissions().mode() & 0o777), "owner": meta.uid().to_string(),
        "group": meta.gid().to_string(), "modifiedTime": modified.to_string(),
    }))
}

fn entry(described: io::Result<Value>) -> Response {
    match described {
        Ok(entry) => Json(json!({"entry": entry})).into_response(),
        Err(error) => io_refusal(&error),
    }
}

pub(super) async fn stat(Json(at): Json<At>) -> Response {
    entry(describe(at.path.as_ref()))
}

pub(super) async fn list(Json(at): Json<At>) -> Response {
    fn walk(folder: &Path, depth: usize, entries: &mut Vec<Value>) -> io::Result<()> {
        for found in fs::read_dir(folder)? {
            let path = found?.path();
            entries.push(describe(&path)?);
            if depth > 1 && path.is_dir() && !path.is_symlink() {
                walk(&path, depth - 1, entries)?;
            }
        }
        Ok(())
    }
    let mut entries = Vec::new();
    match walk(at.path.as_ref(), at.depth, &mut entries) {
        Ok(()) => Json(json!({"entries": entries})).into_response(),
        Err(error) => io_refusal(&error),
    }
}

pub(super) async fn make(Json(at): Json<At>) -> Response {
    let path = Path::new(&at.path);
    if path.is_dir() {
        return refusal("already_exists", format!("directory already exists: {}", at.path));
    }
    entry(fs::create_dir_all(path).and_then(|()| describe(path)))
}

pub(super) async fn rename(Json(names): Json<Move>) -> Response {
    let to = Path::new(&names.destination);
    entry(fs::rename(&names.source, to).and_then(|()| describe(to)))
}

pub(super) async fn remove(Json(at): Json<At>) -> Response {
    let path = Path::new(&at.path);
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Ok(()) => Json(json!({})).into_response(),
        Err(error) => io_refusal(&error),
    }
}
