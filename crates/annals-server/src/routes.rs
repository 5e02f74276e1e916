//! The table of everything that can be asked: path, method, who may, what for. The router is made from it, and so is the
//! API document, so that neither can have a route that the other lacks.

use annals_store::Role;
use axum::Router;
use axum::handler::Handler;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, on};
use http::Method;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::door::{self, Access};
use crate::{
    access_log, approvals, artifacts, blocks, conversations, events, health, page, search, transfer, turns,
};

/// One method of one path.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    handler: MethodRouter<App>,
}

impl Route {
    pub(crate) fn new<H, T>(method: Method, path: &'static str, access: Access, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        Route {
            method,
            path,
            access,
            handler: on(filter, handler),
        }
    }
}

const USE: Access = Access::Role(Role::Use);

/// Every route. A further module adds its own here.
pub(crate) fn table() -> Vec<Route> {
    let mut routes = vec![
        Route::new(Method::GET, "/healthz", Access::Open, health::live),
        Route::new(Method::GET, "/readyz", Access::Open, health::ready),
        Route::new(Method::GET, "/v1/tools", USE, health::tools),
        Route::new(Method::GET, "/v1/search", USE, search::search),
        Route::new(Method::POST, "/v1/import", USE, transfer::import),
        Route::new(Method::GET, "/v1/approvals", USE, approvals::list),
        Route::new(
            Method::POST,
            "/v1/conversations/{c}/approvals/{a}",
            Access::Role(Role::Approve),
            approvals::decide,
        ),
    ];
    routes.extend(of_conversations());
    routes.extend(of_turns());
    routes.extend(crate::openai::table());
    routes.extend(of_moments());
    routes
}

fn of_conversations() -> Vec<Route> {
    use Method as M;
    vec![
        Route::new(M::POST, "/v1/conversations", USE, conversations::create),
        Route::new(M::GET, "/v1/conversations", USE, conversations::list),
        Route::new(M::GET, "/v1/conversations/{c}", USE, conversations::get),
        Route::new(M::DELETE, "/v1/conversations/{c}", USE, conversations::delete),
        Route::new(M::POST, "/v1/conversations/{c}/fork", USE, conversations::fork),
        Route::new(M::GET, "/v1/conversations/{c}/events", USE, events::events),
        Route::new(M::GET, "/v1/conversations/{c}/blocks", USE, blocks::list),
        Route::new(M::GET, "/v1/conversations/{c}/render", USE, blocks::render),
        Route::new(M::GET, "/v1/conversations/{c}/export", USE, transfer::export),
        Route::new(M::POST, "/v1/conversations/{c}/links", USE, artifacts::link),
        Route::new(
            M::GET,
            "/v1/conversations/{c}/artifacts/{*path}",
            Access::Link,
            artifacts::get,
        ),
    ]
}

/// A conversation as of one of its blocks, as the page shows it.
fn of_moments() -> Vec<Route> {
    use Method as M;
    vec![
        Route::new(M::GET, "/v1/conversations/{c}/trees", USE, page::trees),
        Route::new(M::GET, "/v1/conversations/{c}/steps", USE, page::steps),
        Route::new(M::GET, "/v1/conversations/{c}/moment", USE, page::moment),
        Route::new(M::GET, "/v1/conversations/{c}/view", USE, page::model_view),
        Route::new(M::GET, "/v1/conversations/{c}/preview", USE, page::preview),
        Route::new(M::GET, "/v1/conversations/{c}/difference", USE, page::difference),
    ]
}

fn of_turns() -> Vec<Route> {
    use Method as M;
    vec![
        Route::new(M::POST, "/v1/conversations/{c}/turns", USE, turns::start),
        Route::new(M::GET, "/v1/conversations/{c}/turns/{t}", USE, turns::get),
        Route::new(
            M::POST,
            "/v1/conversations/{c}/turns/{t}/cancel",
            USE,
            turns::cancel,
        ),
        Route::new(
            M::POST,
            "/v1/conversations/{c}/turns/{t}/steer",
            USE,
            turns::steer,
        ),
        Route::new(
            M::POST,
            "/v1/conversations/{c}/turns/{t}/feedback",
            USE,
            turns::feedback,
        ),
    ]
}

/// The method and path of every route of the API.
pub fn routes() -> Vec<(Method, &'static str)> {
    table()
        .into_iter()
        .map(|route| (route.method, route.path))
        .collect()
}

/// The files of the page.
fn of_page() -> impl Iterator<Item = Route> {
    let paths = ["/"]
        .into_iter()
        .chain(annals_page::assets().iter().map(|asset| asset.path));
    paths.map(|path| Route::new(Method::GET, path, USE, page::file))
}

/// The router of all routes, behind the door.
pub(crate) fn router(app: &App) -> Router {
    let mut router = Router::new();
    for route in table().into_iter().chain(of_page()) {
        let enter = from_fn_with_state((app.clone(), route.access), door::enter);
        router = router.route(route.path, route.handler.route_layer(enter));
    }
    router
        .fallback(health::missing)
        .method_not_allowed_fallback(health::other_method)
        .layer(from_fn_with_state(app.clone(), door::login))
        .layer(from_fn_with_state(app.clone(), door::guard))
        .layer(CatchPanicLayer::custom(health::panicked))
        .layer(from_fn(access_log::log))
        .with_state(app.clone())
}
