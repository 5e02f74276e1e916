//! Pages of a PDF as pictures: phones show no PDF inside a page, and nobody else does it alike.

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use futures::TryStreamExt as _;
use http::{HeaderName, HeaderValue, header};
use serde::Deserialize;
use tokio::sync::Semaphore;

use super::trees::unreadable;
use super::versions;
use crate::app::App;
use crate::door::Caller;
use crate::problem::{Code, Problem};
use crate::request::{Params, Place};

/// A larger file is downloaded.
const PDF_MAX_BYTES: u64 = 64 << 20;
/// Files that are held at once: a helper takes a whole one, and a page that scrolls asks for many.
static HELD: Semaphore = Semaphore::const_new(2);
const WIDTH_PX: u32 = 900;
const WIDTH_MAX_PX: u32 = 2_400;
/// How many pages the file has.
const PAGES: HeaderName = HeaderName::from_static("annals-pages");

#[derive(Deserialize)]
pub(crate) struct PdfPage {
    path: String,
    /// The block that wrote it.
    seq: u64,
    /// Which page, from 1.
    number: Option<u32>,
    width: Option<u32>,
}

pub(crate) async fn pdf_page(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(asked): Params<PdfPage>,
) -> Result<Response, Problem> {
    let opened = versions::open(&app, &caller, &place, &asked.path, asked.seq).await?;
    if opened.mime != "application/pdf" || opened.size_bytes > PDF_MAX_BYTES {
        let detail = format!(
            "`{}` is no PDF of at most {PDF_MAX_BYTES} bytes: download it",
            asked.path.escape_default()
        );
        return Err(Problem::new(Code::Unprocessable, detail));
    }
    let _held = HELD.acquire().await.map_err(Problem::internal)?;
    let mut pdf = Vec::new();
    let mut body = opened.body;
    while let Some(piece) = body.try_next().await.map_err(Problem::internal)? {
        pdf.extend_from_slice(&piece);
    }
    let number = asked.number.unwrap_or(1);
    let width = asked.width.unwrap_or(WIDTH_PX).min(WIDTH_MAX_PX);
    let page = app.trees.content().pdf_page(&pdf, number, width).await;
    let page = page.map_err(unreadable)?;
    let mut response = page.png.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("image/png"));
    headers.insert(PAGES, HeaderValue::from(page.pages));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    // A version never changes.
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, max-age=3600"),
    );
    Ok(response)
}
