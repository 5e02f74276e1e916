//! The web page: files that are part of the program.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};

use crate::problem::Problem;

/// The file at the request's path.
pub(crate) async fn file(request: Request) -> Response {
    let Some(asset) = annals_page::asset(request.uri().path()) else {
        return Problem::not_found("the path").into_response();
    };
    let etag = asset.etag.to_string();
    let known = request.headers().get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == etag.as_bytes());
    let mut response = match is_known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => asset.bytes.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(annals_page::CONTENT_SECURITY_POLICY),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, etag);
    }
    response
}
