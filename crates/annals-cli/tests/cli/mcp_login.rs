//! `mcp add` of a server that wants a login, `mcp login`, `mcp logout`, and what `mcp list` says in between.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use annals_testbed::ScriptServer;
use serde_json::{Value, json};

use super::annals::{Annals, Ran};

/// A server with its authorization server.
struct Guarded {
    _servers: ScriptServer,
    url: String,
}

impl Guarded {
    fn new(mechanism: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../annals-mcp/tests/servers/oauth.py");
        let servers = ScriptServer::start(Command::new("python3").arg(script).arg(mechanism));
        let url = format!("http://127.0.0.1:{}/mcp", servers.ports()[0]);
        Guarded {
            _servers: servers,
            url,
        }
    }
}

/// Runs with everything that can be logged.
fn run(annals: &Annals, args: &[&str]) -> Ran {
    Ran::of(annals.command(args).env("ANNALS_LOG", "trace").output().unwrap())
}

fn login_state(annals: &Annals) -> Value {
    annals.run(&["mcp", "list", "--json"]).good().json()[0]["login"].clone()
}

fn kept(annals: &Annals) -> Value {
    let text = std::fs::read(annals.in_home("mcp/logins/srv.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// A person logs in: what was printed, and the code that the browser brought.
async fn login(annals: &Annals, more: &[&str]) -> (String, String) {
    let mut child = annals
        .command(&[&["mcp", "login", "srv"], more].concat())
        .env("ANNALS_LOG", "trace")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // What is logged must not fill the pipe.
    let mut stderr = child.stderr.take().unwrap();
    let logged = std::thread::spawn(move || {
        let mut logged = String::new();
        stderr.read_to_string(&mut logged).unwrap();
        logged
    });
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    stdout.read_line(&mut printed).unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let browser = reqwest::Client::builder().no_proxy().build().unwrap();
    let visited = browser.get(printed.trim()).send().await.unwrap();
    let code = visited.url().query_pairs().find(|(name, _)| name == "code");
    let code = code.map(|(_, value)| value.into_owned()).unwrap();
    stdout.read_to_string(&mut printed).unwrap();
    let logged = logged.join().unwrap();
    assert!(child.wait().unwrap().success(), "{logged}");
    (format!("{printed}{logged}"), code)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_login_is_added_logged_in_to_used_and_left() {
    let (annals, guarded) = (Annals::new(), Guarded::new("revoked-later"));
    let added = annals.run(&["mcp", "add", "srv", &guarded.url]).good();
    assert!(
        added.stderr.contains("`annals mcp login srv`"),
        "{}",
        added.stderr
    );
    assert_eq!(login_state(&annals), "needed");
    let listed = annals.run(&["mcp", "list"]).good().stdout;
    assert!(
        listed.contains("login needed: `annals mcp login srv`"),
        "{listed}"
    );
    let (mut shown, code) = login(&annals, &[]).await;
    assert!(
        shown.contains("srv.work") && shown.contains("logged in at"),
        "{shown}"
    );
    assert_eq!(login_state(&annals), "logged_in");
    let mode = std::fs::metadata(annals.in_home("mcp/logins/srv.json")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let first = kept(&annals);
    // Its first token is not taken any more, so this one renews it.
    let called = run(&annals, &["tool", "call", "c1", "srv.work", "{}"]).good();
    let second = kept(&annals);
    shown.push_str(&called.stdout);
    shown.push_str(&called.stderr);
    let inspected = run(&annals, &["mcp", "inspect", "srv", "--json"]).good();
    shown.push_str(&inspected.stdout);
    shown.push_str(&inspected.stderr);
    let token = |kept: &Value, name: &str| {
        let token = kept["credentials"]["token_response"][name].as_str();
        token.unwrap().to_owned()
    };
    assert_ne!(token(&first, "access_token"), token(&second, "access_token"));
    let secrets = [&first, &second]
        .into_iter()
        .flat_map(|kept| ["access_token", "refresh_token", "id_token"].map(|name| token(kept, name)))
        .chain([code]);
    for secret in secrets {
        assert!(!shown.contains(&secret), "{secret} is shown");
    }
    annals.run(&["mcp", "logout", "srv"]).good();
    assert_eq!(login_state(&annals), json!(null));
    let refused = annals.run(&["tool", "call", "c1", "srv.work", "{}"]);
    assert_eq!(refused.code, 1);
    let told = &refused.stdout;
    assert!(
        told.contains("mcp_login_needed") && told.contains("annals mcp login srv"),
        "{told}"
    );
    annals.run(&["mcp", "remove", "srv"]).good();
    assert!(!annals.in_home("mcp/logins/srv.json").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_not_renewed_is_said_in_the_turn_that_needed_it() {
    let (annals, guarded) = (Annals::new(), Guarded::new("revoked-for-good"));
    annals
        .run(&[
            "mcp",
            "add",
            "srv",
            "--url",
            &guarded.url,
            "--oauth-scope",
            "files:read",
        ])
        .good();
    login(&annals, &[]).await;
    let model = annals.script(&json!({"steps": [
        {"tool_calls": [{"tool": "srv.work", "params": {}}]}, {"text": "It wants a login."},
    ]}));
    std::fs::write(annals.in_home("policy.toml"), "default = \"allow-all\"\n").unwrap();
    let ran = annals.run(&["run", "work", "--model", &model, "--json"]).good();
    assert!(
        ran.stdout.contains("mcp_login_needed") && ran.stdout.contains("`annals mcp login srv`"),
        "{}",
        ran.stdout
    );
    assert_eq!(login_state(&annals), "needed");
}

#[test]
fn what_cannot_be_logged_in_to_says_why() {
    let (annals, guarded) = (Annals::new(), Guarded::new("registers-nobody"));
    annals.run(&["mcp", "add", "srv", &guarded.url]).good();
    let ran = annals.run(&["mcp", "login", "srv"]);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains("oauth.client_id"), "{}", ran.stderr);
    assert_eq!(annals.run(&["mcp", "login", "absent"]).code, 2);
    let both = annals.run(&[
        "mcp",
        "add",
        "b",
        &guarded.url,
        "--bearer",
        "x",
        "--client-id",
        "y",
    ]);
    assert_eq!(both.code, 2, "{}", both.stderr);
    annals.file(
        "home/mcp.json",
        json!({"mcpServers": {"prog": {"command": "x"}}}).to_string(),
    );
    let ran = annals.run(&["mcp", "login", "prog"]);
    assert!(ran.stderr.contains("it is a program"), "{}", ran.stderr);
}
