//! A formula as Typst code: calls of `math` functions over string literals, so that nothing an author typed is read as
//! Typst.

use std::fmt::Write as _;

use super::code::literal;
use crate::math::{GridKind, MathStyle, Node, Scripts, SpanKind};

/// The content of an equation.
pub(crate) fn code(node: &Node) -> String {
    let mut out = String::new();
    write(&mut out, node);
    out
}

/// `[…]` with the part in it.
fn write(out: &mut String, node: &Node) {
    out.push('[');
    inside(out, node);
    out.push(']');
}

/// Statements in markup mode, without space between them.
fn inside(out: &mut String, node: &Node) {
    match node {
        Node::Symbol(c) => put(out, &format!("symbol({})", literal(&c.to_string()))),
        Node::Number(text) | Node::Text(text) => put(out, &literal(text)),
        Node::Operator { name, scripts } => {
            let limits = *scripts == Scripts::Limits;
            put(out, &format!("math.op({}, limits: {limits})", literal(name)));
        }
        Node::Row(parts) => parts.iter().for_each(|part| inside(out, part)),
        Node::Fraction(above, below) => call(out, "math.frac", &[above, below]),
        Node::Binomial(above, below) => call(out, "math.binom", &[above, below]),
        Node::Root { degree, body } => match degree {
            Some(degree) => call(out, "math.root", &[degree, body]),
            None => call(out, "math.sqrt", &[body]),
        },
        Node::Script { base, below, above } => script(out, base, below.as_deref(), above.as_deref()),
        Node::Accent { mark, body } => {
            put(
                out,
                &format!("math.accent({}, {})", code(body), literal(&mark.to_string())),
            );
        }
        Node::Span { kind, body } => call(out, span(*kind), &[body]),
        Node::Fenced { open, body, close } => {
            out.push_str("#math.lr([");
            open.iter().for_each(|c| inside(out, &Node::Symbol(*c)));
            inside(out, body);
            close.iter().for_each(|c| inside(out, &Node::Symbol(*c)));
            out.push_str("]);");
        }
        Node::Grid { kind, rows } => grid(out, *kind, rows),
        Node::Styled { style, body } => call(out, alphabet(*style), &[body]),
        Node::Space(hundredths) => put(out, &format!("h({}em)", f64::from(*hundredths) / 100.0)),
    }
}

fn put(out: &mut String, expression: &str) {
    let _ = write!(out, "#{expression};");
}

fn call(out: &mut String, function: &str, arguments: &[&Node]) {
    let arguments: Vec<String> = arguments.iter().map(|argument| code(argument)).collect();
    put(out, &format!("{function}({})", arguments.join(", ")));
}

/// A brace takes its label as an argument; everything else takes scripts.
fn script(out: &mut String, base: &Node, below: Option<&Node>, above: Option<&Node>) {
    match (base, below, above) {
        (
            Node::Span {
                kind: kind @ SpanKind::Underbrace,
                body,
            },
            Some(label),
            None,
        )
        | (
            Node::Span {
                kind: kind @ SpanKind::Overbrace,
                body,
            },
            None,
            Some(label),
        ) => call(out, span(*kind), &[body, label]),
        _ => {
            let mut code = format!("math.attach({}", code(base));
            for (name, script) in [("b", below), ("t", above)] {
                if let Some(script) = script {
                    let _ = write!(code, ", {name}: {}", self::code(script));
                }
            }
            put(out, &(code + ")"));
        }
    }
}

fn span(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Overline => "math.overline",
        SpanKind::Underline => "math.underline",
        SpanKind::Overbrace => "math.overbrace",
        SpanKind::Underbrace => "math.underbrace",
    }
}

fn alphabet(style: MathStyle) -> &'static str {
    match style {
        MathStyle::Upright => "math.upright",
        MathStyle::Bold => "math.bold",
        MathStyle::Italic => "math.italic",
        MathStyle::Blackboard => "math.bb",
        MathStyle::Calligraphic => "math.cal",
        MathStyle::Fraktur => "math.frak",
        MathStyle::Sans => "math.sans",
        MathStyle::Mono => "math.mono",
    }
}

fn grid(out: &mut String, kind: GridKind, rows: &[Vec<Node>]) {
    let delimiter = |c: Option<char>| c.map_or("none".to_owned(), |c| literal(&c.to_string()));
    let (open, close, align) = match kind {
        GridKind::Matrix(open, close) => (open, close, "center"),
        GridKind::Cases => (Some('{'), None, "left"),
        GridKind::Aligned => return aligned(out, rows),
    };
    let _ = write!(
        out,
        "#math.mat(delim: ({}, {}), align: {align}",
        delimiter(open),
        delimiter(close)
    );
    for row in rows {
        out.push_str(", (");
        for cell in row {
            write(out, cell);
            out.push_str(", ");
        }
        out.push(')');
    }
    out.push_str(");");
}

/// Lines aligned where their cells meet.
fn aligned(out: &mut String, rows: &[Vec<Node>]) {
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            out.push_str("#linebreak();");
        }
        for (index, cell) in row.iter().enumerate() {
            if index > 0 {
                out.push_str("#align-point;");
            }
            inside(out, cell);
        }
    }
}
