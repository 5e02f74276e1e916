//! Answers of this API as streams of server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use tokio::time::Instant;

use super::error::ApiError;
use crate::app::App;
use crate::door::Caller;
use crate::limits::StreamPermit;

/// User interfaces give up after a minute of silence, proxies sooner.
const COMMENT_EVERY: Duration = Duration::from_secs(10);

/// The server stops; the turn goes on when it is back. Sent again, the request would be another turn beside it.
pub(super) fn stopped() -> ApiError {
    let message =
        "the server is stopping: the turn is kept and goes on when it is back; read its conversation then";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message).not_again()
}

/// The server stops, and keeps nothing of the request.
pub(super) fn stopped_for_good() -> ApiError {
    let message = "the server is stopping: send the request again";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", message)
}

/// The right to one more stream, if one is asked for.
pub(super) fn stream_permit(
    app: &App,
    caller: &Caller,
    stream: Option<bool>,
) -> Result<Option<StreamPermit>, ApiError> {
    if stream != Some(true) {
        return Ok(None);
    }
    let permit = app.usage.stream(&caller.name, &app.limits, Instant::now())?;
    Ok(Some(permit))
}

pub(super) type Events = stream::BoxStream<'static, Event>;

pub(super) fn data(value: &Value) -> Event {
    Event::default().data(value.to_string())
}

pub(super) fn events(events: Events, app: &App, permit: StreamPermit) -> Response {
    let stopping = app.stopping.clone();
    let events = events.map(move |event| {
        let _open = &permit;
        Ok::<_, Infallible>(event)
    });
    let sse = Sse::new(until(events, stopping)).keep_alive(KeepAlive::new().interval(COMMENT_EVERY));
    let headers = [(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    )];
    (headers, sse).into_response()
}

/// The stream as long as the server does; what is ready is sent first.
fn until<T>(
    events: impl Stream<Item = T> + Send + 'static,
    stopping: tokio_util::sync::CancellationToken,
) -> impl Stream<Item = T> + Send + 'static {
    // The one who follows the turn hears of the stop, too, and closes its channel: then the last event says so.
    let grace = async move {
        stopping.cancelled().await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    events.take_until(Box::pin(grace))
}
