//! From text to a tree: one pass, bounded depth, all or nothing.

use super::names;
use super::{GridKind, Node, Scripts, SpanKind};
use crate::limits::{MAX_FORMULA_BYTES, MAX_NESTING};

/// Reads a formula; nothing when any part of it is not understood.
pub(crate) fn parse(tex: &str) -> Option<Node> {
    if tex.len() > MAX_FORMULA_BYTES {
        return None;
    }
    let mut reader = Reader {
        rest: tex,
        depth: 0,
        bracket: Bracket::IsSymbol,
    };
    let body = match reader.lines()? {
        Lines::One(node) => node,
        Lines::Many(rows) => Node::Grid {
            kind: GridKind::Aligned,
            rows,
        },
    };
    reader.rest.is_empty().then_some(body)
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
    bracket: Bracket,
}

/// What `]` is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bracket {
    IsSymbol,
    EndsArgument,
}

/// What a text without an environment around it is.
enum Lines {
    One(Node),
    Many(Vec<Vec<Node>>),
}

impl<'a> Reader<'a> {
    fn skip_space(&mut self) {
        self.rest = self
            .rest
            .trim_start_matches(|c: char| c.is_whitespace() || c == '~');
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest.chars().next()
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.skip_space();
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    /// The name of the command that comes next: letters, or one other character.
    fn command(&self) -> Option<&'a str> {
        let after = self.rest.strip_prefix('\\')?;
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let length = match letters {
            0 => after.chars().next()?.len_utf8(),
            letters => letters,
        };
        Some(&after[..length])
    }

    fn is_command(&mut self, name: &str) -> bool {
        self.skip_space();
        self.command() == Some(name)
    }

    /// Whether a row ends here: nothing follows, or what its surroundings must take.
    fn is_end(&mut self) -> bool {
        match self.peek() {
            None | Some('}' | '&') => true,
            Some(']') => self.bracket == Bracket::EndsArgument,
            Some('\\') => matches!(self.command(), Some("\\" | "right" | "end" | "cr")),
            Some(_) => false,
        }
    }

    fn lines(&mut self) -> Option<Lines> {
        let mut rows = self.rows()?;
        match rows.as_mut_slice() {
            [row] if row.len() == 1 => Some(Lines::One(row.pop()?)),
            _ => Some(Lines::Many(rows)),
        }
    }

    /// Cells between `&`, rows between `\\`.
    fn rows(&mut self) -> Option<Vec<Vec<Node>>> {
        let mut rows = vec![vec![self.row()?]];
        loop {
            if self.take("&").is_some() {
                let cell = self.row()?;
                rows.last_mut()?.push(cell);
            } else if self.is_command("\\") || self.is_command("cr") {
                let name = self.command()?;
                self.rest = &self.rest[1 + name.len()..];
                rows.push(vec![self.row()?]);
            } else {
                break;
            }
        }
        // A last line that was only announced.
        let is_blank = |row: &Vec<Node>| matches!(row.as_slice(), [Node::Row(parts)] if parts.is_empty());
        if rows.len() > 1 && rows.last().is_some_and(is_blank) {
            rows.pop();
        }
        Some(rows)
    }

    /// Reads with another meaning of `]`.
    fn with<T>(&mut self, bracket: Bracket, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let was = std::mem::replace(&mut self.bracket, bracket);
        let done = read(self);
        self.bracket = was;
        done
    }

    fn row(&mut self) -> Option<Node> {
        self.depth += 1;
        if self.depth > MAX_NESTING * 2 {
            return None;
        }
        let mut parts = Vec::new();
        while !self.is_end() {
            parts.extend(self.part()?);
        }
        self.depth -= 1;
        Some(match parts.len() {
            1 => parts.pop()?,
            _ => Node::Row(parts),
        })
    }

    /// One part with its scripts; nothing for commands that only change the look.
    fn part(&mut self) -> Option<Option<Node>> {
        const LOOKS: [&str; 7] = [
            "displaystyle",
            "textstyle",
            "scriptstyle",
            "limits",
            "nolimits",
            "nonumber",
            "notag",
        ];
        self.skip_space();
        if let Some(name) = self.command()
            && LOOKS.contains(&name)
        {
            self.rest = &self.rest[1 + name.len()..];
            return Some(None);
        }
        let base = match self.peek()? {
            '^' | '_' | '\'' => Node::Row(Vec::new()),
            _ => self.atom()?,
        };
        self.scripts(base).map(Some)
    }

    fn scripts(&mut self, base: Node) -> Option<Node> {
        let (mut below, mut above, mut primes) = (None, None, 0_usize);
        loop {
            if self.is_command("limits") || self.is_command("nolimits") {
                let name = self.command()?;
                self.rest = &self.rest[1 + name.len()..];
                continue;
            }
            match self.peek() {
                Some('^') if above.is_none() => {
                    self.take("^")?;
                    above = Some(self.argument()?);
                }
                Some('_') if below.is_none() => {
                    self.take("_")?;
                    below = Some(self.argument()?);
                }
                Some('\'') => {
                    self.take("'")?;
                    primes += 1;
                }
                Some('^' | '_') => return None,
                _ => break,
            }
        }
        if primes > 0 {
            let mut raised = vec![Node::Symbol('′'); primes];
            raised.extend(above.take());
            above = Some(Node::Row(raised));
        }
        if below.is_none() && above.is_none() {
            return Some(base);
        }
        Some(Node::Script {
            base: Box::new(base),
            below: below.map(Box::new),
            above: above.map(Box::new),
        })
    }

    /// What a command or a script applies to: a group, or one part.
    fn argument(&mut self) -> Option<Node> {
        match self.peek()? {
            '{' => self.group(),
            '0'..='9' => {
                // Without braces only one digit is meant.
                let (digit, rest) = self.rest.split_at(1);
                self.rest = rest;
                Some(Node::Number(digit.to_owned()))
            }
            '}' | '&' | '^' | '_' => None,
            _ => self.atom(),
        }
    }

    fn group(&mut self) -> Option<Node> {
        self.take("{")?;
        let body = self.with(Bracket::IsSymbol, Self::row)?;
        self.take("}")?;
        Some(body)
    }

    /// The letters between braces, as they are.
    fn raw_group(&mut self) -> Option<&'a str> {
        self.take("{")?;
        let end = self.rest.find(['{', '}', '\\', '$'])?;
        let text = &self.rest[..end];
        self.rest = &self.rest[end..];
        self.rest = self.rest.strip_prefix('}')?;
        Some(text)
    }

    fn atom(&mut self) -> Option<Node> {
        match self.peek()? {
            '{' => self.group(),
            '\\' => {
                let name = self.command()?;
                self.rest = &self.rest[1 + name.len()..];
                self.meaning(name)
            }
            '0'..='9' => {
                let end = self
                    .rest
                    .find(|c: char| !c.is_ascii_digit() && c != '.')
                    .unwrap_or(self.rest.len());
                // A full stop after a number ends the sentence.
                let digits = self.rest[..end].trim_end_matches('.');
                self.rest = &self.rest[digits.len()..];
                Some(Node::Number(digits.to_owned()))
            }
            '#' | '$' | '%' | '&' | '}' | '^' | '_' => None,
            c => {
                self.rest = &self.rest[c.len_utf8()..];
                Some(Node::Symbol(match c {
                    '-' => '−',
                    '*' => '∗',
                    c => c,
                }))
            }
        }
    }

    fn meaning(&mut self, name: &str) -> Option<Node> {
        if let Some(symbol) = names::symbol(name) {
            return Some(Node::Symbol(symbol));
        }
        if let Some((name, scripts)) = names::operator(name) {
            let name = name.to_owned();
            return Some(Node::Operator { name, scripts });
        }
        if let Some(hundredths) = names::space(name) {
            return Some(Node::Space(hundredths));
        }
        if let Some(mark) = names::accent(name) {
            let body = Box::new(self.argument()?);
            return Some(Node::Accent { mark, body });
        }
        if let Some(kind) = names::span(name) {
            return self.span(kind);
        }
        if let Some(style) = names::style(name) {
            let body = Box::new(self.argument()?);
            return Some(Node::Styled { style, body });
        }
        self.construct(name)
    }

    fn span(&mut self, kind: SpanKind) -> Option<Node> {
        let body = Box::new(self.argument()?);
        Some(Node::Span { kind, body })
    }

    fn construct(&mut self, name: &str) -> Option<Node> {
        match name {
            "frac" | "dfrac" | "tfrac" | "cfrac" => {
                let above = Box::new(self.argument()?);
                Some(Node::Fraction(above, Box::new(self.argument()?)))
            }
            "binom" | "dbinom" | "tbinom" => {
                let above = Box::new(self.argument()?);
                Some(Node::Binomial(above, Box::new(self.argument()?)))
            }
            "sqrt" => self.root(),
            "text" | "mbox" | "textrm" | "textit" | "textbf" | "mathtext" => {
                Some(Node::Text(self.raw_group()?.to_owned()))
            }
            "operatorname" => {
                let scripts = match self.take("*") {
                    Some(()) => Scripts::Limits,
                    None => Scripts::Beside,
                };
                let name = self.raw_group()?.to_owned();
                Some(Node::Operator { name, scripts })
            }
            "left" => self.fenced(),
            "begin" => self.environment(),
            "not" => match self.atom()? {
                Node::Symbol(symbol) => names::negated(symbol).map(Node::Symbol),
                _ => None,
            },
            "bmod" | "mod" => Some(Node::Operator {
                name: "mod".into(),
                scripts: Scripts::Beside,
            }),
            "big" | "Big" | "bigg" | "Bigg" | "bigl" | "bigr" | "Bigl" | "Bigr" | "biggl" | "biggr"
            | "middle" => Some(self.delimiter()?.map_or(Node::Row(Vec::new()), Node::Symbol)),
            _ => None,
        }
    }

    fn root(&mut self) -> Option<Node> {
        let degree = match self.take("[") {
            Some(()) => {
                let degree = self.with(Bracket::EndsArgument, Self::row)?;
                self.take("]")?;
                Some(Box::new(degree))
            }
            None => None,
        };
        let body = Box::new(self.argument()?);
        Some(Node::Root { degree, body })
    }

    /// A bracket; `.` is none.
    fn delimiter(&mut self) -> Option<Option<char>> {
        match self.peek()? {
            '.' => self.take(".").map(|()| None),
            '\\' => {
                let name = self.command()?;
                self.rest = &self.rest[1 + name.len()..];
                names::symbol(name).map(Some)
            }
            c @ ('(' | ')' | '[' | ']' | '|' | '/' | '<' | '>') => {
                self.rest = &self.rest[1..];
                Some(Some(match c {
                    '<' => '⟨',
                    '>' => '⟩',
                    c => c,
                }))
            }
            _ => None,
        }
    }

    fn fenced(&mut self) -> Option<Node> {
        let open = self.delimiter()?;
        let body = Box::new(self.with(Bracket::IsSymbol, Self::row)?);
        self.take("\\right")?;
        let close = self.delimiter()?;
        Some(Node::Fenced { open, body, close })
    }

    fn environment(&mut self) -> Option<Node> {
        let name = self.raw_group()?;
        let kind = match name.trim_end_matches('*') {
            "matrix" | "smallmatrix" => GridKind::Matrix(None, None),
            "pmatrix" => GridKind::Matrix(Some('('), Some(')')),
            "bmatrix" => GridKind::Matrix(Some('['), Some(']')),
            "Bmatrix" => GridKind::Matrix(Some('{'), Some('}')),
            "vmatrix" => GridKind::Matrix(Some('|'), Some('|')),
            "Vmatrix" => GridKind::Matrix(Some('‖'), Some('‖')),
            "array" => {
                self.raw_group()?;
                GridKind::Matrix(None, None)
            }
            "cases" => GridKind::Cases,
            "aligned" | "align" | "split" | "gathered" | "gather" | "equation" => GridKind::Aligned,
            _ => return None,
        };
        let rows = self.with(Bracket::IsSymbol, Self::rows)?;
        self.take("\\end")?;
        (self.raw_group()? == name).then_some(Node::Grid { kind, rows })
    }
}
