//! Where the next thing goes: fills slides from top to bottom and begins a next one in time.

use crate::doc::Inline;

use super::deck::{
    Atom, BODY_BOTTOM_PT, BODY_TOP_PT, BODY_WIDTH_PT, Background, Bullet, CODE_SIZE_PT, Frame, GAP_PT, Line,
    LineLook, MARGIN_PT, RowKind, Shape, Slide, TableRow, WIDTH_PT,
};
use super::estimate::{code_height, line_height};

/// Where the next thing goes.
pub(super) struct Cursor {
    title: Vec<Inline>,
    slides: Vec<Slide>,
    shapes: Vec<Shape>,
    lines: Vec<Line>,
    lines_top: f64,
    y: f64,
    size_pt: f64,
}

impl Cursor {
    pub(super) fn new(title: Vec<Inline>, size_pt: f64) -> Self {
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

    pub(super) fn add(&mut self, atom: Atom) {
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

    fn code(&mut self, lines: &[Vec<Inline>]) {
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
            let paragraphs = now.iter().cloned().map(code_line).collect();
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

    pub(super) fn finish(mut self) -> Vec<Slide> {
        if !self.is_fresh() || self.slides.is_empty() {
            self.next_slide();
        }
        self.slides
    }
}

pub(super) fn code_line(inlines: Vec<Inline>) -> Line {
    Line {
        inlines,
        level: 0,
        bullet: Bullet::None,
        size_pt: CODE_SIZE_PT,
        look: LineLook::Code,
    }
}
