//! Files, without any jail: a path leads wherever it leads, as with the real execd.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use axum::Json;
use axum::extract::{RawQuery, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::refusal;
use crate::body;

/// Mode as octal digits: 644.
#[derive(Default, Deserialize)]
struct Permission {
    #[serde(default)]
    mode: u32,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    path: String,
    #[serde(flatten)]
    permission: Permission,
}

#[derive(Deserialize)]
pub(super) struct Move {
    src: String,
    dest: String,
}

#[derive(Deserialize)]
pub(super) struct Replace {
    old: String,
    new: String,
}

/// All values of a query parameter, in order.
fn values(query: &RawQuery, name: &str) -> Vec<String> {
    let pairs = url::form_urlencoded::parse(query.0.as_deref().unwrap_or_default().as_bytes());
    pairs
        .filter(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
        .collect()
}

fn failed(error: &io::Error) -> Response {
    match error.kind() {
        io::ErrorKind::NotFound => refusal(
            StatusCode::NOT_FOUND,
            "FILE_NOT_FOUND",
            format!("file not found. {error}"),
        ),
        _ => refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "RUNTIME_ERROR",
            format!("error accessing file: {error}"),
        ),
    }
}

fn done(result: io::Result<()>) -> Response {
    match result {
        Ok(()) => StatusCode::OK.into_response(),
        Err(error) => failed(&error),
    }
}

fn from_digits(digits: u32) -> u32 {
    (digits / 100 % 10) << 6 | (digits / 10 % 10) << 3 | (digits % 10)
}

fn to_digits(mode: u32) -> u32 {
    (mode >> 6 & 7) * 100 + (mode >> 3 & 7) * 10 + (mode & 7)
}

fn change_mode(path: &Path, permission: &Permission) -> io::Result<()> {
    match permission.mode {
        0 => Ok(()),
        digits => fs::set_permissions(path, fs::Permissions::from_mode(from_digits(digits))),
    }
}

fn describe(path: &Path) -> io::Result<Value> {
    let meta = fs::symlink_metadata(path)?;
    let kind = meta.file_type();
    let name = if kind.is_symlink() {
        "symlink"
    } else if kind.is_dir() {
        "directory"
    } else if kind.is_file() {
        "file"
    } else {
        debug_assert!(kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device());
        "other"
    };
    let time = |seconds: i64| {
        jiff::Timestamp::from_second(seconds)
            .unwrap_or_default()
            .to_string()
    };
    Ok(json!({
        "path": path, "type": name, "size": meta.len(), "mode": to_digits(meta.mode()),
        "modified_at": time(meta.mtime()), "created_at": time(meta.ctime()),
        "owner": meta.uid().to_string(), "group": meta.gid().to_string(),
    }))
}

pub(super) async fn info(query: RawQuery) -> Response {
    let mut all = serde_json::Map::new();
    for path in values(&query, "path") {
        match describe(Path::new(&path)) {
            Ok(info) => drop(all.insert(path, info)),
            Err(error) => return failed(&error),
        }
    }
    Json(Value::Object(all)).into_response()
}

/// Removing what is not there is a success.
pub(super) async fn remove(query: RawQuery) -> Response {
    let remove = |path: &String| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    done(values(&query, "path").iter().try_for_each(remove))
}

pub(super) async fn permissions(Json(items): Json<BTreeMap<String, Value>>) -> Response {
    done(items.iter().try_for_each(|(path, item)| {
        let permission = Permission::deserialize(item).unwrap_or_default();
        change_mode(Path::new(path), &permission)
    }))
}

pub(super) async fn rename(Json(items): Json<Vec<Move>>) -> Response {
    done(
        items
            .iter()
            .try_for_each(|item| fs::rename(&item.src, &item.dest)),
    )
}

pub(super) async fn make_directories(Json(items): Json<BTreeMap<String, Value>>) -> Response {
    done(items.iter().try_for_each(|(path, item)| {
        fs::create_dir_all(path)?;
        change_mode(
            Path::new(path),
            &Permission::deserialize(item).unwrap_or_default(),
        )
    }))
}

pub(super) async fn remove_directories(query: RawQuery) -> Response {
    let remove = |path: &String| match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    done(values(&query, "path").iter().try_for_each(remove))
}

pub(super) async fn list(query: RawQuery) -> Response {
    let path = values(&query, "path").pop().unwrap_or_default();
    let depth = values(&query, "depth")
        .pop()
        .and_then(|depth| depth.parse().ok())
        .unwrap_or(1);
    let mut entries = Vec::new();
    match walk(Path::new(&path), depth, &mut |entry| {
        entries.push(entry.to_owned())
    }) {
        Ok(()) => Json(Value::from_iter(
            entries.iter().filter_map(|entry| describe(entry).ok()),
        ))
        .into_response(),
        Err(error) => failed(&error),
    }
}

fn walk(folder: &Path, depth: usize, visit: &mut impl FnMut(&Path)) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        visit(&entry.path());
        if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), depth - 1, visit)?;
        }
    }
    Ok(())
}

/// The pattern is held against the last part of a path only.
pub(super) async fn search(query: RawQuery) -> Response {
    let Some(path) = values(&query, "path").pop() else {
        return refusal(
            StatusCode::BAD_REQUEST,
            "MISSING_QUERY",
            "missing query parameter 'path'",
        );
    };
    let pattern = values(&query, "pattern").pop().unwrap_or_else(|| "**".to_owned());
    let mut found = Vec::new();
    let walked = walk(Path::new(&path), usize::MAX, &mut |entry| {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if !entry.is_dir() && matches(&pattern, &name) {
            found.extend(describe(entry).ok());
        }
    });
    match walked {
        Ok(()) => Json(Value::Array(found)).into_response(),
        Err(error) => failed(&error),
    }
}

/// `*` stands for any text, `?` for one character.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.chars().next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = &pattern[1..];
            name.char_indices().any(|(at, _)| matches(rest, &name[at..])) || matches(rest, "")
        }
        Some(first) => name.chars().next().is_some_and(|next| {
            (first == '?' || first == next) && matches(&pattern[first.len_utf8()..], &name[next.len_utf8()..])
        }),
    }
}

pub(super) async fn replace(query: RawQuery, Json(items): Json<BTreeMap<String, Replace>>) -> Response {
    let mut counts = serde_json::Map::new();
    for (path, item) in items {
        if item.old.is_empty() {
            return refusal(
                StatusCode::BAD_REQUEST,
                "INVALID_REQUEST_BODY",
                "old content must not be empty",
            );
        }
        let replaced = fs::read_to_string(&path).and_then(|text| {
            fs::write(&path, text.replace(&item.old, &item.new))?;
            Ok(text.matches(&item.old).count())
        });
        match replaced {
            Ok(count) => drop(counts.insert(path, json!({"replacedCount": count}))),
            Err(error) => return failed(&error),
        }
    }
    match values(&query, "verbose")
        .first()
        .is_some_and(|value| value == "true")
    {
        true => Json(Value::Object(counts)).into_response(),
        false => StatusCode::OK.into_response(),
    }
}

/// Pairs of `metadata` and `file`; only parts with a file name are seen.
pub(super) async fn upload(request: Request) -> Response {
    let mut form = match body::form(request).await {
        Ok(form) => form,
        Err(refused) => return refused,
    };
    let (mut metadata, mut files) = (Vec::new(), Vec::new());
    loop {
        let field = match form.next_field().await {
            Ok(Some(field)) => field,
            Ok(None) => break,
            Err(error) => return refusal(StatusCode::BAD_REQUEST, "INVALID_FILE", error.to_string()),
        };
        let (name, has_file_name) = (
            field.name().unwrap_or_default().to_owned(),
            field.file_name().is_some(),
        );
        let bytes = match field.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return refusal(StatusCode::BAD_REQUEST, "INVALID_FILE", error.to_string()),
        };
        match (name.as_str(), has_file_name) {
            ("metadata", true) => metadata.push(bytes),
            ("file", true) => files.push(bytes),
            _ => {}
        }
    }
    if metadata.is_empty() {
        return refusal(
            StatusCode::BAD_REQUEST,
            "INVALID_FILE_METADATA",
            "metadata file is missing",
        );
    }
    if files.is_empty() {
        return refusal(StatusCode::BAD_REQUEST, "INVALID_FILE_CONTENT", "file is missing");
    }
    if metadata.len() != files.len() {
        let message = format!(
            "metadata and file count mismatch: {} vs {}",
            metadata.len(),
            files.len()
        );
        return refusal(StatusCode::BAD_REQUEST, "INVALID_FILE", message);
    }
    for (metadata, bytes) in metadata.iter().zip(files) {
        let metadata: Metadata = match serde_json::from_slice(metadata) {
            Ok(metadata) => metadata,
            Err(error) => {
                return refusal(
                    StatusCode::BAD_REQUEST,
                    "INVALID_FILE_METADATA",
                    error.to_string(),
                );
            }
        };
        if let Err(error) = store(&metadata, &bytes) {
            return refusal(
                StatusCode::INTERNAL_SERVER_ERROR,
                "RUNTIME_ERROR",
                error.to_string(),
            );
        }
    }
    StatusCode::OK.into_response()
}

fn store(metadata: &Metadata, bytes: &[u8]) -> io::Result<()> {
    let path = Path::new(&metadata.path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)?;
    change_mode(path, &metadata.permission)
}

pub(super) async fn download(query: RawQuery, headers: HeaderMap) -> Response {
    let path = values(&query, "path").pop().unwrap_or_default();
    body::file(path.as_ref(), &headers).unwrap_or_else(|error| failed(&error))
}
