//! HTML made ready for a browser that has no network: pictures inlined, citations and sources written out.
//!
//! Rewrites the parsed tree while printing it. What could run or fetch (scripts, frames, linked sheets) is left
//! out here already; the browser is told the same again.

use std::fmt::Write as _;

use markup5ever_rcdom::{Handle, NodeData};

use crate::citation;
use crate::doc::{Document, Inline, is_clickable};
use crate::request::shorten;

use super::{TooDeep, attr, parse};

const DROPPED: [&str; 14] = [
    "script", "noscript", "iframe", "frame", "frameset", "object", "embed", "applet", "link", "base",
    "video", "audio", "source", "portal",
];
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];
/// Text in these is not prose.
const LITERAL: [&str; 7] = ["style", "code", "pre", "kbd", "samp", "textarea", "title"];

/// The document for the browser, with the title and the sources of `read`, which was made from the same content;
/// `picture` gives the data: address of a reference.
pub(crate) fn prepare(
    content: &str,
    read: &Document,
    picture: &dyn Fn(&str) -> Option<String>,
) -> Result<String, TooDeep> {
    let dom = parse(content)?;
    let mut writer = Writer {
        out: String::new(),
        read,
        picture,
        literal: 0,
    };
    writer.walk(&dom.document);
    Ok(writer.out)
}

enum Step {
    Enter(Handle),
    Leave(String),
}

struct Writer<'a> {
    out: String,
    read: &'a Document,
    picture: &'a dyn Fn(&str) -> Option<String>,
    /// Elements around that hold no prose.
    literal: usize,
}

impl Writer<'_> {
    /// Without recursion: a browser accepts any depth.
    fn walk(&mut self, root: &Handle) {
        let mut stack = vec![Step::Enter(root.clone())];
        while let Some(step) = stack.pop() {
            match step {
                Step::Leave(name) => self.leave(&name),
                Step::Enter(node) => {
                    let children = self.enter(&node, &mut stack);
                    if children {
                        stack.extend(node.children.borrow().iter().rev().cloned().map(Step::Enter));
                    }
                }
            }
        }
    }

    /// Prints the start of a node; says whether its children are wanted.
    fn enter(&mut self, node: &Handle, stack: &mut Vec<Step>) -> bool {
        match &node.data {
            NodeData::Document => true,
            NodeData::Doctype { .. } => {
                self.out.push_str("<!DOCTYPE html>");
                false
            }
            NodeData::Text { contents } => {
                self.text(&contents.borrow(), node);
                false
            }
            NodeData::Element { name, .. } => self.element(node, &name.local, stack),
            _ => false,
        }
    }

    fn element(&mut self, node: &Handle, name: &str, stack: &mut Vec<Step>) -> bool {
        if DROPPED.contains(&name) || (name == "meta" && attr(node, "http-equiv").is_some()) {
            return false;
        }
        if name == "title" && self.read.title.is_some() {
            // Written into the head, where one title stands for all.
            return false;
        }
        if let Some(sids) = attr(node, "data-sids").and_then(|sids| citation::sids(&sids)) {
            self.cite(&sids);
            return false;
        }
        if name == "img" {
            let reference = attr(node, "src").unwrap_or_default();
            if !reference.starts_with("data:") && (self.picture)(&reference).is_none() {
                self.placeholder(&reference);
                return false;
            }
        }
        let _ = write!(self.out, "<{name}");
        self.attributes(node, name);
        self.out.push('>');
        match name {
            "head" => self.titled("title", self.read.title.as_deref()),
            "body" => self.titled("h1", self.read.printed_title()),
            _ => {}
        }
        if VOID.contains(&name) {
            return false;
        }
        if LITERAL.contains(&name) {
            self.literal += 1;
        }
        stack.push(Step::Leave(name.to_owned()));
        true
    }

    /// A title in an element of its own, if there is one.
    fn titled(&mut self, element: &str, title: Option<&str>) {
        if let Some(title) = title {
            let _ = write!(self.out, "<{element}>{}</{element}>", escape_text(title));
        }
    }

    fn attributes(&mut self, node: &Handle, tag: &str) {
        let NodeData::Element { attrs, .. } = &node.data else {
            return;
        };
        for attribute in attrs.borrow().iter() {
            let name = match &attribute.name.prefix {
                Some(prefix) => format!("{prefix}:{}", attribute.name.local),
                None => attribute.name.local.to_string(),
            };
            if name == "srcset" || name.starts_with("on") {
                continue;
            }
            let value = attribute.value.to_string();
            let inlined = (tag == "img" && name == "src")
                .then(|| (self.picture)(&value))
                .flatten();
            let _ = write!(
                self.out,
                " {name}=\"{}\"",
                escape_attribute(&inlined.unwrap_or(value))
            );
        }
    }

    fn leave(&mut self, name: &str) {
        if LITERAL.contains(&name) {
            self.literal -= 1;
        }
        if name == "body" {
            self.source_list();
        }
        let _ = write!(self.out, "</{name}>");
    }

    fn text(&mut self, text: &str, node: &Handle) {
        if is_in_style_sheet(node) {
            self.out.push_str(&without_markup(text));
        } else if self.literal > 0 {
            self.out.push_str(&escape_text(text));
        } else {
            for inline in citation::split(text) {
                match inline {
                    Inline::Cite(sids) => {
                        self.out.truncate(self.out.trim_end_matches(' ').len());
                        self.cite(&sids);
                    }
                    Inline::Text(text) => self.out.push_str(&escape_text(&text)),
                    _ => {}
                }
            }
        }
    }

    fn cite(&mut self, sids: &[u32]) {
        let mark = |sid: &u32| match self.read.sources.iter().any(|source| source.sid == *sid) {
            true => format!("<a href=\"#source-{sid}\" style=\"text-decoration:none\">{sid}</a>"),
            false => sid.to_string(),
        };
        let marks: Vec<String> = sids.iter().map(mark).collect();
        let _ = write!(self.out, "<sup class=\"cite\">[{}]</sup>", marks.join(", "));
    }

    fn placeholder(&mut self, reference: &str) {
        let _ = write!(
            self.out,
            "<span style=\"display:inline-block;border:1px dashed #b35900;background:#fff8f0;color:#8a4500;\
             border-radius:4px;padding:8px 12px;font:12px sans-serif\">Image not available: {}</span>",
            escape_text(&shorten(reference))
        );
    }

    fn source_list(&mut self) {
        if self.read.sources.is_empty() {
            return;
        }
        self.out.push_str("<section class=\"sources\"><h2>Sources</h2>");
        for source in &self.read.sources {
            let _ = write!(
                self.out,
                "<p id=\"source-{0}\">[{0}] {1}",
                source.sid,
                escape_text(&source.title)
            );
            if let Some(url) = source.url.as_deref().filter(|url| is_clickable(url)) {
                let _ = write!(
                    self.out,
                    "<br><a href=\"{}\">{}</a>",
                    escape_attribute(url),
                    escape_text(url)
                );
            }
            self.out.push_str("</p>");
        }
        self.out.push_str("</section>");
    }
}

/// Whether a text is that of a style sheet, which is written without escapes. In a drawing `style` is an element like any
/// other, whose text has them.
fn is_in_style_sheet(node: &Handle) -> bool {
    let parent = node.parent.take();
    let up = parent.as_ref().and_then(std::rc::Weak::upgrade);
    node.parent.set(parent);
    up.is_some_and(|up| match &up.data {
        NodeData::Element { name, .. } => &*name.local == "style" && name.ns == html5ever::ns!(html),
        _ => false,
    })
}

/// A style sheet in which nothing can be taken for a tag, wherever a browser finds it: what begins like one is escaped as
/// CSS does it.
fn without_markup(sheet: &str) -> String {
    let mut out = String::with_capacity(sheet.len());
    let mut chars = sheet.chars().peekable();
    while let Some(c) = chars.next() {
        let begins = |next: &char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?');
        match c {
            '<' if chars.peek().is_some_and(begins) => out.push_str("\\3c "),
            c => out.push(c),
        }
    }
    out
}

fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn escape_attribute(text: &str) -> String {
    escape_text(text).replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(html: &str) -> String {
        let document = crate::html::read(html).unwrap();
        prepare(html, &document, &|_| None).unwrap()
    }

    #[test]
    fn no_text_becomes_markup_when_it_is_parsed_again() {
        for html in [
            "<svg><style>&lt;/style&gt;&lt;iframe src=file:///etc/passwd&gt;</style></svg>",
            "<svg><title>&lt;/title&gt;&lt;iframe&gt;</title></svg>",
            "<math><mtext><style>&lt;/style&gt;&lt;iframe&gt;</style></mtext></math>",
            "<math><mtext><table><mglyph><style><!--</style><iframe></style></mglyph></table></mtext></math>",
            "<style><!--</style><iframe>--></style>",
            "<style>a{content:'<iframe></iframe>'}</style>",
            "<xmp><iframe></xmp><noembed><iframe></noembed><plaintext><iframe>",
            "<p title='\"><iframe>'>x",
            "<textarea></textarea><textarea>&lt;/textarea&gt;&lt;iframe&gt;</textarea>",
        ] {
            let first = prepared(html);
            assert!(!first.to_ascii_lowercase().contains("<iframe"), "{html}\n{first}");
            let second = prepared(&first);
            assert!(
                !second.to_ascii_lowercase().contains("<iframe"),
                "{html}\n{second}"
            );
        }
        let sheet = prepared("<style>@media (width < 600px) { a > b { color: red } }</style>");
        assert!(sheet.contains("(width < 600px) { a > b"), "{sheet}");
    }
}
