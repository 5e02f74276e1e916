//! Markdown made pleasant while it streams: headings, emphasis and code get a style, links can be clicked; nothing is moved
//! or left out.
//!
//! Works character by character with one line of memory at most, so that text appears as it comes.

use anstyle::Style;

use crate::paint;

/// Styles a stream of Markdown.
#[derive(Default)]
pub(crate) struct Markdown {
    /// What came at the start of a line and does not yet tell what the line is.
    held: String,
    line: Line,
    is_fenced: bool,
    is_bold: bool,
    is_code: bool,
    /// A `*` whose partner may follow.
    star: bool,
    /// What may become a link, from its `[` on.
    link: String,
}

/// What begins like a link and goes on for longer is none.
const LINK_MAX_BYTES: usize = 2_000;

/// What the current line is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Line {
    /// Not known yet.
    #[default]
    Start,
    Heading,
    Plain,
    /// Opens or closes a fence.
    Fence,
}

impl Markdown {
    /// The next piece of text, styled.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 16);
        for c in text.chars() {
            match self.line {
                Line::Start => self.begin(c, &mut out),
                _ => self.go_on(c, &mut out),
            }
        }
        out
    }

    /// What is still held back, and the end of every style.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.decide(&mut out);
        while !self.link.is_empty() {
            self.give_up_link(&mut out);
        }
        if self.star {
            out.push('*');
        }
        out.push_str(&format!("{:#}", Style::new().bold()));
        *self = Markdown::default();
        out
    }

    fn begin(&mut self, c: char, out: &mut String) {
        self.held.push(c);
        let undecided = matches!(self.held.as_str(), "`" | "``")
            || (self.held.bytes().all(|b| b == b'#') && !self.is_fenced);
        if !undecided {
            self.decide(out);
        }
    }

    fn decide(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return;
        }
        self.line = Line::Plain;
        if held == "```" {
            self.line = Line::Fence;
            out.push_str(&format!("{}{held}", paint::DIM));
        } else if held.starts_with('#') && held.ends_with(' ') && !self.is_fenced {
            self.line = Line::Heading;
            out.push_str(&format!("{}{held}", paint::TITLE));
        } else {
            for c in held.chars() {
                self.go_on(c, out);
            }
        }
    }

    fn go_on(&mut self, c: char, out: &mut String) {
        if !self.link.is_empty() && c != '\n' {
            return self.go_on_with_link(c, out);
        }
        let styled_line = self.line != Line::Plain || self.is_fenced;
        match c {
            '\n' => self.end_line(out),
            '[' if !styled_line && !self.is_code => {
                if std::mem::take(&mut self.star) {
                    out.push('*');
                }
                self.link.push('[');
            }
            '`' if !styled_line => {
                self.is_code = !self.is_code;
                self.toggle(self.is_code, paint::NAME, out);
            }
            '*' if !styled_line && !self.is_code => {
                let is_second = self.star;
                self.star = !is_second;
                if is_second {
                    self.is_bold = !self.is_bold;
                    self.toggle(self.is_bold, paint::BOLD, out);
                }
            }
            c => {
                if std::mem::take(&mut self.star) {
                    out.push('*');
                }
                out.push(c);
            }
        }
    }

    fn go_on_with_link(&mut self, c: char, out: &mut String) {
        self.link.push(c);
        let is_open = match self.link.split_once(']') {
            None => c != '[',
            Some((_, rest)) if c == ')' && rest.starts_with('(') => {
                let link = std::mem::take(&mut self.link);
                return self.end_link(&link, out);
            }
            Some((_, rest)) => rest.is_empty() || (rest.starts_with('(') && !c.is_whitespace()),
        };
        if !is_open || self.link.len() > LINK_MAX_BYTES {
            self.give_up_link(out);
        }
    }

    /// `[text](address)`, whole.
    fn end_link(&mut self, link: &str, out: &mut String) {
        let parts = link
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(')')?.split_once("]("));
        match parts {
            Some((text, address)) if paint::is_web_address(address) => {
                out.push_str(&paint::web_link(address, text));
                if text != address {
                    out.push_str(&format!(" {}({address}){:#}", paint::DIM, paint::DIM));
                }
            }
            _ => out.push_str(link),
        }
    }

    /// It was no link: the text goes on after its first character.
    fn give_up_link(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.link);
        let mut rest = held.chars();
        out.extend(rest.next());
        rest.for_each(|c| self.go_on(c, out));
    }

    fn toggle(&self, is_on: bool, style: Style, out: &mut String) {
        out.push_str(&if is_on {
            format!("{style}")
        } else {
            format!("{style:#}")
        });
    }

    fn end_line(&mut self, out: &mut String) {
        while !self.link.is_empty() {
            self.give_up_link(out);
        }
        if std::mem::take(&mut self.star) {
            out.push('*');
        }
        if self.line == Line::Fence {
            self.is_fenced = !self.is_fenced;
        }
        if self.line != Line::Plain || self.is_bold || self.is_code {
            out.push_str(&format!("{:#}", paint::BOLD));
        }
        (self.is_bold, self.is_code, self.line) = (false, false, Line::Start);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, piece: usize) -> String {
        let mut markdown = Markdown::default();
        let mut out = String::new();
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(piece) {
            out.push_str(&markdown.push(&piece.iter().collect::<String>()));
        }
        out.push_str(&markdown.finish());
        anstream::adapter::strip_str(&out).to_string()
    }

    #[test]
    fn a_link_shows_its_text_and_where_it_leads() {
        for (text, expected) in [
            (
                "see [the *docs*](https://x.example/a?b) now",
                "see the *docs* (https://x.example/a?b) now",
            ),
            ("[https://x.example](https://x.example)", "https://x.example"),
            (
                "[a](javascript:x) [b](files/c.pdf)",
                "[a](javascript:x) [b](files/c.pdf)",
            ),
            ("[[S:1]] [x] (y) [z", "[[S:1]] [x] (y) [z"),
            ("[a\n](https://x.example)", "[a\n](https://x.example)"),
            ("`[a](https://x.example)`", "[a](https://x.example)"),
            ("2 * [3] ** [4](", "2 * [3]  [4]("),
        ] {
            for piece in [1, 3, 100] {
                assert_eq!(plain(text, piece), expected, "pieces of {piece}");
            }
        }
        let link = Markdown::default().push("[a](https://x.example)");
        assert!(link.contains("\u{1b}]8;;https://x.example\u{1b}\\"), "{link:?}");
    }

    #[test]
    fn nothing_is_lost_but_the_marks_whatever_the_pieces() {
        let text =
            "# Title\n\nSome **bold** and `code` and 2 * 3.\n```py\n# no heading **here**\n```\n#hash\n- *x";
        let expected =
            "# Title\n\nSome bold and code and 2 * 3.\n```py\n# no heading **here**\n```\n#hash\n- *x";
        for piece in [1, 2, 3, 7, 100] {
            assert_eq!(plain(text, piece), expected, "pieces of {piece}");
        }
    }
}
