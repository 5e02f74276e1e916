//! Where search results come from: a port, and the providers behind it.
//!
//! Providers are configured by the operator, never by a model, so their addresses may be private; what they
//! return is. To add one: a file beside [`searxng`] with a type that implements [`SearchProvider`], and a line in
//! [`WebSettings`](super::settings::WebSettings).

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use std::time::Duration;

use annals_core::limits;
use futures::StreamExt;

mod brave;
mod merge;
mod searxng;

pub use brave::Brave;
pub use merge::merged;
pub use searxng::Searxng;

use super::egress::USER_AGENT;

/// A provider's answer has at most this many bytes.
const ANSWER_MAX_BYTES: usize = 5_000_000;

/// One result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// Its address; always http or https.
    pub url: String,
    /// Its title.
    pub title: String,
    /// A short text.
    pub snippet: String,
    /// When it was published, as the provider says it.
    pub published: Option<String>,
}

/// Why a provider gave no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// It could not be reached in time.
    #[error("`{provider}` could not be reached: {reason}")]
    Unreachable {
        /// The provider.
        provider: &'static str,
        /// What happened.
        reason: String,
    },
    /// It does not accept the key.
    #[error("`{provider}` does not accept the key: check it")]
    Unauthorised {
        /// The provider.
        provider: &'static str,
    },
    /// It has had enough of us for now.
    #[error("`{provider}` has no more answers for now: try again later, with fewer queries")]
    RateLimited {
        /// The provider.
        provider: &'static str,
    },
    /// It answered something that cannot be used.
    #[error("`{provider}` gave an answer that cannot be used: {reason}")]
    Unusable {
        /// The provider.
        provider: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// Finds pages.
///
/// Rules: at most `n` hits, best first; hits without an http address are left out; an answer without hits is
/// `Ok(vec![])`; dropping the future ends the request.
#[async_trait]
pub trait SearchProvider: Send + Sync {
    /// Its name in rows and messages.
    fn name(&self) -> &'static str;

    /// The best `n` pages for a query.
    async fn search(&self, query: &str, n: usize) -> Result<Vec<Hit>, SearchError>;
}

/// A client for providers: no redirects, because a provider's address is meant as it is written.
fn client() -> Result<reqwest::Client, reqwest::Error> {
    super::egress::http()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(limits::WEB_FETCH_TIMEOUT_SECONDS))
        .build()
}

/// Sends a request and reads its answer as JSON, within the cap.
async fn answer<T: DeserializeOwned>(
    provider: &'static str,
    request: reqwest::RequestBuilder,
) -> Result<T, SearchError> {
    // Without its address, which may carry a key.
    let unreachable = |error: reqwest::Error| SearchError::Unreachable {
        provider,
        reason: if error.is_timeout() {
            "no answer in time".into()
        } else {
            error.without_url().to_string()
        },
    };
    let unusable = |reason: String| SearchError::Unusable { provider, reason };
    let response = request.send().await.map_err(unreachable)?;
    match response.status().as_u16() {
        200..=299 => {}
        401 | 403 => return Err(SearchError::Unauthorised { provider }),
        429 => return Err(SearchError::RateLimited { provider }),
        status => return Err(unusable(format!("status {status}"))),
    }
    let mut bytes = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.map_err(unreachable)?);
        if bytes.len() > ANSWER_MAX_BYTES {
            return Err(unusable(format!("more than {ANSWER_MAX_BYTES} bytes")));
        }
    }
    serde_json::from_slice(&bytes).map_err(|error| unusable(error.to_string()))
}

/// Text of a result as a person reads it: no tags, no entities, no runs of space.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(before);
        // Only what looks like a tag is one; `a < b` stays.
        let is_tag = after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        match after.split_once('>').filter(|_| is_tag) {
            Some((_, after)) => rest = after,
            None => {
                out.push('<');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#x27;", "'"),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ] {
        out = out.replace(entity, character);
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_web(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_of_snippets_is_removed_and_arithmetic_is_not() {
        for (text, expected) in [
            ("a <strong>bold</strong>  claim", "a bold claim"),
            ("x &amp;lt; y &quot;q&quot;", "x &lt; y \"q\""),
            ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
            ("cut <str", "cut <str"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }
}
