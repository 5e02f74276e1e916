//! `web_tools.web_search`: pages for some queries, as rows of the sources pool.

use std::sync::Arc;

use annals_core::code::Code;
use annals_core::limits;
use annals_core::sources::SourceRow;
use annals_core::turn::outcome::{Notice, Outcome, Output, SourcesForm, SourcesOutput};
use annals_policy::Reach;
use async_trait::async_trait;
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use super::search::{Hit, SearchError, SearchProvider, merged};
use crate::cx::ToolCx;
use crate::failure::ToolFailure;
use crate::serialise;
use crate::spec::{Effect, Family, ToolSpec};
use crate::tool::Tool;

/// A query is cut to this many characters; providers take no more.
const QUERY_MAX_CHARS: usize = 400;

/// The tool.
pub struct WebSearch {
    spec: ToolSpec,
    providers: Vec<Arc<dyn SearchProvider>>,
}

#[derive(Deserialize)]
struct Args {
    queries: Vec<String>,
    #[serde(default = "default_results")]
    n: usize,
}

fn default_results() -> usize {
    limits::WEB_SEARCH_DEFAULT_RESULTS
}

/// What one query found, and who found it.
struct Answered {
    provider: &'static str,
    hits: Vec<Hit>,
}

impl WebSearch {
    /// `web_tools.web_search` over these providers, asked in order until one answers.
    pub fn new(providers: Vec<Arc<dyn SearchProvider>>) -> Self {
        let spec = ToolSpec::builder("web_tools.web_search")
            .description(
                "Search the web. Results enter the sources pool: cite them as [[S:n]], read a page whole with \
                 web_tools.web_fetch.",
            )
            .family(Family::Builtin)
            .effect(Effect::Replayable)
            .independent()
            .reaches([Reach::Read, Reach::Network])
            .parameters(json!({
                "type": "object",
                "properties": {
                    "queries": {
                        "type": "array",
                        "items": {"type": "string", "minLength": 1},
                        "minItems": 1,
                        "maxItems": limits::WEB_SEARCH_MAX_QUERIES,
                        "description": "FIRST FIELD. One query for each thing to find out."
                    },
                    "n": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": limits::WEB_SEARCH_MAX_RESULTS,
                        "description": "SECOND FIELD. Results for each query. Default 8."
                    },
                },
                "required": ["queries"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        WebSearch { spec, providers }
    }

    /// Asks the providers in order; the last one's error is the one to tell.
    async fn ask(&self, query: &str, n: usize) -> Result<Answered, SearchError> {
        let query: String = query.trim().chars().take(QUERY_MAX_CHARS).collect();
        let mut last = None;
        for provider in &self.providers {
            match provider.search(&query, n).await {
                Ok(hits) => {
                    return Ok(Answered {
                        provider: provider.name(),
                        hits,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(SearchError::Unreachable {
            provider: "none",
            reason: "no provider is configured".into(),
        }))
    }

    async fn search(&self, args: Args) -> Outcome {
        if self.providers.is_empty() {
            return self.failed(&ToolFailure::new(
                Code::SearchProviderNotConfigured,
                "no search provider is configured: set ANNALS_SEARXNG_URL or ANNALS_BRAVE_KEY, or fetch known \
                 addresses with web_tools.web_fetch",
            ));
        }
        let answers = join_all(args.queries.iter().map(|query| self.ask(query, args.n))).await;
        let (mut lists, mut notices, mut failure) = (Vec::new(), Vec::new(), None);
        for (query, answer) in args.queries.iter().zip(answers) {
            match answer {
                Ok(Answered { provider, hits }) => lists.push((provider, hits)),
                Err(error) => {
                    let message = format!("the query `{query}` gave nothing: {error}");
                    notices.push(
                        Notice::new(Code::ToolResultError, message.clone())
                            .with("error", Code::SearchFailed.as_str()),
                    );
                    failure = Some(ToolFailure::new(Code::SearchFailed, message));
                }
            }
        }
        if let (true, Some(failure)) = (lists.is_empty(), failure) {
            return Outcome {
                notices,
                ..serialise::failed(&failure)
            };
        }
        let provider = lists.first().map_or("", |(provider, _)| provider);
        let hits = merged(lists.into_iter().map(|(_, hits)| hits).collect());
        let rows = hits.into_iter().map(|hit| row(hit, provider)).collect();
        let output = Output::Sources(SourcesOutput {
            rows,
            form: SourcesForm::Search,
        });
        Outcome {
            notices,
            output,
            ..Outcome::default()
        }
    }

    fn failed(&self, failure: &ToolFailure) -> Outcome {
        let notice = Notice::new(Code::ToolResultError, failure.message.clone())
            .with("error", failure.kind.clone())
            .with("tool_id", self.spec.name().as_str());
        Outcome {
            notices: vec![notice],
            ..serialise::failed(failure)
        }
    }
}

fn row(hit: Hit, provider: &str) -> SourceRow {
    let mut row = SourceRow::web(&hit.url, &hit.title, &hit.snippet);
    row.extra.insert("provider".into(), provider.into());
    row.extra
        .extend(hit.published.map(|date| ("published".to_owned(), date.into())));
    row
}

#[async_trait]
impl Tool for WebSearch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let args = match crate::__private::typed::<Args>(args) {
            Ok(args) => args,
            Err(failure) => return self.failed(&failure),
        };
        tokio::select! {
            outcome = self.search(args) => outcome,
            () = cx.cancel().cancelled() => serialise::failed(&ToolFailure::new(Code::Cancelled, "the search was cancelled")),
        }
    }
}
