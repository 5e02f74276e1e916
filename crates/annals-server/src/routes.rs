//! The table of everything that can be asked: path, method, who may, what for. The router is made from it, and so is the
//! API document, so that neither can have a route that the other lacks.

use annals_store::Role;
use axum::Router;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::{Method, StatusCode};
use schemars::JsonSchema;
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::door::{self, Access};
use crate::openapi::{self, Doc, ErrorForm, Given};
use crate::{
    access_log, approvals, artifacts, blocks, conversations, events, health, inputs, mcp, mcp_servers,
    metrics, page, problem, schemas, search, transfer, turns,
};

/// One method of one path.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) doc: Doc,
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
            doc: Doc::default(),
            handler: on(filter, handler),
        }
    }

    pub(crate) fn get<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Route::new(Method::GET, path, USE, handler)
    }

    pub(crate) fn post<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Route::new(Method::POST, path, USE, handler)
    }

    /// For callers with another right than the role `use`.
    fn for_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// What it is for, in one sentence.
    pub(crate) fn about(mut self, summary: &'static str) -> Self {
        self.doc.summary = summary;
        self
    }

    /// Its body.
    pub(crate) fn takes<B: JsonSchema>(mut self) -> Self {
        self.doc.takes = Some(openapi::schema_of::<B>);
        self
    }

    /// A JSON object that is described elsewhere.
    pub(crate) fn takes_object(mut self) -> Self {
        self.doc.takes = Some(openapi::object);
        self
    }

    /// Says what went wrong in the form of OpenAI's API.
    pub(crate) fn errors_as_openai(mut self) -> Self {
        self.doc.errors = ErrorForm::OpenAi;
        self
    }

    /// Another form of its body.
    pub(crate) fn also_takes(mut self, media_type: &'static str) -> Self {
        self.doc.also_takes = Some(media_type);
        self
    }

    /// What it answers.
    pub(crate) fn gives<A: JsonSchema>(mut self, status: StatusCode) -> Self {
        self.doc.gives = Given::Json(status, openapi::schema_of::<A>);
        self
    }

    /// Answers an object that is described elsewhere.
    pub(crate) fn gives_object(mut self) -> Self {
        self.doc.gives = Given::Json(StatusCode::OK, openapi::object);
        self
    }

    /// Answers something else than JSON.
    pub(crate) fn gives_bytes(mut self, media_type: &'static str) -> Self {
        self.doc.gives = Given::Bytes(media_type);
        self
    }

    /// Its parameters in the query, with their meanings.
    pub(crate) fn query(mut self, query: &'static [(&'static str, &'static str)]) -> Self {
        self.doc.query = query;
        self
    }
}

const USE: Access = Access::Role(Role::Use);

/// The moment at which the page looks.
const AT: (&str, &str) = ("at", "as it was when this block was the last one");

/// Every route. A further module adds its own here.
pub(crate) fn table() -> Vec<Route> {
    let mut routes = vec![
        Route::get("/healthz", health::live)
            .for_access(Access::Open)
            .about("Whether the process answers.")
            .gives::<health::Health>(StatusCode::OK),
        Route::get("/readyz", health::ready)
            .for_access(Access::Open)
            .about("Whether the store takes writes and the server does not stop.")
            .gives::<health::Health>(StatusCode::OK),
        Route::get("/metrics", metrics::text)
            .for_access(Access::Role(Role::Metrics))
            .about("Figures in the text form of Prometheus.")
            .gives_bytes("text/plain"),
        Route::get("/openapi.json", openapi::document)
            .about("This document.")
            .gives_object(),
        Route::get("/v1/tools", health::tools)
            .about("The tools of the agent.")
            .gives::<health::Tools>(StatusCode::OK),
        Route::get("/v1/search", search::search)
            .about("What was said before, by words and by meaning.")
            .query(&[
                ("q", "what to look for"),
                ("conversation", "only there"),
                ("limit", "at most this many"),
                ("days", "not older"),
            ])
            .gives::<search::Passages>(StatusCode::OK),
        Route::post("/v1/import", transfer::import)
            .about("Reads an exported conversation.")
            .also_takes("application/octet-stream")
            .gives::<conversations::Made>(StatusCode::CREATED),
        Route::get("/v1/approvals", approvals::list)
            .about("Calls that wait for a person, in all conversations.")
            .gives::<approvals::Approvals>(StatusCode::OK),
        Route::post("/v1/conversations/{c}/approvals/{a}", approvals::decide)
            .for_access(Access::Role(Role::Approve))
            .about("Decides about a call that waits; the first decision holds.")
            .takes::<approvals::NewDecision>()
            .gives::<approvals::Decided>(StatusCode::ACCEPTED),
        Route::get("/v1/inputs", inputs::list)
            .about("What calls wait to be told by a person, in all conversations.")
            .gives::<inputs::Inputs>(StatusCode::OK),
        Route::post("/v1/conversations/{c}/inputs/{a}", inputs::tell)
            .for_access(Access::Role(Role::Approve))
            .about("Tells a call what it waits for; the first answer holds.")
            .takes::<inputs::NewInput>()
            .gives::<inputs::Told>(StatusCode::ACCEPTED),
    ];
    routes.extend(of_conversations());
    routes.extend(of_content());
    routes.extend(of_turns());
    routes.extend(crate::openai::table());
    routes.extend(mcp::table());
    routes.extend(mcp_servers::table());
    routes.extend(of_moments());
    routes
}

fn of_conversations() -> Vec<Route> {
    vec![
        Route::post("/v1/conversations", conversations::create)
            .about("Makes a conversation.")
            .takes::<conversations::NewConversation>()
            .gives::<conversations::Made>(StatusCode::CREATED),
        Route::get("/v1/conversations", conversations::list)
            .about("Conversations, the newest first.")
            .query(&[
                ("limit", "at most this many"),
                ("cursor", "the next_cursor of the page before"),
            ])
            .gives::<conversations::Conversations>(StatusCode::OK),
        Route::get("/v1/conversations/{c}", conversations::get)
            .about("A conversation and how far its last turn has come.")
            .gives::<conversations::Conversation>(StatusCode::OK),
        Route::new(
            Method::DELETE,
            "/v1/conversations/{c}",
            USE,
            conversations::delete,
        )
        .about("Removes a conversation for good; forks keep what they share."),
        Route::post("/v1/conversations/{c}/fork", conversations::fork)
            .about("Makes a conversation that shares this one's history up to a block.")
            .takes::<conversations::Fork>()
            .gives::<conversations::Made>(StatusCode::CREATED),
    ]
}

fn of_content() -> Vec<Route> {
    vec![
        Route::get("/v1/conversations/{c}/events", events::events)
            .about("Live events: blocks without gap or repetition, deltas, states.")
            .query(&[
                (
                    "after",
                    "the last block that is known; the header Last-Event-ID wins over it",
                ),
                ("trees", "`true`: prose that is arriving comes as trees as well"),
            ])
            .gives_bytes("text/event-stream"),
        Route::get("/v1/conversations/{c}/blocks", blocks::list)
            .about("Blocks as they are stored.")
            .query(&[
                ("after", "only later ones"),
                ("limit", "at most this many"),
                ("fields", "`head` leaves bodies out"),
            ])
            .gives::<blocks::Page>(StatusCode::OK),
        Route::get("/v1/conversations/{c}/render", blocks::render)
            .about("What the model sees.")
            .query(&[AT])
            .gives::<schemas::RenderedSchema>(StatusCode::OK),
        Route::get("/v1/conversations/{c}/export", transfer::export)
            .about("The conversation with its files as one file.")
            .gives_bytes("application/octet-stream"),
        Route::post("/v1/conversations/{c}/links", artifacts::link)
            .about("A link that opens one artifact for a time, without a token.")
            .takes::<artifacts::NewLink>()
            .gives::<artifacts::Link>(StatusCode::CREATED),
        Route::get("/v1/conversations/{c}/artifacts/{*path}", artifacts::get)
            .for_access(Access::Link)
            .about("What a logical path names: bytes with type, digest and ranges.")
            .query(&[
                ("seq", "as it was when this block was the last one"),
                ("download", "as a file, whatever it is"),
            ])
            .gives_bytes("*/*"),
    ]
}

/// A conversation as of one of its blocks, as the page shows it.
fn of_moments() -> Vec<Route> {
    vec![
        Route::get("/v1/conversations/{c}/trees", page::trees)
            .about("Texts of blocks as trees that the page draws.")
            .query(&[
                ("after", "only of later blocks"),
                ("limit", "of at most this many"),
            ])
            .gives::<page::TreesOf>(StatusCode::OK),
        Route::get("/v1/conversations/{c}/steps", page::steps)
            .about("What each model call used, and what broke its prefix.")
            .query(&[("after", "only later ones")])
            .gives::<page::Steps>(StatusCode::OK),
        Route::get("/v1/conversations/{c}/moment", page::moment)
            .about("One block with its files, sources, plan and sandbox, as of that block.")
            .query(&[AT])
            .gives::<page::Moment>(StatusCode::OK),
        Route::get("/v1/conversations/{c}/view", page::model_view)
            .about("What the model saw at a block, part by part, with what was read from the cache.")
            .query(&[AT, ("all", "`true`: every part, however many there are")])
            .gives::<page::ModelView>(StatusCode::OK),
        Route::get("/v1/conversations/{c}/proposal", page::proposal)
            .about("What a call that waits for a person would do.")
            .query(&[("call", "the call that waits")])
            .gives::<page::Proposed>(StatusCode::OK),
        Route::get("/v1/conversations/{c}/pdf", page::pdf_page)
            .about("A page of a PDF as a picture.")
            .gives_bytes("image/png"),
        Route::get("/v1/conversations/{c}/preview", page::preview)
            .about("A version of a file, as a tree where it is text.")
            .query(&[
                ("path", "the file's logical path"),
                ("seq", "the block that wrote the version"),
            ])
            .gives::<page::Preview>(StatusCode::OK),
        Route::get("/v1/conversations/{c}/diff", page::difference)
            .about("What changed between two versions of a file.")
            .query(&[
                ("path", "the file's logical path"),
                ("from", "the block of the one version"),
                ("to", "the block of the other"),
            ])
            .gives::<schemas::Tree>(StatusCode::OK),
    ]
}

fn of_turns() -> Vec<Route> {
    vec![
        Route::post("/v1/conversations/{c}/turns", turns::start)
            .about("Starts a turn; answered once the prompt is durable.")
            .takes::<turns::NewTurn>()
            .also_takes("multipart/form-data")
            .gives::<turns::Started>(StatusCode::ACCEPTED),
        Route::get("/v1/conversations/{c}/turns/{t}", turns::get)
            .about("A turn, how far it has come and what it came to.")
            .gives::<turns::TurnAnswer>(StatusCode::OK),
        Route::post("/v1/conversations/{c}/turns/{t}/cancel", turns::cancel)
            .about("Ends a turn that runs or waits.")
            .takes::<turns::Nothing>()
            .gives::<turns::Taken>(StatusCode::ACCEPTED),
        Route::post("/v1/conversations/{c}/turns/{t}/steer", turns::steer)
            .about("Says something to the turn that runs.")
            .takes::<turns::Steer>()
            .gives::<turns::Taken>(StatusCode::ACCEPTED),
        Route::post("/v1/conversations/{c}/turns/{t}/feedback", turns::feedback)
            .about("Says whether a turn was good.")
            .takes::<turns::Feedback>()
            .gives::<turns::Taken>(StatusCode::CREATED),
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
        .layer(from_fn_with_state(app.clone(), problem::redact))
        .layer(from_fn_with_state(app.clone(), access_log::log))
        .with_state(app.clone())
}
