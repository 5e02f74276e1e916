//! Sandboxed servers and the hosts that they were given: a real one that fetches, and one that tries every way out. Each host
//! counts who reached it, so that a refusal is a fact and not a server's word.

use std::os::linux::net::SocketAddrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_core::turn::outcome::Outcome;
use annals_mcp::connection::Patience;
use annals_mcp::{Pins, RemoteServer};
use annals_requirements::{PackageSet, installed};
use annals_tools::Tool;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

use super::stage::{self, Stage};

/// A web server with one page, and a second one that leads elsewhere.
struct Web {
    port: u16,
    reached: Arc<AtomicUsize>,
}

impl Web {
    async fn start(words: &'static str, elsewhere: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let reached = Arc::new(AtomicUsize::new(0));
        let count = reached.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let elsewhere = elsewhere.clone();
                tokio::spawn(async move {
                    let mut head = [0; 4096];
                    let read = stream.read(&mut head).await.unwrap_or(0);
                    let head = String::from_utf8_lossy(&head[..read]).into_owned();
                    let (status, more) = match head.split(' ').nth(1).unwrap_or_default() {
                        "/robots.txt" => ("404 Not Found", String::new()),
                        "/away" => ("302 Found", format!("Location: {elsewhere}\r\n")),
                        _ => ("200 OK", String::new()),
                    };
                    let answer = format!(
                        "HTTP/1.1 {status}\r\n{more}Content-Type: text/plain\r\nContent-Length: {}\r\n\
                         Connection: close\r\n\r\n{words}",
                        words.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Web { port, reached }
    }

    fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }
}

struct Running {
    stage: Stage,
    tools: Vec<Arc<dyn Tool>>,
}

impl Running {
    async fn start(entry: Value) -> Self {
        let stage = Stage::new();
        let patience = Patience {
            startup: Duration::from_secs(120),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(60),
        };
        let server: Arc<RemoteServer> = Arc::new(stage.server(&entry).patience(patience));
        let (connection, offer) = server.offer().await.unwrap_or_else(|error| panic!("{error}"));
        let tools = stage::tools(&server, &Pins::new(connection.implementation(), offer.tools));
        Running { stage, tools }
    }

    /// A server that tries ways out, with these hosts.
    async fn reaching(hosts: Value) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/reaching.py");
        let mut entry = stage::python(&script, &[]);
        entry["hosts"] = hosts;
        Self::start(entry).await
    }

    async fn call(&self, name: &str, args: Value) -> Outcome {
        self.stage.call(&self.tools, name, args).await
    }

    async fn reach(&self, way: &str, host: &str, port: u16) -> String {
        let args = json!({"way": way, "host": host, "port": port});
        stage::read(&self.call("srv.reach", args).await)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetch_reaches_the_host_that_was_declared_and_no_other() {
    let Some(set) = installed("mcp-python") else {
        return;
    };
    let foreign = Web::start("foreign words", String::new()).await;
    let elsewhere = format!("http://127.0.0.1:{}/", foreign.port);
    let declared = Web::start("declared words", elsewhere.clone()).await;
    let running = Running::start(json!({
        "command": set.program("mcp-server-fetch"), "args": ["--allow-private-ips"], "read": [set.folder()],
        "hosts": [format!("127.0.0.1:{}", declared.port)],
    }))
    .await;
    let fetch = |url: String| running.call("srv.fetch", json!({"url": url}));
    let outcome = fetch(format!("http://127.0.0.1:{}/", declared.port)).await;
    assert!(
        outcome.error.is_none() && stage::read(&outcome).contains("declared words"),
        "{outcome:?}"
    );
    assert!(declared.reached() > 0);
    for url in [elsewhere, format!("http://127.0.0.1:{}/away", declared.port)] {
        let outcome = fetch(url.clone()).await;
        let read = stage::read(&outcome);
        assert!(!read.contains("foreign words"), "{url}: {read}");
        let allows = format!(
            "`hosts = [\"127.0.0.1:{}\"]` of `[mcp.srv]` in config.toml",
            foreign.port
        );
        assert!(read.contains(&allows), "{url}: {read}");
        let notice = outcome
            .notices
            .iter()
            .find(|notice| notice.message.contains(&allows));
        assert_eq!(
            notice.map(|notice| notice.code.as_str()),
            Some("mcp_host_refused")
        );
    }
    assert_eq!(foreign.reached(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_no_way_out_but_the_proxy() {
    let canary = Web::start("canary words", String::new()).await;
    let declared = Web::start("declared words", String::new()).await;
    let datagrams = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let name = std::os::unix::net::SocketAddr::from_abstract_name("annals-test-canary").unwrap();
    let abstract_name = std::os::unix::net::UnixListener::bind_addr(&name).unwrap();
    abstract_name.set_nonblocking(true).unwrap();
    let running = Running::reaching(json!([format!("127.0.0.1:{}", declared.port), "example.com"])).await;
    // By the proxy, and only so, what was declared is reached.
    for way in ["get-by-environment", "connect-by-proxy"] {
        let read = running.reach(way, "127.0.0.1", declared.port).await;
        assert!(
            read.contains("reached: ") && read.contains("declared words"),
            "{way}: {read}"
        );
    }
    if let Ok(authorities) = std::fs::read_dir("/etc/ssl/certs") {
        let read = running.reach("authorities", "", 0).await;
        assert_eq!(read, format!("reached: {}", authorities.count()));
    }
    let (there, udp) = (canary.port, datagrams.local_addr().unwrap().port());
    for (way, host, port) in [
        ("get-by-environment", "127.0.0.1", there),
        ("get-by-environment", "localhost", there),
        ("connect-by-proxy", "127.0.0.1", there),
        ("connect-by-proxy", "127.1", there),
        ("connect-by-proxy", "169.254.169.254", 80),
        ("get-without-proxy", "127.0.0.1", there),
        ("get-without-proxy", "127.0.0.1", declared.port),
        ("tcp-socket", "127.0.0.1", there),
        ("tcp-socket", "::1", there),
        ("tcp-socket", "93.184.215.14", 443),
        ("udp-socket", "127.0.0.1", udp),
        ("dns-query", "127.0.0.1", udp),
        ("dns-query", "127.0.0.53", 53),
        ("dns-query", "8.8.8.8", 53),
        ("resolver", "", 0),
        ("raw-socket", "", 0),
        ("packet-socket", "", 0),
        ("abstract-socket", "", 0),
    ] {
        let read = running.reach(way, host, port).await;
        assert!(read.contains("failed: "), "{way} {host}:{port}: {read}");
    }
    assert_eq!(canary.reached(), 0);
    assert!(datagrams.try_recv(&mut [0; 64]).is_err(), "a datagram came out");
    assert!(abstract_name.accept().is_err(), "a connection came out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_hosts_has_no_proxy_and_no_network() {
    let canary = Web::start("canary words", String::new()).await;
    let running = Running::reaching(json!([])).await;
    let read = running.reach("environment", "", 0).await;
    assert_eq!(read.trim(), "reached:");
    for way in ["get-by-environment", "connect-by-proxy", "tcp-socket"] {
        let read = running.reach(way, "127.0.0.1", canary.port).await;
        assert!(
            read.contains("failed: ") && !read.contains("config.toml"),
            "{way}: {read}"
        );
    }
    assert_eq!(canary.reached(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_goes_through_the_proxy_by_its_environment() {
    let Some(set) = installed("mcp-node") else { return };
    let foreign = Web::start("foreign words", String::new()).await;
    let declared = Web::start("declared words", String::new()).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/fetching.mjs");
    let running = Running::start(json!({
        "command": set.program("node"), "args": [script],
        "read": [set.folder(), PackageSet::node().folder(), script.parent().unwrap()],
        "hosts": [format!("127.0.0.1:{}", declared.port)],
    }))
    .await;
    let fetch = |port: u16| running.call("srv.get", json!({"url": format!("http://127.0.0.1:{port}/")}));
    let read = stage::read(&fetch(declared.port).await);
    assert!(read.contains("declared words"), "{read}");
    let read = stage::read(&fetch(foreign.port).await);
    assert!(
        !read.contains("foreign words") && read.contains("config.toml"),
        "{read}"
    );
    assert_eq!(foreign.reached(), 0);
}
