//! YAML as skills use it: one document, whose every scalar is the text it is written as.
//!
//! Types are not guessed, so that `version: 1.10` stays `1.10`. Aliases are copies, within a bound.

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// A scalar; nothing is the empty text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order written.
    Map(Vec<(String, Node)>),
}

impl Node {
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value under a name, if this is a mapping that has it.
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        match self {
            Self::Map(fields) => fields
                .iter()
                .find(|(field, _)| field == name)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// Bytes of its texts, and one more for each value: what a copy costs.
    fn weight(&self) -> usize {
        1 + match self {
            Self::Text(text) => text.len(),
            Self::List(items) => items.iter().map(Node::weight).sum(),
            Self::Map(fields) => fields
                .iter()
                .map(|(name, value)| name.len() + value.weight())
                .sum(),
        }
    }
}

/// Where and why a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct YamlError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: Cow<'static, str>,
}

impl YamlError {
    fn at(mark: Marker, why: &'static str) -> Self {
        YamlError {
            line: mark.line(),
            why: why.into(),
        }
    }
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        YamlError {
            line: error.marker().line(),
            why: error.info().to_owned().into(),
        }
    }
}

/// Deeper nesting is refused.
const MAX_DEPTH: usize = 16;
/// Larger mappings are refused.
const MAX_FIELDS: usize = 1_000;
/// Aliases may copy this much in all.
const MAX_COPIED_BYTES: usize = 1_000_000;

/// Reads one document.
pub(super) fn parse(text: &str) -> Result<Node, YamlError> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event?;
        reader.take(event, span.start)?;
    }
    Ok(reader.root.unwrap_or(Node::Text(String::new())))
}

/// A list or mapping whose end has not come.
struct Open {
    anchor: usize,
    node: Node,
    /// The name whose value comes next.
    name: Option<String>,
}

#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    root: Option<Node>,
    anchored: HashMap<usize, Node>,
    copied_bytes: usize,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, mark: Marker) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_nothing = style == ScalarStyle::Plain && matches!(&*text, "" | "~");
                let text = if is_nothing {
                    String::new()
                } else {
                    text.into_owned()
                };
                self.put(Node::Text(text), anchor, mark)
            }
            Event::SequenceStart(anchor, _) => self.begin(Node::List(Vec::new()), anchor, mark),
            Event::MappingStart(anchor, _) => self.begin(Node::Map(Vec::new()), anchor, mark),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(ended) => self.put(ended.node, ended.anchor, mark),
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let node = self.anchored.get(&anchor).cloned();
                let node = node.ok_or_else(|| YamlError::at(mark, "an alias stands inside what it names"))?;
                self.copied_bytes += node.weight();
                if self.copied_bytes > MAX_COPIED_BYTES {
                    return Err(YamlError::at(mark, "aliases copy too much"));
                }
                self.put(node, 0, mark)
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(YamlError::at(mark, "a second document begins here: leave one"))
            }
            _ => Ok(()),
        }
    }

    fn begin(&mut self, node: Node, anchor: usize, mark: Marker) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(YamlError::at(mark, "nested too deeply"));
        }
        self.open.push(Open {
            anchor,
            node,
            name: None,
        });
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize, mark: Marker) -> Result<(), YamlError> {
        if anchor > 0 {
            self.anchored.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut open.node, open.name.take()) {
            (Node::List(items), _) => items.push(node),
            (Node::Map(fields), Some(name)) => fields.push((name, node)),
            (Node::Map(fields), None) => {
                let Node::Text(name) = node else {
                    return Err(YamlError::at(mark, "a name must be a text"));
                };
                if fields.iter().any(|(known, _)| *known == name) {
                    return Err(YamlError::at(mark, "this name stands here twice"));
                }
                if fields.len() >= MAX_FIELDS {
                    return Err(YamlError::at(mark, "too many names in one place"));
                }
                open.name = Some(name);
            }
            (Node::Text(_), _) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The tree on one line.
    fn shape(node: &Node) -> String {
        match node {
            Node::Text(text) => format!("{text:?}"),
            Node::List(items) => format!("[{}]", items.iter().map(shape).collect::<Vec<_>>().join(", ")),
            Node::Map(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, value)| format!("{name}: {}", shape(value)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
        }
    }

    fn read(text: &str) -> String {
        parse(text).map_or_else(|e| e.to_string(), |node| shape(&node))
    }

    #[test]
    fn scalars_of_every_kind_are_texts() {
        assert_eq!(
            read(
                "a: plain # comment\nb: 'it''s'\nc: \"x\\n\\u00e9\" # c\nd:\ne: https://x.org/#a\nf: 1.10\ng: yes\nh: '~'"
            ),
            r#"{a: "plain", b: "it's", c: "x\né", d: "", e: "https://x.org/#a", f: "1.10", g: "yes", h: "~"}"#
        );
        assert_eq!(
            read("a: |-\n  one\n    two\n\n  three\nb: >-\n  one\n  two\n\n  three\n"),
            r#"{a: "one\n  two\n\nthree", b: "one two\nthree"}"#
        );
        assert_eq!(
            read("a: goes on\n  and on\nb: \"two\n  lines\""),
            r#"{a: "goes on and on", b: "two lines"}"#
        );
        assert_eq!(read("# only a comment\n"), r#""""#);
    }

    #[test]
    fn lists_and_mappings_nest_by_indentation_and_by_brackets() {
        assert_eq!(
            read("x:\n- 1\n- 2\ny:\n  - a:\n      deep: yes\n  -\n    b: 1\nz: []"),
            r#"{x: ["1", "2"], y: [{a: {deep: "yes"}}, {b: "1"}], z: []}"#
        );
        assert_eq!(
            read("allowed-tools: [Read, \"Bash(git:*)\"]\nmetadata: {author: Ann, tags: [a, b]}"),
            r#"{allowed-tools: ["Read", "Bash(git:*)"], metadata: {author: "Ann", tags: ["a", "b"]}}"#
        );
        assert_eq!(read("- - 1\n  - 2\n- 3"), r#"[["1", "2"], "3"]"#);
    }

    #[test]
    fn aliases_are_copies_within_a_bound() {
        assert_eq!(
            read("a: &who {name: Ann}\nb: *who"),
            r#"{a: {name: "Ann"}, b: {name: "Ann"}}"#
        );
        let mut bomb = "a0: &a0 xxxxxxxxxx\n".to_owned();
        for n in 1..15 {
            let before = vec![format!("*a{}", n - 1); 10].join(", ");
            bomb += &format!("a{n}: &a{n} [{before}]\n");
        }
        assert_eq!(read(&bomb), "line 6: aliases copy too much");
        assert_eq!(read("a: &a [*a]"), "line 1: an alias stands inside what it names");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_line() {
        assert_eq!(read("a: 1\na: 2"), "line 2: this name stands here twice");
        assert_eq!(
            read("a: 1\n---\nb: 2"),
            "line 2: a second document begins here: leave one"
        );
        assert_eq!(read(&"- ".repeat(40)), "line 1: nested too deeply");
        assert_eq!(read(&"[".repeat(100_000)), "line 1: recursion limit exceeded");
        let many: String = (0..1_001).map(|n| format!("k{n}: v\n")).collect();
        assert_eq!(read(&many), "line 1001: too many names in one place");
        for broken in ["a: 1\nb", "  a: 1\nb: 2", "a: \"open", "a: [1, 2", "a: *nobody"] {
            assert!(parse(broken).is_err(), "{broken:?}: {}", read(broken));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ a:\n|>\"'#é\\\\u0\\[\\]{}&*!%@`,?-]{0,80}") {
            let _ = parse(&text);
        }
    }
}
