//! One address, fetched within the egress policy and caps and made into text.
//!
//! Follows redirects by hand, because each target must pass the [egress policy](super::egress) again. Counts bytes after
//! decompression, because that is what memory pays for. It must not know about sources or blocks.

use std::time::Duration;

use annals_content::{Content, ContentError};
use annals_core::block::Blob;
use annals_core::code::Code;
use annals_core::limits;
use annals_store::{ArtifactError, ArtifactStore};
use futures::StreamExt;
use reqwest::Response;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION,
};
use url::Url;

use super::body::{self, Coding, Unpacked, Unpacker};
use super::egress::{self, EgressPolicy, Passed, Refusal};
use annals_core::content as mime;

/// Bounds of one fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// Bytes of an answer after decompression.
    pub body_bytes: usize,
    /// Bytes of an answer on the wire. Packed answers that unpack to little still cost time.
    pub wire_bytes: usize,
    /// Redirects followed.
    pub redirects: usize,
    /// From the first request to the finished text.
    pub time: Duration,
}

impl Default for FetchLimits {
    fn default() -> Self {
        let body_bytes = limits::WEB_FETCH_MAX_BYTES as usize;
        FetchLimits {
            body_bytes,
            wire_bytes: body_bytes,
            redirects: limits::WEB_FETCH_MAX_REDIRECTS,
            time: Duration::from_secs(limits::WEB_FETCH_TIMEOUT_SECONDS),
        }
    }
}

/// A fetched page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Where it was found in the end.
    pub url: Url,
    /// What the server sent, without parameters.
    pub mime: String,
    /// Its title; empty when it has none.
    pub title: String,
    /// Its text; none for what has no text, such as an image.
    pub text: Option<String>,
    /// Bytes received, unpacked; what the server said of content that is not read; none when it said nothing.
    pub size_bytes: Option<u64>,
}

/// Packed bytes that are unpacked at once.
const PIECE_BYTES: usize = 8 * 1024;
/// Bytes by which a kept file is known.
const HEAD_BYTES: usize = 512;

/// A file that was fetched into the artifact store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its bytes there.
    pub blob: Blob,
    /// The first of them, by which its kind is known.
    pub head: Vec<u8>,
}

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The egress.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A chain of redirects without end.
    #[error("more than {limit} redirects, the last to `{last}`: fetch the final address directly")]
    TooManyRedirects {
        /// The bound.
        limit: usize,
        /// The last target.
        last: String,
    },
    /// A redirect to nowhere.
    #[error("the server redirects without saying where")]
    RedirectWithoutTarget,
    /// The server said no.
    #[error("the server answered {status}")]
    Status {
        /// The HTTP status.
        status: u16,
    },
    /// It took too long.
    #[error("no answer within {seconds} s: try again later or another source")]
    Timeout {
        /// The bound.
        seconds: u64,
    },
    /// Too much, and a part of it would be useless.
    #[error("the answer has more than {limit_bytes} bytes: find a smaller version of it")]
    TooLarge {
        /// The bound.
        limit_bytes: usize,
    },
    /// Packed in a way that was not offered, or broken.
    #[error("the answer could not be unpacked: {reason}")]
    Unpackable {
        /// What is wrong.
        reason: String,
    },
    /// It could not be made into text.
    #[error("the {mime} could not be read: {reason}")]
    Unreadable {
        /// What it claims to be.
        mime: String,
        /// What is wrong.
        reason: String,
    },
    /// The artifact store did not take it.
    #[error("what was fetched could not be kept: {reason}")]
    Unkept {
        /// What happened.
        reason: String,
    },
    /// The connection failed.
    #[error("the server could not be reached: {reason}")]
    Network {
        /// What happened.
        reason: String,
    },
}

impl FetchError {
    /// A stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            FetchError::Refused(refusal) => refusal.code(),
            FetchError::TooManyRedirects { .. } | FetchError::RedirectWithoutTarget => {
                Code::TooManyRedirects.as_str()
            }
            FetchError::Status { .. } => Code::HttpStatus.as_str(),
            FetchError::Timeout { .. } => Code::Timeout.as_str(),
            FetchError::TooLarge { .. } => Code::TooLarge.as_str(),
            FetchError::Unpackable { .. } | FetchError::Unreadable { .. } => Code::Unreadable.as_str(),
            FetchError::Unkept { .. } => Code::WriteFailed.as_str(),
            FetchError::Network { .. } => Code::NetworkError.as_str(),
        }
    }
}

/// Fetches pages.
#[derive(Clone)]
pub struct Fetcher {
    egress: EgressPolicy,
    limits: FetchLimits,
    content: Content,
}

/// A body as it arrived.
struct Body {
    url: Url,
    mime: String,
    charset: Option<String>,
    unpacked: Unpacked,
    size_bytes: Option<u64>,
}

impl Fetcher {
    /// A fetcher of what may be reached, whose pages are read by `content`.
    pub fn new(egress: EgressPolicy, content: Content) -> Self {
        Self::with_limits(egress, content, FetchLimits::default())
    }

    /// A fetcher with bounds of its own.
    pub fn with_limits(egress: EgressPolicy, content: Content, limits: FetchLimits) -> Self {
        Fetcher {
            egress,
            limits,
            content,
        }
    }

    /// Fetches one page. Dropping the future ends the connection.
    pub async fn fetch(&self, address: &str) -> Result<Fetched, FetchError> {
        let timeout = || FetchError::Timeout {
            seconds: self.limits.time.as_secs(),
        };
        let fetched = async {
            let at = self.egress.pass(address)?;
            // Started while the server is asked.
            self.content.start_ahead();
            let response = self.follow(at).await?;
            read(&self.content, self.body(response).await?).await
        };
        tokio::time::timeout(self.limits.time, fetched)
            .await
            .unwrap_or_else(|_| Err(timeout()))
    }

    /// Fetches a file into the artifact store, all of it or nothing. It is never whole in memory.
    pub async fn keep(&self, address: &str, artifacts: &ArtifactStore) -> Result<Kept, FetchError> {
        let timeout = FetchError::Timeout {
            seconds: self.limits.time.as_secs(),
        };
        let kept = tokio::time::timeout(self.limits.time, self.keep_all(address, artifacts)).await;
        kept.unwrap_or(Err(timeout))
    }

    async fn keep_all(&self, address: &str, artifacts: &ArtifactStore) -> Result<Kept, FetchError> {
        let response = self.follow(self.egress.pass(address)?).await?;
        let mut unpacker = Unpacker::new(coding(response.headers())?, self.limits.body_bytes);
        let mut stream = response.bytes_stream();
        let unpackable = |error: std::io::Error| FetchError::Unpackable {
            reason: error.to_string(),
        };
        let unkept = |error: ArtifactError| FetchError::Unkept {
            reason: error.to_string(),
        };
        let mut draft = artifacts.draft().await.map_err(unkept)?;
        let mut head = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| network(&error))?;
            // A packed byte may become a thousand.
            for piece in chunk.chunks(PIECE_BYTES) {
                unpacker.push(piece).map_err(unpackable)?;
                let unpacked = unpacker.take();
                head.extend(unpacked.iter().take(HEAD_BYTES - head.len()));
                draft.write(&unpacked).await.map_err(unkept)?;
            }
            if unpacker.is_full() {
                break;
            }
        }
        let last = unpacker.finish().map_err(unpackable)?;
        if last.is_cut {
            return Err(FetchError::TooLarge {
                limit_bytes: self.limits.body_bytes,
            });
        }
        head.extend(last.bytes.iter().take(HEAD_BYTES - head.len()));
        draft.write(&last.bytes).await.map_err(unkept)?;
        let blob = draft.keep().await.map_err(unkept)?.blob;
        Ok(Kept { blob, head })
    }

    /// Asks, and asks again wherever the answer points to.
    async fn follow(&self, mut at: Passed) -> Result<Response, FetchError> {
        for _ in 0..=self.limits.redirects {
            let response = ask(&at).await?;
            if !response.status().is_redirection() {
                return match response.status().as_u16() {
                    200..=299 => Ok(response),
                    status => Err(FetchError::Status { status }),
                };
            }
            let target = response
                .headers()
                .get(LOCATION)
                .ok_or(FetchError::RedirectWithoutTarget)?;
            let target = String::from_utf8_lossy(target.as_bytes());
            let target = at
                .url
                .join(&target)
                .map_err(|_| FetchError::RedirectWithoutTarget)?;
            at = self.egress.pass_url(target)?;
        }
        Err(FetchError::TooManyRedirects {
            limit: self.limits.redirects,
            last: at.url.to_string(),
        })
    }

    async fn body(&self, response: Response) -> Result<Body, FetchError> {
        let url = response.url().clone();
        let (mime, charset) = content_type(response.headers());
        if !has_text(&mime) && !is_unsaid(&mime) {
            // A film is not worth its ten megabytes: nobody would see them.
            return Ok(Body {
                url,
                mime,
                charset,
                size_bytes: response.content_length(),
                unpacked: Unpacked::default(),
            });
        }
        let coding = coding(response.headers())?;
        let mut unpacker = Unpacker::new(coding, self.limits.body_bytes);
        let mut wire_bytes = 0;
        let mut stream = response.bytes_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| network(&error))?;
            wire_bytes += chunk.len();
            unpacker.push(&chunk).map_err(|error| FetchError::Unpackable {
                reason: error.to_string(),
            })?;
            if unpacker.is_full() || wire_bytes > self.limits.wire_bytes {
                break;
            }
        }
        let is_cut = wire_bytes > self.limits.wire_bytes;
        let mut unpacked = unpacker.finish().map_err(|error| FetchError::Unpackable {
            reason: error.to_string(),
        })?;
        unpacked.is_cut |= is_cut;
        let mime = if is_unsaid(&mime) {
            mime::of(last_segment(&url), &unpacked.bytes).to_owned()
        } else {
            mime
        };
        if unpacked.is_cut && mime == "application/pdf" {
            return Err(FetchError::TooLarge {
                limit_bytes: self.limits.body_bytes,
            });
        }
        Ok(Body {
            url,
            mime,
            charset,
            size_bytes: Some(unpacked.bytes.len() as u64),
            unpacked,
        })
    }
}

/// Servers that say nothing, or only that it is bytes, are answered by the bytes themselves.
fn is_unsaid(mime: &str) -> bool {
    matches!(mime, "" | "application/octet-stream" | "binary/octet-stream")
}

/// Whether content of this type can be made into text.
fn has_text(mime: &str) -> bool {
    mime == "application/pdf" || is_plain(mime)
}

fn is_plain(mime: &str) -> bool {
    mime::is_text(mime) || mime.ends_with("+json") || mime.ends_with("+xml")
}

async fn ask(at: &Passed) -> Result<Response, FetchError> {
    const WANTED: &str =
        "text/html,application/xhtml+xml,text/markdown,text/plain,application/json,application/pdf,*/*;q=0.5";
    let request = at
        .get()
        .header(ACCEPT, WANTED)
        .header(ACCEPT_LANGUAGE, "en,*;q=0.5");
    request
        .header(ACCEPT_ENCODING, "gzip, deflate")
        .send()
        .await
        .map_err(|error| network(&error))
}

fn network(error: &reqwest::Error) -> FetchError {
    if let Some(refusal) = egress::refusal(error) {
        return FetchError::Refused(refusal);
    }
    // The innermost cause says what happened; the outer ones say that something did.
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    FetchError::Network {
        reason: reason.to_string(),
    }
}

/// The media type in lower case, and the charset parameter.
fn content_type(headers: &HeaderMap) -> (String, Option<String>) {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut parts = value.split(';').map(str::trim);
    let mime = parts.next().unwrap_or_default().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    });
    (mime, charset)
}

fn coding(headers: &HeaderMap) -> Result<Coding, FetchError> {
    let value = headers
        .get(CONTENT_ENCODING)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    match value.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Coding::Plain),
        "gzip" | "x-gzip" => Ok(Coding::Gzip),
        "deflate" => Ok(Coding::Deflate),
        other => Err(FetchError::Unpackable {
            reason: format!("the server packed it as `{other}`"),
        }),
    }
}

fn last_segment(url: &Url) -> &str {
    url.path_segments()
        .and_then(|mut segments| segments.next_back())
        .unwrap_or_default()
}

/// Makes a body into text. What has to be parsed is parsed in a helper process.
async fn read(content: &Content, body: Body) -> Result<Fetched, FetchError> {
    let Body {
        url,
        mime,
        charset,
        unpacked,
        size_bytes,
    } = body;
    let name = last_segment(&url).to_owned();
    let (title, text) = match mime.as_str() {
        "text/html" | "application/xhtml+xml" => {
            let arrived = unpacked.is_cut.then_some(unpacked.bytes.len());
            let html = body::text(&unpacked.bytes, charset.as_deref(), body::Declared::InHtml);
            let page = content.page(&html, url.as_str()).await;
            let page = page.map_err(|error| unreadable(&mime, error))?;
            let mut text = page.markdown;
            if let Some(bytes) = page.cut_after_bytes.or(arrived) {
                text.push_str(&format!(
                    "\n\n...[the page goes on: only its first {bytes} bytes were read]"
                ));
            }
            (page.title, Some(text))
        }
        "application/pdf" => {
            let pdf = content.pdf_text(&unpacked.bytes).await;
            let pdf = pdf.map_err(|error| unreadable(&mime, error))?;
            (pdf.title.unwrap_or(name), Some(pdf.text))
        }
        other if is_plain(other) => {
            let mut text = body::text(&unpacked.bytes, charset.as_deref(), body::Declared::Nowhere);
            if unpacked.is_cut {
                let bytes = unpacked.bytes.len();
                text.push_str(&format!(
                    "\n...[the answer is longer than the {bytes} bytes that are fetched]"
                ));
            }
            (name, Some(text))
        }
        _ => (name, None),
    };
    Ok(Fetched {
        url,
        mime,
        title,
        text,
        size_bytes,
    })
}

/// What is asked of a page's reader, made into the error of a fetch.
fn unreadable(mime: &str, error: ContentError) -> FetchError {
    FetchError::Unreadable {
        mime: mime.to_owned(),
        reason: error.to_string(),
    }
}
