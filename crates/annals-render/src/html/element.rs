//! Elements → blocks and inlines.
//!
//! One recursive walk. Inline content is collected until a block begins; then it becomes a paragraph. Depth is
//! bounded twice: elements below [`MAX_DOM_DEPTH`] contribute their text only, and boxes nested deeper than
//! the model allows lose their box.

use markup5ever_rcdom::{Handle, NodeData};

use crate::citation;
use crate::doc::{Align, Block, Inline, Length, List, ListItem, Style, TableWidth, plain_text};
use crate::limits::MAX_NESTING;
use crate::prose::{self, Addresses};

use super::css::{Computed, Display, Sheet};
use super::picture::{image, vector_image};
use super::{attr, tag, text_of, trim_inlines};

/// Elements within elements that are looked into.
pub(super) const MAX_DOM_DEPTH: usize = 120;

/// Walks a tree with one style sheet.
pub(super) struct Reader<'a> {
    pub(super) sheet: &'a Sheet,
    pub(super) ancestors: Vec<Handle>,
    boxes: usize,
    in_link: bool,
}

/// What has been read of one container.
#[derive(Default)]
pub(super) struct Flow {
    blocks: Vec<Block>,
    inlines: Vec<Inline>,
}

impl Flow {
    fn block(&mut self, block: Block) {
        self.settle();
        self.blocks.push(block);
    }

    fn settle(&mut self) {
        let inlines = trim_inlines(std::mem::take(&mut self.inlines));
        let mut visible = inlines
            .iter()
            .filter(|inline| !matches!(inline, Inline::Text(text) if text.trim().is_empty()));
        match (visible.next(), visible.next()) {
            (None, _) => {}
            (Some(Inline::Image(image)), None) => self.blocks.push(Block::Image(image.clone())),
            _ => self.blocks.push(Block::Paragraph(inlines)),
        }
    }

    pub(super) fn into_blocks(mut self) -> Vec<Block> {
        self.settle();
        self.blocks
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(sheet: &'a Sheet) -> Self {
        Self {
            sheet,
            ancestors: Vec::new(),
            boxes: 0,
            in_link: false,
        }
    }

    /// The blocks below `root`.
    pub(super) fn read(mut self, root: &Handle) -> Vec<Block> {
        let mut flow = Flow::default();
        self.children(root, &mut flow);
        flow.into_blocks()
    }

    fn children(&mut self, node: &Handle, flow: &mut Flow) {
        self.ancestors.push(node.clone());
        for child in node.children.borrow().iter() {
            self.node(child, flow);
        }
        self.ancestors.pop();
    }

    pub(super) fn blocks_of(&mut self, node: &Handle) -> Vec<Block> {
        let mut flow = Flow::default();
        self.children(node, &mut flow);
        flow.into_blocks()
    }

    /// Inline content; blocks within it (a `<div>` in a `<span>`) are flattened to their text.
    fn inlines_of(&mut self, node: &Handle) -> Vec<Inline> {
        let mut flow = Flow::default();
        self.children(node, &mut flow);
        let mut inlines: Vec<Inline> = Vec::new();
        for block in flow.blocks {
            if !inlines.is_empty() {
                inlines.push(Inline::LineBreak);
            }
            match block {
                Block::Paragraph(inner) | Block::Heading { inlines: inner, .. } => inlines.extend(inner),
                Block::Image(image) => inlines.push(Inline::Image(image)),
                Block::Code { text, .. } => inlines.push(Inline::Code(text)),
                other => inlines.push(Inline::Text(block_text(&other))),
            }
        }
        inlines.extend(flow.inlines);
        inlines
    }

    pub(super) fn node(&mut self, node: &Handle, flow: &mut Flow) {
        match &node.data {
            NodeData::Text { contents } => self.text(&contents.borrow(), flow),
            NodeData::Comment { contents } => comment(contents, flow),
            NodeData::Element { .. } if self.ancestors.len() > MAX_DOM_DEPTH => {
                self.text(&text_of(node), flow)
            }
            NodeData::Element { .. } => self.element(node, flow),
            _ => {}
        }
    }

    fn text(&mut self, text: &str, flow: &mut Flow) {
        let text = prose::collapse(text);
        let after_space = match flow.inlines.last() {
            None | Some(Inline::LineBreak) => true,
            Some(_) => prose::last_char(&flow.inlines) == Some(' '),
        };
        let text = if after_space {
            text.trim_start_matches(' ')
        } else {
            &text
        };
        let addresses = if self.in_link {
            Addresses::Keep
        } else {
            Addresses::Link
        };
        flow.inlines.extend(prose::inlines(text, addresses));
    }

    fn element(&mut self, node: &Handle, flow: &mut Flow) {
        let Some(name) = tag(node).map(str::to_owned) else {
            return;
        };
        let computed = self.sheet.compute(node, &self.ancestors);
        if computed.display == Display::None || attr(node, "hidden").is_some() {
            return;
        }
        match name.as_str() {
            "script" | "style" | "head" | "template" | "noscript" | "iframe" | "object" | "embed"
            | "video" | "audio" | "canvas" | "select" | "textarea" | "link" | "meta" => {}
            "br" => flow.inlines.push(Inline::LineBreak),
            "wbr" => {}
            "hr" => flow.block(Block::Rule),
            "img" => flow.inlines.extend(image(node, &computed).map(Inline::Image)),
            "svg" => flow.inlines.push(Inline::Image(vector_image(node, &computed))),
            "input" => checkbox(node, flow),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.heading(node, &name, &computed, flow),
            "p" | "summary" | "figcaption" | "dt" | "caption" | "legend" => {
                self.paragraph(node, &name, &computed, flow)
            }
            "ul" | "ol" | "menu" => self.boxed(&computed, flow, |reader| vec![reader.list(node)]),
            "table" => {
                let width = table_width(node, &computed);
                self.boxed(&computed, flow, |reader| reader.table(node, width));
            }
            "pre" => self.boxed(
                &Computed {
                    style: Style::default(),
                    ..computed
                },
                flow,
                |_| vec![code(node)],
            ),
            "blockquote" => {
                let plain = Computed {
                    style: Style {
                        border: None,
                        ..computed.style
                    },
                    ..computed
                };
                self.boxed(&plain, flow, |reader| vec![Block::Quote(reader.blocks_of(node))]);
            }
            "dd" => self.boxed(&computed, flow, |reader| {
                vec![Block::List(List {
                    start: None,
                    tight: true,
                    items: vec![ListItem {
                        checked: None,
                        blocks: reader.blocks_of(node),
                    }],
                })]
            }),
            "center" => {
                let style = Style {
                    align: Some(Align::Center),
                    ..computed.style
                };
                self.boxed(&Computed { style, ..computed }, flow, |reader| {
                    reader.blocks_of(node)
                });
            }
            name if is_block(name) => self.container(node, &computed, flow),
            name => self.phrase(node, name, &computed, flow),
        }
    }

    /// Runs `content` and puts its blocks into the flow, in a box when the style asks for one.
    fn boxed(&mut self, computed: &Computed, flow: &mut Flow, content: impl FnOnce(&mut Self) -> Vec<Block>) {
        let too_deep = self.boxes >= MAX_NESTING;
        self.boxes += 1;
        let blocks = content(self);
        self.boxes -= 1;
        flow.settle();
        if computed.break_before {
            flow.block(Block::PageBreak);
        }
        match too_deep {
            true => flow.blocks.extend(blocks.into_iter().flat_map(unboxed)),
            false if computed.style.is_plain() || blocks.is_empty() => flow.blocks.extend(blocks),
            false => flow.block(Block::Group {
                style: computed.style,
                blocks,
            }),
        }
        if computed.break_after {
            flow.block(Block::PageBreak);
        }
    }

    fn heading(&mut self, node: &Handle, name: &str, computed: &Computed, flow: &mut Flow) {
        let level = name.as_bytes()[1] - b'0';
        let style = Style {
            bold: None,
            size_percent: None,
            ..computed.style
        };
        self.boxed(&Computed { style, ..*computed }, flow, |reader| {
            let inlines = trim_inlines(reader.inlines_of(node));
            if inlines.is_empty() {
                Vec::new()
            } else {
                vec![Block::Heading { level, inlines }]
            }
        });
    }

    fn paragraph(&mut self, node: &Handle, name: &str, computed: &Computed, flow: &mut Flow) {
        let mut style = computed.style;
        match name {
            "summary" | "dt" | "legend" => style.bold = style.bold.or(Some(true)),
            "figcaption" | "caption" => {
                style.align = style.align.or(Some(Align::Center));
                style.color = style.color.or(Some(crate::doc::Rgb(0x5c, 0x64, 0x70)));
            }
            _ => {}
        }
        self.boxed(&Computed { style, ..*computed }, flow, |reader| {
            reader.blocks_of(node)
        });
    }

    fn container(&mut self, node: &Handle, computed: &Computed, flow: &mut Flow) {
        self.boxed(computed, flow, |reader| {
            if computed.display != Display::Row {
                return reader.blocks_of(node);
            }
            let columns = reader.columns(node);
            match columns.len() {
                0 | 1 => columns.into_iter().flatten().collect(),
                _ => vec![Block::Columns(columns)],
            }
        });
    }

    /// The children of a flex or grid container, each a box of its own.
    fn columns(&mut self, node: &Handle) -> Vec<Vec<Block>> {
        self.ancestors.push(node.clone());
        let mut columns = Vec::new();
        for child in node.children.borrow().iter() {
            let mut flow = Flow::default();
            self.node(child, &mut flow);
            let blocks = flow.into_blocks();
            if !blocks.is_empty() {
                columns.push(blocks);
            }
        }
        self.ancestors.pop();
        columns
    }

    fn phrase(&mut self, node: &Handle, name: &str, computed: &Computed, flow: &mut Flow) {
        if name == "sup"
            && let Some(sids) = attr(node, "data-sids").and_then(|sids| citation::sids(&sids))
        {
            flow.inlines.push(Inline::Cite(sids));
            return;
        }
        if contains_block(node, 0) {
            return self.container(node, computed, flow);
        }
        let was_in_link = self.in_link;
        self.in_link |= name == "a";
        let inner = self.inlines_of(node);
        self.in_link = was_in_link;
        if inner.is_empty() {
            return;
        }
        let mut inlines = match name {
            "b" | "strong" | "th" => vec![Inline::Strong(inner)],
            "i" | "em" | "cite" | "var" | "dfn" => vec![Inline::Em(inner)],
            "u" | "ins" => vec![Inline::Underline(inner)],
            "s" | "del" | "strike" => vec![Inline::Strike(inner)],
            "code" | "kbd" | "samp" | "tt" => vec![Inline::Code(plain_text(&inner))],
            "sub" => vec![Inline::Sub(inner)],
            "sup" => vec![Inline::Sup(inner)],
            "q" => [
                vec![Inline::Text("“".into())],
                inner,
                vec![Inline::Text("”".into())],
            ]
            .concat(),
            "a" => vec![Inline::Link {
                url: attr(node, "href").unwrap_or_default(),
                inlines: inner,
            }],
            "mark" => vec![Inline::Span {
                style: Style::marked(),
                inlines: inner,
            }],
            _ => inner,
        };
        let mut style = Style {
            align: None,
            border: None,
            ..computed.style
        };
        if let Some(color) = attr(node, "color")
            .filter(|_| name == "font")
            .and_then(|value| super::css::color(&value))
        {
            style.color = Some(color);
        }
        if !style.is_plain() {
            inlines = vec![Inline::Span { style, inlines }];
        }
        flow.inlines.extend(inlines);
    }

    fn list(&mut self, node: &Handle) -> Block {
        let start = attr(node, "start")
            .and_then(|start| start.parse().ok())
            .unwrap_or(1);
        let ordered = tag(node) == Some("ol");
        let mut items: Vec<ListItem> = Vec::new();
        self.ancestors.push(node.clone());
        for child in node.children.borrow().iter() {
            match tag(child) {
                Some("li") => {
                    let computed = self.sheet.compute(child, &self.ancestors);
                    let mut flow = Flow::default();
                    let item = Computed {
                        style: Style {
                            background: None,
                            border: None,
                            ..computed.style
                        },
                        ..computed
                    };
                    self.boxed(&item, &mut flow, |reader| reader.blocks_of(child));
                    items.push(list_item(flow.into_blocks()));
                }
                Some(_) => {
                    let mut flow = Flow::default();
                    self.node(child, &mut flow);
                    let blocks = flow.into_blocks();
                    match items.last_mut() {
                        Some(last) => last.blocks.extend(blocks),
                        None => items.push(ListItem {
                            checked: None,
                            blocks,
                        }),
                    }
                }
                None => {}
            }
        }
        self.ancestors.pop();
        let loose = |item: &ListItem| {
            item.blocks
                .iter()
                .filter(|block| matches!(block, Block::Paragraph(_)))
                .count()
                > 1
        };
        let tight = !items.iter().any(loose);
        Block::List(List {
            start: ordered.then_some(start),
            tight,
            items,
        })
    }
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "html"
            | "body"
            | "div"
            | "section"
            | "article"
            | "main"
            | "header"
            | "footer"
            | "nav"
            | "aside"
            | "figure"
            | "form"
            | "fieldset"
            | "address"
            | "details"
            | "dl"
            | "hgroup"
            | "search"
            | "li"
            | "tr"
            | "td"
            | "th"
    )
}

fn contains_block(node: &Handle, depth: usize) -> bool {
    let is_block_like = |name: &str| {
        is_block(name)
            || matches!(
                name,
                "p" | "ul" | "ol" | "table" | "pre" | "blockquote" | "h1" | "h2" | "h3" | "h4" | "hr"
            )
    };
    depth < 8
        && node
            .children
            .borrow()
            .iter()
            .any(|child| tag(child).is_some_and(is_block_like) || contains_block(child, depth + 1))
}

fn unboxed(block: Block) -> Vec<Block> {
    match block {
        Block::Quote(blocks) | Block::Alert { blocks, .. } | Block::Group { blocks, .. } => blocks,
        Block::List(list) => list.items.into_iter().flat_map(|item| item.blocks).collect(),
        Block::Columns(columns) => columns.into_iter().flatten().collect(),
        other => vec![other],
    }
}

fn block_text(block: &Block) -> String {
    let document = crate::doc::Document {
        blocks: vec![block.clone()],
        ..Default::default()
    };
    let mut out = String::new();
    crate::visit::leaves(&document, &mut |leaf| {
        use crate::visit::Leaf;
        if let Leaf::Text(text) | Leaf::Code(text) | Leaf::Listing { text, .. } = leaf {
            out.push_str(text);
            out.push(' ');
        }
    });
    out
}

/// A checkbox at the start of an item belongs to the item.
fn list_item(mut blocks: Vec<Block>) -> ListItem {
    let mut checked = None;
    if let Some(Block::Paragraph(inlines)) = blocks.first_mut()
        && let Some(Inline::Text(text)) = inlines.first_mut()
    {
        for (mark, done) in [("☑", true), ("☐", false)] {
            if let Some(rest) = text.strip_prefix(mark) {
                checked = Some(done);
                *text = rest.trim_start().to_owned();
                break;
            }
        }
    }
    ListItem { checked, blocks }
}

fn table_width(node: &Handle, computed: &Computed) -> TableWidth {
    let is_wide = matches!(computed.width, Some(Length::Percent(percent)) if percent > 90.0);
    match is_wide || attr(node, "width").is_some_and(|width| width.trim() == "100%") {
        true => TableWidth::Full,
        false => TableWidth::Natural,
    }
}

fn checkbox(node: &Handle, flow: &mut Flow) {
    match attr(node, "type").as_deref() {
        Some("checkbox" | "radio") => {
            let mark = if attr(node, "checked").is_some() {
                "☑ "
            } else {
                "☐ "
            };
            flow.inlines.push(Inline::Text(mark.to_owned()));
        }
        Some("hidden") => {}
        _ => flow.inlines.extend(attr(node, "value").map(Inline::Text)),
    }
}

/// `<!-- notes: … -->` is for the speaker, `<!-- pagebreak -->` for the printer; others are for nobody.
fn comment(text: &str, flow: &mut Flow) {
    let text = text.trim();
    let lower = text.to_ascii_lowercase();
    if matches!(
        lower.as_str(),
        "pagebreak" | "page break" | "newpage" | "page-break"
    ) {
        flow.block(Block::PageBreak);
    }
    for prefix in ["notes:", "note:", "speaker notes:"] {
        if lower.starts_with(prefix) {
            flow.block(Block::Notes(text[prefix.len()..].trim().to_owned()));
            return;
        }
    }
}

fn code(node: &Handle) -> Block {
    let text = text_of(node);
    let text = text
        .strip_prefix('\n')
        .unwrap_or(&text)
        .trim_end_matches('\n')
        .to_owned();
    let inner = node
        .children
        .borrow()
        .iter()
        .find(|child| tag(child) == Some("code"))
        .cloned();
    let classes = inner
        .and_then(|inner| attr(&inner, "class"))
        .or_else(|| attr(node, "class"))
        .unwrap_or_default();
    let lang = classes.split_whitespace().find_map(|class| {
        class
            .strip_prefix("language-")
            .or_else(|| class.strip_prefix("lang-"))
            .map(str::to_ascii_lowercase)
    });
    Block::Code { lang, text }
}
