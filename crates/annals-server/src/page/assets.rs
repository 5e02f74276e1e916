//! Files that are part of the program.

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::problem::Problem;

/// The file at the request's path.
pub(crate) async fn file(request: Request) -> Response {
    let Some(asset) = annals_page::asset(request.uri().path()) else {
        return Problem::not_found("the path").into_response();
    };
    let known = request.headers().get(header::IF_NONE_MATCH);
    let is_known = known.is_some_and(|known| known.as_bytes() == asset.etag.as_bytes());
    let is_gzip = takes_gzip(request.headers());
    let mut response = match (is_known, is_gzip) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => asset.gzip.into_response(),
        (false, false) => asset.bytes.into_response(),
    };
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, asset.media_type),
        (
            header::CONTENT_SECURITY_POLICY,
            annals_page::CONTENT_SECURITY_POLICY,
        ),
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, asset.etag),
        (header::VARY, "accept-encoding"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_gzip && !is_known {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok());
    let mut codings = accepted.unwrap_or_default().split(',');
    codings.any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim() == "gzip" && !matches!(quality.trim(), "q=0" | "q=0.0")
    })
}
