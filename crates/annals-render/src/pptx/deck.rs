//! Document → slides: what stands on which slide, and where.
//!
//! All geometry is decided here, in points on a slide of 960 × 540, from an estimate of how high text will be.
//! The estimate errs on the high side: a slide may end early, it does not overflow. What does not fit goes on
//! to a next slide with the same title.

use crate::doc::{Align, Block, Document, Image, Inline, List, is_clickable, plain_text};
use crate::ooxml::OfficePicture;
use crate::picture::Pictures;
use crate::request::shorten;

use super::cursor::Cursor;
use super::estimate::{code_height, cut, line_height};
use super::table::table_atom;

pub(super) const WIDTH_PT: f64 = 960.0;
pub(super) const HEIGHT_PT: f64 = 540.0;
pub(super) const MARGIN_PT: f64 = 48.0;
pub(super) const BODY_TOP_PT: f64 = 106.0;
pub(super) const BODY_BOTTOM_PT: f64 = 504.0;
pub(super) const BODY_WIDTH_PT: f64 = WIDTH_PT - 2.0 * MARGIN_PT;
/// Body sizes tried in turn before a section is continued on a next slide.
const BODY_SIZES_PT: [f64; 3] = [20.0, 18.0, 16.0];
pub(super) const CODE_SIZE_PT: f64 = 12.0;
pub(super) const GAP_PT: f64 = 12.0;

/// A rectangle in points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Frame {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// One slide.
#[derive(Debug, Default)]
pub(super) struct Slide {
    pub(super) title: Vec<Inline>,
    /// Set on the first slide only: its lines below the title.
    pub(super) opening: Option<Vec<Vec<Inline>>>,
    pub(super) shapes: Vec<Shape>,
    pub(super) notes: String,
}

/// Something on a slide.
#[derive(Debug)]
pub(super) enum Shape {
    /// Paragraphs of text.
    Text {
        frame: Frame,
        paragraphs: Vec<Line>,
        background: Background,
    },
    /// A table; every row has as many cells as there are widths.
    Table {
        frame: Frame,
        widths: Vec<f64>,
        rows: Vec<TableRow>,
        size_pt: f64,
    },
    /// A picture by its place in the list.
    Picture { frame: Frame, index: usize, alt: String },
}

/// What is behind a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Background {
    None,
    Shaded,
}

/// A paragraph of a text shape.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) inlines: Vec<Inline>,
    pub(super) level: usize,
    pub(super) bullet: Bullet,
    pub(super) size_pt: f64,
    pub(super) look: LineLook,
}

/// The look of a paragraph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineLook {
    Normal,
    Strong,
    Quiet,
    /// Below a picture, which is centred.
    Caption,
    Code,
}

/// What stands before a paragraph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bullet {
    None,
    Dot,
    Number(u64),
}

/// A row of a table.
#[derive(Debug, Clone)]
pub(super) struct TableRow {
    pub(super) cells: Vec<TableCell>,
    pub(super) height: f64,
    pub(super) kind: RowKind,
}

/// Whether a row names the columns; such rows are repeated on every slide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    Head,
    Body,
}

/// A place in a table row.
#[derive(Debug, Clone)]
pub(super) struct TableCell {
    pub(super) inlines: Vec<Inline>,
    pub(super) align: Align,
    pub(super) bold: bool,
    pub(super) colspan: usize,
    pub(super) rowspan: usize,
    /// Covered by the cell to the left.
    pub(super) h_merged: bool,
    /// Covered by the cell above.
    pub(super) v_merged: bool,
}

/// What a block becomes before it has a place.
pub(super) enum Atom {
    Line(Line),
    Code(Vec<Vec<Inline>>),
    Table {
        widths: Vec<f64>,
        rows: Vec<TableRow>,
        size_pt: f64,
    },
    Picture {
        index: usize,
        alt: String,
        width: f64,
        height: f64,
    },
}

/// A slide's worth of the document, before it is known whether it fits.
#[derive(Default)]
struct Section {
    title: Vec<Inline>,
    blocks: Vec<Block>,
    notes: Vec<String>,
    opening: bool,
}

/// Cuts the document into slides.
pub(super) fn slides(document: &Document, pictures: &Pictures, office: &[OfficePicture]) -> Vec<Slide> {
    let builder = Builder { pictures, office };
    let mut slides = Vec::new();
    for section in sections(document) {
        slides.extend(builder.place(section));
    }
    if slides.is_empty() {
        slides.push(Slide::default());
    }
    slides
}

/// Sections begin at headings of level 1 and 2 and at rules; a title alone opens the deck.
fn sections(document: &Document) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut current = Section::default();
    if let Some(title) = document.printed_title() {
        current = Section {
            title: vec![Inline::Text(title.to_owned())],
            opening: true,
            ..Section::default()
        };
    }
    for block in document.blocks.iter().flat_map(ungrouped) {
        match block {
            Block::Heading {
                level: level @ (1 | 2),
                inlines,
            } => {
                let opening = *level == 1 && sections.is_empty() && current.is_empty();
                sections.push(std::mem::take(&mut current));
                current = Section {
                    title: inlines.clone(),
                    opening,
                    ..Section::default()
                };
            }
            Block::Rule | Block::PageBreak => sections.push(std::mem::take(&mut current)),
            Block::Notes(notes) => current.notes.push(notes.clone()),
            block => current.blocks.push(block.clone()),
        }
    }
    sections.push(current);
    sections.push(footnote_section(document));
    sections.push(source_section(document));
    sections.retain(|section| !section.is_empty());
    sections
}

/// HTML often wraps everything in boxes; headings within them begin slides, too.
fn ungrouped(block: &Block) -> Vec<&Block> {
    match block {
        Block::Group { blocks, .. } => blocks.iter().flat_map(ungrouped).collect(),
        Block::Columns(columns) => columns.iter().flatten().flat_map(ungrouped).collect(),
        other => vec![other],
    }
}

impl Section {
    fn is_empty(&self) -> bool {
        self.title.is_empty() && self.blocks.is_empty() && self.notes.is_empty()
    }
}

fn footnote_section(document: &Document) -> Section {
    let blocks = document.footnotes.iter().enumerate().flat_map(|(index, note)| {
        let mark = Inline::Text(format!("{} ", index + 1));
        let mut blocks = note.clone();
        match blocks.first_mut() {
            Some(Block::Paragraph(inlines)) => inlines.insert(0, mark),
            Some(_) => blocks.insert(0, Block::Paragraph(vec![mark])),
            None => {}
        }
        blocks
    });
    let blocks: Vec<Block> = blocks.collect();
    let title = if blocks.is_empty() {
        Vec::new()
    } else {
        vec![Inline::Text("Notes".to_owned())]
    };
    Section {
        title,
        blocks,
        ..Section::default()
    }
}

fn source_section(document: &Document) -> Section {
    let blocks: Vec<Block> = document
        .sources
        .iter()
        .map(|source| {
            let mut inlines = vec![Inline::Text(format!("[{}] {}", source.sid, source.title))];
            if let Some(url) = source.url.clone().filter(|url| is_clickable(url)) {
                inlines.push(Inline::LineBreak);
                inlines.push(Inline::Link {
                    inlines: vec![Inline::Text(url.clone())],
                    url,
                });
            }
            Block::Paragraph(inlines)
        })
        .collect();
    let title = if blocks.is_empty() {
        Vec::new()
    } else {
        vec![Inline::Text("Sources".to_owned())]
    };
    Section {
        title,
        blocks,
        ..Section::default()
    }
}

struct Builder<'a> {
    pictures: &'a Pictures,
    office: &'a [OfficePicture],
}

impl Builder<'_> {
    fn place(&self, section: Section) -> Vec<Slide> {
        let notes = section.notes.join("\n\n");
        if section.opening && is_short(&section.blocks) {
            let lines = section.blocks.into_iter().filter_map(|block| match block {
                Block::Paragraph(inlines) => Some(inlines),
                _ => None,
            });
            return vec![Slide {
                title: section.title,
                opening: Some(lines.collect()),
                shapes: Vec::new(),
                notes,
            }];
        }
        let mut size = BODY_SIZES_PT[0];
        let mut atoms = Vec::new();
        for candidate in BODY_SIZES_PT {
            size = candidate;
            atoms.clear();
            self.atoms(&section.blocks, 0, size, &mut atoms);
            if atoms.iter().map(Atom::height).sum::<f64>() <= BODY_BOTTOM_PT - BODY_TOP_PT {
                break;
            }
        }
        let mut cursor = Cursor::new(section.title, size);
        for atom in atoms {
            cursor.add(atom);
        }
        let mut slides = cursor.finish();
        if let Some(first) = slides.first_mut() {
            first.notes = notes;
        }
        slides
    }

    fn atoms(&self, blocks: &[Block], level: usize, size_pt: f64, out: &mut Vec<Atom>) {
        for block in blocks {
            self.block(block, level, size_pt, out);
        }
    }

    fn block(&self, block: &Block, level: usize, size_pt: f64, out: &mut Vec<Atom>) {
        let line = |inlines: Vec<Inline>, look: LineLook| Line {
            inlines,
            level,
            bullet: Bullet::None,
            size_pt,
            look,
        };
        match block {
            Block::Heading { inlines, .. } => out.push(Atom::Line(line(inlines.clone(), LineLook::Strong))),
            Block::Paragraph(inlines) => self.paragraph(line(inlines.clone(), LineLook::Normal), out),
            Block::List(list) => self.list(list, level, size_pt, out),
            Block::Table(table) => out.extend(table_atom(table)),
            Block::Code { text, lang } => {
                let text = text.replace('\t', "    ");
                out.push(Atom::Code(crate::highlight::lines(&text, lang.as_deref())));
            }
            Block::Image(image) => self.picture(image, size_pt, out),
            Block::Quote(blocks) => {
                let mut inner = Vec::new();
                self.atoms(blocks, level + 1, size_pt, &mut inner);
                for atom in &mut inner {
                    if let Atom::Line(line) = atom {
                        line.look = LineLook::Quiet;
                    }
                }
                out.append(&mut inner);
            }
            Block::Alert { kind, blocks } => {
                out.push(Atom::Line(line(kind.labelled(), LineLook::Normal)));
                self.atoms(blocks, level + 1, size_pt, out);
            }
            Block::Group { blocks, .. } => self.atoms(blocks, level, size_pt, out),
            Block::Columns(columns) => columns
                .iter()
                .for_each(|column| self.atoms(column, level, size_pt, out)),
            Block::Rule | Block::PageBreak | Block::Notes(_) => {}
        }
    }

    /// Pictures within a line stand below it; a paragraph longer than a slide is cut.
    fn paragraph(&self, line: Line, out: &mut Vec<Atom>) {
        let mut text = line.inlines.clone();
        let mut images = Vec::new();
        take_images(&mut text, &mut images);
        if !plain_text(&text).trim().is_empty() {
            let most = (BODY_WIDTH_PT * 12.0 / (line.size_pt * 0.56)) as usize;
            for piece in cut(text, most) {
                out.push(Atom::Line(Line {
                    inlines: piece,
                    ..line.clone()
                }));
            }
        }
        for image in &images {
            self.picture(image, line.size_pt, out);
        }
    }

    fn list(&self, list: &List, level: usize, size_pt: f64, out: &mut Vec<Atom>) {
        let size_pt = if level == 0 {
            size_pt
        } else {
            (size_pt - 2.0).max(12.0)
        };
        for (index, item) in list.items.iter().enumerate() {
            let start = out.len();
            self.atoms(&item.blocks, level + 1, size_pt, out);
            let Some(Atom::Line(line)) = out.get_mut(start) else {
                continue;
            };
            line.level = level;
            line.bullet = match (list.start, item.checked) {
                (_, Some(done)) => {
                    line.inlines
                        .insert(0, Inline::Text(if done { "☑ " } else { "☐ " }.to_owned()));
                    Bullet::None
                }
                (Some(first), None) => Bullet::Number(first + index as u64),
                (None, None) => Bullet::Dot,
            };
        }
    }

    fn picture(&self, image: &Image, size_pt: f64, out: &mut Vec<Atom>) {
        match self.pictures.get(&image.reference) {
            Some((index, _)) => {
                let picture = &self.office[index];
                let (width, height) = (picture.width_px * 0.75, picture.height_px * 0.75);
                out.push(Atom::Picture {
                    index,
                    alt: image.alt.clone(),
                    width,
                    height,
                });
                if let Some(caption) = &image.caption {
                    let inlines = vec![Inline::Text(caption.clone())];
                    let look = LineLook::Caption;
                    out.push(Atom::Line(Line {
                        inlines,
                        level: 0,
                        bullet: Bullet::None,
                        size_pt: 12.0,
                        look,
                    }));
                }
            }
            None => {
                let name = if image.reference.starts_with("data:") {
                    &image.alt
                } else {
                    &image.reference
                };
                let inlines = vec![Inline::Text(format!("[Image not available: {}]", shorten(name)))];
                let look = LineLook::Quiet;
                out.push(Atom::Line(Line {
                    inlines,
                    level: 0,
                    bullet: Bullet::None,
                    size_pt,
                    look,
                }));
            }
        }
    }
}

impl Atom {
    fn height(&self) -> f64 {
        match self {
            Self::Line(line) => line_height(line),
            Self::Code(lines) => code_height(lines.len()) + GAP_PT,
            Self::Table { rows, .. } => rows.iter().map(|row| row.height).sum::<f64>() + GAP_PT,
            Self::Picture { width, height, .. } => {
                height.min(height * BODY_WIDTH_PT / width).min(320.0) + GAP_PT
            }
        }
    }
}

/// Moves the pictures out of a text, also those within links and emphasis.
fn take_images(inlines: &mut Vec<Inline>, images: &mut Vec<Image>) {
    inlines.retain_mut(|inline| match inline {
        Inline::Image(image) => {
            images.push(image.clone());
            false
        }
        Inline::Strong(inner)
        | Inline::Em(inner)
        | Inline::Strike(inner)
        | Inline::Underline(inner)
        | Inline::Link { inlines: inner, .. }
        | Inline::Span { inlines: inner, .. } => {
            take_images(inner, images);
            true
        }
        _ => true,
    });
}

/// What an opening slide has room for: some lines of text, no picture.
fn is_short(blocks: &[Block]) -> bool {
    let short = |block: &Block| {
        let Block::Paragraph(inlines) = block else {
            return false;
        };
        let (mut text, mut images) = (inlines.clone(), Vec::new());
        take_images(&mut text, &mut images);
        images.is_empty() && plain_text(&text).len() <= 220
    };
    blocks.len() <= 3 && blocks.iter().all(short)
}
