//! Formulas as authors type them in markdown: a safe part of LaTeX's math, read into a tree that writers print.
//!
//! Only what is understood whole is read: a formula with one unknown command gives nothing, and is then shown as it was
//! typed. Start at [`parse`]. Nothing here expands macros, so the tree is never larger than the text.

mod line;
mod names;
mod reader;

pub(crate) use reader::parse;

/// A part of a formula.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// One character: a variable, a relation, an operator, a bracket.
    Symbol(char),
    /// Digits.
    Number(String),
    /// Words within a formula, set upright.
    Text(String),
    /// A name set upright, such as `sin`.
    Operator {
        name: String,
        /// Where its scripts go.
        scripts: Scripts,
    },
    /// Parts side by side.
    Row(Vec<Node>),
    /// One over the other, with a line between them.
    Fraction(Box<Node>, Box<Node>),
    /// One over the other in brackets.
    Binomial(Box<Node>, Box<Node>),
    /// A root; without a degree it is the square root.
    Root {
        degree: Option<Box<Node>>,
        /// What stands under it.
        body: Box<Node>,
    },
    /// Something raised or lowered.
    Script {
        /// What it belongs to.
        base: Box<Node>,
        /// Lowered.
        below: Option<Box<Node>>,
        /// Raised.
        above: Option<Box<Node>>,
    },
    /// A mark over a part.
    Accent {
        /// A combining character.
        mark: char,
        body: Box<Node>,
    },
    /// A line or brace along a part.
    Span {
        /// Which.
        kind: SpanKind,
        body: Box<Node>,
    },
    /// Brackets as high as what they enclose; none on a side where nothing is shown.
    Fenced {
        /// Left.
        open: Option<char>,
        /// Between them.
        body: Box<Node>,
        /// Right.
        close: Option<char>,
    },
    /// Rows and columns.
    Grid {
        /// What it looks like.
        kind: GridKind,
        rows: Vec<Vec<Node>>,
    },
    /// A part in another alphabet.
    Styled {
        /// Which.
        style: MathStyle,
        body: Box<Node>,
    },
    /// White space, in hundredths of the type size.
    Space(i32),
}

/// Where the scripts of an operator go in a displayed formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scripts {
    /// Beside it.
    Beside,
    /// Over and under it.
    Limits,
}

/// Lines and braces along a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// A line above.
    Overline,
    /// A line below.
    Underline,
    /// A brace above; a raised script is its label.
    Overbrace,
    /// A brace below; a lowered script is its label.
    Underbrace,
}

/// What encloses rows and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GridKind {
    /// A matrix between these brackets.
    Matrix(Option<char>, Option<char>),
    /// Alternatives behind one brace.
    Cases,
    /// Lines aligned at their columns.
    Aligned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MathStyle {
    /// Upright.
    Upright,
    /// Bold.
    Bold,
    /// Italic.
    Italic,
    /// Double-struck.
    Blackboard,
    /// Calligraphic.
    Calligraphic,
    /// Fraktur.
    Fraktur,
    /// Without serifs.
    Sans,
    /// Of one width.
    Mono,
}

#[cfg(test)]
mod tests;
