//! The door: whose request it is, and whether it was meant for this server.
//!
//! A browser sends requests for any page that asks it to; Host, Origin and Sec-Fetch-Site tell which page that was. Then a
//! token is needed: by Bearer for programs, by a cookie for the page, which gets it from the URL printed at the start.

use std::net::IpAddr;

use annals_core::ids::Scope;
use annals_store::{Role, Roles};
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;
use tokio::time::Instant;

use crate::app::App;
use crate::openai::is_reserved;
use crate::problem::{Code, Problem};
use crate::secrets::{Ticket, hash_of, seconds};

/// A browser stays logged in for this long.
const COOKIE_SECONDS: i64 = 30 * 24 * 60 * 60;

/// In which scope an admin whose token reaches further wants to be.
pub(crate) const SCOPE_HEADER: HeaderName = HeaderName::from_static("annals-scope");
/// What a node shows to another one.
pub(crate) const NODE_TICKET: HeaderName = HeaderName::from_static("annals-node");

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a route asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Nothing.
    Open,
    /// A token with this role.
    Role(Role),
    /// A token with the role `use`, or a signature in the address.
    Link,
}

/// Whose request it is.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) scope: Scope,
    roles: Roles,
    /// What its limits are counted under; tells nobody the token.
    pub(crate) name: String,
    /// The token, if the store knows it.
    token: Option<[u8; 32]>,
    /// Whether another node asks, for its own callers.
    pub(crate) is_node: bool,
}

impl Caller {
    pub(crate) fn has(&self, role: Role) -> bool {
        self.roles.has(role)
    }

    /// The caller in the scope that the request names. One that the token does not reach does not exist for it.
    fn in_scope_of(mut self, headers: &HeaderMap) -> Result<Self, Problem> {
        let mut named = headers.get_all(SCOPE_HEADER).iter();
        let scope = match (named.next(), named.next()) {
            (None, _) => return Ok(self),
            (Some(named), None) => named.to_str().ok().and_then(|text| Scope::parse(text).ok()),
            (Some(_), Some(_)) => None,
        };
        let scope = scope.ok_or_else(|| {
            Problem::bad_request("the Annals-Scope header is not one `TENANT/PROJECT/USER`")
        })?;
        if is_reserved(&scope) || !self.roles.breadth().reaches(&self.scope, &scope) {
            return Err(Problem::new(Code::NotFound, "there is no such scope"));
        }
        self.scope = scope;
        Ok(self)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.ok_or_else(|| Problem::internal("a route without a door wants its caller"))
    }
}

/// Refuses what was not meant for this server, whatever the route.
pub(crate) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let mut response = match check(&app, request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

fn check(app: &App, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let host = host_of(headers, uri)?;
    if !is_own_host(app, host) {
        let detail = "the Host header names another server";
        return Err(Problem::new(Code::ForeignHost, detail));
    }
    if let Some(origin) = headers.get(header::ORIGIN)
        && !is_own_origin(app, origin, host)
    {
        let detail = "the Origin header names another page";
        return Err(Problem::new(Code::ForeignOrigin, detail));
    }
    let is_same_site = |site: &HeaderValue| site == "same-origin" || site == "none";
    if headers
        .get_all(SEC_FETCH_SITE)
        .iter()
        .any(|site| !is_same_site(site))
    {
        let detail = "the Sec-Fetch-Site header tells of another page";
        return Err(Problem::new(Code::ForeignOrigin, detail));
    }
    Ok(())
}

fn host_of<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> Result<&'r str, Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next(), uri.authority()) {
        (Some(host), None, None) => host
            .to_str()
            .map_err(|_| Problem::bad_request("the Host header is malformed")),
        // A target in absolute form says it too; both must agree.
        (Some(host), None, Some(authority)) if host.as_bytes() == authority.as_str().as_bytes() => {
            Ok(authority.as_str())
        }
        _ => Err(Problem::bad_request("the request needs one Host header")),
    }
}

/// The name in an authority, without its port.
fn name_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => authority.rsplit_once(':').map_or(authority, |(name, _)| name),
    }
}

/// A name that resolves to this machine today and to another tomorrow is how a foreign page reaches a local server; a
/// numeric address cannot be made to do that.
fn is_own_host(app: &App, host: &str) -> bool {
    let public = app.door.public.as_ref();
    if public.is_some_and(|public| public.authority.eq_ignore_ascii_case(host)) {
        return true;
    }
    let advertised = app.door.advertised.as_ref();
    if advertised.is_some_and(|advertised| advertised.eq_ignore_ascii_case(host)) {
        return true;
    }
    let name = name_of(host);
    match name.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || !app.door.is_loopback,
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

fn is_own_origin(app: &App, origin: &HeaderValue, host: &str) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    let public = app.door.public.as_ref();
    if public.is_some_and(|public| public.origin.eq_ignore_ascii_case(origin)) {
        return true;
    }
    let authority = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

/// What a link to an artifact carries in its query.
#[derive(Deserialize)]
struct LinkQuery {
    scope: String,
    until: i64,
    signature: String,
}

/// Lets a caller in to one route.
pub(crate) async fn enter(
    State((app, access)): State<(App, Access)>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match access {
        Access::Open => return next.run(request).await,
        Access::Role(role) => authorised(&app, request.headers(), role).await,
        Access::Link => match linked(&app, request.uri()) {
            Some(caller) => caller,
            None => authorised(&app, request.headers(), Role::Use).await,
        },
    };
    match caller.and_then(|caller| counted(&app, caller)) {
        Ok(caller) => {
            request.extensions_mut().insert(caller.clone());
            let mut response = next.run(request).await;
            // For the access log.
            response.extensions_mut().insert(caller);
            response
        }
        Err(problem) => problem.into_response(),
    }
}

fn counted(app: &App, caller: Caller) -> Result<Caller, Problem> {
    if caller.is_node {
        return Ok(caller);
    }
    app.usage
        .request(&caller.name, &app.limits, Instant::now())
        .map(|()| caller)
}

async fn authorised(app: &App, headers: &HeaderMap, role: Role) -> Result<Caller, Problem> {
    let caller = authenticate(app, headers).await?.in_scope_of(headers)?;
    match caller.has(role) {
        true => Ok(caller),
        false => {
            let detail = format!("this route needs the role `{}`", role.as_str());
            Err(Problem::new(Code::Forbidden, detail))
        }
    }
}

/// The caller of a signed address: none when it has no signature.
fn linked(app: &App, uri: &Uri) -> Option<Result<Caller, Problem>> {
    let query = uri.query().filter(|query| query.contains("signature="))?;
    let bad = || Problem::new(Code::BadLink, "the link is not valid any more");
    let Ok(link) = serde_urlencoded::from_str::<LinkQuery>(query) else {
        return Some(Err(bad()));
    };
    let Ok(scope) = Scope::parse(&link.scope) else {
        return Some(Err(bad()));
    };
    let now = app.agent.world().now();
    // Signed as it reads, so that a proxy may write it otherwise.
    let path = percent_encoding::percent_decode_str(uri.path()).decode_utf8_lossy();
    let is_valid = app
        .signer
        .is_link(&scope, &path, link.until, &link.signature, now);
    let caller = Caller {
        name: format!("link of {scope}"),
        scope,
        roles: [Role::Use].into_iter().collect(),
        token: None,
        is_node: false,
    };
    Some(if is_valid { Ok(caller) } else { Err(bad()) })
}

async fn authenticate(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    if let Some(shown) = headers.get(&NODE_TICKET) {
        return node(app, shown).ok_or_else(|| {
            Problem::new(
                Code::Unauthorized,
                "the node shares no keys with this one, or its clock is wrong",
            )
        });
    }
    if app.door.is_open {
        return Ok(Caller {
            scope: app.agent.scope().clone(),
            roles: Roles::all(),
            name: "everybody".to_owned(),
            token: None,
            is_node: false,
        });
    }
    let found = match headers.get(header::AUTHORIZATION) {
        Some(authorization) => {
            let token = authorization.to_str().ok().and_then(bearer);
            match token {
                Some(token) => of_token(app, token).await?,
                None => None,
            }
        }
        None => match cookie(headers, &app.door.cookie) {
            Some(cookie) => of_cookie(app, cookie).await?,
            None => None,
        },
    };
    found.ok_or_else(|| {
        Problem::new(
            Code::Unauthorized,
            "there is no token, or it is not valid any more",
        )
    })
}

/// Another node that shares the store, and with it the keys.
fn node(app: &App, shown: &HeaderValue) -> Option<Caller> {
    let ticket = app
        .signer
        .of_node(shown.to_str().ok()?, app.agent.world().now())?;
    Some(Caller {
        scope: ticket.scope,
        roles: ticket.roles,
        name: "another node".to_owned(),
        token: None,
        is_node: true,
    })
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The value of a cookie.
fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let pairs = headers.get_all(header::COOKIE).iter();
    let mut pairs = pairs
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(found, value)| (found == name).then_some(value))
}

/// The caller that a token names, if it is one.
async fn of_token(app: &App, token: &str) -> Result<Option<Caller>, Problem> {
    let hash = hash_of(token);
    let is_printed = app
        .door
        .printed
        .is_some_and(|printed| bool::from(printed.ct_eq(&hash)));
    if is_printed {
        return Ok(Some(printed_caller(app.agent.scope().clone(), Roles::all())));
    }
    of_hash(app, hash).await
}

/// The caller of a token that the store knows. The server's own scopes are opened by none, even one that was put there by hand.
async fn of_hash(app: &App, hash: [u8; 32]) -> Result<Option<Caller>, Problem> {
    let found = app.token(&hash).await?.filter(|token| !is_reserved(&token.scope));
    Ok(found.map(|token| Caller {
        name: format!("token {}", token.name),
        scope: token.scope,
        roles: token.roles,
        token: Some(hash),
        is_node: false,
    }))
}

fn printed_caller(scope: Scope, roles: Roles) -> Caller {
    Caller {
        scope,
        roles,
        name: "printed token".to_owned(),
        token: None,
        is_node: false,
    }
}

async fn of_cookie(app: &App, cookie: &str) -> Result<Option<Caller>, Problem> {
    let Some(ticket) = app.signer.ticket(cookie, app.agent.world().now()) else {
        return Ok(None);
    };
    let Some(hash) = ticket.token else {
        return Ok(Some(printed_caller(ticket.scope, ticket.roles)));
    };
    // A cookie opens no more than its token does now.
    of_hash(app, hash).await
}

#[derive(Deserialize)]
struct LoginQuery {
    token: String,
}

/// `GET /?token=…`: a cookie for the token, and away from the address that names it.
pub(crate) async fn login(State(app): State<App>, request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let is_login = request.uri().path() == "/" && request.method() == Method::GET;
    let Some(login) = serde_urlencoded::from_str::<LoginQuery>(query)
        .ok()
        .filter(|_| is_login)
    else {
        return next.run(request).await;
    };
    match of_token(&app, &login.token).await {
        Ok(Some(caller)) => logged_in(&app, caller),
        Ok(None) => {
            let detail = "the token in the address is not valid any more";
            Problem::new(Code::Unauthorized, detail).into_response()
        }
        Err(problem) => problem.into_response(),
    }
}

fn logged_in(app: &App, caller: Caller) -> Response {
    let ticket = Ticket {
        scope: caller.scope,
        roles: caller.roles,
        until: seconds(app.agent.world().now()) + COOKIE_SECONDS,
        token: caller.token,
    };
    let secure = match &app.door.public {
        Some(public) if public.is_https => "; Secure",
        _ => "",
    };
    let cookie = format!(
        "{}={}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict{secure}",
        app.door.cookie,
        app.signer.cookie(&ticket)
    );
    let Ok(cookie) = HeaderValue::from_str(&cookie) else {
        return Problem::internal("a cookie is not a header").into_response();
    };
    let headers = [
        (header::SET_COOKIE, cookie),
        (header::LOCATION, HeaderValue::from_static("/")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_authority_is_without_its_port() {
        for (authority, name) in [
            ("localhost", "localhost"),
            ("localhost:7878", "localhost"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("[::1]:7878", "::1"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(name_of(authority), name);
        }
    }

    #[test]
    fn a_cookie_is_found_among_others_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("x_annals_1=no; a=b"));
        headers.append(header::COOKIE, HeaderValue::from_static("annals_1=yes=; c=d"));
        assert_eq!(cookie(&headers, "annals_1"), Some("yes="));
        assert_eq!(cookie(&headers, "annals_2"), None);
    }

    #[test]
    fn only_bearer_carries_a_token() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        assert_eq!(bearer("Basic abc"), None);
        assert_eq!(bearer("abc"), None);
    }
}
