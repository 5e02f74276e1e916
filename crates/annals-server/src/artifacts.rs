//! Files of a conversation: any logical path, with ranges and digests, in a form that no browser takes for a page.

use annals_core::block::BlobDigest;
use annals_core::ids::{ConversationId, Scope, TurnId};
use annals_core::path::LogicalPath;
use annals_sandbox::ByteStream;
use annals_store::ArtifactStore;
use annals_store::artifacts::Download;
use annals_tools::content::{self, ContentError, Opened};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::conversations::seq;
use crate::door::Caller;
use crate::idempotency::keep;
use crate::problem::{Code, Problem};
use crate::request::{JsonBody, Params, Place};
use crate::secrets::{Signer, seconds};

/// Bytes of a range that are fetched at once.
const PIECE_BYTES: u64 = 1024 * 1024;

/// What is smaller than this is sent at once, unless it is to be kept as a file.
const ELSEWHERE_MIN_BYTES: u64 = 1024 * 1024;

/// What a browser may show in place. Whatever it is, it runs nothing and loads nothing: the policy below goes with it.
const SHOWN: &[&str] = &[
    "application/pdf",
    "image/avif",
    "image/gif",
    "image/jpeg",
    "image/png",
    "image/webp",
];
/// Documents that could carry scripts; shown only in a sandbox of their own.
const SANDBOXED: &[&str] = &[
    "application/xhtml+xml",
    "application/xml",
    "image/svg+xml",
    "text/html",
    "text/xml",
];

/// An artifact is an origin of its own, without scripts, and only our page may frame it.
const POLICY: &str =
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'";

#[derive(Deserialize)]
pub(crate) struct ArtifactQuery {
    /// The content as it was when this block was the last one.
    seq: Option<u64>,
    /// Whatever it is, it is to be kept as a file.
    download: Option<String>,
}

pub(crate) async fn get(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    Params(query): Params<ArtifactQuery>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    let missing = || Problem::not_found(format_args!("`{}`", place.path().escape_default()));
    let path = LogicalPath::parse(place.path()).map_err(|_| missing())?;
    let at = query.seq.map(seq).transpose()?;
    let cx = agent.reading(&id, at).await?;
    let running: Option<TurnId> = {
        let timeline = cx
            .timeline
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let turn = timeline
            .current_turn()
            .filter(|turn| turn.end.is_none() && at.is_none());
        turn.map(|turn| turn.id.clone())
    };
    let opened = content::open(&cx, &path, running.as_ref()).await;
    let opened = opened.map_err(|error| match error {
        ContentError::Missing(_) => missing(),
        error => Problem::internal(error),
    })?;
    let is_download = query.download.is_some();
    if method == Method::GET
        && let Some(digest) = opened.digest
        && let Some(download) = Elsewhere::of(&opened, digest, &path, &headers, is_download)
        && let Some(address) = download.address(app.agent.artifacts()).await?
    {
        return redirect(&address);
    }
    let mut response = respond(app.agent.artifacts(), opened, &path, &headers)?;
    if is_download {
        set(
            &mut response,
            header::CONTENT_DISPOSITION,
            &disposition(&path, false),
        )?;
    }
    Ok(response)
}

/// Content that a client can fetch at an address of the artifact store's own, where the store gives them out.
struct Elsewhere {
    digest: BlobDigest,
    media_type: String,
    disposition: String,
}

impl Elsewhere {
    /// Where it is worth a second request, and as safe.
    ///
    /// What a page embeds or fetches comes from here: its policy does not let it ask anybody else. So does everything that
    /// could carry scripts, unless it is to be kept as a file, since the bucket sends no policy with it.
    fn of(
        opened: &Opened,
        digest: BlobDigest,
        path: &LogicalPath,
        request: &HeaderMap,
        is_download: bool,
    ) -> Option<Self> {
        let purpose = request.get("sec-fetch-dest");
        let is_of_page = purpose.is_some_and(|purpose| purpose != "document");
        if is_of_page || is_known(request, Some(&format!("\"{digest}\""))) {
            return None;
        }
        let (media_type, is_shown) = media_type(&opened.mime, opened.is_text);
        let is_sandboxed = SANDBOXED.contains(&media_type.as_str());
        if !is_download && (is_sandboxed || opened.size_bytes < ELSEWHERE_MIN_BYTES) {
            return None;
        }
        Some(Elsewhere {
            digest,
            media_type: match is_sandboxed {
                true => "application/octet-stream".to_owned(),
                false => media_type,
            },
            disposition: disposition(path, is_shown && !is_download),
        })
    }

    async fn address(&self, artifacts: &ArtifactStore) -> Result<Option<String>, Problem> {
        let download = Download {
            media_type: &self.media_type,
            disposition: &self.disposition,
        };
        let address = artifacts.download(&self.digest, download).await;
        address.map_err(Problem::internal)
    }
}

fn redirect(address: &str) -> Result<Response, Problem> {
    let mut response = StatusCode::FOUND.into_response();
    set(&mut response, header::LOCATION, address)?;
    // It is a key to the content for as long as it holds.
    set(&mut response, header::CACHE_CONTROL, "no-store")?;
    set(&mut response, header::REFERRER_POLICY, "no-referrer")?;
    Ok(response)
}

/// What the bytes may be called, and whether a browser may show them.
fn media_type(mime: &str, is_text: bool) -> (String, bool) {
    let essence = mime.split(';').next().unwrap_or_default().trim();
    if SHOWN.contains(&essence) || SANDBOXED.contains(&essence) {
        return (essence.to_owned(), true);
    }
    match is_text {
        true => ("text/plain; charset=utf-8".to_owned(), true),
        false => ("application/octet-stream".to_owned(), false),
    }
}

fn respond(
    artifacts: &ArtifactStore,
    opened: Opened,
    path: &LogicalPath,
    request: &HeaderMap,
) -> Result<Response, Problem> {
    let Opened {
        mime,
        is_text,
        size_bytes,
        digest,
        body,
    } = opened;
    let etag = digest.map(|digest| format!("\"{digest}\""));
    let (media_type, is_shown) = media_type(&mime, is_text);
    let mut response = match (&etag, is_known(request, etag.as_deref())) {
        (Some(_), true) => StatusCode::NOT_MODIFIED.into_response(),
        _ => match wanted(request, size_bytes, etag.as_deref()) {
            Wanted::Whole => {
                let mut response = Body::from_stream(body.map_err(std::io::Error::other)).into_response();
                response
                    .headers_mut()
                    .insert(header::CONTENT_LENGTH, HeaderValue::from(size_bytes));
                response
            }
            Wanted::Part(first, last) => part(artifacts, digest, body, size_bytes, first, last)?,
            Wanted::Nothing => {
                let detail = format!("the content has {size_bytes} bytes");
                let mut response = Problem::new(Code::RangeNotSatisfiable, detail).into_response();
                set(
                    &mut response,
                    header::CONTENT_RANGE,
                    &format!("bytes */{size_bytes}"),
                )?;
                return Ok(response);
            }
        },
    };
    set(&mut response, header::CONTENT_TYPE, &media_type)?;
    set(&mut response, header::CONTENT_SECURITY_POLICY, POLICY)?;
    set(&mut response, header::ACCEPT_RANGES, "bytes")?;
    set(
        &mut response,
        header::CONTENT_DISPOSITION,
        &disposition(path, is_shown),
    )?;
    // The path names other bytes once the file is written again, so a cache has to ask.
    set(&mut response, header::CACHE_CONTROL, "private, no-cache")?;
    if let Some(etag) = &etag {
        set(&mut response, header::ETAG, etag)?;
    }
    Ok(response)
}

fn set(response: &mut Response, name: http::HeaderName, value: &str) -> Result<(), Problem> {
    let value = HeaderValue::from_str(value).map_err(Problem::internal)?;
    response.headers_mut().insert(name, value);
    Ok(())
}

/// The file's name, in the two forms of RFC 6266.
fn disposition(path: &LogicalPath, is_shown: bool) -> String {
    let kind = if is_shown { "inline" } else { "attachment" };
    let name = path.as_str().rsplit(['/', ':']).next().unwrap_or("file");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._- ".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("{kind}; filename=\"{plain}\"; filename*=UTF-8''{}", percent(name))
}

/// What RFC 5987 lets stand, and RFC 3986 in every part of an address.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

fn percent(text: &str) -> impl std::fmt::Display {
    utf8_percent_encode(text, KEPT)
}

/// Whether the client has these bytes.
fn is_known(request: &HeaderMap, etag: Option<&str>) -> bool {
    let (Some(etag), Some(known)) = (etag, request.get(header::IF_NONE_MATCH)) else {
        return false;
    };
    let known = known.to_str().unwrap_or_default();
    known.trim() == "*"
        || known
            .split(',')
            .any(|one| one.trim().trim_start_matches("W/") == etag)
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    /// From one byte to another, both included.
    Part(u64, u64),
    Nothing,
}

/// What part of the content is asked for. Several ranges, and what cannot be read, ask for the whole.
fn wanted(request: &HeaderMap, size_bytes: u64, etag: Option<&str>) -> Wanted {
    let range = request.get(header::RANGE).and_then(|range| range.to_str().ok());
    let Some(range) = range.and_then(|range| range.strip_prefix("bytes=")) else {
        return Wanted::Whole;
    };
    // Some of other bytes would be worse than all of these.
    if let Some(only_if) = request.get(header::IF_RANGE)
        && etag.is_none_or(|etag| only_if.as_bytes() != etag.as_bytes())
    {
        return Wanted::Whole;
    }
    let Some((first, last)) = range.split_once('-').filter(|_| !range.contains(',')) else {
        return Wanted::Whole;
    };
    let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse::<u64>().ok(),
        false => None,
    };
    match (first.trim(), last.trim()) {
        ("", "") => Wanted::Whole,
        ("", suffix) => match number(suffix) {
            None => Wanted::Whole,
            Some(0) => Wanted::Nothing,
            Some(_) if size_bytes == 0 => Wanted::Nothing,
            Some(length) => Wanted::Part(size_bytes.saturating_sub(length), size_bytes - 1),
        },
        (first, last) => {
            let last = if last.is_empty() {
                Some(u64::MAX)
            } else {
                number(last)
            };
            match (number(first), last) {
                (Some(first), Some(last)) if first > last => Wanted::Whole,
                (Some(first), Some(_)) if first >= size_bytes => Wanted::Nothing,
                (Some(first), Some(last)) => Wanted::Part(first, last.min(size_bytes - 1)),
                _ => Wanted::Whole,
            }
        }
    }
}

fn part(
    artifacts: &ArtifactStore,
    digest: Option<BlobDigest>,
    body: ByteStream,
    size_bytes: u64,
    first: u64,
    last: u64,
) -> Result<Response, Problem> {
    let pieces = match digest {
        Some(digest) => stored_part(artifacts.clone(), digest, body, first, last),
        None => skipped(body, first, last),
    };
    let mut response = Body::from_stream(pieces).into_response();
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    set(
        &mut response,
        header::CONTENT_RANGE,
        &format!("bytes {first}-{last}/{size_bytes}"),
    )?;
    let length = HeaderValue::from(last - first + 1);
    response.headers_mut().insert(header::CONTENT_LENGTH, length);
    Ok(response)
}

type Pieces = stream::BoxStream<'static, Result<Bytes, std::io::Error>>;

/// A part of what the store has under a digest, fetched piece by piece; what is not there (a text of a block) comes from
/// the whole.
fn stored_part(
    artifacts: ArtifactStore,
    digest: BlobDigest,
    body: ByteStream,
    first: u64,
    last: u64,
) -> Pieces {
    stream::once(async move {
        if !artifacts.contains(&digest).await.unwrap_or(false) {
            return skipped(body, first, last);
        }
        stream::try_unfold(first, move |from| {
            let artifacts = artifacts.clone();
            async move {
                if from > last {
                    return Ok(None);
                }
                let to = (last + 1).min(from + PIECE_BYTES);
                let piece = artifacts.range(&digest, from..to).await;
                piece
                    .map(|piece| Some((piece, to)))
                    .map_err(std::io::Error::other)
            }
        })
        .boxed()
    })
    .flatten()
    .boxed()
}

/// A part of a stream: what is before it is read and left out.
fn skipped(body: ByteStream, first: u64, last: u64) -> Pieces {
    let cut = body.scan(0_u64, move |at, piece| {
        let part = match piece {
            Err(error) => Some(Err(std::io::Error::other(error))),
            Ok(_) if *at > last => None,
            Ok(piece) => {
                let begin = *at;
                *at += piece.len() as u64;
                let from = first.saturating_sub(begin).min(piece.len() as u64);
                let to = (last + 1).saturating_sub(begin).min(piece.len() as u64);
                Some(Ok(piece.slice(from as usize..to.max(from) as usize)))
            }
        };
        futures::future::ready(part)
    });
    cut.boxed()
}

/// A link to make.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLink {
    /// The logical path of the artifact.
    path: String,
    /// How long the link opens it; an hour, if nothing is said, and a week at most.
    #[serde(default)]
    expires_in_seconds: Option<u32>,
}

/// A link that opens one artifact for a time, without a token.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Link {
    /// The address, relative to this server.
    url: String,
    /// From when on it opens nothing, in seconds since 1970.
    expires: i64,
}

const LINK_DEFAULT_SECONDS: u32 = 60 * 60;
const LINK_MAX_SECONDS: u32 = 7 * 24 * 60 * 60;

pub(crate) async fn link(
    State(app): State<App>,
    caller: Caller,
    place: Place,
    JsonBody { value, once }: JsonBody<NewLink>,
) -> Result<Response, Problem> {
    let (agent, id) = (app.agent(&caller.scope), place.conversation()?);
    app.store().get(&agent.key(&id)).await?;
    let path = LogicalPath::parse(&value.path).map_err(Problem::bad_request)?;
    let lasts = value.expires_in_seconds.unwrap_or(LINK_DEFAULT_SECONDS);
    let until = seconds(agent.world().now()) + i64::from(lasts.clamp(1, LINK_MAX_SECONDS));
    let url = signed_url(&app.signer, &caller.scope, &id, &path, until);
    let link = Link { url, expires: until };
    once.perform(&app, StatusCode::CREATED, &link, async |answer| {
        keep(&app, answer).await
    })
    .await
}

/// An address, relative to this server, that opens one artifact until a moment without a token.
pub(crate) fn signed_url(
    signer: &Signer,
    scope: &Scope,
    conversation: &ConversationId,
    path: &LogicalPath,
    until: i64,
) -> String {
    let address = format!("/v1/conversations/{conversation}/artifacts/{path}");
    let signature = signer.link(scope, &address, until);
    let steps: Vec<String> = path
        .as_str()
        .split('/')
        .map(|step| percent(step).to_string())
        .collect();
    format!(
        "/v1/conversations/{conversation}/artifacts/{}?scope={}&until={until}&signature={signature}",
        steps.join("/"),
        percent(&scope.to_string())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(range: &str, if_range: Option<&str>) -> Wanted {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, range.parse().unwrap());
        if let Some(if_range) = if_range {
            headers.insert(header::IF_RANGE, if_range.parse().unwrap());
        }
        wanted(&headers, 10, Some("\"e\""))
    }

    #[test]
    fn a_range_is_read_as_rfc_9110_says() {
        for (range, expected) in [
            ("bytes=0-0", Wanted::Part(0, 0)),
            ("bytes=2-5", Wanted::Part(2, 5)),
            ("bytes=2-", Wanted::Part(2, 9)),
            ("bytes=2-99", Wanted::Part(2, 9)),
            ("bytes=-3", Wanted::Part(7, 9)),
            ("bytes=-99", Wanted::Part(0, 9)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=5-2", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("items=0-1", Wanted::Whole),
        ] {
            assert_eq!(asks(range, None), expected, "{range}");
        }
        assert_eq!(asks("bytes=2-5", Some("\"e\"")), Wanted::Part(2, 5));
        assert_eq!(asks("bytes=2-5", Some("\"other\"")), Wanted::Whole);
        assert_eq!(asks("bytes=2-5", Some("W/\"e\"")), Wanted::Whole);
    }

    #[test]
    fn of_nothing_no_range_can_be_had() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RANGE, "bytes=-5".parse().unwrap());
        assert_eq!(wanted(&headers, 0, None), Wanted::Nothing);
    }

    #[test]
    fn no_content_is_taken_for_a_page_of_ours() {
        for (mime, is_text, expected, is_shown) in [
            ("image/png", false, "image/png", true),
            ("text/html", true, "text/html", true),
            ("text/markdown", true, "text/plain; charset=utf-8", true),
            ("application/javascript", true, "text/plain; charset=utf-8", true),
            ("application/zip", false, "application/octet-stream", false),
            ("text/x-odd", false, "application/octet-stream", false),
        ] {
            assert_eq!(
                media_type(mime, is_text),
                (expected.to_owned(), is_shown),
                "{mime}"
            );
        }
        assert!(POLICY.starts_with("sandbox; default-src 'none'"));
    }

    #[test]
    fn a_name_cannot_break_out_of_its_header() {
        let path = LogicalPath::parse("fi:turn_1.files/a \"b\"é.md").unwrap();
        let text = disposition(&path, false);
        assert_eq!(
            text,
            "attachment; filename=\"a _b__.md\"; filename*=UTF-8''a%20%22b%22%C3%A9.md"
        );
    }
}
