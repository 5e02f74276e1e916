//! The Brave Search API.

use async_trait::async_trait;
use serde::Deserialize;
use url::Url;

use super::{Hit, SearchError, SearchProvider, answer, client, is_web, plain};

/// Results that one request may ask for.
const REQUEST_MAX_RESULTS: usize = 20;
/// The API gives this many pages of results.
const PAGES_MAX_COUNT: usize = 10;

/// Searches through the API with a key.
pub struct Brave {
    client: reqwest::Client,
    endpoint: Url,
    key: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<BraveResult>,
}

#[derive(Deserialize)]
struct BraveResult {
    #[serde(default)]
    url: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    page_age: Option<String>,
}

impl Brave {
    /// Where the API is.
    pub const ENDPOINT: &'static str = "https://api.search.brave.com/res/v1/web/search";

    /// The API with this key.
    pub fn new(key: impl Into<String>) -> Result<Self, reqwest::Error> {
        let endpoint = Url::parse(Self::ENDPOINT).expect("a constant address parses");
        Self::at(endpoint, key)
    }

    /// The API at another address, such as a gateway's.
    pub fn at(endpoint: Url, key: impl Into<String>) -> Result<Self, reqwest::Error> {
        Ok(Brave {
            client: client()?,
            endpoint,
            key: key.into(),
        })
    }
}

#[async_trait]
impl SearchProvider for Brave {
    fn name(&self) -> &'static str {
        "brave"
    }

    async fn search(&self, query: &str, n: usize) -> Result<Vec<Hit>, SearchError> {
        let mut hits: Vec<Hit> = Vec::new();
        for page in 0..PAGES_MAX_COUNT {
            let count = n.clamp(1, REQUEST_MAX_RESULTS);
            let mut endpoint = self.endpoint.clone();
            endpoint.query_pairs_mut().extend_pairs([
                ("q", query),
                ("count", &count.to_string()),
                ("offset", &page.to_string()),
            ]);
            let request = self.client.get(endpoint).header("accept", "application/json");
            let request = request.header("x-subscription-token", &self.key);
            let found: Answer = match answer(self.name(), request).await {
                Err(error) if hits.is_empty() => return Err(error),
                Err(_) => break,
                Ok(found) => found,
            };
            let results = found.web.map(|web| web.results).unwrap_or_default();
            let is_last = results.len() < count;
            hits.extend(results.into_iter().filter_map(BraveResult::hit));
            if hits.len() >= n || is_last {
                break;
            }
        }
        hits.truncate(n);
        Ok(hits)
    }
}

impl BraveResult {
    fn hit(self) -> Option<Hit> {
        is_web(&self.url).then(|| Hit {
            title: plain(&self.title),
            snippet: plain(&self.description),
            published: self.page_age.filter(|date| !date.is_empty()),
            url: self.url,
        })
    }
}
