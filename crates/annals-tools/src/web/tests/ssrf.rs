//! No address that a model or a server chooses reaches a private service. A canary proves it.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;

use super::super::address;
use super::super::egress::{EgressPolicy, Opened, Resolver};
use super::super::fetch::{FetchError, Fetcher};
use super::server::{Server, answer, redirect, target};

/// Answers every name with the next of its answers, the last one for ever.
struct Scripted {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Scripted {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Scripted {
            answers: answers.iter().map(parse).collect(),
            asked: AtomicUsize::new(0),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Resolver for Scripted {
    fn resolve(&self, _host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers[turn.min(self.answers.len() - 1)].clone();
        Box::pin(async move { Ok(answer) })
    }
}

/// 127.0.0.2 plays the public internet; everything else is judged as it is outside of tests.
fn judge(address: IpAddr) -> Result<(), &'static str> {
    if address == IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)) {
        Ok(())
    } else {
        address::public(address)
    }
}

fn fetcher(resolver: Arc<Scripted>, opened: &[String]) -> Fetcher {
    let opened = opened.iter().map(|place| Opened::parse(place).unwrap());
    Fetcher::new(
        EgressPolicy::with(opened, resolver, judge).unwrap(),
        annals_content::Content::new(),
    )
}

/// Ways to write an address that must not be reached. `P` is the canary's port.
const DIRECT: &[&str] = &[
    // Loopback in every notation.
    "http://127.0.0.1:P/",
    "http://127.0.0.1.:P/",
    "http://127.1:P/",
    "http://127.0.1:P/",
    "http://127.255.255.254:P/",
    "http://2130706433:P/",
    "http://0x7f000001:P/",
    "http://0x7F.0.0.1:P/",
    "http://0x7f.0x0.0x0.0x1:P/",
    "http://0177.0.0.1:P/",
    "http://017700000001:P/",
    "http://0177.0.0.01:P/",
    "http://127.0x1:P/",
    "http://0:P/",
    "http://0.0.0.0:P/",
    "http://0x0:P/",
    "http://00000000000:P/",
    "http://%31%32%37.0.0.1:P/",
    "http://127%2e0%2e0%2e1:P/",
    "http://①②⑦.⓪.⓪.①:P/",
    "http://127。0。0。1:P/",
    "http://１２７.0.0.1:P/",
    "http:127.0.0.1:P/",
    "http:/127.0.0.1:P/",
    "http:\\\\127.0.0.1:P/",
    "HTTP://127.0.0.1:P/",
    "https://127.0.0.1:P/",
    " http://127.0.0.1:P/ ",
    "http://127.0.0.1:P#@example.com/",
    "http://127.0.0.1:P?@example.com/",
    "ht\ntp://127.0.0.1:P/",
    "http://127.0.\t0.1:P/",
    // IPv6.
    "http://[::1]:P/",
    "http://[0:0:0:0:0:0:0:1]:P/",
    "http://[::]:P/",
    "http://[::127.0.0.1]:P/",
    "http://[::ffff:127.0.0.1]:P/",
    "http://[::ffff:7f00:1]:P/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:P/",
    "http://[::ffff:10.0.0.1]:P/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:0:127.0.0.1]:P/",
    "http://[64:ff9b::127.0.0.1]:P/",
    "http://[64:ff9b::7f00:1]:P/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::127.0.0.1]:P/",
    "http://[2002:7f00:1::]:P/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[2001:db8::1]/",
    "http://[fe80::1]:P/",
    "http://[fe80::1%25lo]:P/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    "http://[3fff::1]/",
    "http://[5f00::1]/",
    // Private, shared, reserved, multicast.
    "http://10.0.0.1/",
    "http://10.255.255.255:P/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.168.255.255/",
    "http://100.64.0.1/",
    "http://100.127.255.254/",
    "http://169.254.0.1/",
    "http://192.0.0.1/",
    "http://192.0.0.192/",
    "http://192.0.2.1/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://192.88.99.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250:1900/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://0.1.2.3/",
    "http://3232235521/",
    "http://0xC0A80001/",
    "http://0300.0250.0.1/",
    "http://10.1/",
    // Metadata services.
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/",
    "http://0xA9FEA9FE/",
    "http://2852039166/",
    "http://0251.0376.0251.0376/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://[fe80::a9fe:a9fe]/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://metadata/",
    // Names.
    "http://localhost:P/",
    "http://LOCALHOST:P/",
    "http://localhost.:P/",
    "http://a.localhost:P/",
    "http://lOcAlHoSt:P/",
    "http://ⓛocalhost:P/",
    "http://localhost.localdomain:P/",
    "http://printer.local/",
    "http://router.lan/",
    "http://intranet/",
    "http://db.internal:5432/",
    "http://x.home.arpa/",
    // Disguises.
    "http://example.com@127.0.0.1:P/",
    "http://example.com:80@127.0.0.1:P/",
    "http://127.0.0.1:P@example.com/",
    "http://user:pass@example.com/",
    "http://example.com%40127.0.0.1:P/",
    "http://127.0.0.1:P\\@example.com/",
    "http://example.com#@127.0.0.1:P@/",
    // Ports and protocols.
    "http://example.com:22/",
    "http://example.com:25/",
    "http://example.com:0/",
    "https://example.com:993/",
    "ftp://127.0.0.1:P/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:P/_GET",
    "data:text/html,hi",
    "javascript:alert(1)",
    "dict://127.0.0.1:P/",
    "ws://127.0.0.1:P/",
    "unix:///var/run/docker.sock",
    "jar:http://127.0.0.1:P/!/",
    "view-source:http://127.0.0.1:P/",
    "//127.0.0.1:P/",
    "127.0.0.1:P",
    "",
    "http://",
    "http:///",
    "http://:P/",
    "http://[::1",
    "http://[::1]:99999/",
    "http://127.0.0.1:P:P/",
];

#[tokio::test]
async fn no_written_address_reaches_the_canary() {
    let canary = Server::canary().await;
    let port = canary.address.port().to_string();
    // Every name leads to the canary too, so that a name that passes would be heard.
    let fetcher = fetcher(Scripted::new(&[&["127.0.0.1"]]), &[]);
    assert!(DIRECT.len() >= 100, "{}", DIRECT.len());
    for written in DIRECT {
        let address = written.replace('P', &port);
        let error = fetcher.fetch(&address).await.expect_err(&address);
        assert!(matches!(error, FetchError::Refused(_)), "{address}: {error}");
    }
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn no_redirect_reaches_the_canary() {
    let canary = Server::canary().await;
    let port = canary.address.port().to_string();
    let targets: Vec<String> = DIRECT
        .iter()
        .map(|written| written.trim().replace('P', &port))
        .collect();
    // Relative forms are within the redirecting site, which is allowed; all others must be refused.
    let targets: Vec<String> = targets
        .into_iter()
        .filter(|target| target.contains("//") && target.is_ascii() && !target.contains(['\n', '\t']))
        .collect();
    assert!(targets.len() >= 100, "{}", targets.len());
    let site = Server::start({
        let targets = targets.clone();
        move |head| match target(head)
            .strip_prefix("/to/")
            .and_then(|index| index.parse::<usize>().ok())
        {
            Some(index) => redirect([301, 302, 303, 307, 308][index % 5], &targets[index]),
            None => answer(404, "text/plain", b""),
        }
    })
    .await;
    let fetcher = fetcher(Scripted::new(&[&["127.0.0.1"]]), &[site.address.to_string()]);
    for (index, target) in targets.iter().enumerate() {
        let error = fetcher
            .fetch(&site.url(&format!("/to/{index}")))
            .await
            .expect_err(target);
        // Some forms are no address at all where a redirect is expected, and lead back to the site.
        let is_refused = matches!(error, FetchError::Refused(_) | FetchError::RedirectWithoutTarget)
            || error == FetchError::Status { status: 404 };
        assert!(is_refused, "{target}: {error}");
    }
    assert_eq!(canary.connections(), 0);
    assert!(site.connections() >= targets.len());
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_refused_whatever_else_it_resolves_to() {
    let canary = Server::canary().await;
    let url = format!("http://evil.example:{}/", canary.address.port());
    let answers: &[&[&str]] = &[
        &["127.0.0.1"],
        &["127.0.0.2", "127.0.0.1"],
        &["8.8.8.8", "10.0.0.1"],
        &["::1"],
        &["::ffff:127.0.0.1"],
        &["64:ff9b::127.0.0.1"],
        &["169.254.169.254"],
        &[],
    ];
    for answer in answers {
        let error = fetcher(Scripted::new(&[answer]), &[])
            .fetch(&url)
            .await
            .unwrap_err();
        assert!(matches!(error, FetchError::Refused(_)), "{answer:?}: {error}");
    }
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn a_name_that_answers_differently_the_second_time_gains_nothing() {
    // The public site and the private service share a port, as a rebinding attack wants it.
    let public = Server::listen(
        "127.0.0.2:0".parse().unwrap(),
        Arc::new(|_: &str| answer(200, "text/plain", b"public")),
    )
    .await;
    let private = format!("127.0.0.1:{}", public.address.port()).parse().unwrap();
    let canary = Server::listen(private, Arc::new(|_: &str| answer(200, "text/plain", b"private"))).await;
    let url = format!("http://rebind.example:{}/", public.address.port());
    let resolver = Scripted::new(&[&["127.0.0.2"], &["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1"]]);
    let fetcher = fetcher(resolver.clone(), &[]);
    // One fetch asks once: what was judged is what was connected to.
    assert_eq!(fetcher.fetch(&url).await.unwrap().text.as_deref(), Some("public"));
    assert_eq!(resolver.asked(), 1);
    assert!(matches!(fetcher.fetch(&url).await, Err(FetchError::Refused(_))));
    assert_eq!(fetcher.fetch(&url).await.unwrap().text.as_deref(), Some("public"));
    assert!(matches!(fetcher.fetch(&url).await, Err(FetchError::Refused(_))));
    assert_eq!((public.connections(), canary.connections()), (2, 0));
}

#[tokio::test]
async fn a_redirect_to_a_name_that_has_turned_private_is_refused() {
    let public = Server::listen(
        "127.0.0.2:0".parse().unwrap(),
        Arc::new(|head: &str| {
            let host = head
                .lines()
                .find_map(|line| line.strip_prefix("host: "))
                .unwrap_or_default()
                .to_owned();
            redirect(302, &format!("http://{host}/again"))
        }),
    )
    .await;
    let canary = Server::listen(
        format!("127.0.0.1:{}", public.address.port()).parse().unwrap(),
        Arc::new(|_: &str| answer(200, "text/plain", b"private")),
    )
    .await;
    let url = format!("http://rebind.example:{}/", public.address.port());
    let error = fetcher(Scripted::new(&[&["127.0.0.2"], &["127.0.0.1"]]), &[])
        .fetch(&url)
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::Refused(_)), "{error}");
    assert_eq!((public.connections(), canary.connections()), (1, 0));
}

#[tokio::test]
async fn an_opened_place_is_reached_and_nothing_beside_it() {
    let opened = Server::start(|_| answer(200, "text/plain", b"opened")).await;
    let canary = Server::canary().await;
    let by_name = format!("localhost:{}", opened.address.port());
    let fetcher = fetcher(
        Scripted::new(&[&["127.0.0.1"]]),
        &[opened.address.to_string(), by_name.clone()],
    );
    for url in [
        opened.url("/"),
        format!("http://2130706433:{}/", opened.address.port()),
        format!("http://{by_name}/"),
    ] {
        assert_eq!(
            fetcher.fetch(&url).await.unwrap().text.as_deref(),
            Some("opened"),
            "{url}"
        );
    }
    assert!(matches!(
        fetcher.fetch(&canary.url("/")).await,
        Err(FetchError::Refused(_))
    ));
    assert!(matches!(
        fetcher
            .fetch(&format!("http://[::1]:{}/", opened.address.port()))
            .await,
        Err(FetchError::Refused(_))
    ));
    assert_eq!(canary.connections(), 0);
}
