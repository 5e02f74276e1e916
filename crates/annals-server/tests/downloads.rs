//! Files of a bucket, fetched from the bucket by addresses that hold for a time.

mod common;

use annals_s3::{Bucket, Cache};
use annals_testbed::{S3_KEY_ID, S3_SECRET, S3Server};
use common::{Running, options};
use reqwest::{Method, Response};
use serde_json::json;

/// More than is sent at once.
const LARGE_BYTES: usize = (1 << 20) + 11;

const PAGE: &str = "<script>alert(1)</script>";

/// A server whose one turn has written a large text and a page.
async fn server(s3: &S3Server, folder: &std::path::Path, large: &str) -> Running {
    let url = format!("{}&signed_downloads=60", s3.url(s3.port(), "p"));
    let bucket = Bucket::with_keys(&url, S3_KEY_ID, S3_SECRET).unwrap();
    let store = bucket.open(Some(Cache::new(folder))).unwrap();
    let write = |id: &str, path: &str, content: &str| {
        json!({"id": id, "tool": "react.write", "params": {
            "path": path, "channel": "canvas", "content": content, "kind": "file"}})
    };
    let steps = json!([
        {"tool_calls": [write("a", "data ü.txt", large), write("b", "page.html", PAGE)]},
        {"text": "Done."},
    ]);
    Running::with(steps, options(), |builder| builder.artifacts(store)).await
}

fn location(response: &Response) -> Option<&str> {
    response
        .headers()
        .get("location")
        .map(|location| location.to_str().unwrap())
}

fn header<'r>(response: &'r Response, name: &str) -> &'r str {
    response
        .headers()
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn large_files_and_downloads_come_from_the_bucket_and_nothing_else_does() {
    let Some(s3) = S3Server::moto() else { return };
    let folder = tempfile::tempdir().unwrap();
    let line = "A line of the report, one of many.\n";
    let large = line.repeat(LARGE_BYTES / line.len() + 1);
    let server = server(&s3, folder.path(), &large).await;
    let c = server.new_conversation().await;
    let turn = server.prompt(&c, "Go").await;
    server.ended(&c, &turn).await;
    let at = |name: &str| format!("/v1/conversations/{c}/artifacts/fi:{turn}.files/{name}");

    let sent = server.get(&at("data%20%C3%BC.txt")).await;
    assert_eq!(sent.status(), 302, "{}", sent.text().await.unwrap());
    assert_eq!(header(&sent, "cache-control"), "no-store");
    let address = location(&sent).unwrap().to_owned();
    assert!(
        address.starts_with(&format!("http://127.0.0.1:{}/", s3.port())),
        "{address}"
    );
    assert!(!address.contains(S3_SECRET), "{address}");
    // No token of ours is needed there, and ranges work.
    let fetched = server.client.get(&address).send().await.unwrap();
    assert_eq!(fetched.status(), 200);
    assert_eq!(header(&fetched, "content-type"), "text/plain; charset=utf-8");
    let name = header(&fetched, "content-disposition").to_owned();
    assert!(name.starts_with("inline;") && name.contains("%C3%BC"), "{name}");
    assert!(fetched.text().await.unwrap() == large, "all of it came");
    let request = server.client.get(&address).header("range", "bytes=1000-1009");
    let some = request.send().await.unwrap();
    assert_eq!(some.status(), 206);
    assert_eq!(some.text().await.unwrap(), large[1_000..1_010]);
    // What a page embeds, what is only asked about, and what is known already.
    for (method, name, value, status) in [
        (Method::GET, "sec-fetch-dest", "image", 200),
        (Method::GET, "sec-fetch-dest", "document", 302),
        (Method::HEAD, "accept", "*/*", 200),
        (Method::GET, "if-none-match", "*", 304),
    ] {
        let request = server
            .request(method, &at("data%20%C3%BC.txt"))
            .header(name, value);
        assert_eq!(request.send().await.unwrap().status(), status, "{name}: {value}");
    }
    // A page with scripts is sent with its policy, or kept as a file of no type.
    let shown = server.get(&at("page.html")).await;
    assert_eq!((shown.status().as_u16(), location(&shown)), (200, None));
    assert!(header(&shown, "content-security-policy").contains("sandbox"));
    let kept = server.get(&format!("{}?download", at("page.html"))).await;
    assert_eq!(kept.status(), 302);
    let kept = server.client.get(location(&kept).unwrap()).send().await.unwrap();
    assert_eq!(header(&kept, "content-type"), "application/octet-stream");
    assert!(header(&kept, "content-disposition").starts_with("attachment;"));
    assert_eq!(kept.text().await.unwrap(), PAGE);
}
