//! The routes of the OpenAI-compatible API, and the handlers of models and files.

use std::collections::HashMap;

use annals_store::Role;
use axum::Json;
use axum::extract::{Multipart, Path, Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ask::Face;
use super::completions::chat;
use super::error::ApiError;
use super::input::RawMessage;
use super::response_routes::{cancel, keep_response, response, responses};
use super::transcript::Transcript;
use crate::app::App;
use crate::door::{Access, Caller};
use crate::request::{in_time, too_large};
use crate::routes::Route;

pub(super) const MODEL: &str = "annals";

/// The routes of this API.
pub(crate) fn table() -> Vec<Route> {
    use Method as M;
    const USE: Access = Access::Role(Role::Use);
    vec![
        Route::new(M::POST, "/v1/chat/completions", USE, chat)
            .about("Chat Completions, whole or streamed.")
            .gives_object(),
        Route::new(M::POST, "/v1/responses", USE, responses)
            .about("Responses, whole, streamed or in the background.")
            .gives_object(),
        Route::new(M::GET, "/v1/responses/{id}", USE, response)
            .about("A response; its stream goes on after an event.")
            .gives_object(),
        Route::new(M::DELETE, "/v1/responses/{id}", USE, keep_response)
            .about("Refused: nothing is deleted this way.")
            .gives_object(),
        Route::new(M::POST, "/v1/responses/{id}/cancel", USE, cancel)
            .about("Cancels a response that is under way.")
            .gives_object(),
        Route::new(M::GET, "/v1/models", USE, models)
            .about("The models of the OpenAI-compatible API.")
            .gives_object(),
        Route::new(M::GET, "/v1/models/{*id}", USE, model)
            .about("One of them.")
            .gives_object(),
        Route::new(M::POST, "/v1/files", USE, upload)
            .about("Keeps a file for later requests.")
            .gives_object(),
        Route::new(M::GET, "/v1/files", USE, files)
            .about("The files that were kept.")
            .gives_object(),
        Route::new(M::GET, "/v1/files/{id}", USE, file)
            .about("A file that was kept.")
            .gives_object(),
        Route::new(M::DELETE, "/v1/files/{id}", USE, remove_file)
            .about("Forgets a file.")
            .gives_object(),
        Route::new(M::GET, "/v1/files/{id}/content", USE, file_content)
            .about("The bytes of a file.")
            .gives_bytes("application/octet-stream"),
    ]
}

impl Face {
    pub(super) fn of(app: &App, caller: &Caller) -> Self {
        Face {
            app: app.clone(),
            agent: app.agent(&caller.scope),
            turnstile: app.turnstile.clone(),
        }
    }

    pub(super) async fn transcript(&self, raw: Vec<RawMessage>) -> Result<Transcript, ApiError> {
        let mut messages = Vec::with_capacity(raw.len());
        let mut files = 0;
        for message in raw {
            let message = message.loaded(files, self).await?;
            files += message.said.files.len();
            messages.push(message);
        }
        Transcript::of(messages).map_err(|error| ApiError::invalid("messages", "nothing_asked", error))
    }
}

/// Reads a body. Clients are told what is wrong in their own form.
pub(super) fn body<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| {
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "invalid_json",
            format_args!("the body cannot be read: {error}"),
        )
    })
}

fn model_object(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": "annals"})
}

async fn models() -> Json<Value> {
    Json(json!({"object": "list", "data": [model_object(MODEL)]}))
}

async fn model(Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    match id == MODEL {
        true => Ok(Json(model_object(MODEL))),
        false => Err(ApiError::missing("model")),
    }
}

async fn upload(
    State(app): State<App>,
    caller: Caller,
    mut form: Multipart,
) -> Result<Json<Value>, ApiError> {
    let face = Face::of(&app, &caller);
    let broken = |error: axum::extract::multipart::MultipartError| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_form", error.body_text())
    };
    let (mut file, mut purpose) = (None, "user_data".to_owned());
    while let Some(mut field) = in_time(form.next_field(), &app.limits).await?.map_err(broken)? {
        let filename = field.file_name().map(str::to_owned);
        let name = field.name().unwrap_or_default().to_owned();
        let max_bytes = annals_core::limits::ATTACHMENT_MAX_BYTES;
        let mut bytes = Vec::new();
        while let Some(piece) = in_time(field.chunk(), &app.limits).await?.map_err(broken)? {
            if bytes.len() as u64 + piece.len() as u64 > max_bytes {
                return Err(too_large(max_bytes).into());
            }
            bytes.extend_from_slice(&piece);
        }
        match name.as_str() {
            "file" => file = Some((filename.unwrap_or_else(|| "file".to_owned()), bytes)),
            "purpose" => purpose = String::from_utf8_lossy(&bytes).into_owned(),
            _ => {}
        }
    }
    let Some((name, bytes)) = file else {
        return Err(ApiError::invalid(
            "file",
            "missing_file",
            "the form has no field `file`",
        ));
    };
    Ok(Json(face.keep_file(name, purpose, bytes.into()).await?))
}

async fn files(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, ApiError> {
    let face = Face::of(&app, &caller);
    Ok(Json(face.files(query.get("after").map(String::as_str)).await?))
}

async fn file(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(Face::of(&app, &caller).file(&id).await?))
}

async fn remove_file(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    Ok(Json(Face::of(&app, &caller).remove_file(&id).await?))
}

async fn file_content(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let (_, bytes) = Face::of(&app, &caller).file_content(&id).await?;
    // Never a page of this server's, whatever is in it.
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/octet-stream"),
        ),
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment"),
        ),
    ];
    Ok((headers, bytes).into_response())
}
