//! No address that a model or a server chooses reaches a private service. A canary proves it, and [`control`] that each
//! attempt would reach it.

mod control;
mod corpus;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use annals_core::address;
use futures::future::BoxFuture;

use super::super::egress::{EgressPolicy, Opened, Resolver};
use super::super::fetch::{FetchError, Fetcher};
use super::server::{Server, answer, redirect, target};
use corpus::Way;

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

/// Texts that no client could reach anything by, or not by TCP; they are refused all the same.
const NONSENSE: &[&str] = &[
    "",
    "http://",
    "http:///",
    "http://:§/",
    "http://[::1",
    "http://[::1]:99999/",
    "http://127.0.0.1:§:§/",
    "http://example.com%40127.0.0.1:§/",
    "http://example.com:0/",
    "http://[fe80::1]:§/",
    "http://[fe80::1%25lo]:§/",
    "http://224.0.0.1/",
    "http://239.255.255.250:1900/",
    "http://255.255.255.255/",
    "http://[ff02::1]/",
    "data:text/html,hi",
    "javascript:alert(1)",
    "unix:///var/run/docker.sock",
    "jar:http://127.0.0.1:§/!/",
    "view-source:http://127.0.0.1:§/",
];

/// A canary, and what says its port instead of the sign for it.
async fn canary() -> (Server, impl Fn(&str) -> String) {
    let canary = Server::canary().await;
    let port = canary.address.port().to_string();
    (canary, move |text: &str| text.replace('§', &port))
}

#[test]
fn the_corpus_is_listed_and_its_mechanisms_are_distinct() {
    annals_requirements::assert_listed("ssrf", 300, corpus::all().into_iter().map(|attempt| attempt.name));
}

#[tokio::test]
async fn no_written_address_reaches_the_canary() {
    let (canary, named) = canary().await;
    // Every name leads to the canary too, so that a name that passes would be heard.
    let fetcher = fetcher(Scripted::new(&[&["127.0.0.1"]]), &[]);
    let written = corpus::all().into_iter().filter_map(|attempt| match attempt.way {
        Way::Written(text) => Some(text),
        _ => None,
    });
    for text in written.chain(NONSENSE.iter().map(|text| (*text).to_owned())) {
        let address = named(&text);
        let error = fetcher.fetch(&address).await.expect_err(&address);
        assert!(matches!(error, FetchError::Refused(_)), "{address}: {error}");
    }
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn no_redirect_reaches_the_canary() {
    let (canary, named) = canary().await;
    let mut answers: Vec<String> = Vec::new();
    for attempt in corpus::all() {
        match attempt.way {
            Way::Redirected(head) => answers.push(named(&head)),
            // What can be written can be redirected to, as far as it fits into a header.
            Way::Written(text) if !text.contains(|c: char| c.is_control()) => {
                let location = format!("HTTP/1.1 302 Moved\r\nLocation: {}\r\n", named(text.trim()));
                answers.push(location);
            }
            _ => {}
        }
    }
    let hop = named("HTTP/1.1 302 Moved\r\nLocation: http://127.0.0.1:§/\r\n");
    let site = Server::start({
        let answers = answers.clone();
        move |head| {
            let index = target(head)
                .strip_prefix("/to/")
                .and_then(|index| index.parse::<usize>().ok());
            let answer = match (index, target(head)) {
                (Some(index), _) => &answers[index],
                (None, "/hop") => &hop,
                (None, _) => "HTTP/1.1 404 No\r\n",
            };
            format!("{answer}Content-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
        }
    })
    .await;
    let fetcher = fetcher(Scripted::new(&[&["127.0.0.1"]]), &[site.address.to_string()]);
    for (index, answer) in answers.iter().enumerate() {
        // Some are no redirects to this client, and some lead back to the site.
        if let Err(error) = fetcher.fetch(&site.url(&format!("/to/{index}"))).await {
            let is_refused = matches!(error, FetchError::Refused(_) | FetchError::RedirectWithoutTarget)
                || matches!(error, FetchError::Status { .. });
            assert!(is_refused, "{answer}: {error}");
        }
    }
    assert_eq!(canary.connections(), 0);
    assert!(site.connections() >= answers.len());
}

#[tokio::test]
async fn no_answer_of_a_name_server_reaches_the_canary() {
    let canary = Server::canary().await;
    let url = format!("http://evil.example:{}/", canary.address.port());
    for attempt in corpus::all() {
        let Way::Resolved(answers) = attempt.way else {
            continue;
        };
        let answers: Vec<&[&str]> = answers.iter().map(Vec::as_slice).collect();
        let error = fetcher(Scripted::new(&answers), &[])
            .fetch(&url)
            .await
            .unwrap_err();
        assert!(
            matches!(error, FetchError::Refused(_)),
            "{}: {error}",
            attempt.name
        );
    }
    assert_eq!(canary.connections(), 0);
}

#[tokio::test]
async fn no_page_that_is_read_reaches_the_canary() {
    let (canary, named) = canary().await;
    let pages: Vec<(String, String)> = corpus::all()
        .into_iter()
        .filter_map(|attempt| match attempt.way {
            Way::Embedded(body) => Some((attempt.name, named(&body))),
            _ => None,
        })
        .collect();
    let site = Server::start({
        let pages = pages.clone();
        move |head| {
            let index = target(head).trim_start_matches('/').parse::<usize>();
            let body = index.map_or("", |index| pages[index].1.as_str());
            answer(
                200,
                "text/html",
                format!("<html><p>the page</p>{body}</html>").as_bytes(),
            )
        }
    })
    .await;
    let fetcher = fetcher(Scripted::new(&[&["127.0.0.1"]]), &[site.address.to_string()]);
    for (index, (name, _)) in pages.iter().enumerate() {
        fetcher.fetch(&site.url(&format!("/{index}"))).await.expect(name);
    }
    assert_eq!(canary.connections(), 0);
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
