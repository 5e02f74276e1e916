//! The proxy on a real loopback, between clients that try everything and a host that counts who reached it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// A host that says what it was asked, and counts.
struct Host {
    port: u16,
    reached: Arc<AtomicUsize>,
}

impl Host {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let reached = Arc::new(AtomicUsize::new(0));
        let count = reached.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut asked = vec![0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut asked).await {
                        let asked = &asked[..read];
                        let answer = match asked.starts_with(b"tunnelled") {
                            true => asked.to_vec(),
                            false => {
                                let length = asked.len();
                                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                                [head.as_bytes(), asked].concat()
                            }
                        };
                        let _ = stream.write_all(&answer).await;
                    }
                });
            }
        });
        Host { port, reached }
    }

    fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }
}

/// Names that resolve as a stranger's name server likes.
fn lookup(name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
    let found: &[&str] = match name.as_str() {
        "inward.example" => &["127.0.0.1"],
        "mixed.names.example" => &["93.184.215.14", "127.0.0.1"],
        "mapped.names.example" => &["::ffff:127.0.0.1"],
        "metadata.example" => &["169.254.169.254"],
        "empty.names.example" => &[],
        _ => return Box::pin(async { Err(io::ErrorKind::NotFound.into()) }),
    };
    let found: Vec<IpAddr> = found.iter().map(|text| text.parse().unwrap()).collect();
    Box::pin(async { Ok(found) })
}

struct Running {
    port: u16,
    kept_from: Arc<KeptFrom>,
    proxy: Proxy,
}

fn start(hosts: &[String], bounds: Bounds) -> Running {
    let listener = StdTcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let kept_from = Arc::new(KeptFrom::default());
    let gate = Gate {
        lookup: Arc::new(lookup),
        bounds,
        ..Gate::new("srv", AllowedHosts::parse(hosts).unwrap(), kept_from.clone())
    };
    let proxy = Proxy::start(listener, gate).unwrap();
    Running {
        port,
        kept_from,
        proxy,
    }
}

impl Running {
    async fn open(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// Everything that is answered to these bytes until the connection ends or is quiet for a moment.
    async fn answer(&self, bytes: &[u8]) -> String {
        let mut stream = self.open().await;
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        let pause = Duration::from_millis(400);
        while let Ok(Ok(read @ 1..)) = tokio::time::timeout(pause, stream.read(&mut buffer)).await {
            answer.extend_from_slice(&buffer[..read]);
        }
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// Up to the empty line, and nothing of what follows it.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        head.push(char::from(stream.read_u8().await.unwrap()));
    }
    head
}

#[tokio::test]
async fn a_request_reaches_the_host_that_was_allowed_and_says_nothing_of_the_proxy() {
    let host = Host::start().await;
    let running = start(&[format!("127.0.0.1:{}", host.port)], Bounds::default());
    let port = host.port;
    let answer = running
        .answer(
            format!(
                "POST http://127.0.0.1:{port}/a?b=c HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: Basic x\r\n\
                 Connection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\nContent-Length: 4\r\n\r\nbody"
            )
            .as_bytes(),
        )
        .await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let asked = answer.to_ascii_lowercase();
    for kept in [
        "post /a?b=c http/1.1",
        &format!("host: 127.0.0.1:{port}"),
        "x-kept: 2",
        "body",
    ] {
        assert!(asked.contains(kept), "`{kept}`: {answer}");
    }
    for gone in ["other.example", "proxy-authorization", "x-hop"] {
        assert!(!asked.contains(gone), "`{gone}`: {answer}");
    }
}

#[tokio::test]
async fn a_tunnel_passes_bytes_as_they_are() {
    let host = Host::start().await;
    let running = start(&[format!("localhost:{}", host.port)], Bounds::default());
    let mut stream = running.open().await;
    let connect = format!("CONNECT localhost:{} HTTP/1.1\r\n\r\n", host.port);
    stream.write_all(connect.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    stream.write_all(b"tunnelled \x00\xff").await.unwrap();
    let mut back = [0; 12];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"tunnelled \x00\xff");
}

#[tokio::test]
async fn what_was_not_allowed_is_not_reached_and_the_refusal_says_what_would_allow_it() {
    let (host, other) = (Host::start().await, Host::start().await);
    let allowed = [
        "127.0.0.1:1".to_owned(),
        format!("*.names.example:{}", other.port),
        format!("inward.example:{}", host.port),
        "metadata.example".to_owned(),
    ];
    let running = start(&allowed, Bounds::default());
    let (here, there) = (host.port, other.port);
    let refused = [
        // Other hosts and ports, in every notation.
        (format!("CONNECT 127.0.0.1:{here}"), "403"),
        (format!("CONNECT localhost:{here}"), "403"),
        (format!("CONNECT 127.1:{here}"), "403"),
        (format!("CONNECT 2130706433:{here}"), "403"),
        (format!("CONNECT 0x7f.1:{here}"), "403"),
        (format!("CONNECT [::1]:{here}"), "403"),
        (format!("CONNECT [::ffff:127.0.0.1]:{here}"), "403"),
        (format!("CONNECT evil.test:{here}"), "403"),
        ("CONNECT 93.184.215.14:443".to_owned(), "403"),
        (format!("GET http://127.0.0.1:{here}/"), "403"),
        (format!("GET http://inward.example@127.0.0.1:{here}/"), "403"),
        (format!("GET http://127.0.0.1:{here}/?inward.example"), "403"),
        // Allowed names whose addresses are not.
        (format!("CONNECT inward.example:{here}"), "403"),
        (format!("GET http://inward.example:{here}/"), "403"),
        (format!("CONNECT mixed.names.example:{there}"), "403"),
        (format!("CONNECT mapped.names.example:{there}"), "403"),
        ("GET http://metadata.example/latest/meta-data".to_owned(), "403"),
        // Names without addresses.
        (format!("CONNECT empty.names.example:{there}"), "502"),
        (format!("CONNECT nowhere.names.example:{there}"), "502"),
        // What is no request to a proxy.
        (format!("GET https://inward.example:{here}/"), "400"),
        (format!("GET ftp://inward.example:{here}/"), "400"),
        ("GET /".to_owned(), "400"),
        ("OPTIONS *".to_owned(), "400"),
        ("CONNECT inward.example".to_owned(), "400"),
    ];
    for (line, status) in &refused {
        let answer = running
            .answer(
                format!("{line} HTTP/1.1\r\nHost: inward.example:{here}\r\nConnection: close\r\n\r\n")
                    .as_bytes(),
            )
            .await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{line}: {answer}"
        );
    }
    assert_eq!((host.reached(), other.reached()), (0, 0));
    let told = running.kept_from.take();
    assert_eq!(told.len(), limits::REFUSED_HOSTS_MAX, "{told:?}");
    assert_eq!(
        told[0],
        format!(
            "`127.0.0.1:{here}` is not among the hosts of the MCP server `srv`: a person can allow it with \
             `hosts = [\"127.0.0.1:{here}\"]` of `[mcp.srv]` in config.toml, or `\"hosts\"` of `srv` in mcp.json"
        )
    );
    let answer = running
        .answer(format!("CONNECT inward.example:{here} HTTP/1.1\r\n\r\n").as_bytes())
        .await;
    let line = answer.lines().next().unwrap_or_default();
    assert!(
        line.contains("leads to 127.0.0.1 (loopback)") && line.contains(&format!("`\"127.0.0.1:{here}\"`")),
        "{answer}"
    );
}

#[tokio::test]
async fn a_head_that_is_huge_slow_or_none_ends_its_connection() {
    let bounds = Bounds {
        head_bytes: 8_192,
        head: Duration::from_millis(150),
        ..Bounds::default()
    };
    let running = start(&["h.example".to_owned()], bounds);
    let long = format!("GET http://h.example/{} HTTP/1.1\r\n\r\n", "a".repeat(20_000));
    let answer = running.answer(long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    let headers = "X: y\r\n".repeat(10_000);
    let answer = running
        .answer(format!("GET http://h.example/ HTTP/1.1\r\n{headers}\r\n").as_bytes())
        .await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    let answer = running
        .answer(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        .await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
        "{answer}"
    );
    let mut slow = running.open().await;
    slow.write_all(b"GET http://h.exam").await.unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), slow.read_to_end(&mut rest));
    assert!(ended.await.is_ok(), "a head that does not come is not waited for");
}

#[tokio::test]
async fn connections_are_counted_end_when_nothing_passes_and_end_with_the_proxy() {
    let host = Host::start().await;
    let bounds = Bounds {
        connections: 1,
        idle: Duration::from_millis(300),
        ..Bounds::default()
    };
    let running = start(&[format!("127.0.0.1:{}", host.port)], bounds);
    let connect = format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n\r\n", host.port);
    let mut first = running.open().await;
    first.write_all(connect.as_bytes()).await.unwrap();
    read_head(&mut first).await;
    let mut second = running.open().await;
    second.write_all(connect.as_bytes()).await.unwrap();
    assert_eq!(host.reached(), 1, "the second waits for the first to end");
    // The first is quiet, so it is ended, and the second has its place.
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), first.read_to_end(&mut rest));
    assert!(ended.await.is_ok());
    let answered = tokio::time::timeout(Duration::from_secs(5), read_head(&mut second));
    assert!(answered.await.unwrap().starts_with("HTTP/1.1 200"));
    drop(running.proxy);
    let ended = tokio::time::timeout(Duration::from_secs(5), second.read_to_end(&mut rest));
    assert!(ended.await.is_ok());
    assert!(TcpStream::connect(("127.0.0.1", running.port)).await.is_err());
}
