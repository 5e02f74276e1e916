//! A formula within one line of text, for files whose readers may not typeset any: letters in italics, scripts raised
//! and lowered, fractions with a slash and brackets where they are needed.

use super::{GridKind, Node};
use crate::doc::Inline;

impl Node {
    /// The formula as running text.
    pub(crate) fn inlines(&self) -> Vec<Inline> {
        let mut line = Line(Vec::new());
        line.node(self);
        line.0
    }

    /// Whether brackets around it would only be in the way.
    fn is_one_piece(&self) -> bool {
        match self {
            Node::Row(parts) => parts.len() == 1,
            Node::Fraction(..) => false,
            _ => true,
        }
    }
}

struct Line(Vec<Inline>);

impl Line {
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Inline::Text(before)) => before.push_str(text),
            _ => self.0.push(Inline::Text(text.to_owned())),
        }
    }

    fn space(&mut self) {
        let is_spaced = matches!(self.0.last(), Some(Inline::Text(text)) if text.ends_with(' '));
        if !is_spaced && !self.0.is_empty() {
            self.text(" ");
        }
    }

    /// Whether a sign here belongs to what follows it: nothing, a bracket, a comma or another sign comes before.
    fn is_at_start(&self) -> bool {
        match self.0.last() {
            None => true,
            Some(Inline::Text(text)) => text.ends_with(['(', '[', '{', '|', ',', ';', ' ']),
            Some(_) => false,
        }
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Symbol(c) if c.is_alphabetic() => {
                self.0.push(Inline::Em(vec![Inline::Text(c.to_string())]));
            }
            Node::Symbol(c) if is_spaced(*c) && !(is_sign(*c) && self.is_at_start()) => {
                self.space();
                self.text(&format!("{c} "));
            }
            Node::Symbol(c) => self.text(&c.to_string()),
            Node::Number(text) | Node::Text(text) => self.text(text),
            Node::Operator { name, .. } => {
                self.space();
                self.text(&format!("{name} "));
            }
            Node::Row(parts) => parts.iter().for_each(|part| self.node(part)),
            Node::Fraction(above, below) => {
                self.grouped(above);
                self.text("/");
                self.grouped(below);
            }
            Node::Binomial(above, below) => {
                self.text("(");
                self.node(above);
                self.text(" over ");
                self.node(below);
                self.text(")");
            }
            Node::Root { degree, body } => {
                self.script(degree.as_deref(), Inline::Sup);
                self.text("√");
                self.grouped(body);
            }
            Node::Script { base, below, above } => {
                match &**base {
                    Node::Operator { name, .. } => self.text(name),
                    base => self.node(base),
                }
                self.script(below.as_deref(), Inline::Sub);
                self.script(above.as_deref(), Inline::Sup);
                if matches!(**base, Node::Operator { .. }) {
                    self.text(" ");
                }
            }
            Node::Accent { mark, body } => {
                self.node(body);
                self.mark(*mark);
            }
            Node::Span { body, .. } => self.node(body),
            Node::Fenced { open, body, close } => {
                self.text(&open.map(String::from).unwrap_or_default());
                self.node(body);
                self.text(&close.map(String::from).unwrap_or_default());
            }
            Node::Grid { kind, rows } => self.grid(*kind, rows),
            Node::Styled { body, .. } => self.node(body),
            Node::Space(hundredths) => self.text(if *hundredths > 0 { " " } else { "" }),
        }
    }

    fn grouped(&mut self, node: &Node) {
        let is_bare = node.is_one_piece();
        self.text(if is_bare { "" } else { "(" });
        self.node(node);
        self.text(if is_bare { "" } else { ")" });
    }

    fn script(&mut self, script: Option<&Node>, place: fn(Vec<Inline>) -> Inline) {
        self.0.extend(script.map(|script| place(script.inlines())));
    }

    /// A combining character belongs to the letter before it, within its own run.
    fn mark(&mut self, mark: char) {
        match self.0.last_mut() {
            Some(Inline::Em(inner)) => inner.push(Inline::Text(mark.to_string())),
            _ => self.text(&mark.to_string()),
        }
    }

    fn grid(&mut self, kind: GridKind, rows: &[Vec<Node>]) {
        let (open, close, between) = match kind {
            GridKind::Matrix(open, close) => (open.or(Some('[')), close.or(Some(']')), ", "),
            GridKind::Cases => (Some('{'), None, ", "),
            GridKind::Aligned => (None, None, " "),
        };
        self.text(&open.map(String::from).unwrap_or_default());
        for (index, row) in rows.iter().enumerate() {
            self.text(if index > 0 { "; " } else { "" });
            for (index, cell) in row.iter().enumerate() {
                self.text(if index > 0 { between } else { "" });
                self.node(cell);
            }
        }
        self.text(&close.map(String::from).unwrap_or_default());
    }
}

/// What may belong to the number after it.
fn is_sign(c: char) -> bool {
    matches!(c, '+' | '−' | '±' | '∓')
}

/// Signs with space around them.
fn is_spaced(c: char) -> bool {
    const SIGNS: &str = "=<>+−±∓×→←⇒⇔∈∉⊂⊆∪∩≈∣";
    SIGNS.contains(c) || matches!(u32::from(c), 0x2260..=0x226b | 0x27f5..=0x27fc)
}
