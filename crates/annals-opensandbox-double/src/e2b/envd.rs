//! envd: processes and files of the sandbox that it runs in.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Multipart, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{filesystem, process};
use crate::body;

/// The first argument of a process that is envd.
pub(crate) const ROLE: &str = "e2b-double-envd";

/// What all requests share.
pub(super) struct Envd {
    token: String,
    pub(super) processes: process::Processes,
}

pub(crate) fn router(token: String) -> Router {
    let envd = Arc::new(Envd {
        token,
        processes: process::Processes::default(),
    });
    Router::new()
        .route("/files", get(download).post(upload))
        .route("/process.Process/Start", post(process::start))
        .route("/process.Process/List", post(process::list))
        .route("/process.Process/SendSignal", post(process::signal))
        .route("/filesystem.Filesystem/Stat", post(filesystem::stat))
        .route("/filesystem.Filesystem/ListDir", post(filesystem::list))
        .route("/filesystem.Filesystem/MakeDir", post(filesystem::make))
        .route("/filesystem.Filesystem/Move", post(filesystem::rename))
        .route("/filesystem.Filesystem/Remove", post(filesystem::remove))
        .layer(middleware::from_fn_with_state(Arc::clone(&envd), authorised))
        // Anybody may ask whether it lives.
        .route("/health", get(async || StatusCode::NO_CONTENT))
        .layer(DefaultBodyLimit::disable())
        .with_state(envd)
}

async fn authorised(State(envd): State<Arc<Envd>>, request: Request, next: Next) -> Response {
    let given = request.headers().get("x-access-token");
    match given.and_then(|token| token.to_str().ok()) == Some(&envd.token) {
        true => next.run(request).await,
        false => refusal(
            StatusCode::UNAUTHORIZED,
            "unauthorized access, please provide a valid access token",
        ),
    }
}

fn refusal(status: StatusCode, message: impl Into<String>) -> Response {
    let body = json!({"code": status.as_u16(), "message": message.into()});
    (status, Json(body)).into_response()
}

#[derive(Deserialize)]
struct FileQuery {
    #[serde(default)]
    path: Option<String>,
}

async fn download(Query(query): Query<FileQuery>, headers: HeaderMap) -> Response {
    let path = query.path.unwrap_or_default();
    match body::file(path.as_ref(), &headers) {
        Ok(answer) => answer,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            refusal(StatusCode::NOT_FOUND, format!("path '{path}' does not exist"))
        }
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// A form of files, or the bytes of one as they are.
async fn upload(Query(query): Query<FileQuery>, request: Request) -> Response {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_form = content_type
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with("multipart/form-data"));
    let files = match is_form {
        true => match body::form(request).await {
            Ok(parts) => form(query.path, parts).await,
            Err(refused) => return refused,
        },
        false => bytes(query.path, request).await,
    };
    let files = match files {
        Ok(files) => files,
        Err(message) => return refusal(StatusCode::BAD_REQUEST, message),
    };
    let mut written = Vec::new();
    for (path, bytes) in files {
        if let Err(error) = filesystem::store(path.as_ref(), &bytes) {
            return refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
        }
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        written.push(json!({"path": path, "name": name, "type": "file"}));
    }
    Json(Value::Array(written)).into_response()
}

type Files = Vec<(String, bytes::Bytes)>;

async fn form(path: Option<String>, mut form: Multipart) -> Result<Files, String> {
    let told = |error: &dyn std::fmt::Display| format!("error parsing multipart form: {error}");
    let mut files = Vec::new();
    while let Some(field) = form.next_field().await.map_err(|error| told(&error))? {
        let name = field.file_name().map(str::to_owned);
        let is_file = field.name() == Some("file");
        let bytes = field.bytes().await.map_err(|error| told(&error))?;
        match path.clone().or(name) {
            Some(path) if is_file => files.push((path, bytes)),
            _ => {}
        }
    }
    Ok(files)
}

async fn bytes(path: Option<String>, request: Request) -> Result<Files, String> {
    let path = path.ok_or("path is required")?;
    let bytes = bytes::Bytes::from_request(request, &()).await;
    Ok(vec![(path, bytes.map_err(|error| error.to_string())?)])
}
