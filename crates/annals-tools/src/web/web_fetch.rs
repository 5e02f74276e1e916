//! `web_tools.web_fetch`: pages as readable text, in the sources pool.

use annals_core::code::Code;
use annals_core::limits;
use annals_core::sources::SourceRow;
use annals_core::time::Timestamp;
use annals_core::turn::outcome::{Notice, Outcome, Output, SourcesForm, SourcesOutput};
use annals_core::view::cut;
use annals_policy::Reach;
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fetch::{FetchError, Fetched, Fetcher};
use crate::cx::ToolCx;
use crate::facet::FacetParam;
use crate::failure::ToolFailure;
use crate::serialise;
use crate::spec::{Effect, Family, ToolSpec};
use crate::tool::Tool;

/// Pages fetched at once.
const CONCURRENT_MAX_COUNT: usize = 6;
/// Of one page, the pool keeps this many bytes of text: more than a model reads, less than a log suffers from.
const KEPT_MAX_BYTES: usize = 1_000_000;
/// What the pool shows of a page in its tail.
const SNIPPET_MAX_CHARS: usize = limits::SOURCE_SNIPPET_MAX_CHARS;

/// The tool.
pub struct WebFetch {
    spec: ToolSpec,
    fetcher: Fetcher,
}

#[derive(Deserialize)]
struct Args {
    urls: Vec<String>,
}

impl WebFetch {
    /// `web_tools.web_fetch` with this fetcher.
    pub fn new(fetcher: Fetcher) -> Self {
        let spec = ToolSpec::builder("web_tools.web_fetch")
            .description(
                "Fetch pages of the public web as readable text (HTML as markdown, PDF as text, JSON and text as \
                 they are). Pages enter the sources pool: cite them as [[S:n]], read a long one on with react.read.",
            )
            .family(Family::Builtin)
            .effect(Effect::Replayable)
            .independent()
            .reaches([Reach::Read, Reach::Network])
            .facet(FacetParam::Url("urls".into()))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "urls": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1},
                        "minItems": 1,
                        "maxItems": limits::WEB_FETCH_MAX_URLS,
                        "description": "FIRST FIELD. Whole http or https addresses."
                    },
                },
                "required": ["urls"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        WebFetch { spec, fetcher }
    }

    async fn fetch(&self, now: Timestamp, mut urls: Vec<String>) -> Outcome {
        let mut seen = std::collections::HashSet::new();
        urls.retain(|url| seen.insert(url.clone()));
        let fetches = urls.into_iter().map(|url| async move {
            let fetched = self.fetcher.fetch(&url).await;
            (url, fetched)
        });
        let mut fetched = stream::iter(fetches).buffered(CONCURRENT_MAX_COUNT);
        let (mut rows, mut notices, mut failure) = (Vec::new(), Vec::new(), None);
        while let Some((url, result)) = fetched.next().await {
            match result {
                Ok(page) => rows.push(row(&url, page, now)),
                Err(error) => {
                    notices.push(notice(&url, &error));
                    failure.get_or_insert(ToolFailure::new(
                        error.code(),
                        format!("`{}`: {error}", shown(&url)),
                    ));
                }
            }
        }
        match failure {
            Some(failure) if rows.is_empty() => Outcome {
                notices,
                ..serialise::failed(&failure)
            },
            _ => {
                let output = Output::Sources(SourcesOutput {
                    rows,
                    form: SourcesForm::Fetch,
                });
                Outcome {
                    notices,
                    output,
                    ..Outcome::default()
                }
            }
        }
    }
}

fn notice(url: &str, error: &FetchError) -> Notice {
    let message = format!("`{}` was not fetched: {error}", shown(url));
    Notice::new(Code::ToolResultError, message)
        .with("error", error.code())
        .with("url", shown(url))
}

/// Addresses may be as long as their author likes.
fn shown(url: &str) -> String {
    cut::brief(url, 300)
}

/// The row of a page. It keeps the address that was asked for, so that a page found by a search and then fetched
/// stays one source.
fn row(asked: &str, page: Fetched, now: Timestamp) -> SourceRow {
    let content = match page.text {
        Some(text) if text.len() > KEPT_MAX_BYTES => {
            let end = cut::floor_char_boundary(&text, KEPT_MAX_BYTES);
            let more = text[end..].chars().count();
            format!("{}\n...[{more} more characters are not kept]", &text[..end])
        }
        Some(text) if text.trim().is_empty() => "(the page has no text; it may need a browser)".to_owned(),
        Some(text) => text,
        None => {
            let size = page
                .size_bytes
                .map(|bytes| format!(", {bytes} bytes"))
                .unwrap_or_default();
            format!("({}{size}; content of this type is not shown)", page.mime)
        }
    };
    let snippet: String = content.chars().take(SNIPPET_MAX_CHARS).collect();
    let mut row = SourceRow::web(asked.trim(), &page.title, &snippet);
    row.content = Some(content.into());
    row.mime = Some(page.mime.into());
    row.size_bytes = page.size_bytes;
    row.fetched_time_iso = Some(now);
    row.set_reached(page.url.as_str());
    row
}

#[async_trait]
impl Tool for WebFetch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let args = match crate::__private::typed::<Args>(args) {
            Ok(args) => args,
            Err(failure) => return serialise::answer(cx, &self.spec, Err(failure)).await,
        };
        tokio::select! {
            outcome = self.fetch(cx.now(), args.urls) => outcome,
            () = cx.cancel().cancelled() => serialise::failed(&ToolFailure::new(Code::Cancelled, "the fetch was cancelled")),
        }
    }
}
