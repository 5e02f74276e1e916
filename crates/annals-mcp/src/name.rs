//! Names of servers, as an agent's table can spell them.

pub use annals_tools::foreign::tool_names;
use annals_tools::foreign::{RESERVED, word};

/// Bytes of a server's namespace, so that at least half of a name is left for the tool.
pub const SERVER_MAX_BYTES: usize = 24;

/// The namespace of a server's tools: its name in lower case, everything else replaced by `_`.
pub fn namespace(server: &str) -> Option<String> {
    let word = word(server);
    let fits = !word.is_empty() && word.len() <= SERVER_MAX_BYTES && !RESERVED.contains(&word.as_str());
    fits.then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_short_word_that_no_built_in_tool_has() {
        assert_eq!(namespace("brave-search").as_deref(), Some("brave_search"));
        for bad in ["", "react", "MCP", "…", &"s".repeat(25)] {
            assert_eq!(namespace(bad), None, "{bad}");
        }
    }
}
