//! [`Document`] → DOCX that Word and LibreOffice open without repair.
//!
//! Paragraphs are flat in WordprocessingML: a list, a quote or a box is a property of its paragraphs. The walk
//! therefore carries a [`Place`] down and writes it into every paragraph it meets.

mod notes;
mod run;
mod styles;
mod table;

use std::fmt::Write as _;

use crate::doc::{
    Align, Block, Direction, Document, Image, Inline, Length, List, ListItem, MathPlace, Style, is_clickable,
};
use crate::fonts;
use crate::highlight;
use crate::ooxml::{EMU_PER_PX, OfficePicture, Package, Relations, XML_HEAD, escape};
use crate::picture::Pictures;
use crate::request::{PageOptions, RenderError, shorten};
use crate::visit;
use run::RunLook;
use styles::{BULLETS, CODE_INSET, LIST_INDENT, NAMESPACES, NumberedList, QUOTE_INDENT};

/// The media type.
pub(crate) const MIME: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/// Margins in twentieths of a point.
const MARGIN: f64 = 1280.0;
const EMU_PER_TWIP: f64 = 635.0;

/// Space behind a list in twentieths of a point, as behind a paragraph.
const AFTER_LIST: usize = 140;

/// Writes the file.
pub(crate) fn write(
    document: &Document,
    pictures: &Pictures,
    office: &[OfficePicture],
    page: PageOptions,
) -> Result<Vec<u8>, RenderError> {
    let (width_pt, height_pt) = page.size_pt();
    let mut relations = Relations::default();
    for kind in ["styles", "numbering", "settings", "footnotes"] {
        relations.part(kind, &format!("{kind}.xml"));
    }
    let footer = relations.part("footer", "footer1.xml");
    let picture_ids = (0..office.len())
        .map(|index| {
            relations.part(
                "image",
                &format!("media/image{index}.{}", office[index].extension),
            )
        })
        .collect();
    let mut writer = Writer {
        out: String::new(),
        document,
        pictures,
        office,
        picture_ids,
        relations,
        numbered: Vec::new(),
        notes: vec![None; document.footnotes.len()],
        notes_seen: 0,
        open_notes: Vec::new(),
        next_drawing: 1,
        text_width: width_pt * 20.0 - 2.0 * MARGIN,
        text_height: height_pt * 20.0 - 2.0 * MARGIN,
    };
    writer.body();
    let notes = writer.footnotes();
    let body = format!(
        "{XML_HEAD}<w:document {NAMESPACES}><w:body>{}<w:sectPr><w:footerReference w:type=\"default\" \
         r:id=\"{footer}\"/><w:pgSz w:w=\"{:.0}\" w:h=\"{:.0}\"/><w:pgMar w:top=\"{MARGIN}\" w:right=\"{MARGIN}\" \
         w:bottom=\"{MARGIN}\" w:left=\"{MARGIN}\" w:header=\"600\" w:footer=\"600\" w:gutter=\"0\"/></w:sectPr>\
         </w:body></w:document>",
        writer.out,
        width_pt * 20.0,
        height_pt * 20.0
    );
    let language = fonts::language(&visit::characters(document));
    let mut package = Package::default();
    package.properties(document.title.as_deref());
    package.part("word/document.xml", concat_type("document.main"), body);
    package.part("word/styles.xml", concat_type("styles"), styles::styles(language));
    package.part(
        "word/numbering.xml",
        concat_type("numbering"),
        styles::numbering(&writer.numbered),
    );
    package.part("word/settings.xml", concat_type("settings"), styles::settings());
    package.part("word/footer1.xml", concat_type("footer"), styles::footer());
    package.part(
        "word/footnotes.xml",
        concat_type("footnotes"),
        styles::footnotes(&notes.0),
    );
    package.plain("word/_rels/footnotes.xml.rels", notes.1.into_xml().into_bytes());
    package.plain(
        "word/_rels/document.xml.rels",
        writer.relations.into_xml().into_bytes(),
    );
    for (index, picture) in office.iter().enumerate() {
        package.plain(
            format!("word/media/image{index}.{}", picture.extension),
            picture.bytes.clone(),
        );
    }
    package.finish("word/document.xml")
}

fn concat_type(part: &str) -> &'static str {
    match part {
        "document.main" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
        "styles" => "application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml",
        "numbering" => "application/vnd.openxmlformats-officedocument.wordprocessingml.numbering+xml",
        "settings" => "application/vnd.openxmlformats-officedocument.wordprocessingml.settings+xml",
        "footer" => "application/vnd.openxmlformats-officedocument.wordprocessingml.footer+xml",
        _ => "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml",
    }
}

/// What the surroundings say about a paragraph.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Paragraph style, `None` for Normal.
    style: Option<&'static str>,
    /// Lists around it.
    lists: usize,
    /// Quotes around it.
    quotes: usize,
    /// The number and level to show; only the first paragraph of an item has one.
    number: Option<(usize, usize)>,
    /// The look of the boxes around it.
    look: Style,
    /// Inside a table cell.
    in_cell: bool,
    /// The size of its text, when it is not the style's.
    half_points: Option<usize>,
    /// It is the last of the outermost list, which keeps a distance to what follows.
    ends_list: bool,
}

impl Place {
    /// How far it stands from the margin, in twentieths of a point.
    fn left(&self) -> usize {
        LIST_INDENT * self.lists + QUOTE_INDENT * self.quotes
    }

    /// What its style or its number does not say of its indent.
    fn indent(&self) -> String {
        let inset = if self.style == Some("Code") { CODE_INSET } else { 0 };
        match self.number {
            Some(_) if self.quotes > 0 => {
                format!("<w:ind w:left=\"{}\" w:hanging=\"{LIST_INDENT}\"/>", self.left())
            }
            None if self.lists > 0 || self.quotes > 1 || (self.quotes > 0 && inset > 0) => {
                format!("<w:ind w:left=\"{}\"/>", self.left() + inset)
            }
            _ => String::new(),
        }
    }
}

struct Writer<'a> {
    out: String,
    document: &'a Document,
    pictures: &'a Pictures,
    office: &'a [OfficePicture],
    picture_ids: Vec<String>,
    relations: Relations,
    numbered: Vec<NumberedList>,
    /// The number each footnote got at its first mention.
    notes: Vec<Option<usize>>,
    notes_seen: usize,
    /// The notes that are being written, one within the other.
    open_notes: Vec<usize>,
    next_drawing: usize,
    /// Twentieths of a point.
    text_width: f64,
    text_height: f64,
}

impl Writer<'_> {
    fn body(&mut self) {
        let document = self.document;
        if let Some(title) = document.printed_title() {
            let place = Place {
                style: Some("Title"),
                ..Place::default()
            };
            self.paragraph(&[Inline::Text(title.to_owned())], place);
        }
        self.blocks(&document.blocks, Place::default());
        if document.sources.is_empty() {
            return;
        }
        self.paragraph(
            &[Inline::Text("Sources".to_owned())],
            Place {
                style: Some("Heading2"),
                ..Place::default()
            },
        );
        for source in &document.sources {
            let _ = write!(
                self.out,
                "<w:p><w:pPr><w:spacing w:after=\"80\"/><w:ind w:left=\"480\" w:hanging=\"480\"/></w:pPr>\
                 <w:bookmarkStart w:id=\"{0}\" w:name=\"source_{0}\"/><w:r><w:t>[{0}]</w:t></w:r>\
                 <w:bookmarkEnd w:id=\"{0}\"/><w:r><w:tab/></w:r>",
                source.sid
            );
            run::text(&mut self.out, &source.title, &RunLook::default());
            if let Some(url) = source.url.as_deref().filter(|url| is_clickable(url)) {
                self.out.push_str("<w:r><w:br/></w:r>");
                let label = [Inline::Text(url.to_owned())];
                self.link(url, &label, RunLook::default());
            }
            self.out.push_str("</w:p>");
        }
    }

    fn blocks(&mut self, blocks: &[Block], place: Place) {
        let ends_list = place.ends_list;
        let mut place = place;
        let mut after_code = false;
        for (index, block) in blocks.iter().enumerate() {
            place.ends_list = ends_list && index + 1 == blocks.len();
            let is_code = matches!(block, Block::Code { .. });
            if after_code && is_code {
                // Neighbours with equal borders grow together into one box.
                self.out.push_str(
                    "<w:p><w:pPr><w:spacing w:after=\"0\" w:line=\"60\" w:lineRule=\"exact\"/></w:pPr></w:p>",
                );
            }
            self.block(block, place);
            after_code = is_code;
            place.number = None;
        }
    }

    fn block(&mut self, block: &Block, place: Place) {
        match block {
            Block::Heading { level, inlines } => {
                let style = ["Heading1", "Heading2", "Heading3", "Heading4", "Heading5", "Heading6"];
                let style = Some(style[usize::from(level.clamp(&1, &6) - 1)]);
                self.paragraph(inlines, Place { style, ..place });
            }
            Block::Paragraph(inlines) => self.paragraph(inlines, place),
            Block::List(list) => self.list(list, place),
            Block::Table(table) => self.table(table, place),
            Block::Code { text, lang } => self.code(text, lang.as_deref(), place),
            Block::Image(image) => self.figure(image, place),
            Block::Quote(blocks) => {
                let quotes = place.quotes + 1;
                self.blocks(blocks, Place { style: Some("Quote"), quotes, ..place });
            }
            Block::Alert { kind, blocks } => {
                let style = Some(styles::alert_style(*kind));
                let place = Place { style, quotes: place.quotes + 1, ..place };
                self.paragraph(&kind.labelled(), Place { ends_list: false, ..place });
                self.blocks(blocks, place);
            }
            Block::Group { style, blocks } => {
                let look = Style {
                    color: style.color.or(place.look.color),
                    background: style.background.or(place.look.background),
                    border: style.border.or(place.look.border),
                    align: style.align.or(place.look.align),
                    bold: style.bold.or(place.look.bold),
                    italic: style.italic.or(place.look.italic),
                    size_percent: style.size_percent.or(place.look.size_percent),
                };
                self.blocks(blocks, Place { look, ..place });
            }
            Block::Columns(columns) => self.columns(columns, place),
            Block::Rule => self.out.push_str(
                "<w:p><w:pPr><w:pBdr><w:bottom w:val=\"single\" w:sz=\"5\" w:space=\"1\" w:color=\"D5DAE1\"/></w:pBdr>\
                 <w:spacing w:before=\"60\" w:after=\"200\"/></w:pPr></w:p>",
            ),
            Block::PageBreak => self.out.push_str("<w:p><w:r><w:br w:type=\"page\"/></w:r></w:p>"),
            Block::Notes(_) => {}
        }
    }

    fn paragraph(&mut self, inlines: &[Inline], mut place: Place) {
        if let [
            Inline::Math {
                place: MathPlace::Display,
                ..
            },
        ] = inlines
        {
            place.look.align = place.look.align.or(Some(Align::Center));
        }
        self.out.push_str("<w:p>");
        self.paragraph_properties(place, inlines);
        self.inlines(
            inlines,
            RunLook {
                half_points: place.half_points,
                ..RunLook::of(&place.look)
            },
        );
        self.out.push_str("</w:p>");
    }

    /// In the order the schema wants them.
    fn paragraph_properties(&mut self, place: Place, inlines: &[Inline]) {
        let style = place
            .style
            .or((place.lists > 0).then_some("ListParagraph"))
            .or(place.in_cell.then_some("TableText"));
        let mut xml = String::new();
        if let Some(style) = style {
            let _ = write!(xml, "<w:pStyle w:val=\"{style}\"/>");
        }
        if let Some((number, level)) = place.number {
            let _ = write!(
                xml,
                "<w:numPr><w:ilvl w:val=\"{level}\"/><w:numId w:val=\"{number}\"/></w:numPr>"
            );
        }
        if let Some(border) = place.look.border {
            let side = |name| {
                format!(
                    "<w:{name} w:val=\"single\" w:sz=\"6\" w:space=\"4\" w:color=\"{}\"/>",
                    border.hex()
                )
            };
            let _ = write!(
                xml,
                "<w:pBdr>{}{}{}{}</w:pBdr>",
                side("top"),
                side("left"),
                side("bottom"),
                side("right")
            );
        }
        if let Some(fill) = place.look.background {
            let _ = write!(
                xml,
                "<w:shd w:val=\"clear\" w:color=\"auto\" w:fill=\"{}\"/>",
                fill.hex()
            );
        }
        if Direction::of(inlines) == Some(Direction::RightToLeft) {
            xml.push_str("<w:bidi/>");
        }
        if place.ends_list {
            let _ = write!(xml, "<w:spacing w:after=\"{AFTER_LIST}\"/>");
        }
        xml.push_str(&place.indent());
        match place.look.align {
            Some(Align::Center) => xml.push_str("<w:jc w:val=\"center\"/>"),
            Some(Align::Right) => xml.push_str("<w:jc w:val=\"right\"/>"),
            Some(Align::Left) => xml.push_str("<w:jc w:val=\"left\"/>"),
            Some(Align::Auto) | None => {}
        }
        if let Some(size) = place.half_points {
            // The mark at its end is as high as its own size says, and an empty paragraph is only that.
            let _ = write!(
                xml,
                "<w:rPr><w:sz w:val=\"{size}\"/><w:szCs w:val=\"{size}\"/></w:rPr>"
            );
        }
        if !xml.is_empty() {
            let _ = write!(self.out, "<w:pPr>{xml}</w:pPr>");
        }
    }

    fn list(&mut self, list: &List, place: Place) {
        let level = place.lists.min(8);
        let number = match list.start {
            Some(start) => {
                self.numbered.push(NumberedList { level, start });
                self.numbered.len() + 1
            }
            None => BULLETS,
        };
        let ends_list = place.ends_list || (place.lists == 0 && !place.in_cell);
        for (index, item) in list.items.iter().enumerate() {
            let inner = Place {
                lists: place.lists + 1,
                number: Some((number, level)),
                ends_list: ends_list && index + 1 == list.items.len(),
                ..place
            };
            self.list_item(item, inner);
        }
    }

    fn list_item(&mut self, item: &ListItem, place: Place) {
        let place = match item.checked {
            Some(_) => Place {
                number: None,
                ..place
            },
            None => place,
        };
        let mark = item
            .checked
            .map(|done| Inline::Text(if done { "☑ " } else { "☐ " }.to_owned()));
        match (item.blocks.as_slice(), mark) {
            ([Block::Paragraph(inlines), rest @ ..], mark) => {
                let inlines: Vec<Inline> = mark.into_iter().chain(inlines.iter().cloned()).collect();
                let ends_list = place.ends_list && rest.is_empty();
                self.paragraph(&inlines, Place { ends_list, ..place });
                self.blocks(
                    rest,
                    Place {
                        number: None,
                        ..place
                    },
                );
            }
            // The number needs a paragraph of its own before a list, a table or code.
            (blocks, mark) => {
                let ends_list = place.ends_list && blocks.is_empty();
                self.paragraph(mark.as_slice(), Place { ends_list, ..place });
                self.blocks(
                    blocks,
                    Place {
                        number: None,
                        ..place
                    },
                );
            }
        }
    }

    fn code(&mut self, text: &str, lang: Option<&str>, place: Place) {
        self.out.push_str("<w:p>");
        self.paragraph_properties(
            Place {
                style: Some("Code"),
                ends_list: false,
                ..place
            },
            &[],
        );
        for (index, line) in highlight::lines(text, lang).iter().enumerate() {
            if index > 0 {
                self.out.push_str("<w:r><w:br/></w:r>");
            }
            self.inlines(line, RunLook::default());
        }
        self.out.push_str("</w:p>");
    }

    fn figure(&mut self, image: &Image, place: Place) {
        let align = place.look.align.or((!place.in_cell).then_some(Align::Center));
        let place = Place {
            look: Style { align, ..place.look },
            ..place
        };
        self.paragraph(&[Inline::Image(image.clone())], place);
        if let Some(caption) = &image.caption {
            self.paragraph(
                &[Inline::Text(caption.clone())],
                Place {
                    style: Some("Caption"),
                    ..place
                },
            );
        }
    }

    fn inlines(&mut self, inlines: &[Inline], look: RunLook) {
        for inline in inlines {
            self.inline(inline, look);
        }
    }

    fn inline(&mut self, inline: &Inline, look: RunLook) {
        match inline {
            Inline::Text(text) => run::text(&mut self.out, text, &look),
            Inline::Strong(inner) => self.inlines(inner, RunLook { bold: true, ..look }),
            Inline::Em(inner) => self.inlines(inner, RunLook { italic: true, ..look }),
            Inline::Strike(inner) => self.inlines(inner, RunLook { strike: true, ..look }),
            Inline::Underline(inner) => self.inlines(
                inner,
                RunLook {
                    underline: true,
                    ..look
                },
            ),
            Inline::Sub(inner) => self.inlines(
                inner,
                RunLook {
                    vertical: Some("subscript"),
                    ..look
                },
            ),
            Inline::Sup(inner) => self.inlines(
                inner,
                RunLook {
                    vertical: Some("superscript"),
                    ..look
                },
            ),
            Inline::Math { tex, .. } if let Some(formula) = crate::math::parse(tex) => {
                self.inlines(&formula.inlines(), look);
            }
            Inline::Code(text) | Inline::Math { tex: text, .. } => {
                run::text(
                    &mut self.out,
                    text,
                    &RunLook {
                        style: Some("CodeChar"),
                        ..look
                    },
                );
            }
            Inline::Link { url, inlines } if is_clickable(url) && !look.in_link => {
                self.link(url, inlines, look)
            }
            Inline::Link { inlines, .. } => self.inlines(inlines, look),
            Inline::Image(image) => self.image(image),
            Inline::Cite(sids) => self.cite(sids, look),
            Inline::LineBreak => self.out.push_str("<w:r><w:br/></w:r>"),
            Inline::FootnoteRef(index) => self.footnote_mark(*index),
            Inline::Span { style, inlines } => self.inlines(inlines, look.with(style)),
        }
    }

    fn link(&mut self, url: &str, inlines: &[Inline], look: RunLook) {
        let id = self.relations.external("hyperlink", url);
        let _ = write!(self.out, "<w:hyperlink r:id=\"{id}\" w:history=\"1\">");
        self.inlines(
            inlines,
            RunLook {
                style: Some("Hyperlink"),
                in_link: true,
                ..look
            },
        );
        self.out.push_str("</w:hyperlink>");
    }

    fn cite(&mut self, sids: &[u32], look: RunLook) {
        let look = RunLook {
            vertical: Some("superscript"),
            ..look
        };
        run::text(&mut self.out, "[", &look);
        for (index, sid) in sids.iter().enumerate() {
            if index > 0 {
                run::text(&mut self.out, ", ", &look);
            }
            let known = self.document.sources.iter().any(|source| source.sid == *sid);
            let link = known && !look.in_link;
            if link {
                let _ = write!(
                    self.out,
                    "<w:hyperlink w:anchor=\"source_{sid}\" w:history=\"1\">"
                );
            }
            run::text(&mut self.out, &sid.to_string(), &look);
            if link {
                self.out.push_str("</w:hyperlink>");
            }
        }
        run::text(&mut self.out, "]", &look);
    }

    fn image(&mut self, image: &Image) {
        let Some((index, _)) = self.pictures.get(&image.reference) else {
            let name = if image.reference.starts_with("data:") {
                &image.alt
            } else {
                &image.reference
            };
            let look = RunLook {
                boxed: true,
                ..RunLook::default()
            };
            run::text(
                &mut self.out,
                &format!("Image not available: {}", shorten(name)),
                &look,
            );
            return;
        };
        let picture = &self.office[index];
        let ratio = picture.height_px / picture.width_px;
        let available = self.text_width * EMU_PER_TWIP;
        let wanted = match image.width {
            Some(Length::Px(px)) => px * EMU_PER_PX,
            Some(Length::Percent(percent)) => available * percent.clamp(1.0, 100.0) / 100.0,
            None => picture.width_px * EMU_PER_PX,
        };
        let width = wanted
            .min(available)
            .min(self.text_height * EMU_PER_TWIP * 0.85 / ratio)
            .max(EMU_PER_PX);
        let (cx, cy) = (width.round(), (width * ratio).round().max(1.0));
        let (id, alt, rel) = (self.next_drawing, escape(&image.alt), &self.picture_ids[index]);
        self.next_drawing += 1;
        let _ = write!(
            self.out,
            "<w:r><w:drawing><wp:inline distT=\"0\" distB=\"0\" distL=\"0\" distR=\"0\"><wp:extent cx=\"{cx}\" \
             cy=\"{cy}\"/><wp:docPr id=\"{id}\" name=\"Picture {id}\" descr=\"{alt}\"/><a:graphic><a:graphicData \
             uri=\"http://schemas.openxmlformats.org/drawingml/2006/picture\"><pic:pic><pic:nvPicPr><pic:cNvPr \
             id=\"{id}\" name=\"Picture {id}\" descr=\"{alt}\"/><pic:cNvPicPr/></pic:nvPicPr><pic:blipFill><a:blip \
             r:embed=\"{rel}\"/><a:stretch><a:fillRect/></a:stretch></pic:blipFill><pic:spPr><a:xfrm><a:off x=\"0\" \
             y=\"0\"/><a:ext cx=\"{cx}\" cy=\"{cy}\"/></a:xfrm><a:prstGeom prst=\"rect\"><a:avLst/></a:prstGeom>\
             </pic:spPr></pic:pic></a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
        );
    }
}

#[cfg(test)]
mod tests;
