//! A SearXNG instance with its JSON format switched on.

use async_trait::async_trait;
use serde::Deserialize;
use url::Url;

use super::{Hit, SearchError, SearchProvider, answer, client, is_web, plain};

/// Pages of results asked for at most; instances give ten to thirty a page.
const PAGES_MAX_COUNT: usize = 5;

/// Searches through one instance.
pub struct Searxng {
    client: reqwest::Client,
    endpoint: Url,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    results: Vec<SearxngResult>,
}

#[derive(Deserialize)]
struct SearxngResult {
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default, rename = "publishedDate")]
    published: Option<String>,
}

impl Searxng {
    /// The instance at this address, such as `http://localhost:8888`.
    pub fn new(base: &Url) -> Result<Self, reqwest::Error> {
        let mut endpoint = base.clone();
        let path = format!(
            "{}/search",
            base.path().trim_end_matches('/').trim_end_matches("/search")
        );
        endpoint.set_path(&path);
        endpoint.set_query(None);
        Ok(Searxng {
            client: client()?,
            endpoint,
        })
    }
}

#[async_trait]
impl SearchProvider for Searxng {
    fn name(&self) -> &'static str {
        "searxng"
    }

    async fn search(&self, query: &str, n: usize) -> Result<Vec<Hit>, SearchError> {
        let mut hits: Vec<Hit> = Vec::new();
        for page in 1..=PAGES_MAX_COUNT {
            let page = page.to_string();
            let mut endpoint = self.endpoint.clone();
            endpoint
                .query_pairs_mut()
                .extend_pairs([("q", query), ("format", "json"), ("pageno", &page)]);
            let found: Answer = match answer(self.name(), self.client.get(endpoint)).await {
                // Instances refuse the format with 403 unless it is switched on.
                Err(SearchError::Unauthorised { provider }) => {
                    let reason = "it refuses JSON: add `json` to `search.formats` in its settings".into();
                    return Err(SearchError::Unusable { provider, reason });
                }
                Err(error) if hits.is_empty() => return Err(error),
                Err(_) => break,
                Ok(found) => found,
            };
            let before = hits.len();
            for hit in found.results.into_iter().filter_map(SearxngResult::hit) {
                if !hits.iter().any(|known| known.url == hit.url) {
                    hits.push(hit);
                }
            }
            // A page that brings nothing new is the last.
            if hits.len() >= n || hits.len() == before {
                break;
            }
        }
        hits.truncate(n);
        Ok(hits)
    }
}

impl SearxngResult {
    fn hit(self) -> Option<Hit> {
        Some(Hit {
            url: self.url.filter(|url| is_web(url))?,
            title: plain(&self.title.unwrap_or_default()),
            snippet: plain(&self.content.unwrap_or_default()),
            published: self.published.filter(|date| !date.is_empty()),
        })
    }
}
