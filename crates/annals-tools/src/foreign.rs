//! Names that others gave to tools, as an agent's table can spell them.
//!
//! MCP servers and clients use capitals, dots, dashes and up to 128 characters; providers take `[a-zA-Z0-9_-]{1,64}`, and a
//! tool's name here is `namespace.word`. So names are mapped one way and the map is kept: what the other side is asked for is
//! always its own spelling.

use std::collections::BTreeMap;

use annals_core::block::BlobDigest;

use crate::name::{ToolName, WIRE_DOT, WIRE_MAX_BYTES};

/// Hexadecimal digits that tell two names apart that would look the same.
const SUFFIX_DIGITS: usize = 6;

/// Namespaces of built-in tools, which nobody else may take.
pub const RESERVED: [&str; 9] = [
    "annals",
    "browser_tools",
    "client",
    "exec_tools",
    "mcp",
    "react",
    "rendering_tools",
    "system",
    "web_tools",
];

/// The names of foreign tools in an agent's table, below a namespace if there is one, by the names that others gave them. The
/// same set of names gives the same map, whatever their order.
pub fn tool_names<'n>(
    namespace: Option<&str>,
    tools: impl IntoIterator<Item = &'n str>,
) -> BTreeMap<&'n str, ToolName> {
    let own: BTreeMap<&str, String> = tools.into_iter().map(|tool| (tool, word(tool))).collect();
    let room = WIRE_MAX_BYTES - namespace.map_or(0, |namespace| namespace.len() + WIRE_DOT.len());
    let mut takers: BTreeMap<&str, usize> = BTreeMap::new();
    for word in own.values() {
        *takers.entry(word).or_default() += 1;
    }
    let name = |tool: &str, word: &str| {
        let is_alone = takers.get(word).is_none_or(|takers| *takers == 1);
        // One that needed no mapping keeps its name: another cannot take it away by being listed.
        let keeps = word.len() <= room && !word.is_empty() && (is_alone || word == tool);
        let word = if keeps {
            word.to_owned()
        } else {
            distinct(tool, word, room)
        };
        let name = match namespace {
            Some(namespace) => format!("{namespace}.{word}"),
            None => word,
        };
        ToolName::parse(&name).ok()
    };
    own.iter()
        .filter_map(|(tool, word)| Some((*tool, name(tool, word)?)))
        .collect()
}

fn distinct(tool: &str, word: &str, room: usize) -> String {
    let digest = BlobDigest::of(tool.as_bytes()).hex();
    // All characters of a word are one byte long.
    let kept = word.len().min(room - SUFFIX_DIGITS - 1);
    let word = if kept == 0 { "tool" } else { &word[..kept] };
    format!("{}_{}", word.trim_end_matches('_'), &digest[..SUFFIX_DIGITS])
}

/// `[a-z][a-z0-9_]*`, or nothing: `getWeather` and `get-weather` become `get_weather`.
pub fn word(name: &str) -> String {
    let mut word = String::with_capacity(name.len() + 4);
    let mut was_lower = false;
    for character in name.chars() {
        let is_break = character.is_ascii_uppercase() && was_lower;
        was_lower = character.is_ascii_lowercase() || character.is_ascii_digit();
        if is_break {
            word.push('_');
        }
        match character.to_ascii_lowercase() {
            lower @ ('a'..='z' | '0'..='9') => word.push(lower),
            _ if word.ends_with('_') => {}
            _ => word.push('_'),
        }
    }
    let word = word.trim_matches('_');
    if word.starts_with(|first: char| first.is_ascii_digit()) {
        format!("n{word}")
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(tools: &[&str]) -> Vec<String> {
        let names = tool_names(Some("srv"), tools.iter().copied());
        tools
            .iter()
            .map(|tool| names.get(tool).map(ToString::to_string).unwrap_or_default())
            .collect()
    }

    #[test]
    fn names_of_every_convention_are_spelt() {
        assert_eq!(
            mapped(&[
                "read_file",
                "getWeather",
                "search-docs",
                "repo.issues/list",
                "2fa",
                "HTTPGet"
            ]),
            [
                "srv.read_file",
                "srv.get_weather",
                "srv.search_docs",
                "srv.repo_issues_list",
                "srv.n2fa",
                "srv.httpget"
            ]
        );
    }

    #[test]
    fn names_that_would_look_the_same_are_told_apart_and_a_plain_one_keeps_its_name() {
        let names = mapped(&["get_user", "getUser", "get-user"]);
        assert_eq!(names[0], "srv.get_user");
        assert_ne!(names[1], names[2]);
        for name in &names[1..] {
            assert!(
                name.starts_with("srv.get_user_") && name.len() == names[0].len() + 7,
                "{name}"
            );
        }
        assert_eq!(mapped(&["get-user", "getUser", "get_user"])[2], "srv.get_user");
    }

    #[test]
    fn long_and_wordless_names_are_cut_and_still_distinct() {
        let long = "x".repeat(128);
        let longer = format!("{}y", "x".repeat(127));
        let names = mapped(&[&long, &longer, "漢字", "漢", "…"]);
        for (at, name) in names.iter().enumerate() {
            assert!(!name.is_empty() && name.len() < 64, "{name}");
            assert!(!names[..at].contains(name), "{name}");
        }
    }

    #[test]
    fn a_tool_without_a_namespace_has_more_room() {
        let long = "y".repeat(64);
        let names = tool_names(None, ["getWeather", &long]);
        assert_eq!(names["getWeather"].as_str(), "get_weather");
        assert_eq!(names[&*long].as_str(), long);
    }
}
