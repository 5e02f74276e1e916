//! The Typst code of a document: calls of the template's functions with string literals.
//!
//! Invariant: what an author wrote appears in the code only between quotes, escaped by [`literal`]. There is
//! no other way for text to get in, so there is nothing to inject into.

use std::fmt::Write as _;

use crate::doc::{
    Align, Block, Direction, Document, Image, Inline, Length, List, ListItem, MathPlace, Style, is_clickable,
};
use crate::fonts::Choice;
use crate::picture::Pictures;
use crate::request::{PageOptions, PngView, shorten};

use super::world::picture_path;

mod table;

/// Margin of a page in points.
const MARGIN_PT: f64 = 64.0;
/// Margin of a continuous picture in points.
const PICTURE_MARGIN_PT: f64 = 36.0;
/// CSS pixels to points.
const PT_PER_PX: f64 = 0.75;
/// A run of characters without a place to break a line, longer than a table column is wide.
const MAX_RUN_IN_CELL: usize = 24;
/// The same for a line of code.
const MAX_RUN_IN_CODE: usize = 78;

/// How the pages are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Sheets with page numbers.
    Sheets,
    /// One page as high as its content.
    Endless,
}

impl Pages {
    /// What a PNG view needs.
    pub(crate) fn for_view(view: PngView) -> Self {
        if view == PngView::Continuous {
            Self::Endless
        } else {
            Self::Sheets
        }
    }

    fn margin_pt(self) -> f64 {
        match self {
            Self::Sheets => MARGIN_PT,
            Self::Endless => PICTURE_MARGIN_PT,
        }
    }
}

/// Who finds the heights of a table's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heights {
    /// The writer of the code, where it can.
    Told,
    /// Typst, all of them.
    #[cfg(test)]
    Found,
}

/// The code of `document`.
pub(crate) fn write(
    document: &Document,
    pictures: &Pictures,
    fonts: &Choice<'_>,
    page: PageOptions,
    pages: Pages,
) -> String {
    Writer::new(document, pictures, fonts, page, pages).write(fonts, page, pages)
}

/// A Typst string literal. The only door for text.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // What a file may carry but no page can show.
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

struct Writer<'a> {
    out: String,
    document: &'a Document,
    pictures: &'a Pictures,
    text_width_pt: f64,
    text_height_pt: f64,
    footnotes_written: Vec<bool>,
    in_footnote: bool,
    in_cell: bool,
    /// Within a paragraph, where a formula is a part of the line.
    in_line: bool,
    /// Characters that a column of the table around it can hold.
    max_run_in_cell: usize,
    in_list: bool,
    emoji: Option<&'a str>,
    lang: &'a str,
    heights: Heights,
}

impl<'a> Writer<'a> {
    fn new(
        document: &'a Document,
        pictures: &'a Pictures,
        fonts: &'a Choice<'_>,
        page: PageOptions,
        pages: Pages,
    ) -> Self {
        let (width_pt, height_pt) = page.size_pt();
        let margin_pt = pages.margin_pt();
        Writer {
            out: String::new(),
            document,
            pictures,
            text_width_pt: width_pt - 2.0 * margin_pt,
            text_height_pt: height_pt - 2.0 * margin_pt,
            footnotes_written: vec![false; document.footnotes.len()],
            in_footnote: false,
            in_cell: false,
            in_line: false,
            max_run_in_cell: MAX_RUN_IN_CELL,
            in_list: false,
            emoji: fonts.emoji.as_deref(),
            lang: fonts.lang,
            heights: Heights::Told,
        }
    }

    fn write(mut self, fonts: &Choice<'_>, page: PageOptions, pages: Pages) -> String {
        self.head(fonts, page, pages);
        self.body();
        self.out
    }
}

impl Writer<'_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn head(&mut self, fonts: &Choice<'_>, page: PageOptions, pages: Pages) {
        let families = |list: &[String]| list.iter().map(|name| literal(name) + ", ").collect::<String>();
        let (width_pt, height_pt) = page.size_pt();
        let margin_pt = pages.margin_pt();
        let height = if pages == Pages::Sheets {
            format!("{height_pt}pt")
        } else {
            "auto".to_owned()
        };
        let _ = writeln!(
            self.out,
            "#import \"/template.typ\": *\n#show: report.with(lang: {}, body-fonts: ({}), \
             code-fonts: ({}), width: {width_pt}pt, height: {height}, margin: {margin_pt}pt, numbered: {})",
            literal(fonts.lang),
            families(&fonts.body),
            families(&fonts.code),
            pages == Pages::Sheets,
        );
    }

    fn body(&mut self) {
        let document = self.document;
        self.put("#{\n");
        if let Some(title) = &document.title {
            let call = format!("document-title({})\n", literal(title));
            self.put(&call);
        }
        if let Some(title) = document.printed_title() {
            let call = format!("title-block({})\n", literal(title));
            self.put(&call);
        }
        self.blocks(&document.blocks);
        if !document.sources.is_empty() {
            self.put("sources(\"Sources\", (\n");
            for source in &document.sources {
                let url = source
                    .url
                    .as_deref()
                    .filter(|url| is_clickable(url))
                    .map_or("none".to_owned(), literal);
                let _ = writeln!(self.out, "({}, {}, {url}),", source.sid, literal(&source.title));
            }
            self.put("))\n");
        }
        self.put("}\n");
    }

    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.block(block);
        }
    }

    /// One call on lines of its own, in code mode.
    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading { level, inlines } => {
                let _ = write!(self.out, "heading(level: {level})");
                self.content(inlines);
            }
            Block::Paragraph(inlines) => {
                // A formula on its own line is no part of a paragraph.
                let is_display = matches!(
                    inlines.as_slice(),
                    [Inline::Math {
                        place: MathPlace::Display,
                        ..
                    }]
                );
                let own = Direction::of(inlines)
                    .filter(|own| !self.in_cell && *own != Direction::of_language(self.lang));
                self.put(match own {
                    Some(Direction::RightToLeft) => "{ set text(dir: rtl); ",
                    Some(Direction::LeftToRight) => "{ set text(dir: ltr); ",
                    None => "",
                });
                self.put(if is_display { "" } else { "par" });
                let outer = std::mem::replace(&mut self.in_line, !is_display);
                self.content(inlines);
                self.in_line = outer;
                self.put(if own.is_some() { " }" } else { "" });
            }
            Block::List(list) => self.list(list),
            Block::Table(table) => self.table(table),
            Block::Code { lang, text } => {
                let lang = lang.as_deref().map_or("none".to_owned(), literal);
                let text = literal(&breakable(text, MAX_RUN_IN_CODE));
                let _ = write!(self.out, "raw(block: true, lang: {lang}, {text})");
            }
            Block::Image(image) => {
                self.put("figure-block(");
                self.image(image);
                if let Some(caption) = &image.caption {
                    let _ = write!(self.out, ", caption: {}", literal(caption));
                }
                self.put(")");
            }
            Block::Quote(blocks) => {
                self.put("quoted(");
                self.body_of(blocks);
                self.put(")");
            }
            Block::Alert { kind, blocks } => {
                let _ = write!(
                    self.out,
                    "alert({}, rgb(\"{}\"), rgb(\"{}\"), ",
                    literal(kind.label()),
                    kind.color().hex(),
                    kind.tint().hex()
                );
                self.body_of(blocks);
                self.put(")");
            }
            Block::Group { style, blocks } => {
                self.put("group(");
                self.group_style(style);
                self.body_of(blocks);
                self.put(")");
            }
            Block::Columns(columns) => self.columns(columns),
            Block::Rule => self.put("rule()"),
            Block::PageBreak => self.put("pagebreak(weak: true)"),
            Block::Notes(_) => return,
        }
        self.put("\n");
    }

    fn columns(&mut self, columns: &[Vec<Block>]) {
        let _ = write!(self.out, "side-by-side((1fr,) * {}, (", columns.len().clamp(1, 4));
        for column in columns {
            self.body_of(column);
            self.put(", ");
        }
        self.put("))");
    }

    /// Blocks as one argument: a lone paragraph stays inline, so that lists and cells are tight.
    fn body_of(&mut self, blocks: &[Block]) {
        match blocks {
            [] => self.put("[]"),
            [Block::Paragraph(inlines)] => self.content(inlines),
            [Block::Paragraph(inlines), rest @ ..] => {
                self.put("{\n");
                self.content(inlines);
                self.put("\n");
                if rest.iter().any(|block| !matches!(block, Block::List(_))) {
                    self.put("parbreak()\n");
                }
                self.blocks(rest);
                self.put("}");
            }
            blocks => {
                self.put("{\n");
                self.blocks(blocks);
                self.put("}");
            }
        }
    }

    fn list(&mut self, list: &List) {
        let was_in_list = std::mem::replace(&mut self.in_list, true);
        self.put(if was_in_list { "" } else { "spaced(" });
        match list.start {
            Some(start) => {
                let _ = write!(self.out, "enum(start: {start}, tight: {}, ", list.tight);
            }
            None => {
                let _ = write!(self.out, "list(tight: {}, ", list.tight);
                if list.items.iter().all(|item| item.checked.is_some()) {
                    self.put("marker: none, body-indent: 0pt, ");
                }
            }
        }
        for item in &list.items {
            self.list_item(item);
            self.put(", ");
        }
        self.put(if was_in_list { ")" } else { "))" });
        self.in_list = was_in_list;
    }

    fn list_item(&mut self, item: &ListItem) {
        if let Some(done) = item.checked {
            let _ = write!(self.out, "checkbox({done}) + ");
        }
        self.body_of(&item.blocks);
    }

    fn group_style(&mut self, style: &Style) {
        for (name, color) in [
            ("fill", style.background),
            ("border", style.border),
            ("color", style.color),
        ] {
            if let Some(color) = color {
                let _ = write!(self.out, "{name}: rgb(\"{}\"), ", color.hex());
            }
        }
        if let Some(bold) = style.bold {
            self.put(if bold {
                "weight: \"bold\", "
            } else {
                "weight: \"regular\", "
            });
        }
        if let Some(italic) = style.italic {
            self.put(if italic {
                "style: \"italic\", "
            } else {
                "style: \"normal\", "
            });
        }
        if let Some(percent) = style.size_percent {
            let _ = write!(self.out, "size: {}em, ", f64::from(percent) / 100.0);
        }
        if let Some(own) = style.align {
            let _ = write!(self.out, "alignment: {}, ", align(own));
        }
    }

    /// `[…]`: inlines in markup mode, where nothing but our own `#` calls stands.
    fn content(&mut self, inlines: &[Inline]) {
        self.put("[");
        for inline in inlines {
            self.inline(inline);
        }
        self.put("]");
    }

    fn inline(&mut self, inline: &Inline) {
        match inline {
            Inline::Text(text) if text.is_empty() => {}
            Inline::Text(text) => {
                let text = if self.in_cell {
                    breakable(text, self.max_run_in_cell)
                } else {
                    text.clone()
                };
                self.text(&text);
            }
            Inline::Strong(inner) => self.call("strong", inner),
            Inline::Em(inner) => self.call("emph", inner),
            Inline::Strike(inner) => self.call("strike", inner),
            Inline::Underline(inner) => self.call("underline", inner),
            Inline::Sub(inner) => self.call("sub(typographic: false)", inner),
            Inline::Sup(inner) => self.call("super(typographic: false)", inner),
            Inline::Math { tex, place } if let Some(formula) = crate::math::parse(tex) => {
                self.formula(tex, &formula, *place);
            }
            Inline::Code(text) | Inline::Math { tex: text, .. } => {
                let run = if self.in_cell {
                    self.max_run_in_cell
                } else {
                    MAX_RUN_IN_CODE
                };
                let function = if self.in_cell { "raw" } else { "inline-code" };
                let text = literal(&breakable(&text.replace('\n', " "), run));
                let _ = write!(self.out, "#{function}({text});");
            }
            Inline::Link { url, inlines } if is_clickable(url) => {
                self.call(&format!("link({})", literal(url)), inlines);
            }
            Inline::Link { inlines, .. } => inlines.iter().for_each(|inline| self.inline(inline)),
            Inline::Image(image) => {
                self.put("#box(");
                self.image(image);
                self.put(");");
            }
            Inline::Cite(sids) => self.cite(sids),
            Inline::LineBreak => self.put("#linebreak();"),
            Inline::FootnoteRef(index) => self.footnote(*index),
            Inline::Span { style, inlines } => self.span(style, inlines),
        }
    }

    fn formula(&mut self, tex: &str, formula: &crate::math::Node, place: MathPlace) {
        // Typst drops a block within a paragraph.
        let is_display = place == MathPlace::Display && !self.in_line;
        let (alt, body) = (literal(tex), super::math::code(formula));
        let _ = write!(
            self.out,
            "#math.equation(block: {is_display}, alt: {alt}, {body});"
        );
    }

    /// `⚠` followed by U+FE0F asks for the picture, which a text font's own `⚠` would hide.
    fn text(&mut self, text: &str) {
        const PICTURE: char = '\u{fe0f}';
        let mut rest = text;
        while let Some(emoji) = self.emoji
            && let Some(at) = rest.find(PICTURE)
        {
            let start = rest[..at]
                .char_indices()
                .next_back()
                .map_or(0, |(start, _)| start);
            let end = at + PICTURE.len_utf8();
            let end = end + sequel(&rest[end..]);
            if start > 0 {
                let _ = write!(self.out, "#{};", literal(&rest[..start]));
            }
            let _ = write!(
                self.out,
                "#text(font: {}, {});",
                literal(emoji),
                literal(&rest[start..end])
            );
            rest = &rest[end..];
        }
        if !rest.is_empty() {
            let _ = write!(self.out, "#{};", literal(rest));
        }
    }

    fn call(&mut self, function: &str, inlines: &[Inline]) {
        let _ = write!(self.out, "#{function}");
        self.content(inlines);
        self.put(";");
    }

    fn cite(&mut self, sids: &[u32]) {
        let known = |sid: &u32| self.document.sources.iter().any(|source| source.sid == *sid);
        let marks: String = sids
            .iter()
            .map(|sid| format!("({sid}, {}), ", known(sid)))
            .collect();
        let _ = write!(self.out, "#cited({marks});");
    }

    /// The first mention carries the text, later ones point to it; a note within a note is only a number.
    fn footnote(&mut self, index: usize) {
        let document = self.document;
        let Some(blocks) = document.footnotes.get(index) else {
            return;
        };
        if self.in_footnote {
            let _ = write!(self.out, "#super({});", literal(&(index + 1).to_string()));
        } else if std::mem::replace(&mut self.footnotes_written[index], true) {
            let _ = write!(self.out, "#footnote(<note-{index}>);");
        } else {
            self.in_footnote = true;
            self.put("#[#footnote(");
            self.body_of(blocks);
            let _ = write!(self.out, ")<note-{index}>];");
            self.in_footnote = false;
        }
    }

    fn span(&mut self, style: &Style, inlines: &[Inline]) {
        let background = style
            .background
            .map(|fill| format!("highlight(fill: rgb(\"{}\"), extent: 1pt)", fill.hex()));
        let mut text = String::new();
        if let Some(color) = style.color {
            let _ = write!(text, "fill: rgb(\"{}\"), ", color.hex());
        }
        if let Some(bold) = style.bold {
            text.push_str(if bold {
                "weight: \"bold\", "
            } else {
                "weight: \"regular\", "
            });
        }
        if let Some(italic) = style.italic {
            text.push_str(if italic {
                "style: \"italic\", "
            } else {
                "style: \"normal\", "
            });
        }
        if let Some(percent) = style.size_percent {
            let _ = write!(text, "size: {}em, ", f64::from(percent) / 100.0);
        }
        let text = format!("text({text})");
        match background {
            Some(background) => {
                let _ = write!(self.out, "#{background}[");
                self.call(&text, inlines);
                self.put("];");
            }
            None => self.call(&text, inlines),
        }
    }

    /// An expression in code mode: the picture, fitted to the space, or its placeholder.
    fn image(&mut self, image: &Image) {
        let Some((index, picture)) = self.pictures.get(&image.reference) else {
            let name = if image.reference.starts_with("data:") {
                &image.alt
            } else {
                &image.reference
            };
            let _ = write!(self.out, "placeholder({})", literal(&shorten(name)));
            return;
        };
        let (available, natural) = (self.text_width_pt, picture.width_px * PT_PER_PX);
        let ratio = picture.height_px / picture.width_px;
        let wanted = match image.width {
            Some(Length::Px(px)) => px * PT_PER_PX,
            Some(Length::Percent(percent)) => available * percent.clamp(1.0, 100.0) / 100.0,
            None => natural,
        };
        let highest = self.text_height_pt * 0.85;
        let width = wanted.clamp(1.0, available).min(highest / ratio);
        let size = if self.in_cell {
            format!(
                "width: {}",
                if image.width.is_some() {
                    format!("{width:.1}pt")
                } else {
                    "auto".into()
                }
            )
        } else if (width - available).abs() < 0.5 {
            "width: 100%".to_owned()
        } else {
            format!("width: {width:.1}pt")
        };
        let (path, format, alt) = (
            literal(&picture_path(index)),
            literal(picture.kind.name()),
            literal(&image.alt),
        );
        let _ = write!(self.out, "picture({path}, {format}, {alt}, {size})");
    }
}

fn align(align: Align) -> &'static str {
    match align {
        Align::Auto => "auto",
        Align::Left => "left",
        Align::Center => "center",
        Align::Right => "right",
    }
}

/// The bytes that belong to the emoji before `text`: a keycap, a colour of skin, and what is joined to it.
fn sequel(text: &str) -> usize {
    const JOINER: char = '\u{200d}';
    let mut length = 0;
    let mut is_joined = false;
    for c in text.chars() {
        let belongs = matches!(c, '\u{20e3}' | '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' | JOINER);
        if !belongs && !is_joined {
            break;
        }
        is_joined = c == JOINER;
        length += c.len_utf8();
    }
    length
}

/// Puts invisible places to break a line into runs of more than `longest` characters: text that leaves the
/// page is lost.
fn breakable(text: &str, longest: usize) -> String {
    const BREAK: char = '\u{200b}';
    let mut out = String::with_capacity(text.len());
    let mut run = 0;
    for c in text.chars() {
        if c.is_whitespace() || crate::prose::is_cjk(c) {
            run = 0;
        } else if run >= longest {
            out.push(BREAK);
            run = 0;
        }
        out.push(c);
        run += 1;
        if run * 2 > longest && matches!(c, '/' | '_' | '-' | '.' | ',' | ':' | '&' | '=' | '?') {
            out.push(BREAK);
            run = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests;
