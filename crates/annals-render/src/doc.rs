//! The document model every reader fills and every writer prints.
//!
//! Keeps only what all four writers can show. It knows no file locations, no fonts and no page: a reader
//! (markdown, HTML) produces it, a writer (Typst, DOCX, PPTX) walks it. Nesting is bounded by the readers
//! ([`crate::limits::MAX_NESTING`]), so a writer may recurse without fear for its stack.

/// A whole document in reading order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// The title in the file's metadata.
    pub title: Option<String>,
    /// The title to print above the body.
    pub heading: Option<String>,
    pub blocks: Vec<Block>,
    /// Footnote bodies; [`Inline::FootnoteRef`] points into this list.
    pub footnotes: Vec<Vec<Block>>,
    /// The cited sources, in order of their id; printed as the last section.
    pub sources: Vec<Source>,
}

impl Document {
    /// The title, unless the text itself begins with it.
    pub fn printed_title(&self) -> Option<&str> {
        let title = self.heading.as_deref()?;
        match self.blocks.first() {
            Some(Block::Heading { level: 1, inlines }) if plain_text(inlines).trim() == title.trim() => None,
            _ => Some(title),
        }
    }
}

/// Something the text cites as `[[S:n]]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Source {
    /// The number readers see, and the `n` of `[[S:n]]`.
    pub sid: u32,
    /// Title as printed in the sources section.
    pub title: String,
    /// Where it can be opened, if anywhere.
    pub url: Option<String>,
}

/// A piece of the body that stands on its own lines.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A section title, level 1 to 6.
    Heading {
        /// 1 is the largest.
        level: u8,
        inlines: Vec<Inline>,
    },
    /// Running text.
    Paragraph(Vec<Inline>),
    /// Bullets or numbers.
    List(List),
    /// Rows and columns.
    Table(Table),
    /// Preformatted text.
    Code {
        /// The language named after the fence, lower case.
        lang: Option<String>,
        /// The text byte for byte, without the last line break.
        text: String,
    },
    /// A picture alone on its line.
    Image(Image),
    /// Text taken from elsewhere.
    Quote(Vec<Block>),
    /// An aside that says by its label and colour how much it matters.
    Alert {
        /// How much.
        kind: AlertKind,
        /// What it says, without the label.
        blocks: Vec<Block>,
    },
    /// A box with a look of its own (HTML only).
    Group {
        style: Style,
        /// What stands in it.
        blocks: Vec<Block>,
    },
    /// Boxes side by side (HTML flex and grid containers).
    Columns(Vec<Vec<Block>>),
    /// A line across the page; between slides in a presentation.
    Rule,
    /// What follows starts on a new page.
    PageBreak,
    /// What the speaker says; only presentations show it.
    Notes(String),
}

/// What an alert is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertKind {
    /// Good to know.
    Note,
    /// Helps.
    Tip,
    /// Needed to succeed.
    Important,
    /// Needs attention at once.
    Warning,
    /// What may go wrong.
    Caution,
}

impl AlertKind {
    /// All of them, in the order of how much they matter.
    pub const ALL: [Self; 5] = [
        Self::Note,
        Self::Tip,
        Self::Important,
        Self::Warning,
        Self::Caution,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Note => "Note",
            Self::Tip => "Tip",
            Self::Important => "Important",
            Self::Warning => "Warning",
            Self::Caution => "Caution",
        }
    }

    /// The colour of its label and its bar.
    pub fn color(self) -> Rgb {
        match self {
            Self::Note => Rgb(0x0b, 0x5c, 0xad),
            Self::Tip => Rgb(0x1a, 0x7a, 0x45),
            Self::Important => Rgb(0x6f, 0x42, 0xc1),
            Self::Warning => Rgb(0x97, 0x5a, 0x00),
            Self::Caution => Rgb(0xb4, 0x23, 0x2f),
        }
    }

    /// The colour behind it.
    pub fn tint(self) -> Rgb {
        match self {
            Self::Note => Rgb(0xee, 0xf4, 0xfb),
            Self::Tip => Rgb(0xed, 0xf7, 0xf1),
            Self::Important => Rgb(0xf4, 0xf0, 0xfb),
            Self::Warning => Rgb(0xfd, 0xf5, 0xe6),
            Self::Caution => Rgb(0xfc, 0xee, 0xef),
        }
    }

    /// The label as it stands above the text.
    pub(crate) fn labelled(self) -> Vec<Inline> {
        vec![Inline::Span {
            style: Style {
                color: Some(self.color()),
                bold: Some(true),
                ..Style::default()
            },
            inlines: vec![Inline::Text(self.label().to_owned())],
        }]
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// The first number of an ordered list; `None` for bullets.
    pub start: Option<u64>,
    /// Items without space between them.
    pub tight: bool,
    pub items: Vec<ListItem>,
}

/// One item of a [`List`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListItem {
    /// The state of its checkbox, when it has one.
    pub checked: Option<bool>,
    pub blocks: Vec<Block>,
}

/// A table; rows may be ragged, writers pad them to [`Table::columns`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Alignment per column.
    pub aligns: Vec<Align>,
    /// How wide it is.
    pub width: TableWidth,
    /// Rows repeated on every page.
    pub head: Vec<Row>,
    /// All other rows.
    pub rows: Vec<Row>,
}

/// How wide a table is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TableWidth {
    /// As wide as its content.
    #[default]
    Natural,
    /// As wide as the text.
    Full,
}

/// The cells of one table row.
pub type Row = Vec<Cell>;

/// One cell of a [`Table`].
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    pub blocks: Vec<Block>,
    /// Columns it covers, at least 1.
    pub colspan: usize,
    /// Rows it covers, at least 1.
    pub rowspan: usize,
    /// Whether it names its row or column.
    pub header: bool,
    /// Its own look.
    pub style: Style,
}

impl Cell {
    /// A plain cell that covers one place.
    pub fn new(blocks: Vec<Block>) -> Self {
        Self {
            blocks,
            colspan: 1,
            rowspan: 1,
            header: false,
            style: Style::default(),
        }
    }
}

impl Table {
    /// How many columns the widest row needs.
    pub fn columns(&self) -> usize {
        let widest = self.head.iter().chain(&self.rows);
        let widest = widest
            .map(|row| row.iter().map(|cell| cell.colspan).sum::<usize>())
            .max();
        widest.unwrap_or(0).max(1)
    }

    /// The alignment of column `index`.
    pub fn align(&self, index: usize) -> Align {
        self.aligns.get(index).copied().unwrap_or_default()
    }
}

/// Horizontal alignment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Align {
    /// As the writing direction has it.
    #[default]
    Auto,
    /// Left.
    Left,
    /// Centre.
    Center,
    /// Right.
    Right,
}

/// A picture by reference; the bytes come from [`crate::Assets`].
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    /// What the author wrote as its address.
    pub reference: String,
    /// What stands for it when it cannot be seen.
    pub alt: String,
    /// The width the author asked for.
    pub width: Option<Length>,
    /// Printed below it when it stands alone.
    pub caption: Option<String>,
}

/// A width an author asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// CSS pixels, 96 to the inch.
    Px(f64),
    /// Of the space at hand.
    Percent(f64),
}

/// A colour, 8 bits a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// `rrggbb`.
    pub fn hex(self) -> String {
        format!("{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// The few visual properties that survive from HTML.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Style {
    /// Text colour.
    pub color: Option<Rgb>,
    /// Background colour.
    pub background: Option<Rgb>,
    /// Colour of the border, when there is one.
    pub border: Option<Rgb>,
    /// Horizontal alignment.
    pub align: Option<Align>,
    /// Bold on or off; `None` inherits.
    pub bold: Option<bool>,
    /// Italic on or off; `None` inherits.
    pub italic: Option<bool>,
    /// Size of the text in percent of its surroundings.
    pub size_percent: Option<u16>,
}

impl Style {
    /// Text that was marked, as with a pen.
    pub fn marked() -> Self {
        Self {
            background: Some(Rgb(0xff, 0xf3, 0xa3)),
            ..Self::default()
        }
    }

    /// Whether it changes nothing.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a formula stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MathPlace {
    /// Within a line of text.
    Line,
    /// On a line of its own.
    Display,
}

/// A piece of running text.
#[derive(Debug, Clone, PartialEq)]
pub enum Inline {
    /// Words; white space is already collapsed, there are no line breaks in it.
    Text(String),
    /// Bold.
    Strong(Vec<Inline>),
    /// Italic.
    Em(Vec<Inline>),
    /// Struck through.
    Strike(Vec<Inline>),
    /// Underlined.
    Underline(Vec<Inline>),
    /// Lowered.
    Sub(Vec<Inline>),
    /// Raised.
    Sup(Vec<Inline>),
    /// Code in a line.
    Code(String),
    /// A formula as its author typed it, in LaTeX. Writers typeset what they understand whole and print the rest as
    /// it stands.
    Math {
        /// What was typed between the dollar signs.
        tex: String,
        /// Where it stands.
        place: MathPlace,
    },
    /// A link to an absolute address, or to `#nowhere` (then printed as text).
    Link {
        url: String,
        /// What the reader clicks on.
        inlines: Vec<Inline>,
    },
    /// A picture within a line.
    Image(Image),
    /// `[[S:1,3]]`.
    Cite(Vec<u32>),
    /// A forced line break.
    LineBreak,
    /// Index into [`Document::footnotes`].
    FootnoteRef(usize),
    /// Text with a look of its own (HTML only).
    Span { style: Style, inlines: Vec<Inline> },
}

/// The words of `inlines` without any markup.
pub fn plain_text(inlines: &[Inline]) -> String {
    let mut out = String::new();
    push_plain(inlines, &mut out);
    out
}

fn push_plain(inlines: &[Inline], out: &mut String) {
    for inline in inlines {
        match inline {
            Inline::Text(text) | Inline::Code(text) | Inline::Math { tex: text, .. } => out.push_str(text),
            Inline::Strong(inner)
            | Inline::Em(inner)
            | Inline::Strike(inner)
            | Inline::Underline(inner)
            | Inline::Sub(inner)
            | Inline::Sup(inner)
            | Inline::Link { inlines: inner, .. }
            | Inline::Span { inlines: inner, .. } => push_plain(inner, out),
            Inline::Image(image) => out.push_str(&image.alt),
            Inline::LineBreak => out.push(' '),
            Inline::Cite(_) | Inline::FootnoteRef(_) => {}
        }
    }
}

/// About how many characters a block prints in its widest paragraph.
pub fn block_text_length(block: &Block) -> usize {
    match block {
        Block::Paragraph(inlines) | Block::Heading { inlines, .. } => plain_text(inlines).chars().count(),
        Block::Code { text, .. } => text.lines().map(|line| line.chars().count()).max().unwrap_or(0),
        Block::List(list) => list
            .items
            .iter()
            .flat_map(|item| &item.blocks)
            .map(|block| block_text_length(block) + 4)
            .max()
            .unwrap_or(0),
        Block::Quote(blocks) | Block::Alert { blocks, .. } | Block::Group { blocks, .. } => {
            blocks.iter().map(block_text_length).max().unwrap_or(0)
        }
        Block::Table(_) | Block::Columns(_) | Block::Image(_) => 40,
        Block::Rule | Block::PageBreak | Block::Notes(_) => 0,
    }
}

/// Which way a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    LeftToRight,
    RightToLeft,
}

impl Direction {
    /// That of the first letter, if there is one.
    pub(crate) fn of(inlines: &[Inline]) -> Option<Self> {
        let text = plain_text(inlines);
        let first = text.chars().find(|c| c.is_alphabetic())?;
        let is_rightward = !matches!(u32::from(first), 0x0590..=0x08FF | 0xFB1D..=0xFDFF | 0xFE70..=0xFEFF);
        Some(if is_rightward {
            Direction::LeftToRight
        } else {
            Direction::RightToLeft
        })
    }

    /// That of a document in this language.
    pub(crate) fn of_language(lang: &str) -> Self {
        match lang {
            "ar" | "he" => Direction::RightToLeft,
            _ => Direction::LeftToRight,
        }
    }
}

/// Whether an address may be opened by a click: everything else is printed as text.
pub fn is_clickable(url: &str) -> bool {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(
        scheme.as_deref(),
        Some("http" | "https" | "mailto" | "tel" | "ftp")
    )
}
