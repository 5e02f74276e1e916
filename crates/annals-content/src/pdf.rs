//! The text of a PDF, in reading order as far as the file has one.
//!
//! A PDF places glyphs; words and lines follow from where they are placed. Each shown string is compared with the
//! end of the one before: far to the right is a space, another height is a new line. Everything is decompressed
//! within one budget. Pictures of text stay pictures.

use std::collections::BTreeMap;

use annals_core::limits;
use lopdf::content::Content;
use lopdf::{Dictionary, Document, Encoding, LoadOptions, Object, decode_text_string};

/// All streams of a file unpack to at most this many bytes together.
const UNPACKED_MAX_BYTES: usize = 64_000_000;
/// A text stops growing at this many bytes.
const TEXT_MAX_BYTES: usize = 4_000_000;
/// Saved graphics states that are followed.
const SAVED_MAX_COUNT: usize = 64;
/// A gap of this many ems is a space.
const SPACE_EMS: f32 = 0.18;
/// A step of this many ems is a new line, and of the second number a new paragraph.
const LINE_EMS: f32 = 0.5;
const PARAGRAPH_EMS: f32 = 1.9;

/// What a PDF says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PdfText {
    /// Its title, if it declares one.
    pub title: Option<String>,
    /// Its text, pages separated by a blank line.
    pub text: String,
}

/// Why a PDF cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PdfError {
    /// It is damaged, or no PDF.
    #[error("it is damaged: {0}")]
    Damaged(#[from] lopdf::Error),
    /// It needs a password.
    #[error("it is encrypted and needs a password")]
    Encrypted,
    /// It has pages, but none of them has text.
    #[error("its {pages} pages have no text, probably they are scanned pictures")]
    NoText {
        /// How many.
        pages: usize,
    },
}

/// Reads a PDF.
pub fn text(bytes: &[u8]) -> Result<PdfText, PdfError> {
    text_within(bytes, UNPACKED_MAX_BYTES)
}

fn text_within(bytes: &[u8], unpacked_max_bytes: usize) -> Result<PdfText, PdfError> {
    let document =
        Document::load_mem_with_options(bytes, LoadOptions::with_max_decompressed_size(unpacked_max_bytes))?;
    if document.is_encrypted() {
        return Err(PdfError::Encrypted);
    }
    let pages = document.get_pages();
    let mut unpacked_bytes = 0;
    let mut text = String::new();
    for (read, page) in pages.values().enumerate() {
        let left = unpacked_max_bytes.saturating_sub(unpacked_bytes);
        if text.len() > TEXT_MAX_BYTES || read >= limits::PDF_MAX_PAGES as usize || left == 0 {
            text.push_str(&format!(
                "\n\n...[{} more pages are not read]",
                pages.len() - read
            ));
            break;
        }
        // One broken page does not cost the others.
        let Ok(content) = document.get_page_content_with_limit(*page, left) else {
            continue;
        };
        unpacked_bytes += content.len();
        let Ok(content) = Content::decode(&content) else {
            continue;
        };
        let mut sheet = Sheet::new(fonts(&document, *page));
        content
            .operations
            .iter()
            .for_each(|operation| sheet.perform(&operation.operator, &operation.operands));
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(sheet.text.trim());
    }
    if !text.chars().any(char::is_alphanumeric) {
        return Err(PdfError::NoText { pages: pages.len() });
    }
    Ok(PdfText {
        title: title(&document),
        text,
    })
}

fn title(document: &Document) -> Option<String> {
    let info = document
        .trailer
        .get_deref(b"Info", document)
        .ok()?
        .as_dict()
        .ok()?;
    let title = decode_text_string(info.get_deref(b"Title", document).ok()?).ok()?;
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then_some(title)
}

fn fonts(document: &Document, page: lopdf::ObjectId) -> BTreeMap<Vec<u8>, Font<'_>> {
    let fonts = document.get_page_fonts(page).unwrap_or_default();
    fonts
        .into_iter()
        .map(|(name, font)| (name, Font::of(document, font)))
        .collect()
}

/// How a font turns codes into characters and widths.
struct Font<'a> {
    encoding: Option<Encoding<'a>>,
    code_bytes: usize,
    widths: BTreeMap<u32, f32>,
    default_width: f32,
}

impl<'a> Font<'a> {
    fn of(document: &'a Document, font: &'a Dictionary) -> Self {
        let encoding = font
            .get_font_encoding_with_limit(document, UNPACKED_MAX_BYTES)
            .ok();
        let below = font
            .get_deref(b"DescendantFonts", document)
            .and_then(Object::as_array)
            .ok();
        match below.and_then(|fonts| document.dereference(fonts.first()?).ok()?.1.as_dict().ok()) {
            Some(below) => {
                let default_width = below.get(b"DW").and_then(Object::as_float).unwrap_or(1000.0);
                Font {
                    encoding,
                    code_bytes: 2,
                    widths: cid_widths(document, below),
                    default_width,
                }
            }
            None => Font {
                encoding,
                code_bytes: 1,
                widths: simple_widths(document, font),
                default_width: 500.0,
            },
        }
    }

    /// The width of a string in thousandths of an em, and how many codes it has.
    fn width(&self, bytes: &[u8]) -> (f32, usize) {
        let codes = bytes
            .chunks(self.code_bytes)
            .map(|code| code.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)));
        let width = |code: u32| self.widths.get(&code).copied().unwrap_or(self.default_width);
        (codes.map(width).sum(), bytes.len().div_ceil(self.code_bytes))
    }

    fn decode(&self, bytes: &[u8]) -> String {
        let decoded = self
            .encoding
            .as_ref()
            .and_then(|encoding| Document::decode_text(encoding, bytes).ok());
        match decoded {
            Some(text) => text,
            // Without any table the codes of a simple font are most likely characters.
            None if self.code_bytes == 1 => bytes
                .iter()
                .filter(|byte| byte.is_ascii())
                .map(|byte| *byte as char)
                .collect(),
            None => String::new(),
        }
    }
}

fn simple_widths(document: &Document, font: &Dictionary) -> BTreeMap<u32, f32> {
    let first = font
        .get_deref(b"FirstChar", document)
        .and_then(Object::as_i64)
        .unwrap_or(0);
    let widths = font.get_deref(b"Widths", document).and_then(Object::as_array);
    let widths = widths.map(Vec::as_slice).unwrap_or_default();
    let code = |index: usize| u32::try_from(first).unwrap_or(0).saturating_add(index as u32);
    widths
        .iter()
        .enumerate()
        .filter_map(|(index, width)| Some((code(index), number(document, width)?)))
        .collect()
}

/// `c [w1 w2 …]` gives widths from code `c` on, `first last w` one width to a range.
fn cid_widths(document: &Document, font: &Dictionary) -> BTreeMap<u32, f32> {
    const RANGE_MAX_CODES: u32 = 65_536;
    let mut widths = BTreeMap::new();
    let Ok(list) = font.get_deref(b"W", document).and_then(Object::as_array) else {
        return widths;
    };
    let mut rest = list.as_slice();
    while let [first, second, tail @ ..] = rest {
        let Some(first) = number(document, first).map(|first| first as u32) else {
            break;
        };
        if let Ok((_, Object::Array(each))) = document.dereference(second) {
            let each = each.iter().filter_map(|width| number(document, width));
            widths.extend(
                each.enumerate()
                    .map(|(index, width)| (first.saturating_add(index as u32), width)),
            );
            rest = tail;
        } else if let ([width, tail @ ..], Some(last)) =
            (tail, number(document, second).map(|last| last as u32))
        {
            let width = number(document, width).unwrap_or(1000.0);
            widths
                .extend((first..=last.min(first.saturating_add(RANGE_MAX_CODES))).map(|code| (code, width)));
            rest = tail;
        } else {
            break;
        }
    }
    widths
}

fn number(document: &Document, object: &Object) -> Option<f32> {
    document.dereference(object).ok()?.1.as_float().ok()
}

/// A transformation `[a b c d e f]` as PDF writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Matrix([f32; 6]);

impl Matrix {
    const IDENTITY: Matrix = Matrix([1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);

    fn moved(x: f32, y: f32) -> Self {
        Matrix([1.0, 0.0, 0.0, 1.0, x, y])
    }

    fn of(operands: &[Object]) -> Option<Self> {
        let mut values = [0.0; 6];
        for (value, operand) in values.iter_mut().zip(operands.get(..6)?) {
            *value = operand.as_float().ok()?;
        }
        Some(Matrix(values))
    }

    /// First this, then the other.
    fn then(self, other: Self) -> Self {
        let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (self.0, other.0);
        Matrix([
            a * g + b * i,
            a * h + b * j,
            c * g + d * i,
            c * h + d * j,
            e * g + f * i + k,
            e * h + f * j + l,
        ])
    }

    fn origin(self) -> (f32, f32) {
        (self.0[4], self.0[5])
    }

    /// How high one unit becomes.
    fn scale(self) -> f32 {
        self.0[2].hypot(self.0[3])
    }
}

/// The part of the graphics state that text needs.
#[derive(Clone)]
struct State {
    page: Matrix,
    font: Option<Vec<u8>>,
    size: f32,
    leading: f32,
    char_space: f32,
    word_space: f32,
    stretch: f32,
}

/// A page as its operators build it.
struct Sheet<'a> {
    fonts: BTreeMap<Vec<u8>, Font<'a>>,
    state: State,
    saved: Vec<State>,
    glyph: Matrix,
    line: Matrix,
    end: Option<(f32, f32)>,
    text: String,
}

impl<'a> Sheet<'a> {
    fn new(fonts: BTreeMap<Vec<u8>, Font<'a>>) -> Self {
        let state = State {
            page: Matrix::IDENTITY,
            font: None,
            size: 1.0,
            leading: 0.0,
            char_space: 0.0,
            word_space: 0.0,
            stretch: 1.0,
        };
        let (glyph, line) = (Matrix::IDENTITY, Matrix::IDENTITY);
        Sheet {
            fonts,
            state,
            saved: Vec::new(),
            glyph,
            line,
            end: None,
            text: String::new(),
        }
    }

    fn perform(&mut self, operator: &str, operands: &[Object]) {
        let at = |index: usize| {
            operands
                .get(index)
                .and_then(|operand| operand.as_float().ok())
                .unwrap_or(0.0)
        };
        match operator {
            "q" if self.saved.len() < SAVED_MAX_COUNT => self.saved.push(self.state.clone()),
            "Q" => self.state = self.saved.pop().unwrap_or_else(|| self.state.clone()),
            "cm" => {
                self.state.page = Matrix::of(operands)
                    .unwrap_or(Matrix::IDENTITY)
                    .then(self.state.page)
            }
            "BT" => self.place(Matrix::IDENTITY),
            "Tm" => self.place(Matrix::of(operands).unwrap_or(Matrix::IDENTITY)),
            "Td" => self.step(at(0), at(1)),
            "TD" => {
                self.state.leading = -at(1);
                self.step(at(0), at(1));
            }
            "T*" => self.step(0.0, -self.state.leading),
            "TL" => self.state.leading = at(0),
            "Tc" => self.state.char_space = at(0),
            "Tw" => self.state.word_space = at(0),
            "Tz" => self.state.stretch = at(0) / 100.0,
            "Tf" => {
                self.state.font = operands
                    .first()
                    .and_then(|name| name.as_name().ok())
                    .map(<[u8]>::to_vec);
                self.state.size = at(1);
            }
            "Tj" => self.show_all(operands),
            "TJ" => operands
                .first()
                .and_then(|list| list.as_array().ok())
                .into_iter()
                .for_each(|list| self.show_all(list)),
            "'" => {
                self.step(0.0, -self.state.leading);
                self.show_all(operands);
            }
            "\"" => {
                (self.state.word_space, self.state.char_space) = (at(0), at(1));
                self.step(0.0, -self.state.leading);
                self.show_all(operands.get(2..).unwrap_or_default());
            }
            _ => {}
        }
    }

    fn place(&mut self, at: Matrix) {
        (self.line, self.glyph) = (at, at);
    }

    fn step(&mut self, x: f32, y: f32) {
        self.place(Matrix::moved(x, y).then(self.line));
    }

    fn advance(&mut self, x: f32) {
        self.glyph = Matrix::moved(x * self.state.stretch, 0.0).then(self.glyph);
    }

    fn show_all(&mut self, pieces: &[Object]) {
        for piece in pieces {
            match piece {
                Object::String(bytes, _) => self.show(bytes),
                other => {
                    let back = other.as_float().unwrap_or(0.0);
                    self.advance(-back / 1000.0 * self.state.size);
                }
            }
        }
    }

    fn show(&mut self, bytes: &[u8]) {
        let Some(font) = self.state.font.as_ref().and_then(|name| self.fonts.get(name)) else {
            return;
        };
        let text = font.decode(bytes);
        let (width, codes) = font.width(bytes);
        let spaces = if font.code_bytes == 1 {
            bytes.iter().filter(|byte| **byte == b' ').count()
        } else {
            0
        };
        let place = self.glyph.then(self.state.page);
        let em = (self.state.size * place.scale()).abs().max(0.01);
        self.separate(place.origin(), em);
        self.text
            .extend(text.chars().filter(|c| !c.is_control() || *c == '\t'));
        self.advance(
            width / 1000.0 * self.state.size
                + codes as f32 * self.state.char_space
                + spaces as f32 * self.state.word_space,
        );
        self.end = Some(self.glyph.then(self.state.page).origin());
    }

    /// What stands between the last string and one that begins here.
    fn separate(&mut self, (x, y): (f32, f32), em: f32) {
        let Some((end_x, end_y)) = self.end else { return };
        let (right, down) = ((x - end_x) / em, (y - end_y).abs() / em);
        let between = match () {
            () if down > PARAGRAPH_EMS => "\n\n",
            () if down > LINE_EMS => "\n",
            () if !(-1.0..=SPACE_EMS).contains(&right) => " ",
            () => "",
        };
        if between == " " && self.text.ends_with(char::is_whitespace) {
            return;
        }
        self.text.push_str(between);
    }
}

#[cfg(test)]
#[path = "pdf_tests.rs"]
mod tests;
