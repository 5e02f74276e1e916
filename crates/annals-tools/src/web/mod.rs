//! The web tools: pages found and pages read, as rows of the sources pool. One file a tool, named like it.
//!
//! Read in this order: [`address`] and [`egress`] (what may be reached), [`fetch`] (one page within bounds) with
//! its readers [`body`], [`page`], [`pdf`] in [`quarantine`], [`search`] (providers), [`settings`]; then the
//! tools.

pub mod address;
pub mod egress;

pub mod body;
pub mod fetch;
pub mod page;
pub mod pdf;
pub mod quarantine;

pub mod search;
pub mod settings;

mod web_fetch;
mod web_search;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use settings::{WebSettings, WebSettingsError};
pub use web_fetch::WebFetch;
pub use web_search::WebSearch;

use crate::tool::Tool;

/// All web tools with these settings.
pub fn all(settings: WebSettings) -> Vec<Arc<dyn Tool>> {
    let WebSettings { providers, egress } = settings;
    vec![
        Arc::new(WebSearch::new(providers)),
        Arc::new(WebFetch::new(fetch::Fetcher::new(egress))),
    ]
}
