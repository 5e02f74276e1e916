//! What is known of a table of text before it is laid out: how wide its columns are, and which rows are one line.
//!
//! Typst finds both itself, by laying every cell out two or three times more than the page needs, which for a table of
//! some hundred cells is most of the work of a document. The same rule is applied here to the advances of the body font:
//! columns are as wide as their text, and when they do not fit, the widest share what the others leave. Cells whose size
//! cannot be told from their text leave the table, or their row, to Typst.

use std::sync::LazyLock;

use typst::foundations::Bytes;
use typst::layout::Abs;
use typst::text::{Font, FontInstance, FontVariations};

use crate::doc::{Block, Cell, Inline};
use crate::grid::{Grid, Slot, share_width};
use crate::prose::is_cjk;

/// White space above and below a cell's text, as the template has it.
const INSET_HEIGHT_PT: f64 = 10.0;
/// Advances leave out kerning: a little room keeps a word from being broken for it.
const SLACK: f64 = 1.015;
const SLACK_PT: f64 = 0.6;
/// What a character takes that the body font lacks.
const UNKNOWN_EM: f64 = 0.62;
/// A character of code, with the size that the template gives it.
const CODE_EM: f64 = 0.602 * 1.1;

/// A row of more lines may have to be broken at the end of a page, which only Typst can do.
const MAX_LINES: usize = 8;
/// What sums and differences of points may lose.
const ROUNDING_PT: f64 = 0.001;
/// The space between two lines of a cell, as the template has it.
const LEADING_EM: f64 = 0.55;

/// How the text of a cell is set.
#[derive(Clone, Copy)]
pub(super) struct CellLook {
    /// The size of its letters.
    pub(super) size_pt: f64,
    /// White space on each side of it.
    pub(super) gap_pt: f64,
    /// A longer run of characters is broken anywhere, one of half the length after a mark.
    pub(super) max_run: usize,
}

/// A table of text, measured.
#[derive(Debug, PartialEq)]
pub(super) struct Measured {
    /// The width of each column in points.
    pub(super) widths_pt: Vec<f64>,
    /// Every column is as wide as its longest word; very long ones may be broken anywhere.
    pub(super) keeps_words: bool,
    /// The height of each row.
    pub(super) heights: Vec<RowHeight>,
}

/// How high a row is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RowHeight {
    /// One line of text in every cell; in points.
    Line(f64),
    /// Several lines in some of them.
    Lines(f64),
    /// It cannot be told from the text.
    Unknown,
}

impl Measured {
    /// Measures a table for a page with so much room; nothing when it holds more than text.
    pub(super) fn of(grid: &Grid<'_>, look: CellLook, available_pt: f64) -> Option<Self> {
        let (size_pt, inset_pt) = (look.size_pt, 2.0 * look.gap_pt);
        let capital_em = REGULAR.as_ref()?.capital_em();
        let rows: Vec<Vec<CellText>> = grid
            .rows
            .iter()
            .enumerate()
            .map(|(index, row)| row_texts(row, Weight::of_row(index, grid), look.max_run))
            .collect::<Option<_>>()?;
        let (mut least_pt, mut wanted_pt) = (vec![0.0_f64; grid.columns], vec![0.0_f64; grid.columns]);
        for text in rows.iter().flatten() {
            let needs = |ems: f64| at_most_pt(ems, size_pt) + inset_pt;
            let (least, wanted) = (&mut least_pt[text.column], &mut wanted_pt[text.column]);
            *least = least.max(needs(text.longest_word_em()));
            *wanted = wanted.max(needs(text.widest_em()));
        }
        let keeps_words = least_pt.iter().sum::<f64>() <= available_pt;
        let widths_pt = match keeps_words {
            true => share_width(&least_pt, &wanted_pt, available_pt),
            false => share_width(&vec![0.0; grid.columns], &wanted_pt, available_pt),
        };
        let height = |row: &Vec<CellText>| {
            if row.len() < grid.columns {
                return RowHeight::Unknown;
            }
            let mut most = 1;
            for text in row {
                match text.lines_in(widths_pt[text.column] - inset_pt, size_pt) {
                    Some(lines) if lines <= MAX_LINES => most = most.max(lines),
                    _ => return RowHeight::Unknown,
                }
            }
            let lines = most as f64;
            let height_pt = (lines * capital_em + (lines - 1.0) * LEADING_EM) * size_pt + INSET_HEIGHT_PT;
            match most {
                1 => RowHeight::Line(height_pt),
                _ => RowHeight::Lines(height_pt),
            }
        };
        let heights = rows.iter().map(height).collect();
        Some(Measured {
            widths_pt,
            keeps_words,
            heights,
        })
    }
}

/// The most that text of this many ems may take.
fn at_most_pt(ems: f64, size_pt: f64) -> f64 {
    ems * size_pt * SLACK + SLACK_PT
}

/// The least that it may take.
fn at_least_pt(ems: f64, size_pt: f64) -> f64 {
    ems * size_pt / SLACK - SLACK_PT
}

/// The advances of one face, in ems.
struct Advances(FontInstance);

static REGULAR: LazyLock<Option<Advances>> = LazyLock::new(|| Advances::of(notosans::REGULAR_TTF));
static BOLD: LazyLock<Option<Advances>> = LazyLock::new(|| Advances::of(notosans::BOLD_TTF));

impl Advances {
    fn of(face: &'static [u8]) -> Option<Self> {
        let font = Font::new(Bytes::new(face), 0)?;
        let variant = font.info().variant;
        Some(Self(font.instantiate(
            variant,
            Abs::pt(10.0),
            &FontVariations::default(),
        )))
    }

    fn em(&self, c: char) -> Option<f64> {
        let glyph = self.0.ttf().glyph_index(c)?;
        self.0.x_advance(glyph.0).map(|advance| advance.get())
    }

    /// The height of a capital letter: that of a line.
    fn capital_em(&self) -> f64 {
        self.0.metrics().cap_height.get()
    }
}

/// Whether text is set bold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Regular,
    Bold,
}

impl Weight {
    fn of_row(index: usize, grid: &Grid<'_>) -> Self {
        if index < grid.head_rows {
            Weight::Bold
        } else {
            Weight::Regular
        }
    }
}

/// The text of one cell, in the lines that its author made.
struct CellText {
    column: usize,
    max_run: usize,
    lines: Vec<Line>,
    /// Something in it may be higher than a line of the body font, or wider than was estimated.
    is_uncertain: bool,
}

/// Words between spaces, by their width.
struct Line {
    words_em: Vec<f64>,
    /// All of it, with its spaces.
    width_em: f64,
    /// The piece at the end in which no line may end, and the longest of all.
    piece_em: f64,
    longest_piece_em: f64,
    /// A line may end elsewhere than at a space.
    has_other_breaks: bool,
}

impl Line {
    fn new() -> Self {
        Line {
            words_em: vec![0.0],
            width_em: 0.0,
            piece_em: 0.0,
            longest_piece_em: 0.0,
            has_other_breaks: false,
        }
    }

    fn widen(&mut self, ems: f64) {
        self.width_em += ems;
        self.piece_em += ems;
        self.longest_piece_em = self.longest_piece_em.max(self.piece_em);
        if let Some(word) = self.words_em.last_mut() {
            *word += ems;
        }
    }

    /// In how many lines Typst sets it, putting into each as much as it holds; nothing when that is too close to tell.
    fn lines_in(&self, width_pt: f64, size_pt: f64) -> Option<usize> {
        if at_most_pt(self.width_em, size_pt) <= width_pt + ROUNDING_PT {
            return Some(1);
        }
        if self.has_other_breaks {
            return None;
        }
        let space_em = REGULAR.as_ref()?.em(' ')?;
        let (mut lines, mut line_em) = (1, 0.0);
        for (at, word_em) in self.words_em.iter().enumerate() {
            let with_word_em = if at == 0 {
                *word_em
            } else {
                line_em + space_em + word_em
            };
            if at_most_pt(with_word_em, size_pt) <= width_pt {
                line_em = with_word_em;
            } else if at > 0
                && at_least_pt(with_word_em, size_pt) > width_pt
                && at_most_pt(*word_em, size_pt) <= width_pt
            {
                lines += 1;
                line_em = *word_em;
            } else {
                return None;
            }
        }
        Some(lines)
    }
}

/// The texts of a row's cells; nothing when one of them is more than text, or wider than a column.
fn row_texts(row: &[Slot<'_>], weight: Weight, max_run: usize) -> Option<Vec<CellText>> {
    let mut texts = Vec::with_capacity(row.len());
    for slot in row {
        let Slot::Cell {
            cell,
            column,
            colspan,
            rowspan,
        } = slot
        else {
            continue;
        };
        if *colspan > 1 {
            return None;
        }
        let mut text = CellText {
            column: *column,
            max_run,
            lines: Vec::new(),
            is_uncertain: *rowspan > 1,
        };
        if let Some(cell) = cell {
            text.cell(cell, weight)?;
        }
        texts.push(text);
    }
    Some(texts)
}

impl CellText {
    fn widest_em(&self) -> f64 {
        self.lines.iter().map(|line| line.width_em).fold(0.0, f64::max)
    }

    /// The longest piece that is kept in one line.
    fn longest_word_em(&self) -> f64 {
        let longest = self.lines.iter().map(|line| line.longest_piece_em);
        longest.fold(0.0, f64::max).min(self.max_run as f64 * UNKNOWN_EM)
    }

    fn lines_in(&self, width_pt: f64, size_pt: f64) -> Option<usize> {
        let lines = self.lines.iter().map(|line| line.lines_in(width_pt, size_pt));
        lines.sum::<Option<usize>>().filter(|_| !self.is_uncertain)
    }

    /// Adds a cell; nothing when it is more than text.
    fn cell(&mut self, cell: &Cell, weight: Weight) -> Option<()> {
        let style = cell.style;
        let weight = if cell.header || style.bold == Some(true) {
            Weight::Bold
        } else {
            weight
        };
        let is_styled = style.size_percent.is_some() || style.background.is_some() || style.align.is_some();
        self.is_uncertain |= is_styled || style.italic == Some(true) || cell.blocks.len() > 1;
        for block in &cell.blocks {
            let Block::Paragraph(inlines) = block else {
                return None;
            };
            self.lines.push(Line::new());
            self.inlines(inlines, weight)?;
        }
        Some(())
    }

    fn inlines(&mut self, inlines: &[Inline], weight: Weight) -> Option<()> {
        for inline in inlines {
            match inline {
                Inline::Text(text) => self.text(text, weight),
                Inline::Code(text) => self.other(text.chars().count() as f64 * CODE_EM + 0.4),
                Inline::Cite(sids) => self.other(sids.len() as f64 * 0.9 + 0.6),
                Inline::FootnoteRef(_) => self.other(0.5),
                Inline::LineBreak => self.lines.push(Line::new()),
                Inline::Strong(inner) => self.inlines(inner, Weight::Bold)?,
                Inline::Strike(inner) | Inline::Underline(inner) | Inline::Link { inlines: inner, .. } => {
                    self.inlines(inner, weight)?;
                }
                Inline::Em(inner) | Inline::Sub(inner) | Inline::Sup(inner) => {
                    self.is_uncertain = true;
                    self.inlines(inner, weight)?;
                }
                Inline::Span { .. } | Inline::Image(_) | Inline::Math { .. } => return None,
            }
        }
        Some(())
    }

    fn text(&mut self, text: &str, weight: Weight) {
        let face = match weight {
            Weight::Regular => REGULAR.as_ref(),
            Weight::Bold => BOLD.as_ref(),
        };
        let Some(line) = self.lines.last_mut() else { return };
        line.has_other_breaks |= text.split(' ').any(|word| may_break_within(word, self.max_run));
        for c in text.chars() {
            let ems = face.and_then(|face| face.em(c)).unwrap_or_else(|| {
                self.is_uncertain = true;
                if is_cjk(c) { 1.0 } else { UNKNOWN_EM }
            });
            if c == ' ' || is_cjk(c) {
                line.piece_em = 0.0;
            }
            if c == ' ' {
                line.width_em += ems;
                line.words_em.push(0.0);
            } else {
                line.widen(ems);
            }
        }
    }

    fn other(&mut self, ems: f64) {
        self.is_uncertain = true;
        if let Some(line) = self.lines.last_mut() {
            line.widen(ems);
        }
    }
}

/// Whether a line may end within a word. Letters and digits hold together, and most marks cling to them; long runs have
/// places to break them at ([`super::code`]).
fn may_break_within(word: &str, max_run: usize) -> bool {
    let holds = |c: char| {
        c.is_alphanumeric() || matches!(c, '.' | ',' | ';' | ':' | '(' | ')' | '\'' | '"' | '%' | '\u{a0}')
    };
    let body = word.trim_end_matches(['.', ',', ';', ':']);
    let is_long = word.chars().count() > max_run / 2 && !body.chars().all(char::is_alphanumeric);
    is_long || word.chars().count() > max_run || !word.chars().all(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: CellLook = CellLook {
        size_pt: 10.0,
        gap_pt: 7.0,
        max_run: 24,
    };

    fn ems(text: &str, weight: Weight) -> f64 {
        let mut cell = CellText {
            column: 0,
            max_run: 24,
            lines: vec![Line::new()],
            is_uncertain: false,
        };
        cell.text(text, weight);
        cell.widest_em()
    }

    #[test]
    fn letters_have_the_width_of_the_font_and_bold_ones_are_wider() {
        let narrow = ems("illi", Weight::Regular);
        let wide = ems("WMWM", Weight::Regular);
        assert!(narrow > 0.9 && narrow < 1.2, "{narrow}");
        assert!(wide > 3.5 && wide < 4.0, "{wide}");
        assert!(ems("word", Weight::Bold) > ems("word", Weight::Regular));
        assert_eq!(ems("漢字", Weight::Regular), 2.0);
    }

    /// How many lines the rows of a markdown table have, head first; `None` where that is left to Typst.
    fn lines(markdown: &str, available_pt: f64) -> Vec<Option<usize>> {
        let document = crate::markdown::read(markdown);
        let Some(Block::Table(table)) = document.blocks.first() else {
            panic!("no table in {markdown}");
        };
        let measured = Measured::of(&Grid::of(table), LOOK, available_pt).expect("a table of text");
        let count = |height: &RowHeight| match height {
            RowHeight::Line(_) => Some(1),
            RowHeight::Lines(pt) => Some(((pt - INSET_HEIGHT_PT) / 12.64).round() as usize),
            RowHeight::Unknown => None,
        };
        measured.heights.iter().map(count).collect()
    }

    #[test]
    fn the_height_of_a_row_is_known_when_it_is_text_of_the_body_font() {
        let table = "| a | b |\n|---|---|\n| one | **two** |\n| x | y<br>z |\n| | |\n| `code` | x |\n| 漢字 | x |\n| x | [[S:1]] |";
        assert_eq!(
            lines(table, 400.0),
            [Some(1), Some(1), Some(2), Some(1), None, None, None]
        );
    }

    #[test]
    fn words_that_do_not_fit_make_lines_and_one_that_nearly_fits_is_left_to_typst() {
        let table = "| a |\n|---|\n| one |\n| eleven words of text and some more of them to break |";
        assert_eq!(lines(table, 400.0), [Some(1), Some(1), Some(1)]);
        assert_eq!(lines(table, 120.0), [Some(1), Some(1), Some(3)]);
        let widths = (90..130).map(|width| lines(table, f64::from(width))[2]);
        assert!(widths.clone().any(|lines| lines.is_none()) && widths.clone().any(|lines| lines.is_some()));
        for word in ["unbreakable", "a-b-c-d-e-f", "files/x/y"] {
            assert_eq!(
                lines(&format!("| a |\n|---|\n| {word} |"), 40.0),
                [Some(1), None],
                "{word}"
            );
        }
    }
}
