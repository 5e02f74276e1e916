//! Names that others gave to tools, as an agent's table can spell them.
//!
//! MCP servers and clients use capitals, dots, dashes and up to 128 characters; providers take `[a-zA-Z0-9_-]{1,64}`, and a
//! tool's name here is `namespace.word`. So names are mapped one way and the map is kept: what the other side is asked for is
//! always its own spelling.

use std::collections::{BTreeMap, BTreeSet};

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

/// The names of foreign tools in an agent's table, below a namespace if there is one, by the names that others gave them. No
/// two are the same, whatever others chose; and the same set of names gives the same map, whatever their order.
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
    let keeps = |tool: &str, word: &str| {
        let is_alone = takers.get(word).is_none_or(|takers| *takers == 1);
        // One that needed no mapping keeps its name: another cannot take it away by being listed.
        word.len() <= room && !word.is_empty() && (is_alone || word == tool)
    };
    let kept = own.iter().filter(|(tool, word)| keeps(tool, word));
    let mut taken: BTreeSet<String> = kept.map(|(_, word)| word.clone()).collect();
    let mut names = BTreeMap::new();
    for (tool, word) in &own {
        let word = match keeps(tool, word) {
            true => word.clone(),
            false => distinct(tool, word, room, &mut taken),
        };
        let name = match namespace {
            Some(namespace) => format!("{namespace}.{word}"),
            None => word,
        };
        if let Ok(name) = ToolName::parse(&name) {
            names.insert(*tool, name);
        }
    }
    names
}

/// A name that nobody has. Digests can be computed by whoever names tools, so one that is taken says nothing.
fn distinct(tool: &str, word: &str, room: usize, taken: &mut BTreeSet<String>) -> String {
    // All characters of a word are one byte long.
    let kept = word.len().min(room - SUFFIX_DIGITS - 1);
    let word = if kept == 0 { "tool" } else { &word[..kept] };
    let word = word.trim_end_matches('_');
    let mut digest = BlobDigest::of(tool.as_bytes()).hex();
    loop {
        let name = format!("{word}_{}", &digest[..SUFFIX_DIGITS]);
        if taken.insert(name.clone()) {
            return name;
        }
        digest = BlobDigest::of(format!("{tool} {digest}").as_bytes()).hex();
    }
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
    fn a_name_that_a_mapped_one_would_get_is_told_apart_as_well() {
        // Who lists the plain names knows which digits another name would get.
        let suffixed = mapped(&["getUser", "get-user"]);
        let plain: Vec<&str> = suffixed
            .iter()
            .map(|name| name.trim_start_matches("srv."))
            .collect();
        let names = mapped(&["getUser", "get-user", plain[0], plain[1]]);
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), 4, "{names:?}");
        assert_eq!(names[2..], suffixed[..], "plain names stay as they are");
    }

    #[test]
    fn no_two_of_many_names_are_the_same() {
        // Every spelling of one word, and every name that a suffix could make of it.
        let mut tools: Vec<String> = (0..1_000)
            .map(|at| format!("get{}user", " -./".repeat(at)))
            .collect();
        for _ in 0..3 {
            let names = tool_names(Some("srv"), tools.iter().map(String::as_str));
            let distinct: BTreeSet<String> = names.values().map(|name| name.wire()).collect();
            assert_eq!(distinct.len(), tools.len());
            let plain = names.values().map(|name| name.as_str().replace("srv.", ""));
            let plain: Vec<String> = plain.filter(|name| !tools.contains(name)).take(500).collect();
            tools.extend(plain);
        }
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
