//! The corpus is real: in a network of its own, where every address is this machine, a client without an egress policy
//! reaches the service by every attempt.

use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use annals_requirements::{Requirement, is_root, met};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::super::super::egress::http;
use super::corpus::{self, Attempt, Way};

/// Set in the process that has a network of its own.
const INSIDE: &str = "ANNALS_SSRF_CONTROL";

const SERVICE: u16 = 8099;
const SITE: u16 = 8098;

/// What the corpus names beside the service's own port.
const OTHER_PORTS: [u16; 7] = [80, 443, 22, 25, 53, 993, 445];

/// Switches the loopback device on and makes every address an address of it, then becomes the program it is given.
const ALL_LOCAL: &str = r#"
import fcntl, os, socket, struct, sys
flags = fcntl.ioctl(socket.socket(), 0x8913, struct.pack('16sH', b'lo', 0) + bytes(22))
fcntl.ioctl(socket.socket(), 0x8914, flags[:16] + struct.pack('H', struct.unpack('H', flags[16:18])[0] | 1) + flags[18:])
routes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
for family in (socket.AF_INET, socket.AF_INET6):
    # RTM_NEWROUTE in the local table, of the type local, out of the first device.
    route = struct.pack('BBBBBBBBI', family, 0, 0, 0, 255, 4, 254, 2, 0) + struct.pack('HHI', 8, 4, 1)
    routes.send(struct.pack('IHHII', 16 + len(route), 24, 0x605, 1, 0) + route)
    error = struct.unpack_from('i', routes.recv(4096), 16)[0]
    assert error == 0, os.strerror(-error)
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn every_attempt_reaches_the_service_where_nothing_refuses() {
    if !met(Requirement::UtilLinux) || !met(Requirement::Python) {
        return;
    }
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !is_root() {
        command.arg("--map-root-user");
    }
    let output = command
        .args(["--", "python3", "-c", ALL_LOCAL])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", "--nocapture"])
        .arg("web::tests::ssrf::control::in_a_network_of_its_own")
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .output()
        .expect("the test runs again");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_network_of_its_own() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let heard = Arc::new(AtomicUsize::new(0));
    for port in OTHER_PORTS.into_iter().chain([SERVICE]) {
        listen(port, heard.clone()).await;
    }
    let mut unreal = Vec::new();
    for attempt in corpus::all() {
        let before = heard.load(Ordering::SeqCst);
        let has_read = reach(&attempt).await;
        if heard.load(Ordering::SeqCst) == before && !has_read {
            unreal.push(attempt.name);
        }
    }
    assert!(unreal.is_empty(), "nobody comes by these: {unreal:#?}");
}

/// Counts who comes, before they have said anything.
async fn listen(port: u16, heard: Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("::", port))
        .await
        .expect("a port of a network of its own");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            heard.fetch_add(1, Ordering::SeqCst);
            let _ = stream
                .write_all(b"HTTP/1.1 200 Fine\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .await;
        }
    });
}

/// Asks as a client does that trusts what it is given; true when it read a file of this machine instead.
async fn reach(attempt: &Attempt) -> bool {
    let named = |text: &str| text.replace('§', &SERVICE.to_string());
    match &attempt.way {
        Way::Written(text) => {
            let text = named(text);
            if ask(&text, vec![]).await {
                return false;
            }
            connect(&text).await
        }
        Way::Redirected(head) => {
            let head = named(head);
            let site = site(head.clone()).await;
            ask(&format!("http://127.0.0.1:{SITE}/"), vec![]).await;
            site.abort();
            let _ = site.await;
            // What a browser, a proxy or a later request would follow.
            match named_in(&head) {
                Some(target) => connect(&target).await,
                None => false,
            }
        }
        Way::Resolved(answers) => {
            for answer in answers {
                for address in answer {
                    let address = address.parse().expect("an address");
                    ask(&format!("http://evil.example:{SERVICE}/"), vec![address]).await;
                }
            }
            false
        }
        Way::Embedded(body) => {
            if let Some(target) = named_in(&named(body)) {
                ask(&target, vec![]).await;
            }
            false
        }
    }
}

/// A plain request; every name leads to `addresses`, or to loopback when there are none.
async fn ask(text: &str, addresses: Vec<IpAddr>) -> bool {
    let client = http()
        .no_proxy()
        .timeout(Duration::from_secs(20))
        .dns_resolver(Arc::new(Trusting(addresses)))
        .build()
        .expect("a client");
    client.get(text.trim()).send().await.is_ok()
}

/// What a client of any other protocol does first: connect to the host that the address names, or read the file.
async fn connect(text: &str) -> bool {
    let text = text.trim();
    let url = url::Url::parse(text)
        .ok()
        .filter(|url| url.has_host() || url.scheme() == "file")
        .or_else(|| url::Url::parse(&format!("http://{}", text.trim_start_matches('/'))).ok());
    let Some(url) = url else { return false };
    if url.scheme() == "file" {
        return std::fs::read(url.path()).is_ok();
    }
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return false;
    };
    if let Ok(mut stream) = TcpStream::connect((host.trim_matches(['[', ']']), port)).await {
        let _ = stream.read(&mut [0]).await;
    }
    false
}

/// The first address of the service or of a file in a text.
fn named_in(text: &str) -> Option<String> {
    let start = ["http://127", "https://127", "gopher://", "file://", "127.0.0.1:"]
        .iter()
        .filter_map(|prefix| text.find(prefix))
        .min()?;
    let rest = &text[start..];
    let end = rest
        .find(|c: char| c.is_whitespace() || "'\"<>)&;".contains(c))
        .unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

/// A site that answers everything with this head, and its second page with a redirect to the service.
async fn site(head: String) -> tokio::task::JoinHandle<()> {
    let listener = TcpListener::bind(("127.0.0.1", SITE))
        .await
        .expect("a port of a network of its own");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 2048];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let is_hop = String::from_utf8_lossy(&request[..read]).starts_with("GET /hop");
            let hop = format!("HTTP/1.1 302 Moved\r\nLocation: http://127.0.0.1:{SERVICE}/\r\n");
            let head = if is_hop { &hop } else { &head };
            let _ = stream
                .write_all(format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n").as_bytes())
                .await;
        }
    })
}

struct Trusting(Vec<IpAddr>);

impl Resolve for Trusting {
    fn resolve(&self, _: Name) -> Resolving {
        let found = match self.0.is_empty() {
            true => vec![IpAddr::from([127, 0, 0, 1])],
            false => self.0.clone(),
        };
        let found: Vec<SocketAddr> = found
            .into_iter()
            .map(|address| SocketAddr::new(address, 0))
            .collect();
        Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
    }
}
