//! Document → slides: what stands on which slide, and where.
//!
//! All geometry is decided here, in points on a slide of 960 × 540, from an estimate of how high text will be.
//! The estimate errs on the high side: a slide may end early, it does not overflow. What does not fit goes on
//! to a next slide with the same title.

use crate::doc::{Align, Block, Document, Image, Inline, List, Table, is_clickable, plain_text};
use crate::grid::{Grid, Slot};
use crate::ooxml::OfficePicture;
use crate::picture::Pictures;
use crate::prose::is_cjk;
use crate::request::shorten;

/// The slide.
pub(super) const WIDTH_PT: f64 = 960.0;
/// The slide.
pub(super) const HEIGHT_PT: f64 = 540.0;
const MARGIN_PT: f64 = 48.0;
const BODY_TOP_PT: f64 = 106.0;
const BODY_BOTTOM_PT: f64 = 504.0;
const BODY_WIDTH_PT: f64 = WIDTH_PT - 2.0 * MARGIN_PT;
/// Body sizes tried in turn before a section is continued on a next slide.
const BODY_SIZES_PT: [f64; 3] = [20.0, 18.0, 16.0];
const CODE_SIZE_PT: f64 = 12.0;
const GAP_PT: f64 = 12.0;

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
enum Atom {
    Line(Line),
    Code(Vec<String>),
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
        if let Some(Block::Paragraph(inlines)) = blocks.first_mut() {
            inlines.insert(0, mark);
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
            Block::Code { text, .. } => out.push(Atom::Code(text.split('\n').map(str::to_owned).collect())),
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
            Block::Group { blocks, .. } => self.atoms(blocks, level, size_pt, out),
            Block::Columns(columns) => columns
                .iter()
                .for_each(|column| self.atoms(column, level, size_pt, out)),
            Block::Rule | Block::PageBreak | Block::Notes(_) => {}
        }
    }

    /// Pictures within a line stand below it; a paragraph longer than a slide is cut.
    fn paragraph(&self, line: Line, out: &mut Vec<Atom>) {
        let (images, text): (Vec<Inline>, Vec<Inline>) = line
            .inlines
            .iter()
            .cloned()
            .partition(|inline| matches!(inline, Inline::Image(_)));
        if !plain_text(&text).trim().is_empty() {
            let most = (BODY_WIDTH_PT * 12.0 / (line.size_pt * 0.56)) as usize;
            for piece in cut(text, most) {
                out.push(Atom::Line(Line {
                    inlines: piece,
                    ..line.clone()
                }));
            }
        }
        for image in images {
            if let Inline::Image(image) = image {
                self.picture(&image, line.size_pt, out);
            }
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
                    let look = LineLook::Quiet;
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

/// Where the next thing goes.
struct Cursor {
    title: Vec<Inline>,
    slides: Vec<Slide>,
    shapes: Vec<Shape>,
    lines: Vec<Line>,
    lines_top: f64,
    y: f64,
    size_pt: f64,
}

impl Cursor {
    fn new(title: Vec<Inline>, size_pt: f64) -> Self {
        let (slides, shapes, lines) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            title,
            slides,
            shapes,
            lines,
            lines_top: BODY_TOP_PT,
            y: BODY_TOP_PT,
            size_pt,
        }
    }

    fn room(&self) -> f64 {
        BODY_BOTTOM_PT - self.y
    }

    fn is_fresh(&self) -> bool {
        self.shapes.is_empty() && self.lines.is_empty()
    }

    fn add(&mut self, atom: Atom) {
        match atom {
            Atom::Line(line) => self.line(line),
            Atom::Code(lines) => self.code(&lines),
            Atom::Table {
                widths,
                rows,
                size_pt,
            } => self.table(&widths, rows, size_pt),
            Atom::Picture {
                index,
                alt,
                width,
                height,
            } => self.picture(index, alt, width, height),
        }
    }

    fn line(&mut self, line: Line) {
        let height = line_height(&line);
        if height > self.room() && !self.is_fresh() {
            self.next_slide();
        }
        if self.lines.is_empty() {
            self.lines_top = self.y;
        }
        self.y += height;
        self.lines.push(line);
    }

    fn code(&mut self, lines: &[String]) {
        self.close_text();
        let mut rest = lines;
        while !rest.is_empty() {
            let fitting = ((self.room() - 16.0) / (CODE_SIZE_PT * 1.2)).floor() as usize;
            if fitting < rest.len().min(4) && !self.is_fresh() {
                self.next_slide();
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(fitting.max(1)));
            let height = code_height(now.len());
            let frame = Frame {
                x: MARGIN_PT,
                y: self.y,
                width: BODY_WIDTH_PT,
                height,
            };
            let paragraphs = now.iter().map(|text| code_line(text)).collect();
            self.shapes.push(Shape::Text {
                frame,
                paragraphs,
                background: Background::Shaded,
            });
            self.y += height + GAP_PT;
            rest = later;
        }
    }

    fn table(&mut self, widths: &[f64], rows: Vec<TableRow>, size_pt: f64) {
        self.close_text();
        let (head, mut rest): (Vec<TableRow>, Vec<TableRow>) =
            rows.into_iter().partition(|row| row.kind == RowKind::Head);
        let head_height: f64 = head.iter().map(|row| row.height).sum();
        loop {
            let mut height = head_height;
            let mut fitting = 0;
            while let Some(row) = rest.get(fitting)
                && height + row.height <= self.room()
            {
                height += row.height;
                fitting += 1;
            }
            if fitting < rest.len().min(2) && !self.is_fresh() {
                self.next_slide();
                continue;
            }
            // A row higher than a slide is shown all the same: nothing is dropped.
            let now: Vec<TableRow> = rest.drain(..fitting.max(1).min(rest.len())).collect();
            let rows: Vec<TableRow> = head.iter().cloned().chain(now).collect();
            let height = rows.iter().map(|row| row.height).sum();
            let frame = Frame {
                x: MARGIN_PT,
                y: self.y,
                width: widths.iter().sum(),
                height,
            };
            self.shapes.push(Shape::Table {
                frame,
                widths: widths.to_vec(),
                rows,
                size_pt,
            });
            self.y += height + GAP_PT;
            if rest.is_empty() {
                return;
            }
        }
    }

    fn picture(&mut self, index: usize, alt: String, width: f64, height: f64) {
        self.close_text();
        let natural = (BODY_WIDTH_PT / width).min(1.6) * height;
        if self.room() < natural.min(200.0) && !self.is_fresh() {
            self.next_slide();
        }
        // Room for a caption below.
        let scale = (BODY_WIDTH_PT / width)
            .min((self.room() - 26.0).max(60.0) / height)
            .min(1.6);
        let (width, height) = (width * scale, height * scale);
        let frame = Frame {
            x: (WIDTH_PT - width) / 2.0,
            y: self.y,
            width,
            height,
        };
        self.shapes.push(Shape::Picture { frame, index, alt });
        self.y += height + GAP_PT / 2.0;
    }

    fn close_text(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let paragraphs = std::mem::take(&mut self.lines);
        let height = (self.y - self.lines_top).max(self.size_pt);
        let frame = Frame {
            x: MARGIN_PT,
            y: self.lines_top,
            width: BODY_WIDTH_PT,
            height,
        };
        self.shapes.push(Shape::Text {
            frame,
            paragraphs,
            background: Background::None,
        });
        self.y += GAP_PT / 2.0;
    }

    fn next_slide(&mut self) {
        self.close_text();
        let shapes = std::mem::take(&mut self.shapes);
        let mut title = self.title.clone();
        if !self.slides.is_empty() && !title.is_empty() {
            title.push(Inline::Text(" (continued)".to_owned()));
        }
        self.slides.push(Slide {
            title,
            opening: None,
            shapes,
            notes: String::new(),
        });
        self.y = BODY_TOP_PT;
    }

    fn finish(mut self) -> Vec<Slide> {
        if !self.is_fresh() || self.slides.is_empty() {
            self.next_slide();
        }
        self.slides
    }
}

fn is_short(blocks: &[Block]) -> bool {
    let short =
        |block: &Block| matches!(block, Block::Paragraph(inlines) if plain_text(inlines).len() <= 220);
    blocks.len() <= 3 && blocks.iter().all(short)
}

fn code_height(lines: usize) -> f64 {
    lines as f64 * CODE_SIZE_PT * 1.2 + 16.0
}

fn code_line(text: &str) -> Line {
    let inlines = vec![Inline::Text(text.replace('\t', "    "))];
    Line {
        inlines,
        level: 0,
        bullet: Bullet::None,
        size_pt: CODE_SIZE_PT,
        look: LineLook::Code,
    }
}

/// How wide a text is, in ems.
fn ems(text: &str) -> f64 {
    text.chars()
        .map(|c| {
            if is_cjk(c) || u32::from(c) >= 0x1100 {
                1.05
            } else {
                0.56
            }
        })
        .sum()
}

fn lines_of(inlines: &[Inline], width_pt: f64, size_pt: f64) -> usize {
    let breaks = inlines
        .iter()
        .filter(|inline| matches!(inline, Inline::LineBreak))
        .count();
    let ems = ems(&plain_text(inlines));
    ((ems * size_pt / width_pt.max(size_pt)).ceil() as usize).max(1) + breaks
}

fn line_height(line: &Line) -> f64 {
    let width = BODY_WIDTH_PT - 22.0 * (line.level as f64 + 1.0);
    lines_of(&line.inlines, width, line.size_pt) as f64 * line.size_pt * 1.2 + line.size_pt * 0.4
}

fn table_atom(table: &Table) -> Option<Atom> {
    let grid = Grid::of(table);
    let size_pt = match grid.columns {
        0..=4 => 14.0,
        5..=6 => 12.0,
        7..=8 => 11.0,
        _ => 9.0,
    };
    let widths = column_widths(&grid, size_pt);
    let rows: Vec<TableRow> = grid
        .rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            table_row(
                row,
                table,
                &widths,
                size_pt,
                if index < grid.head_rows {
                    RowKind::Head
                } else {
                    RowKind::Body
                },
            )
        })
        .collect();
    (!rows.is_empty()).then_some(Atom::Table {
        widths,
        rows,
        size_pt,
    })
}

fn column_widths(grid: &Grid<'_>, size_pt: f64) -> Vec<f64> {
    let mut wanted = vec![size_pt * 3.0; grid.columns];
    for slot in grid.rows.iter().flatten() {
        let Slot::Cell {
            cell: Some(cell),
            column,
            colspan: 1,
            ..
        } = slot
        else {
            continue;
        };
        let width = ems(&plain_text(&cell_inlines(&cell.blocks))).min(30.0) * 1.1 * size_pt + 18.0;
        wanted[*column] = wanted[*column].max(width);
    }
    let sum: f64 = wanted.iter().sum();
    let total = sum.clamp(BODY_WIDTH_PT * 0.5, BODY_WIDTH_PT);
    wanted.iter().map(|width| width * total / sum).collect()
}

fn table_row(row: &[Slot<'_>], table: &Table, widths: &[f64], size_pt: f64, kind: RowKind) -> TableRow {
    let mut cells = Vec::new();
    let mut lines = 1;
    for slot in row {
        let (column, colspan) = match *slot {
            Slot::Cell { column, colspan, .. } | Slot::Covered { column, colspan } => (column, colspan),
        };
        let (inlines, rowspan, bold, align, v_merged) = match *slot {
            Slot::Cell { cell, rowspan, .. } => {
                let inlines = cell.map(|cell| cell_inlines(&cell.blocks)).unwrap_or_default();
                let bold = kind == RowKind::Head || cell.is_some_and(|cell| cell.header);
                let own = cell.and_then(|cell| cell.style.align);
                (inlines, rowspan, bold, own.unwrap_or(table.align(column)), false)
            }
            Slot::Covered { .. } => (Vec::new(), 1, false, Align::Auto, true),
        };
        let width: f64 = widths[column..column + colspan].iter().sum();
        if rowspan == 1 {
            lines = lines.max(lines_of(&inlines, width - 14.0, size_pt));
        }
        cells.push(TableCell {
            inlines,
            align,
            bold,
            colspan,
            rowspan,
            h_merged: false,
            v_merged,
        });
        let covered = TableCell {
            inlines: Vec::new(),
            align: Align::Auto,
            bold: false,
            colspan: 1,
            rowspan: 1,
            h_merged: true,
            v_merged,
        };
        cells.extend(std::iter::repeat_n(covered, colspan - 1));
    }
    TableRow {
        cells,
        height: lines as f64 * size_pt * 1.2 + 9.0,
        kind,
    }
}

/// A cell holds text only: blocks are joined by line breaks.
fn cell_inlines(blocks: &[Block]) -> Vec<Inline> {
    let mut out: Vec<Inline> = Vec::new();
    for block in blocks {
        if !out.is_empty() {
            out.push(Inline::LineBreak);
        }
        match block {
            Block::Paragraph(inlines) | Block::Heading { inlines, .. } => out.extend(inlines.iter().cloned()),
            Block::Code { text, .. } => out.push(Inline::Code(text.clone())),
            Block::List(list) => {
                for (index, item) in list.items.iter().enumerate() {
                    if index > 0 {
                        out.push(Inline::LineBreak);
                    }
                    out.push(Inline::Text("• ".to_owned()));
                    out.extend(cell_inlines(&item.blocks));
                }
            }
            Block::Image(image) => out.push(Inline::Text(format!("[{}]", image.alt))),
            Block::Quote(blocks) | Block::Group { blocks, .. } => out.extend(cell_inlines(blocks)),
            Block::Columns(columns) => columns.iter().for_each(|column| out.extend(cell_inlines(column))),
            Block::Table(table) => {
                table
                    .head
                    .iter()
                    .chain(&table.rows)
                    .flatten()
                    .for_each(|cell| out.extend(cell_inlines(&cell.blocks)));
            }
            Block::Rule | Block::PageBreak | Block::Notes(_) => {}
        }
    }
    out
}

/// Cuts plain text in pieces of at most `most` characters, at spaces; marked-up text is not cut.
fn cut(inlines: Vec<Inline>, most: usize) -> Vec<Vec<Inline>> {
    let mut pieces = vec![Vec::new()];
    let mut used = 0;
    for inline in inlines {
        let Inline::Text(text) = inline else {
            used += plain_text(std::slice::from_ref(&inline)).chars().count();
            pieces.last_mut().expect("there is always one").push(inline);
            continue;
        };
        let mut rest = text.as_str();
        while used + rest.chars().count() > most {
            let room = most.saturating_sub(used).max(1);
            let hard = rest.char_indices().nth(room).map_or(rest.len(), |(at, _)| at);
            let at = rest[..hard].rfind(' ').map_or(hard, |at| at + 1);
            pieces
                .last_mut()
                .expect("there is always one")
                .push(Inline::Text(rest[..at].to_owned()));
            pieces.push(Vec::new());
            rest = &rest[at..];
            used = 0;
        }
        used += rest.chars().count();
        pieces
            .last_mut()
            .expect("there is always one")
            .push(Inline::Text(rest.to_owned()));
    }
    pieces.retain(|piece| !plain_text(piece).trim().is_empty());
    pieces
}
