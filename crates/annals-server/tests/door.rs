//! The door: what must not come in, on every route of the table.

mod common;

use std::time::Duration;

use annals_server::Limits;
use annals_store::{Breadth, Role};
use common::{Running, options};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A path of the table with names in it.
fn filled(path: &str, conversation: &str, turn: &str) -> String {
    path.replace("{c}", conversation)
        .replace("{t}", turn)
        .replace("{a}", &format!("{turn}.tc_x.1"))
        .replace("{*path}", &format!("fi:{turn}.files/a.md"))
        .replace("{id}", "some")
        .replace("{*id}", "some")
}

fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// A server with one conversation that has a turn with a file.
async fn server() -> (Running, String, String) {
    let server = Running::start(json!([
        {"tool_calls": [{"id": "w", "tool": "react.write", "params": {
            "path": "a.md", "channel": "canvas", "content": "secret words", "kind": "file"}}]},
        {"text": "Done."},
    ]))
    .await;
    let c = server.new_conversation().await;
    let turn = server.prompt(&c, "Go").await;
    server.ended(&c, &turn).await;
    (server, c, turn)
}

async fn code(response: reqwest::Response) -> (u16, String) {
    let status = response.status().as_u16();
    let problem: Value = response.json().await.unwrap_or_default();
    (status, problem["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn no_route_opens_without_a_token_or_for_another_page() {
    let (server, c, turn) = server().await;
    let wrong = annals_server::secrets::new_token().unwrap();
    for (method, path) in annals_server::routes() {
        let path = filled(path, &c, &turn);
        let send = async |name: &'static str, value: &str| {
            let request = server.request(method.clone(), &path).header(name, value);
            code(request.send().await.unwrap()).await
        };
        assert_eq!(
            send("host", "evil.example").await,
            (421, "foreign_host".into()),
            "{path}"
        );
        assert_eq!(send("host", "127.0.0.1.evil.example").await.0, 421, "{path}");
        assert_eq!(
            send("origin", "https://evil.example").await,
            (403, "foreign_origin".into()),
            "{path}"
        );
        assert_eq!(send("origin", "null").await.0, 403, "{path}");
        assert_eq!(send("sec-fetch-site", "cross-site").await.0, 403, "{path}");
        assert_eq!(send("sec-fetch-site", "same-site").await.0, 403, "{path}");
        if is_open(&path) {
            continue;
        }
        let bare = server.bare(method.clone(), &path);
        assert_eq!(
            code(bare.send().await.unwrap()).await,
            (401, "unauthorized".into()),
            "{path}"
        );
        let guessed = server.bare(method.clone(), &path).bearer_auth(&wrong);
        assert_eq!(guessed.send().await.unwrap().status(), 401, "{path}");
        let cookie = server
            .bare(method.clone(), &path)
            .header("cookie", "annals_7878=x.y");
        assert_eq!(cookie.send().await.unwrap().status(), 401, "{path}");
    }
}

#[tokio::test]
async fn another_scope_finds_nothing_on_any_route() {
    let (server, c, turn) = server().await;
    let other = server
        .token_of("other/tenant/person", &[Role::Use, Role::Approve])
        .await;
    for (method, path) in annals_server::routes() {
        if !path.contains("{c}") {
            continue;
        }
        let path = filled(path, &c, &turn);
        let body = match path.rsplit('/').next() {
            Some("turns") => json!({"prompt": "x"}),
            Some("steer") => json!({"text": "x"}),
            Some("feedback") => json!({"reaction": "up"}),
            Some("links") => json!({"path": format!("fi:{turn}.files/a.md")}),
            _ if path.contains("/approvals/") => json!({"decision": "once"}),
            _ => json!({}),
        };
        let address = match path.rsplit('/').next() {
            Some("preview" | "diff" | "pdf") => {
                format!("{path}?path=fi:{turn}.files%2Fa.md&seq=1&from=1&to=2")
            }
            Some("proposal") => format!("{path}?call=c1"),
            _ => path.clone(),
        };
        let request = server
            .bare(method.clone(), &address)
            .bearer_auth(&other)
            .json(&body);
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert_eq!(status, 404, "{method} {path}: {text}");
        assert!(!text.contains("secret words"), "{path}");
    }
    let listed = server.bare(Method::GET, "/v1/conversations").bearer_auth(&other);
    let listed: Value = listed.send().await.unwrap().json().await.unwrap();
    assert_eq!(listed["items"], json!([]));
    let found = server
        .bare(Method::GET, "/v1/search?q=secret+words")
        .bearer_auth(&other);
    let found: Value = found.send().await.unwrap().json().await.unwrap();
    assert_eq!(found["items"].as_array().map_or(0, Vec::len), 0);
}

/// What a route answers to each of the callers, as a status.
async fn statuses(server: &Running, method: &Method, path: &str, callers: &[(&str, &str)]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for (token, scope) in callers {
        let request = server
            .bare(method.clone(), path)
            .bearer_auth(token)
            .header("annals-scope", *scope);
        statuses.push(request.send().await.unwrap().status().as_u16());
    }
    statuses
}

const ALL_ROLES: [Role; 4] = [Role::Use, Role::Approve, Role::Admin, Role::Metrics];

/// A scope of the server's tenant.
fn beside(own: &str, project: Option<&str>, user: &str) -> String {
    let [tenant, its_project, _] = own.split('/').collect::<Vec<_>>()[..] else {
        panic!("{own}")
    };
    format!("{tenant}/{}/{user}", project.unwrap_or(its_project))
}

#[tokio::test]
async fn only_an_admin_s_token_reaches_other_scopes_and_none_those_of_the_server() {
    let (server, c, turn) = server().await;
    let own = server.agent.scope().to_string();
    let (neighbour, elsewhere) = (
        beside(&own, None, "neighbour"),
        beside(&own, Some("elsewhere"), "x"),
    );
    let people = [Role::Use, Role::Approve];
    let shut_out = [
        server.token_reaching(&neighbour, &people, Breadth::Tenant).await,
        server.token_reaching(&neighbour, &ALL_ROLES, Breadth::User).await,
        server
            .token_reaching("other/tenant/x", &ALL_ROLES, Breadth::Tenant)
            .await,
        server
            .token_reaching(&elsewhere, &ALL_ROLES, Breadth::Project)
            .await,
    ];
    let shut_out = shut_out.each_ref().map(|token| (token.as_str(), own.as_str()));
    let of_tenant = server
        .token_reaching(&elsewhere, &ALL_ROLES, Breadth::Tenant)
        .await;
    let reserved = ["annals.register/policy/values", "annals.openai/x/y"].map(|scope| (&*of_tenant, scope));
    for (method, path) in annals_server::routes() {
        if is_open(path) {
            continue;
        }
        let path = filled(path, &c, &turn);
        let refused = statuses(&server, &method, &path, &shut_out).await;
        assert_eq!(refused, [404; 4], "{method} {path}");
        let refused = statuses(&server, &method, &path, &reserved).await;
        assert_eq!(refused, [404; 2], "{method} {path}");
        let refused = statuses(&server, &method, &path, &[(&of_tenant, "no scope")]).await;
        assert_eq!(refused, [400], "{method} {path}");
    }
}

#[tokio::test]
async fn an_admin_s_token_reaches_the_scopes_of_its_prefix_by_name() {
    let (server, c, turn) = server().await;
    let own = server.agent.scope().to_string();
    let (neighbour, elsewhere) = (
        beside(&own, None, "neighbour"),
        beside(&own, Some("elsewhere"), "x"),
    );
    let of_project = server
        .token_reaching(&neighbour, &ALL_ROLES, Breadth::Project)
        .await;
    let of_tenant = server
        .token_reaching(&elsewhere, &ALL_ROLES, Breadth::Tenant)
        .await;
    let reaching = [&of_project, &of_tenant].map(|token| (token.as_str(), own.as_str()));
    for path in [
        format!("/v1/conversations/{c}"),
        format!("/v1/conversations/{c}/turns/{turn}"),
    ] {
        let reached = statuses(&server, &Method::GET, &path, &reaching).await;
        assert_eq!(reached, [200; 2], "{path}");
        let unnamed = server.bare(Method::GET, &path).bearer_auth(&of_project);
        let status = unnamed.send().await.unwrap().status();
        assert_eq!(status, 404, "without a name it is in its own scope");
    }
    let listed = server
        .bare(Method::GET, "/v1/conversations")
        .bearer_auth(&of_tenant);
    let listed = listed.header("annals-scope", &own).send().await.unwrap();
    let listed: Value = listed.json().await.unwrap();
    assert_eq!(listed["items"].as_array().map_or(0, Vec::len), 1);
}

#[tokio::test]
async fn a_role_opens_its_routes_only_and_a_revoked_token_none() {
    let (server, c, _) = server().await;
    let own = server.agent.scope().to_string();
    let metrics = server.token_of(&own, &[Role::Metrics]).await;
    let with = |path: &str, token: &str| server.bare(Method::GET, path).bearer_auth(token).send();
    assert_eq!(with("/metrics", &metrics).await.unwrap().status(), 200);
    let refused = with(&format!("/v1/conversations/{c}"), &metrics).await.unwrap();
    assert_eq!(code(refused).await, (403, "forbidden".into()));
    let user = server.token_of(&own, &[Role::Use]).await;
    assert_eq!(
        with(&format!("/v1/conversations/{c}"), &user)
            .await
            .unwrap()
            .status(),
        200
    );
    assert_eq!(with("/metrics", &user).await.unwrap().status(), 403);
    for token in server.agent.log().tokens().await.unwrap() {
        server.agent.log().revoke_token(&token.name).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(with("/metrics", &metrics).await.unwrap().status(), 401);
}

#[tokio::test]
async fn the_printed_address_becomes_a_cookie_that_only_this_site_sends() {
    let (server, c, _) = server().await;
    let login = server.bare(Method::GET, &format!("/?token={}", server.token));
    let login = login.send().await.unwrap();
    assert_eq!(
        (
            login.status().as_u16(),
            login.headers()["location"].to_str().unwrap()
        ),
        (303, "/")
    );
    let cookie = login.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(&server.token), "the cookie is not the token");
    let pair = cookie.split(';').next().unwrap();
    let page = server
        .bare(Method::GET, "/")
        .header("cookie", pair)
        .send()
        .await
        .unwrap();
    assert_eq!(page.status(), 200);
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    let path = format!("/v1/conversations/{c}");
    let read = server.bare(Method::GET, &path).header("cookie", pair);
    assert_eq!(read.send().await.unwrap().status(), 200);
    let forged = pair.replace('=', "=x");
    let read = server.bare(Method::GET, &path).header("cookie", forged);
    assert_eq!(read.send().await.unwrap().status(), 401);
    assert_eq!(
        server
            .bare(Method::GET, "/?token=annals_wrong")
            .send()
            .await
            .unwrap()
            .status(),
        401
    );
    // A page elsewhere can make a browser send a form without asking first; its origin gives it away.
    let form = reqwest::multipart::Form::new().text("prompt", "do it");
    let foreign = server
        .bare(Method::POST, &format!("{path}/turns"))
        .header("cookie", pair);
    let foreign = foreign.header("origin", "https://evil.example").multipart(form);
    assert_eq!(foreign.send().await.unwrap().status(), 403);
}

#[tokio::test]
async fn slow_and_huge_requests_cost_their_sender_only() {
    let limits = Limits {
        head_timeout: Duration::from_millis(300),
        body_timeout: Duration::from_millis(300),
        json_max_bytes: 10_000,
        ..Limits::default()
    };
    let server = Running::with(json!([]), annals_server::Options { limits, ..options() }, |b| b).await;
    let address = server.base.strip_prefix("http://").unwrap();
    let answer_to = async |sent: &[u8]| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer));
        let _ = read.await.expect("the connection is closed in time");
        String::from_utf8_lossy(&answer)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let slow_head = answer_to(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ").await;
    assert!(slow_head.is_empty() || slow_head.contains("408"), "{slow_head}");
    let huge_head = format!(
        "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: {}\r\n\r\n",
        "x".repeat(300_000)
    );
    // The answer may be lost, because the connection is closed with much of the request unread.
    let huge_head = answer_to(huge_head.as_bytes()).await;
    assert!(huge_head.is_empty() || huge_head.contains("431"), "{huge_head}");
    let token = &server.token;
    let head = format!(
        "POST /v1/conversations HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    );
    let slow_body = answer_to(format!("{head}Content-Length: 5\r\n\r\n{{").as_bytes()).await;
    assert!(slow_body.contains("408"), "{slow_body}");
    let two_hosts =
        "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert!(answer_to(two_hosts.as_bytes()).await.contains("400"));
    let huge = server
        .request(Method::POST, "/v1/conversations")
        .json(&json!({"title": "x".repeat(20_000)}));
    assert_eq!(code(huge.send().await.unwrap()).await, (413, "too_large".into()));
    assert_eq!(
        server
            .bare(Method::GET, "/healthz")
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_are_served_and_end_with_the_server() {
    let limits = Limits {
        streams_per_token: 1_000,
        ..Limits::default()
    };
    let mut server = Running::with(
        json!([{"text": "Hi"}]),
        annals_server::Options { limits, ..options() },
        |b| b,
    )
    .await;
    let c = server.new_conversation().await;
    let mut streams = Vec::new();
    for _ in 0..1_000 {
        streams.push(server.events(&c, None).await);
    }
    let one_more = server.get(&format!("/v1/conversations/{c}/events")).await;
    assert_eq!(code(one_more).await, (429, "too_many_streams".into()));
    let turn = server.prompt(&c, "Go").await;
    server.ended(&c, &turn).await;
    for stream in &mut streams {
        assert_eq!(common::seqs(&stream.turn().await).first(), Some(&1));
    }
    let figures = server.get("/metrics").await.text().await.unwrap();
    assert!(figures.contains("annals_streams 1000\n"), "{figures}");
    assert!(
        figures.contains("annals_turns_total{outcome=\"complete\"} 1\n"),
        "{figures}"
    );
    let begun = std::time::Instant::now();
    server.stop.cancel();
    server.served.take().unwrap().await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "open streams do not keep the server"
    );
    for stream in &mut streams {
        assert_eq!(stream.next().await, None);
    }
}

#[tokio::test]
async fn without_tokens_only_loopback_is_served() {
    let agent = annals_runtime::Agent::builder()
        .model(common::script(json!([])))
        .in_memory();
    let agent = agent.build().await.unwrap();
    let options = annals_server::Options {
        listen: ([0, 0, 0, 0], 0).into(),
        needs_token: false,
        ..options()
    };
    let refused = annals_server::Server::bind(agent, options).await;
    assert!(matches!(refused, Err(annals_server::ServeError::OpenToOthers(_))));
}

#[tokio::test]
async fn a_token_that_sends_too_much_is_told_to_wait() {
    let limits = Limits {
        requests_per_second: 1,
        requests_burst: 3,
        ..Limits::default()
    };
    let server = Running::with(json!([]), annals_server::Options { limits, ..options() }, |b| b).await;
    for _ in 0..3 {
        assert_eq!(server.get("/v1/tools").await.status(), 200);
    }
    let refused = server.get("/v1/tools").await;
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(code(refused).await, (429, "too_many_requests".into()));
}
