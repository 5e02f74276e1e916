//! The few HTML tags that work inside a line of markdown.
//!
//! Reads one tag at a time, as the markdown parser hands them over; never parses a whole document.

use crate::citation;
use crate::doc::{Image, Inline, Style};
use crate::html;

/// An opened inline tag.
#[derive(Debug)]
pub(super) enum InlineTag {
    /// A tag that only wraps its text.
    Wrap(&'static str),
    /// `<a href>`.
    Link(String),
    /// `<sup class="cite" data-sids="1,3">`: what stands in it is replaced by the citation.
    Cite(Vec<u32>),
}

/// What one piece of inline HTML means.
pub(super) enum Read {
    /// An opening tag.
    Open(InlineTag),
    /// A closing tag of that name.
    Close(String),
    /// A tag that is complete in itself.
    Whole(Inline),
    /// Something without a printed form, such as a comment.
    Nothing,
    /// Not a tag of ours: print it.
    Unknown,
}

const WRAPPING: [&str; 16] = [
    "b", "strong", "i", "em", "u", "ins", "s", "del", "strike", "sub", "sup", "code", "kbd", "mark", "small",
    "span",
];

impl InlineTag {
    pub(super) fn read(source: &str) -> Read {
        if source.starts_with("<!--") {
            return Read::Nothing;
        }
        let body = source
            .trim_start_matches('<')
            .trim_end_matches('>')
            .trim_end_matches('/');
        let closing = body.starts_with('/');
        let name: String = body
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        let name = name.to_ascii_lowercase();
        let known = WRAPPING.into_iter().find(|known| *known == name);
        match name.as_str() {
            "br" => Read::Whole(Inline::LineBreak),
            "wbr" => Read::Nothing,
            "a" | "sup" if closing => Read::Close(name),
            "img" => image(source).map_or(Read::Nothing, |image| Read::Whole(Inline::Image(image))),
            "a" => Read::Open(Self::Link(html::attribute(source, "href").unwrap_or_default())),
            "sup" => match html::attribute(source, "data-sids").and_then(|sids| citation::sids(&sids)) {
                Some(sids) => Read::Open(Self::Cite(sids)),
                None => Read::Open(Self::Wrap("sup")),
            },
            _ => match known {
                Some(_) if closing => Read::Close(name),
                Some(known) => Read::Open(Self::Wrap(known)),
                None => Read::Unknown,
            },
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Wrap(name) => name,
            Self::Link(_) => "a",
            Self::Cite(_) => "sup",
        }
    }

    /// The text between the tags with the tag's effect.
    pub(super) fn wrap(self, inlines: Vec<Inline>) -> Vec<Inline> {
        let wrapped = match self {
            Self::Cite(sids) => Inline::Cite(sids),
            Self::Link(url) => Inline::Link { url, inlines },
            Self::Wrap("b" | "strong") => Inline::Strong(inlines),
            Self::Wrap("i" | "em") => Inline::Em(inlines),
            Self::Wrap("u" | "ins") => Inline::Underline(inlines),
            Self::Wrap("s" | "del" | "strike") => Inline::Strike(inlines),
            Self::Wrap("sub") => Inline::Sub(inlines),
            Self::Wrap("sup") => Inline::Sup(inlines),
            Self::Wrap("code" | "kbd") => Inline::Code(crate::doc::plain_text(&inlines)),
            Self::Wrap("mark") => Inline::Span {
                style: Style::marked(),
                inlines,
            },
            Self::Wrap("small") => Inline::Span {
                style: Style {
                    size_percent: Some(85),
                    ..Style::default()
                },
                inlines,
            },
            Self::Wrap(_) => return inlines,
        };
        vec![wrapped]
    }
}

fn image(source: &str) -> Option<Image> {
    let reference = html::attribute(source, "src")?;
    let alt = html::attribute(source, "alt").unwrap_or_default();
    let width = html::attribute(source, "width").and_then(|width| html::length(&width));
    Some(Image {
        reference,
        alt,
        width,
        caption: None,
    })
}
