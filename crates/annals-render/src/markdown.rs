//! Markdown → [`Document`]: CommonMark with tables, footnotes, task lists, strike-through, alerts and math.
//!
//! What it decides: citations are found outside code only; bare addresses become links; money is not
//! math; a block of raw HTML is read by [`crate::html`]; an inline tag of the small known set works
//! (`<br>`, `<sub>`, `<b>`, …), any other is printed literally, so that `Vec<T>` is never lost; a picture whose
//! file name has spaces is a picture, although CommonMark wants such names in `<>`.

mod inline_tag;
mod loose_picture;

use std::collections::HashMap;

use pulldown_cmark::{
    Alignment, BlockQuoteKind, CodeBlockKind, Event, Options, Parser, Tag, TagEnd, TextMergeStream,
};

use crate::doc::{
    AlertKind, Align, Block, Cell, Document, Image, Inline, List, ListItem, MathPlace, Row, Table, plain_text,
};
use crate::html;
use crate::limits::{MAX_COLUMNS, MAX_NESTING};
use crate::prose::{self, Addresses};
use inline_tag::InlineTag;

/// Reads markdown.
pub fn read(content: &str) -> Document {
    let (front_title, body) = split_front_matter(content);
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_MATH
        | Options::ENABLE_GFM;
    let mut reader = Reader::default();
    for event in TextMergeStream::new(Parser::new_ext(body, options)) {
        reader.event(event);
    }
    reader.finish(front_title)
}

/// Takes a YAML head off the content, when it is one, and its `title`.
fn split_front_matter(content: &str) -> (Option<String>, &str) {
    let content = content.trim_start_matches('\u{feff}');
    let is_fence = |line: &str| line.trim_end() == "---";
    let mut lines = content.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_fence(line)) else {
        return (None, content);
    };
    let head_bytes: usize = lines.take_while(|line| !is_fence(line)).map(str::len).sum();
    let (head, rest) = content[first.len()..].split_at(head_bytes);
    if rest.is_empty() {
        return (None, content);
    }
    let is_key = |line: &str| {
        let key = line.split_once(':').map_or("", |(key, _)| key);
        !key.is_empty()
            && key
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    let belongs = |line: &str| is_key(line) || line.starts_with([' ', '-']) || line.is_empty();
    if !head.lines().next().is_some_and(is_key) || !head.lines().all(belongs) {
        return (None, content);
    }
    let title = head.lines().find_map(|line| line.strip_prefix("title:"));
    let title = title.map(|title| title.trim().trim_matches(['"', '\'']).to_owned());
    let body = rest.split_once('\n').map_or("", |(_, body)| body);
    (title.filter(|title| !title.is_empty()), body)
}

/// What an element will become when it closes.
#[derive(Debug)]
enum Kind {
    Root,
    Paragraph,
    Heading(u8),
    Quote(Option<AlertKind>),
    Code(Option<String>),
    Html,
    List {
        start: Option<u64>,
        loose: bool,
        items: Vec<ListItem>,
    },
    Item(Option<bool>),
    Footnote(usize),
    Table(Table),
    TableHead(Row),
    TableRow(Row),
    TableCell,
    Em,
    Strong,
    Strike,
    Link(String),
    Image {
        reference: String,
        caption: Option<String>,
    },
    Tag(InlineTag),
    /// Nested too deeply: its content goes to the parent as it is.
    Flat,
}

impl Kind {
    /// Whether it counts against the depth a writer has to bear.
    fn nests(&self) -> bool {
        matches!(
            self,
            Self::Quote(_)
                | Self::List { .. }
                | Self::Em
                | Self::Strong
                | Self::Strike
                | Self::Link(_)
                | Self::Tag(_)
        )
    }
}

/// An element that is still open, with what it holds so far.
#[derive(Debug)]
struct Open {
    kind: Kind,
    blocks: Vec<Block>,
    inlines: Vec<Inline>,
    text: String,
}

impl Open {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            blocks: Vec::new(),
            inlines: Vec::new(),
            text: String::new(),
        }
    }

    /// Loose inlines (a tight list item, a table cell) become a paragraph before a block follows.
    fn settle(&mut self) {
        if let Some(block) = paragraph(std::mem::take(&mut self.inlines)) {
            self.blocks.push(block);
        }
    }

    fn into_blocks(mut self) -> Vec<Block> {
        self.settle();
        self.blocks
    }
}

/// The paragraphs of a paragraph: a formula on a line of its own parts it, as it does on paper.
fn paragraphs(inlines: Vec<Inline>) -> Vec<Block> {
    let is_display = |inline: &Inline| {
        matches!(
            inline,
            Inline::Math {
                place: MathPlace::Display,
                ..
            }
        )
    };
    let mut parts: Vec<Vec<Inline>> = vec![Vec::new()];
    for inline in inlines {
        if is_display(&inline) {
            parts.push(vec![inline]);
            parts.push(Vec::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(inline);
        }
    }
    parts.into_iter().filter_map(paragraph).collect()
}

/// A paragraph, or the picture it consists of; nothing when it is blank.
fn paragraph(inlines: Vec<Inline>) -> Option<Block> {
    let blank = |inline: &Inline| matches!(inline, Inline::Text(text) if text.trim().is_empty());
    if inlines.iter().all(blank) {
        return None;
    }
    if let [Inline::Text(text)] = inlines.as_slice()
        && matches!(text.trim(), "\\pagebreak" | "\\newpage")
    {
        return Some(Block::PageBreak);
    }
    let mut visible = inlines.iter().filter(|inline| !blank(inline));
    if let (Some(Inline::Image(image)), None) = (visible.next(), visible.next()) {
        return Some(Block::Image(image.clone()));
    }
    Some(Block::Paragraph(inlines))
}

struct Reader {
    stack: Vec<Open>,
    footnotes: Vec<Vec<Block>>,
    footnote_of: HashMap<String, usize>,
    soft_break: bool,
    /// Open elements that count as nesting.
    nested: usize,
    /// Open links.
    links: usize,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            stack: vec![Open::new(Kind::Root)],
            footnotes: Vec::new(),
            footnote_of: HashMap::new(),
            soft_break: false,
            nested: 0,
            links: 0,
        }
    }
}

impl Reader {
    fn finish(mut self, title: Option<String>) -> Document {
        while self.stack.len() > 1 {
            self.close();
        }
        let root = self.stack.pop().map(Open::into_blocks).unwrap_or_default();
        Document {
            title: title.clone(),
            heading: title,
            blocks: root,
            footnotes: self.footnotes,
            sources: Vec::new(),
        }
    }

    fn top(&mut self) -> &mut Open {
        let last = self.stack.len() - 1;
        &mut self.stack[last]
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            Event::Text(text) if matches!(self.top().kind, Kind::Code(_) | Kind::Html) => {
                self.top().text.push_str(&text);
            }
            Event::Text(text) => self.prose(&text),
            Event::Code(code) => self.inline(Inline::Code(code.into_string())),
            Event::InlineMath(tex) => self.math(&tex),
            Event::DisplayMath(tex) => self.inline(Inline::Math {
                tex: tex.trim().to_owned(),
                place: MathPlace::Display,
            }),
            Event::Html(html) => self.top().text.push_str(&html),
            Event::InlineHtml(html) => self.tag(&html),
            Event::FootnoteReference(label) => {
                let index = self.footnote(&label);
                self.inline(Inline::FootnoteRef(index));
            }
            Event::SoftBreak => self.soft_break = true,
            Event::HardBreak => self.inline(Inline::LineBreak),
            Event::Rule => self.block(Block::Rule),
            Event::TaskListMarker(done) => {
                let item = self.stack.iter_mut().rev().find_map(|open| match &mut open.kind {
                    Kind::Item(checked) => Some(checked),
                    _ => None,
                });
                if let Some(checked) = item {
                    *checked = Some(done);
                }
            }
        }
    }

    fn prose(&mut self, text: &str) {
        if std::mem::take(&mut self.soft_break) {
            let join = prose::join_of(prose::last_char(&self.top().inlines), text.chars().next());
            self.top().inlines.push(Inline::Text(join.to_owned()));
        }
        let addresses = if self.links > 0 {
            Addresses::Keep
        } else {
            Addresses::Link
        };
        for piece in loose_picture::split(text) {
            match piece {
                Inline::Text(text) => {
                    let inlines = prose::inlines(&prose::collapse(&text), addresses);
                    self.top().inlines.extend(inlines);
                }
                picture => self.top().inlines.push(picture),
            }
        }
    }

    /// A line break in the source is a space when something other than text follows.
    fn join_line(&mut self) {
        if std::mem::take(&mut self.soft_break) {
            self.top().inlines.push(Inline::Text(" ".to_owned()));
        }
    }

    fn inline(&mut self, inline: Inline) {
        self.join_line();
        self.top().inlines.push(inline);
    }

    fn block(&mut self, block: Block) {
        self.soft_break = false;
        let top = self.top();
        top.settle();
        top.blocks.push(block);
    }

    /// `$5-$` is money, not a formula: only what has a letter or an operator in it counts as math.
    fn math(&mut self, tex: &str) {
        let formula =
            tex.contains(|c: char| c.is_alphabetic() || matches!(c, '\\' | '^' | '=' | '+' | '<' | '>'));
        if formula {
            self.inline(Inline::Math {
                tex: tex.to_owned(),
                place: MathPlace::Line,
            });
        } else {
            self.prose(&format!("${tex}$"));
        }
    }

    fn tag(&mut self, html: &str) {
        match InlineTag::read(html) {
            inline_tag::Read::Open(tag) => {
                self.join_line();
                self.push(Kind::Tag(tag));
            }
            inline_tag::Read::Close(name) => {
                let matches = matches!(&self.top().kind, Kind::Tag(tag) if tag.name() == name);
                if matches {
                    self.close();
                }
            }
            inline_tag::Read::Whole(inline) => self.inline(inline),
            inline_tag::Read::Nothing => {}
            inline_tag::Read::Unknown => self.prose(html),
        }
    }

    fn footnote(&mut self, label: &str) -> usize {
        if let Some(&index) = self.footnote_of.get(label) {
            return index;
        }
        self.footnotes.push(Vec::new());
        self.footnote_of
            .insert(label.to_owned(), self.footnotes.len() - 1);
        self.footnotes.len() - 1
    }

    fn start(&mut self, tag: Tag<'_>) {
        let kind = match tag {
            Tag::Paragraph => {
                self.loosen();
                Kind::Paragraph
            }
            Tag::Heading { level, .. } => Kind::Heading(level as u8),
            Tag::BlockQuote(alert) => Kind::Quote(alert.map(alert_kind)),
            Tag::CodeBlock(CodeBlockKind::Fenced(info)) => Kind::Code(language(&info)),
            Tag::CodeBlock(CodeBlockKind::Indented) => Kind::Code(None),
            Tag::HtmlBlock => Kind::Html,
            Tag::List(start) => Kind::List {
                start,
                loose: false,
                items: Vec::new(),
            },
            Tag::Item => Kind::Item(None),
            Tag::FootnoteDefinition(label) => Kind::Footnote(self.footnote(&label)),
            Tag::Table(aligns) => Kind::Table(Table {
                aligns: aligns.into_iter().map(align).collect(),
                ..Table::default()
            }),
            Tag::TableHead => Kind::TableHead(Row::new()),
            Tag::TableRow => Kind::TableRow(Row::new()),
            Tag::TableCell => Kind::TableCell,
            Tag::Emphasis => Kind::Em,
            Tag::Strong => Kind::Strong,
            Tag::Strikethrough => Kind::Strike,
            Tag::Link { dest_url, .. } => Kind::Link(dest_url.into_string()),
            Tag::Image { dest_url, title, .. } => {
                let caption = (!title.is_empty()).then(|| title.into_string());
                Kind::Image {
                    reference: dest_url.into_string(),
                    caption,
                }
            }
            _ => Kind::Flat,
        };
        if matches!(
            kind,
            Kind::Em | Kind::Strong | Kind::Strike | Kind::Link(_) | Kind::Image { .. }
        ) {
            self.join_line();
        } else {
            self.soft_break = false;
            self.top().settle();
        }
        self.push(kind);
    }

    /// Blank lines between items show as paragraphs directly in an item.
    fn loosen(&mut self) {
        let depth = self.stack.len();
        if depth >= 2
            && matches!(self.stack[depth - 1].kind, Kind::Item(_))
            && let Kind::List { loose, .. } = &mut self.stack[depth - 2].kind
        {
            *loose = true;
        }
    }

    fn push(&mut self, kind: Kind) {
        let kind = if kind.nests() && self.nested >= MAX_NESTING {
            Kind::Flat
        } else {
            kind
        };
        self.nested += usize::from(kind.nests());
        self.links += usize::from(matches!(kind, Kind::Link(_)));
        self.stack.push(Open::new(kind));
    }

    fn end(&mut self, end: TagEnd) {
        let inline_end = matches!(
            end,
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Link | TagEnd::Image
        );
        if !inline_end {
            self.soft_break = false;
        }
        while matches!(self.top().kind, Kind::Tag(_)) {
            self.close();
        }
        self.close();
    }

    fn close(&mut self) {
        let Some(mut open) = self.stack.pop() else { return };
        self.nested -= usize::from(open.kind.nests());
        self.links -= usize::from(matches!(open.kind, Kind::Link(_)));
        match std::mem::replace(&mut open.kind, Kind::Flat) {
            Kind::Root | Kind::Flat => {
                let parent = self.top();
                parent.blocks.append(&mut open.blocks);
                parent.inlines.append(&mut open.inlines);
            }
            Kind::Paragraph => paragraphs(open.inlines)
                .into_iter()
                .for_each(|block| self.block(block)),
            Kind::Heading(level) => self.block(Block::Heading {
                level,
                inlines: open.inlines,
            }),
            Kind::Quote(alert) => {
                let blocks = open.into_blocks();
                self.block(match alert {
                    Some(kind) => Block::Alert { kind, blocks },
                    None => Block::Quote(blocks),
                });
            }
            Kind::Code(lang) => {
                let text = open.text.strip_suffix('\n').unwrap_or(&open.text).to_owned();
                self.block(Block::Code { lang, text });
            }
            Kind::Html => html::fragment(&open.text)
                .into_iter()
                .for_each(|block| self.block(block)),
            Kind::List { start, loose, items } => self.block(Block::List(List {
                start,
                tight: !loose,
                items,
            })),
            Kind::Item(checked) => self.close_item(checked, open.into_blocks()),
            Kind::Footnote(index) => self.footnotes[index] = open.into_blocks(),
            Kind::Table(table) => self.block(Block::Table(table)),
            Kind::TableHead(row) => self.close_row(row, Part::Head),
            Kind::TableRow(row) => self.close_row(row, Part::Body),
            Kind::TableCell => self.close_cell(open.into_blocks()),
            Kind::Em => self.top().inlines.push(Inline::Em(open.inlines)),
            Kind::Strong => self.top().inlines.push(Inline::Strong(open.inlines)),
            Kind::Strike => self.top().inlines.push(Inline::Strike(open.inlines)),
            Kind::Link(url) => self.top().inlines.push(Inline::Link {
                url,
                inlines: open.inlines,
            }),
            Kind::Image { reference, caption } => {
                let alt = plain_text(&open.inlines);
                self.top().inlines.push(Inline::Image(Image {
                    reference,
                    alt,
                    width: None,
                    caption,
                }));
            }
            Kind::Tag(tag) => {
                let inlines = tag.wrap(open.inlines);
                self.top().inlines.extend(inlines);
            }
        }
    }

    fn close_item(&mut self, checked: Option<bool>, mut blocks: Vec<Block>) {
        match &mut self.top().kind {
            Kind::List { items, .. } => items.push(ListItem { checked, blocks }),
            _ => self.top().blocks.append(&mut blocks),
        }
    }

    fn close_row(&mut self, row: Row, part: Part) {
        match (&mut self.top().kind, part) {
            (Kind::Table(table), Part::Head) => table.head.push(row),
            (Kind::Table(table), Part::Body) => table.rows.push(row),
            _ => {}
        }
    }

    fn close_cell(&mut self, blocks: Vec<Block>) {
        let header = matches!(self.top().kind, Kind::TableHead(_));
        if let Kind::TableHead(row) | Kind::TableRow(row) = &mut self.top().kind {
            let full = row.len() >= MAX_COLUMNS;
            match row.last_mut().filter(|_| full) {
                Some(last) => last.blocks.extend(blocks),
                None => row.push(Cell {
                    header,
                    ..Cell::new(blocks)
                }),
            }
        }
    }
}

enum Part {
    Head,
    Body,
}

fn align(alignment: Alignment) -> Align {
    match alignment {
        Alignment::None => Align::Auto,
        Alignment::Left => Align::Left,
        Alignment::Center => Align::Center,
        Alignment::Right => Align::Right,
    }
}

fn alert_kind(kind: BlockQuoteKind) -> AlertKind {
    match kind {
        BlockQuoteKind::Note => AlertKind::Note,
        BlockQuoteKind::Tip => AlertKind::Tip,
        BlockQuoteKind::Important => AlertKind::Important,
        BlockQuoteKind::Warning => AlertKind::Warning,
        BlockQuoteKind::Caution => AlertKind::Caution,
    }
}

/// The first word after the fence: `rust,ignore` and `{.python}` name rust and python.
fn language(info: &str) -> Option<String> {
    let word = info
        .trim_start_matches(['{', '.', ' '])
        .split([',', ' ', '}', ':', '\t'])
        .next()?;
    (!word.is_empty() && word.len() <= 40).then(|| word.to_ascii_lowercase())
}

#[cfg(test)]
mod tests;
