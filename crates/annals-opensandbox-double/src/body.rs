//! Bodies of answers: frames as they come, and ranges of files.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use axum::body::Body;
use axum::extract::{FromRequest as _, Multipart, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use tokio::sync::mpsc::UnboundedReceiver;

/// An answer that is made of frames until all senders are gone.
pub(crate) fn frames(content_type: &'static str, receiver: UnboundedReceiver<Bytes>) -> Response {
    let body = futures::stream::unfold(receiver, |mut receiver| async {
        let frame = receiver.recv().await?;
        Some((Ok::<_, io::Error>(frame), receiver))
    });
    let headers = [("content-type", content_type), ("cache-control", "no-cache")];
    (headers, Body::from_stream(body)).into_response()
}

/// The form that a request brings, once all of the request is there: a reader of forms stops at the last boundary, and an
/// answer before the request's end would close the connection under a client that is still sending.
pub(crate) async fn form(request: Request) -> Result<Multipart, Response> {
    let (parts, body) = request.into_parts();
    let refused =
        |error: &dyn std::fmt::Display| (StatusCode::BAD_REQUEST, error.to_string()).into_response();
    let whole = body.collect().await.map_err(|error| refused(&error))?;
    let request = Request::from_parts(parts, Body::from(whole.to_bytes()));
    let form = Multipart::from_request(request, &()).await;
    form.map_err(IntoResponse::into_response)
}

/// A regular file, or the range of it that the headers ask for.
pub(crate) fn file(path: &Path, headers: &HeaderMap) -> io::Result<Response> {
    let mut file = fs::File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let size = meta.len();
    let range = headers
        .get(header::RANGE)
        .and_then(|range| range.to_str().ok())
        .map(|range| parse(range, size));
    let (status, from, to) = match range {
        None => (StatusCode::OK, 0, size),
        Some(Some((from, to))) => (StatusCode::PARTIAL_CONTENT, from, to),
        Some(None) => {
            let headers = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return Ok((StatusCode::RANGE_NOT_SATISFIABLE, headers).into_response());
        }
    };
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(to - from).read_to_end(&mut bytes)?;
    let content_type = [(header::CONTENT_TYPE, "application/octet-stream")];
    let mut answer = (status, content_type, bytes).into_response();
    if let (StatusCode::PARTIAL_CONTENT, Ok(value)) =
        (status, format!("bytes {from}-{}/{size}", to - 1).parse())
    {
        answer.headers_mut().insert(header::CONTENT_RANGE, value);
    }
    Ok(answer)
}

/// The half-open range of `bytes=a-b`, `bytes=a-` or `bytes=-n`.
fn parse(range: &str, size: u64) -> Option<(u64, u64)> {
    let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (from, to) = match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) => (from, (to + 1).min(size)),
        (Ok(from), Err(_)) => (from, size),
        (Err(_), Ok(last)) => (size.saturating_sub(last), size),
        (Err(_), Err(_)) => return None,
    };
    (from < to).then_some((from, to))
}
