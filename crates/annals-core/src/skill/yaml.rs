//! The part of YAML that skills use: nested mappings and lists by indentation, plain, quoted and block texts.
//!
//! Every scalar is a text. Anchors, tags, flow collections and several documents are not read; a value that
//! uses them is the text it is.

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
}

/// Where and why a text is not of this kind of YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct YamlError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: &'static str,
}

/// Deeper nesting is refused.
const MAX_DEPTH: usize = 16;
/// Larger mappings are refused.
const MAX_FIELDS: usize = 1_000;

/// Reads one document.
pub(super) fn parse(text: &str) -> Result<Node, YamlError> {
    let lines = text.lines().map(|line| {
        let content = line.trim_start_matches(' ');
        Line {
            indent: line.len() - content.len(),
            content: content.trim_end(),
            raw: line.trim_end_matches('\r'),
        }
    });
    let mut reader = Reader {
        lines: lines.collect(),
        at: 0,
        depth: 0,
    };
    let Some(line) = reader.peek() else {
        return Ok(Node::Text(String::new()));
    };
    let node = reader.block(line.indent)?;
    match reader.peek() {
        None => Ok(node),
        Some(_) => Err(reader.error("this does not belong to what is above; check the indentation")),
    }
}

#[derive(Clone, Copy)]
struct Line<'a> {
    indent: usize,
    /// Without indentation and trailing space.
    content: &'a str,
    raw: &'a str,
}

struct Reader<'a> {
    lines: Vec<Line<'a>>,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, why: &'static str) -> YamlError {
        YamlError {
            line: self.at + 1,
            why,
        }
    }

    /// The next line that says something, without taking it.
    fn peek(&mut self) -> Option<Line<'a>> {
        while let Some(line) = self.lines.get(self.at) {
            if !line.content.is_empty() && !line.content.starts_with('#') {
                return Some(*line);
            }
            self.at += 1;
        }
        None
    }

    /// The list or mapping whose entries stand at `indent`.
    fn block(&mut self, indent: usize) -> Result<Node, YamlError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        let is_list = self.peek().is_some_and(|line| list_item(line.content).is_some());
        let node = if is_list {
            self.list(indent)
        } else {
            self.map(indent)
        };
        self.depth -= 1;
        node
    }

    fn list(&mut self, indent: usize) -> Result<Node, YamlError> {
        let mut items = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some(item) = list_item(line.content) else {
                break;
            };
            let inner_indent = indent + line.content.len() - item.len();
            if item.is_empty() {
                self.at += 1;
                items.push(self.nested(indent + 1)?);
            } else if list_item(item).is_some() || split_field(item).is_some() {
                // The entry begins a block of its own, as if the dash were a space.
                self.lines[self.at] = Line {
                    indent: inner_indent,
                    content: item,
                    raw: line.raw,
                };
                items.push(self.block(inner_indent)?);
            } else {
                items.push(self.scalar(item, indent)?);
            }
        }
        Ok(Node::List(items))
    }

    fn map(&mut self, indent: usize) -> Result<Node, YamlError> {
        let mut fields: Vec<(String, Node)> = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent == indent) {
            let Some((name, value)) = split_field(line.content) else {
                return Err(self.error("expected `name: value`"));
            };
            if fields.len() == MAX_FIELDS {
                return Err(self.error("too many names in one place"));
            }
            if fields.iter().any(|(known, _)| known == name) {
                return Err(self.error("this name stands here twice"));
            }
            let value = if value.is_empty() {
                self.at += 1;
                // A list may stand as far left as the name it belongs to.
                let own_list = self
                    .peek()
                    .is_some_and(|l| l.indent == indent && list_item(l.content).is_some());
                if own_list {
                    self.block(indent)?
                } else {
                    self.nested(indent + 1)?
                }
            } else {
                self.scalar(value, indent)?
            };
            fields.push((name.to_owned(), value));
        }
        Ok(Node::Map(fields))
    }

    /// What stands deeper than here, or nothing.
    fn nested(&mut self, least_indent: usize) -> Result<Node, YamlError> {
        match self.peek() {
            Some(line) if line.indent >= least_indent => self.block(line.indent),
            _ => Ok(Node::Text(String::new())),
        }
    }

    /// A scalar that begins on this line, as a value of something at `indent`.
    fn scalar(&mut self, text: &'a str, indent: usize) -> Result<Node, YamlError> {
        let first = text.as_bytes()[0];
        if matches!(first, b'|' | b'>') && text[1..].bytes().all(|b| matches!(b, b'+' | b'-' | b'1'..=b'9')) {
            self.at += 1;
            return Ok(Node::Text(self.block_text(text, indent)));
        }
        let node = match text {
            "[]" => Node::List(Vec::new()),
            "{}" => Node::Map(Vec::new()),
            _ if matches!(first, b'"' | b'\'') => Node::Text(
                quoted(text).ok_or_else(|| self.error("this quoted text does not end on its line"))?,
            ),
            _ => return Ok(Node::Text(self.plain(text, indent))),
        };
        self.at += 1;
        Ok(node)
    }

    /// A plain text, with the deeper lines that go on with it.
    fn plain(&mut self, text: &'a str, indent: usize) -> String {
        self.at += 1;
        let mut out = without_comment(text).to_owned();
        while let Some(line) = self
            .lines
            .get(self.at)
            .filter(|l| l.indent > indent && !l.content.is_empty())
        {
            if !line.content.starts_with('#') {
                out.push(' ');
                out.push_str(without_comment(line.content));
            }
            self.at += 1;
        }
        out
    }

    /// The lines of a `|` or `>` text.
    fn block_text(&mut self, header: &str, indent: usize) -> String {
        let start = self.at;
        let belongs = |line: &Line<'_>| line.content.is_empty() || line.indent > indent;
        let count = self.lines[start..]
            .iter()
            .take_while(|line| belongs(line))
            .count();
        self.at += count;
        let lines = &self.lines[start..self.at];
        let cut = lines
            .iter()
            .filter(|line| !line.content.is_empty())
            .map(|line| line.indent)
            .min()
            .unwrap_or(0);
        let lines = lines.iter().map(|line| line.raw.get(cut..).unwrap_or_default());
        let mut out = String::new();
        let mut gap = "";
        for line in lines {
            if header.starts_with('|') {
                out.push_str(gap);
                gap = "\n";
            } else if line.is_empty() {
                gap = "\n";
            } else {
                out.push_str(gap);
                gap = " ";
            }
            out.push_str(line);
        }
        out.truncate(out.trim_end().len());
        out
    }
}

/// What follows the dash of a list entry.
fn list_item(content: &str) -> Option<&str> {
    match content.strip_prefix('-') {
        Some("") => Some(""),
        Some(rest) if rest.starts_with(' ') => Some(rest.trim_start_matches(' ')),
        _ => None,
    }
}

/// Splits `name: value` or `name:`.
fn split_field(content: &str) -> Option<(&str, &str)> {
    if let Some(quote) = content.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let (name, rest) = content[1..].split_once(quote)?;
        let value = rest.strip_prefix(':')?;
        return (value.is_empty() || value.starts_with(' ')).then(|| (name, value.trim()));
    }
    let (name, value) = content
        .split_once(": ")
        .or_else(|| content.strip_suffix(':').map(|name| (name, "")))?;
    let value = value.trim();
    let value = if value.starts_with('#') { "" } else { value };
    (!name.is_empty() && !name.contains('#')).then(|| (name.trim_end(), value))
}

fn without_comment(text: &str) -> &str {
    text.split_once(" #").map_or(text, |(text, _)| text).trim_end()
}

/// A text in quotes; only a comment may follow it.
fn quoted(text: &str) -> Option<String> {
    let mut chars = text.chars();
    let quote = chars.next()?;
    let mut out = String::new();
    loop {
        match chars.next()? {
            '\'' if quote == '\'' && chars.as_str().starts_with('\'') => {
                chars.next();
                out.push('\'');
            }
            c if c == quote => break,
            '\\' if quote == '"' => out.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '0' => '\0',
                'u' => {
                    let hex = chars.as_str().get(..4)?;
                    chars = chars.as_str()[4..].chars();
                    char::from_u32(u32::from_str_radix(hex, 16).ok()?)?
                }
                other => other,
            }),
            c => out.push(c),
        }
    }
    let rest = chars.as_str().trim_start();
    (rest.is_empty() || rest.starts_with('#')).then_some(out)
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
            read("a: plain # comment\nb: 'it''s'\nc: \"x\\n\\u00e9\" # c\nd:\ne: https://x.org/#a"),
            r#"{a: "plain", b: "it's", c: "x\né", d: "", e: "https://x.org/#a"}"#
        );
        assert_eq!(
            read("a: |\n  one\n    two\n\n  three\nb: >-\n  one\n  two\n\n  three\n"),
            r#"{a: "one\n  two\n\nthree", b: "one two\nthree"}"#
        );
        assert_eq!(
            read("a: goes on\n  and on\nb: 2"),
            r#"{a: "goes on and on", b: "2"}"#
        );
        assert_eq!(read("# only a comment\n"), r#""""#);
    }

    #[test]
    fn lists_and_mappings_nest_by_indentation() {
        assert_eq!(
            read("- a: 1\n  b: 2\n- a: 3\n"),
            r#"[{a: "1", b: "2"}, {a: "3"}]"#
        );
        assert_eq!(
            read("x:\n- 1\n- 2\ny:\n  - a:\n      deep: yes\n  -\n    b: 1\nz: []"),
            r#"{x: ["1", "2"], y: [{a: {deep: "yes"}}, {b: "1"}], z: []}"#
        );
        assert_eq!(read("-  a: |\n     text\n   b: 1"), r#"[{a: "text", b: "1"}]"#);
        assert_eq!(read("- - 1\n  - 2\n- 3"), r#"[["1", "2"], "3"]"#);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_line() {
        assert_eq!(read("a: 1\nb"), "line 2: expected `name: value`");
        assert_eq!(read("a: 1\na: 2"), "line 2: this name stands here twice");
        assert_eq!(
            read("  a: 1\nb: 2"),
            "line 2: this does not belong to what is above; check the indentation"
        );
        assert_eq!(
            read("a: \"open"),
            "line 1: this quoted text does not end on its line"
        );
        assert_eq!(read(&"- ".repeat(40)), "line 1: nested too deeply");
        let many: String = (0..1_001).map(|n| format!("k{n}: v\n")).collect();
        assert_eq!(read(&many), "line 1001: too many names in one place");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ a:\n|>\"'#é\\\\u0\\[\\]-]{0,60}") {
            let _ = parse(&text);
        }
    }
}
