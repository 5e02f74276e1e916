//! One line a request: when, method, route, whose, status, how long. Never a body, a query, a path's names or a token.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use crate::app::App;
use crate::door::Caller;

pub(crate) async fn log(State(app): State<App>, request: Request, next: Next) -> Response {
    let (begun, time) = (Instant::now(), app.agent.world().now());
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let caller = response.extensions().get::<Caller>();
    tracing::info!(
        target: "annals::access",
        %time,
        %method,
        route = route.as_ref().map_or("-", MatchedPath::as_str),
        scope = caller.map(|caller| caller.scope.to_string()).as_deref().unwrap_or("-"),
        caller = caller.map_or("-", |caller| caller.name.as_str()),
        status = response.status().as_u16(),
        millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
    );
    response
}
