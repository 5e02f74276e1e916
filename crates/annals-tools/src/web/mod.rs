//! The web tools: pages found and pages read, as rows of the sources pool. One file a tool, named like it.
//!
//! Read in this order: [`egress`] (what may be reached), [`fetch`] (one page within bounds) with
//! [`body`] (bytes as text; pages are read by the content helper), [`search`] (providers), [`settings`]; then the tools.

pub mod egress;

pub mod body;
pub mod fetch;

pub mod search;
pub mod settings;

mod web_fetch;
mod web_search;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use annals_content::Content;

pub use settings::{WebSettings, WebSettingsError};
pub use web_fetch::WebFetch;
pub use web_search::WebSearch;

use crate::tool::Tool;

/// All web tools with these settings; pages are read by `content`.
pub fn all(settings: WebSettings, content: &Content) -> Vec<Arc<dyn Tool>> {
    let WebSettings { providers, egress } = settings;
    vec![
        Arc::new(WebSearch::new(providers)),
        Arc::new(WebFetch::new(fetch::Fetcher::new(egress, content.clone()))),
    ]
}
