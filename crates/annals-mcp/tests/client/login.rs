//! Logins at a server that wants one, with a real authorization server beside it, and with ones that lie.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use annals_core::redact::Secrets;
use annals_mcp::auth::file::LoginFolder;
use annals_mcp::auth::login::LoginError;
use annals_mcp::{LoginState, Pins, RemoteServer, ServerError, Servers};
use annals_testbed::ScriptServer;
use annals_tools::Tool;
use serde_json::{Value, json};

use super::stage::{self, Stage};

/// A server and its authorization server, until they are dropped.
struct Guarded(ScriptServer);

impl Guarded {
    fn new(mechanism: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/oauth.py");
        Guarded(ScriptServer::start(
            Command::new("python3").arg(script).arg(mechanism),
        ))
    }

    fn port(&self) -> u16 {
        self.0.ports()[0]
    }

    fn authorization_port(&self) -> u16 {
        self.0.ports()[1]
    }

    fn entry(&self) -> Value {
        json!({"url": format!("http://127.0.0.1:{}/mcp", self.port())})
    }

    async fn seen(&self) -> Value {
        let url = format!("http://127.0.0.1:{}/seen", self.authorization_port());
        let answer = browser().get(url).send().await.unwrap();
        serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
    }
}

/// A server whose logins are kept in this folder.
pub(crate) fn server(stage: &Stage, entry: &Value) -> Arc<RemoteServer> {
    let list = json!({"mcpServers": {"srv": entry}}).to_string();
    let config = Servers::from_json(&list).unwrap().get("srv").unwrap().clone();
    let mut secrets = Secrets::new();
    secrets.insert("CLIENT", "configured-client-secret").unwrap();
    let server = RemoteServer::new(config, stage.folder.path().join("servers"), secrets);
    let logins = LoginFolder::of_home(stage.folder.path());
    Arc::new(server.logins(&logins).patience(stage::patience()))
}

/// A person's browser: it goes wherever it is sent.
fn browser() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// A person logs in: what the browser shows at the end, and what came of the login.
pub(crate) async fn logged_in(server: &RemoteServer, scopes: &[&str]) -> (String, Result<(), LoginError>) {
    let scopes: Vec<String> = scopes.iter().map(ToString::to_string).collect();
    let login = match server.login(&scopes).await {
        Ok(login) => login,
        Err(error) => return (String::new(), Err(error)),
    };
    let visiting = browser().get(login.address().clone()).send();
    let completed = tokio::time::timeout(Duration::from_secs(10), login.completed());
    let (visited, completed) = tokio::join!(visiting, completed);
    let page = visited.unwrap().text().await.unwrap();
    (page, completed.unwrap_or(Err(LoginError::TooLong)))
}

pub(crate) async fn accepted(server: &Arc<RemoteServer>) -> Result<Vec<Arc<dyn Tool>>, ServerError> {
    let (connection, offer) = server.offer().await?;
    let pins = Pins::new(connection.implementation(), offer.tools);
    Ok(stage::tools(server, &pins))
}

fn kept(stage: &Stage) -> String {
    let path = stage.folder.path().join("mcp/logins/srv.json");
    std::fs::read_to_string(path).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_logs_in_once_and_calls_carry_the_token() {
    let (guarded, stage) = (Guarded::new("plain"), Stage::new());
    let server = server(&stage, &guarded.entry());
    assert_eq!(server.login_state().unwrap(), None);
    let refused = accepted(&server).await.err().unwrap();
    assert_eq!(refused.code(), "mcp_login_needed");
    let words = refused.to_string();
    assert!(words.contains("`annals mcp login srv`"), "{words}");
    assert_eq!(server.login_state().unwrap(), Some(LoginState::Needed));
    let (page, came) = logged_in(&server, &[]).await;
    came.unwrap();
    assert!(page.contains("this window can be closed"), "{page}");
    assert_eq!(server.login_state().unwrap(), Some(LoginState::LoggedIn));
    let file = stage.folder.path().join("mcp/logins/srv.json");
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let tools = accepted(&server).await.unwrap();
    let outcome = stage.call(&tools, "srv.work", json!({})).await;
    assert!(outcome.error.is_none(), "{outcome:?}");
    let seen = guarded.seen().await;
    assert_eq!(
        (&seen["registered"], &seen["exchanged"], &seen["refreshed"]),
        (&json!(1), &json!(1), &json!(0))
    );
    // The same name for another address does not get the token.
    let other = Guarded::new("plain");
    let elsewhere = self::server(&stage, &other.entry());
    assert_eq!(
        accepted(&elsewhere).await.err().unwrap().code(),
        "mcp_login_needed"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_client_is_used_with_its_secret_which_is_not_kept_twice() {
    let (guarded, stage) = (Guarded::new("registers-nobody"), Stage::new());
    let unknown = server(&stage, &guarded.entry());
    let error = logged_in(&unknown, &[]).await.1.unwrap_err().to_string();
    assert!(
        error.contains("http://127.0.0.1:") && error.contains("oauth.client_id"),
        "{error}"
    );
    let mut entry = guarded.entry();
    entry["oauth"] =
        json!({"clientId": "configured", "client_secret": "secret:CLIENT", "scopes": ["files:read"]});
    let server = server(&stage, &entry);
    logged_in(&server, &[]).await.1.unwrap();
    accepted(&server).await.unwrap();
    assert!(!kept(&stage).contains("configured-client-secret"));
    assert_eq!(guarded.seen().await["authorized"], json!(["files:read"]));
}

/// Mechanisms in which the first access token does not last, and what a call afterwards says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_over_is_renewed_once_and_a_person_is_asked_when_that_fails() {
    for (mechanism, code, says, refreshed, state) in [
        ("expires", None, "done", 1, LoginState::LoggedIn),
        ("revoked", None, "done", 1, LoginState::LoggedIn),
        (
            "refresh-refused",
            Some("mcp_login_needed"),
            "annals mcp login srv",
            0,
            LoginState::Needed,
        ),
        (
            "issuer-changes",
            Some("mcp_login_needed"),
            "another authorization server",
            0,
            LoginState::Needed,
        ),
        (
            "refresh-fails",
            Some("mcp_server_unavailable"),
            "could not be renewed",
            0,
            LoginState::LoggedIn,
        ),
        (
            "expires-for-good",
            Some("mcp_login_needed"),
            "annals mcp login srv",
            0,
            LoginState::Expired,
        ),
    ] {
        let (guarded, stage) = (Guarded::new(mechanism), Stage::new());
        let server = server(&stage, &guarded.entry());
        logged_in(&server, &[]).await.1.unwrap();
        if mechanism == "expires-for-good" {
            tokio::time::sleep(Duration::from_millis(2_100)).await;
        }
        let (failed, read) = match accepted(&server).await {
            Ok(tools) => {
                let outcome = stage.call(&tools, "srv.work", json!({})).await;
                let code = outcome.error.as_ref().map(|error| error.code.to_string());
                (code, stage::read(&outcome))
            }
            Err(error) => (Some(error.code().to_owned()), error.to_string()),
        };
        assert_eq!(failed.as_deref(), code, "{mechanism}: {read}");
        assert!(read.contains(says), "{mechanism}: {read}");
        let seen = guarded.seen().await;
        assert_eq!(
            (&seen["refreshed"], &seen["reused"]),
            (&json!(refreshed), &json!(0)),
            "{mechanism}"
        );
        assert_eq!(server.login_state().unwrap(), Some(state), "{mechanism}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_renewed_by_one_of_many_callers() {
    let (guarded, stage) = (Guarded::new("expires"), Stage::new());
    // As many agents of one home.
    let servers: Vec<_> = (0..6).map(|_| server(&stage, &guarded.entry())).collect();
    logged_in(&servers[0], &[]).await.1.unwrap();
    let all = futures::future::join_all(servers.iter().map(accepted)).await;
    for tools in all {
        tools.unwrap();
    }
    let seen = guarded.seen().await;
    assert_eq!((&seen["refreshed"], &seen["reused"]), (&json!(1), &json!(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_more_scopes_says_so_and_a_person_grants_them_beside_the_others() {
    let (guarded, stage) = (Guarded::new("wants-more"), Stage::new());
    let mut entry = guarded.entry();
    entry["oauth"] = json!({"scopes": ["files:read"]});
    let server = server(&stage, &entry);
    logged_in(&server, &[]).await.1.unwrap();
    let tools = accepted(&server).await.unwrap();
    let outcome = stage.call(&tools, "srv.work", json!({})).await;
    let read = stage::read(&outcome);
    assert!(
        read.contains("`annals mcp login srv --oauth-scope files:write`"),
        "{read}"
    );
    assert_eq!(guarded.seen().await["calls"], 0);
    logged_in(&server, &["files:write"]).await.1.unwrap();
    // In the session that there is.
    let outcome = stage.call(&tools, "srv.work", json!({})).await;
    assert!(outcome.error.is_none(), "{}", stage::read(&outcome));
    let seen = guarded.seen().await;
    assert_eq!(
        seen["authorized"],
        json!(["files:read", "files:read files:write"])
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_authorization_server_leads_a_login_astray() {
    for (mechanism, says) in [
        ("denies", "access_denied not[31m today"),
        ("wrong-issuer", "issuer mismatch"),
        ("no-issuer", "missing required issuer"),
        ("private-server", "192.168.250.1"),
        ("private-token", "`169.254.169.254` is not a public address"),
        ("other-issuer", "issuer mismatch"),
        ("other-resource", "resource mismatch"),
        ("many-servers", "more than 32 requests"),
        ("huge-metadata", "more than 262144 bytes"),
        ("huge-token", "more than 262144 bytes"),
        ("token-redirects", "not completed"),
        ("script-address", "is not an https address"),
        ("plain-challenges", "PKCE"),
    ] {
        let (guarded, stage) = (Guarded::new(mechanism), Stage::new());
        let server = server(&stage, &guarded.entry());
        let (_, came) = logged_in(&server, &[]).await;
        let error = came.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(says), "{mechanism}: {error}");
        assert!(!error.contains('\u{1b}'), "{mechanism}: {error:?}");
        assert!(!kept(&stage).contains("access_token"), "{mechanism}");
        assert_eq!(guarded.seen().await["strayed"], 0, "{mechanism}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_to_another_login_does_not_end_this_one() {
    let (guarded, stage) = (Guarded::new("wrong-state"), Stage::new());
    let server = server(&stage, &guarded.entry());
    let login = server.login(&[]).await.unwrap();
    let (address, redirect) = (login.address().clone(), login.redirect().to_owned());
    let completed = tokio::spawn(login.completed());
    let page = browser().get(address).send().await.unwrap();
    assert_eq!(page.status(), 404);
    assert!(page.text().await.unwrap().contains("`state`"));
    for stranger in ["", "?code=stolen", "?error=access_denied&state=guessed", "/../x"] {
        let visited = browser()
            .get(format!("{redirect}{stranger}"))
            .send()
            .await
            .unwrap();
        assert_eq!(visited.status(), 404, "{stranger}");
    }
    assert!(!completed.is_finished(), "it still waits for its own answer");
    completed.abort();
    assert_eq!(guarded.seen().await["exchanged"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_the_browser_cannot_come_back_its_address_is_pasted() {
    let (guarded, stage) = (Guarded::new("plain"), Stage::new());
    let server = server(&stage, &guarded.entry());
    let login = server.login(&[]).await.unwrap();
    let stays = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let sent = stays.get(login.address().clone()).send().await.unwrap();
    let location = sent.headers()["location"].to_str().unwrap().to_owned();
    login.completed_by(&format!("{location}\n")).await.unwrap();
    accepted(&server).await.unwrap();
    // A code works once, and for its own login.
    let again = self::server(&stage, &guarded.entry()).login(&[]).await.unwrap();
    let error = again.completed_by(&location).await.unwrap_err();
    assert!(matches!(error, LoginError::NotThis(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_repeats_the_token_shows_it_to_nobody() {
    let (guarded, stage) = (Guarded::new("repeats-the-token"), Stage::new());
    let server = server(&stage, &guarded.entry());
    logged_in(&server, &[]).await.1.unwrap();
    let tools = accepted(&server).await.unwrap();
    let outcome = stage.call(&tools, "srv.work", json!({})).await;
    let read = stage::read(&outcome);
    assert!(read.contains("you sent Bearer [secret:mcp-login]"), "{read}");
    assert!(!format!("{outcome:?}").contains("access-"), "{outcome:?}");
    let connection = server.connection().await.unwrap();
    let said = format!(
        "{} {:?} {} {} {:?}",
        tools[0].spec().description(),
        connection.resources().await.unwrap(),
        String::from_utf8_lossy(&connection.read_resource("x://a").await.unwrap()[0].bytes),
        connection.prompt("p", serde_json::Map::new()).await.unwrap(),
        connection.prompts().await.unwrap_err(),
    );
    assert_eq!(said.matches("Bearer [secret:mcp-login]").count(), 7, "{said}");
    assert!(!said.contains("access-"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_never_content_is_given_up_after_one_renewal() {
    let (guarded, stage) = (Guarded::new("never-content"), Stage::new());
    let server = server(&stage, &guarded.entry());
    logged_in(&server, &[]).await.1.unwrap();
    let refused = accepted(&server).await.err().unwrap();
    assert_eq!(refused.code(), "mcp_login_needed", "{refused}");
    let refreshed = guarded.seen().await["refreshed"].as_u64().unwrap();
    assert!((1..=2).contains(&refreshed), "{refreshed} renewals");
    assert_eq!(server.login_state().unwrap(), Some(LoginState::Needed));
}
