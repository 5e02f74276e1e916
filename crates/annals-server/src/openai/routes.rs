//! The routes of the OpenAI-compatible API, and the handlers of models and files.

use std::collections::HashMap;

use annals_store::Role;
use axum::body::Body;
use axum::extract::{FromRequest, Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, RequestExt as _};
use futures::TryStreamExt as _;
use http::{HeaderValue, Method, StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::ask::Face;
use super::completions::chat;
use super::error::ApiError;
use super::input::RawMessage;
use super::response_routes::{cancel, keep_response, response, responses};
use super::transcript::Transcript;
use crate::app::App;
use crate::door::{Access, Caller};
use crate::form::{Form, Received};
use crate::idempotency::Once;
use crate::problem::Problem;
use crate::request::read;
use crate::routes::Route;

pub(super) const MODEL: &str = "annals";

/// The routes of this API.
pub(crate) fn table() -> Vec<Route> {
    use Method as M;
    const USE: Access = Access::Role(Role::Use);
    let routes = vec![
        Route::new(M::POST, "/v1/chat/completions", USE, chat)
            .about("Chat Completions, whole or streamed.")
            .takes_object()
            .gives_object(),
        Route::new(M::POST, "/v1/responses", USE, responses)
            .about("Responses, whole, streamed or in the background.")
            .takes_object()
            .gives_object(),
        Route::new(M::GET, "/v1/responses/{id}", USE, response)
            .about("A response; its stream goes on after an event.")
            .gives_object(),
        Route::new(M::DELETE, "/v1/responses/{id}", USE, keep_response)
            .about("Refused: nothing is deleted this way.")
            .gives_object(),
        Route::new(M::POST, "/v1/responses/{id}/cancel", USE, cancel)
            .about("Cancels a response that is under way.")
            .takes_object()
            .gives_object(),
        Route::new(M::GET, "/v1/models", USE, models)
            .about("The models of the OpenAI-compatible API.")
            .gives_object(),
        Route::new(M::GET, "/v1/models/{*id}", USE, model)
            .about("One of them.")
            .gives_object(),
        Route::new(M::POST, "/v1/files", USE, upload)
            .about("Keeps a file for later requests.")
            .also_takes("multipart/form-data")
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
    ];
    routes.into_iter().map(Route::errors_as_openai).collect()
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
        let messages = super::input::Loading::new(self).all(raw).await?;
        Transcript::of(messages).map_err(|error| ApiError::invalid("messages", "nothing_asked", error))
    }
}

/// A JSON body, whatever its type is called, and what makes sending it again harmless. Clients are told what is wrong in
/// their own form.
pub(super) struct ClientBody<T> {
    pub(super) value: T,
    pub(super) once: Once,
}

impl<T: DeserializeOwned> FromRequest<App> for ClientBody<T> {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, app: &App) -> Result<Self, ApiError> {
        let caller = request.extract_parts::<Caller>().await?;
        let (parts, body) = request.into_parts();
        let bytes = read(body, app.limits.json_max_bytes, &app.limits).await?;
        let once = Once::of(&caller, &parts, Sha256::digest(&bytes).into())?;
        // Some requests need no body.
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        let value = serde_json::from_slice(text).map_err(|error| {
            ApiError::new(
                StatusCode::BAD_REQUEST,
                "invalid_json",
                format_args!("the body cannot be read: {error}"),
            )
        })?;
        Ok(ClientBody { value, once })
    }
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

async fn upload(State(app): State<App>, caller: Caller, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let rebuilt = Request::from_parts(parts.clone(), body);
    let mut form = Form::from_request(rebuilt, &app).await?;
    let (mut file, mut purpose, mut hash) = (None, "user_data".to_owned(), Sha256::new());
    while let Some(part) = form.next(&app).await? {
        part.add_to(&mut hash);
        match (part.name.as_str(), part.received) {
            ("file", Received::File(blob)) => file = Some((part.file.unwrap_or_default(), blob)),
            ("purpose", Received::Field(bytes)) => purpose = String::from_utf8_lossy(&bytes).into_owned(),
            _ => {}
        }
    }
    let Some((name, blob)) = file else {
        return Err(ApiError::invalid(
            "file",
            "missing_file",
            "the form has no file in the field `file`",
        ));
    };
    let once = Once::of(&caller, &parts, hash.finalize().into())?;
    Face::of(&app, &caller).keep_file(name, purpose, blob, once).await
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
    let (_, blob) = Face::of(&app, &caller).kept_file(&id).await?;
    let content = app.agent.artifacts().stream(&blob.digest).await;
    let content = content.map_err(|error| ApiError::from(Problem::internal(error)))?;
    let body = Body::from_stream(content.map_err(std::io::Error::other));
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
        (header::CONTENT_LENGTH, HeaderValue::from(blob.size_bytes)),
    ];
    Ok((headers, body).into_response())
}
