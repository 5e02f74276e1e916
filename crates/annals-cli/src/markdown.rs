//! Markdown made pleasant while it streams: headings, emphasis and code get a style, links can be clicked, citations get
//! the numbers people know; nothing is moved or left out.
//!
//! Works character by character with one line of memory at most, so that text appears as it comes.

use annals::core::ids::Sid;
use annals::core::sources::citation;
use anstyle::Style;

use crate::citations::{Citations, Source};
use crate::paint;
use crate::screen_text::ScreenText;
use crate::shown;

/// Where a citation looks its source up.
pub(crate) type Find = Box<dyn Fn(Sid) -> Option<Source> + Send>;

/// Styles a stream of Markdown.
pub(crate) struct Markdown {
    /// What came at the start of a line and does not yet tell what the line is.
    held: String,
    line: Line,
    is_fenced: bool,
    is_bold: bool,
    is_code: bool,
    /// A `*` whose partner may follow.
    star: bool,
    /// What may become a link or a citation, from its `[` on.
    link: String,
    citations: Citations,
    find: Find,
}

/// What begins like a link and goes on for longer is none.
const LINK_MAX_BYTES: usize = 2_000;

/// How a citation begins.
const CITATION_OPEN: &str = "[[S:";

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
    /// A stream whose citations are looked up here.
    pub(crate) fn new(find: Find) -> Self {
        Markdown {
            held: String::new(),
            line: Line::Start,
            is_fenced: false,
            is_bold: false,
            is_code: false,
            star: false,
            link: String::new(),
            citations: Citations::default(),
            find,
        }
    }

    /// The next piece of text, styled.
    pub(crate) fn push(&mut self, text: &str) -> ScreenText {
        let mut out = ScreenText::default();
        for c in text.chars() {
            match self.line {
                Line::Start => self.begin(c, &mut out),
                _ => self.go_on(c, &mut out),
            }
        }
        out
    }

    /// What is still held back, the end of every style, and the list of what was cited.
    pub(crate) fn finish(&mut self) -> (ScreenText, ScreenText) {
        let mut out = ScreenText::default();
        self.decide(&mut out);
        while !self.link.is_empty() {
            self.give_up_link(&mut out);
        }
        self.end_star(&mut out);
        out.push(ScreenText::reset());
        let find = std::mem::replace(&mut self.find, Box::new(|_| None));
        let sources = self.citations.list("", &find);
        *self = Markdown::new(find);
        (out, sources)
    }

    fn begin(&mut self, c: char, out: &mut ScreenText) {
        self.held.push(c);
        let undecided = matches!(self.held.as_str(), "`" | "``")
            || (self.held.bytes().all(|b| b == b'#') && !self.is_fenced);
        if !undecided {
            self.decide(out);
        }
    }

    fn decide(&mut self, out: &mut ScreenText) {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return;
        }
        self.line = Line::Plain;
        if held == "```" {
            self.line = Line::Fence;
            out.push(ScreenText::begin(paint::DIM));
            out.push(held);
        } else if held.starts_with('#') && held.ends_with(' ') && !self.is_fenced {
            self.line = Line::Heading;
            out.push(ScreenText::begin(paint::TITLE));
            out.push(held);
        } else {
            for c in held.chars() {
                self.go_on(c, out);
            }
        }
    }

    fn go_on(&mut self, c: char, out: &mut ScreenText) {
        if !self.link.is_empty() && c != '\n' {
            return self.go_on_with_link(c, out);
        }
        let is_verbatim = self.line == Line::Fence || self.is_fenced;
        let is_plain = self.line == Line::Plain && !is_verbatim;
        match c {
            '\n' => self.end_line(out),
            '[' if !is_verbatim && !self.is_code => {
                self.end_star(out);
                self.link.push('[');
            }
            '`' if is_plain => {
                self.is_code = !self.is_code;
                self.toggle(self.is_code, paint::NAME, out);
            }
            '*' if is_plain && !self.is_code => {
                let is_second = self.star;
                self.star = !is_second;
                if is_second {
                    self.is_bold = !self.is_bold;
                    self.toggle(self.is_bold, paint::BOLD, out);
                }
            }
            c => {
                self.end_star(out);
                out.push_char(c);
            }
        }
    }

    fn end_star(&mut self, out: &mut ScreenText) {
        if std::mem::take(&mut self.star) {
            out.push_char('*');
        }
    }

    fn go_on_with_link(&mut self, c: char, out: &mut ScreenText) {
        self.link.push(c);
        if self.link.starts_with("[[") {
            return self.go_on_with_citation(out);
        }
        let is_open = match self.link.split_once(']') {
            None => true,
            Some((_, rest)) if c == ')' && rest.starts_with('(') => {
                let link = std::mem::take(&mut self.link);
                return self.end_link(&link, out);
            }
            Some((_, rest)) => rest.is_empty() || (rest.starts_with('(') && !c.is_whitespace()),
        };
        let is_other = c == '[' && !self.link.contains(']');
        if !is_open || is_other || self.link.len() > LINK_MAX_BYTES {
            self.give_up_link(out);
        }
    }

    fn go_on_with_citation(&mut self, out: &mut ScreenText) {
        if let [token] = &*citation::tokens(&self.link) {
            let mark = self.citations.mark(&token.sids, &self.find);
            self.link.clear();
            out.push(mark);
            return self.restyle(out);
        }
        let is_open = match self.link.strip_prefix(CITATION_OPEN) {
            Some(items) => {
                items
                    .trim_end_matches(']')
                    .bytes()
                    .all(|b| matches!(b, b'0'..=b'9' | b',' | b'-' | b':' | b' '))
                    && !items.ends_with("]]")
            }
            None => CITATION_OPEN.starts_with(&self.link),
        };
        if !is_open || self.link.len() > LINK_MAX_BYTES {
            self.give_up_link(out);
        }
    }

    /// `[text](address)`, whole.
    fn end_link(&mut self, link: &str, out: &mut ScreenText) {
        let parts = link
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(')')?.split_once("]("));
        match parts {
            Some((text, address)) if paint::is_web_address(address) => {
                out.push(paint::web_link(address, text));
                if text != address {
                    out.push(shown!(" {}", paint::styled(paint::DIM, format!("({address})"))));
                }
                self.restyle(out);
            }
            _ => out.push(link),
        }
    }

    /// The end of a link ended every style: those that go on begin again.
    fn restyle(&self, out: &mut ScreenText) {
        if self.line == Line::Heading {
            out.push(ScreenText::begin(paint::TITLE));
        }
        if self.is_bold {
            out.push(ScreenText::begin(paint::BOLD));
        }
    }

    /// It was no link: the text goes on after its first character.
    fn give_up_link(&mut self, out: &mut ScreenText) {
        let held = std::mem::take(&mut self.link);
        let mut rest = held.chars();
        rest.next().into_iter().for_each(|c| out.push_char(c));
        rest.for_each(|c| self.go_on(c, out));
    }

    fn toggle(&self, is_on: bool, style: Style, out: &mut ScreenText) {
        out.push(match is_on {
            true => ScreenText::begin(style),
            false => ScreenText::reset(),
        });
    }

    fn end_line(&mut self, out: &mut ScreenText) {
        while !self.link.is_empty() {
            self.give_up_link(out);
        }
        self.end_star(out);
        if self.line == Line::Fence {
            self.is_fenced = !self.is_fenced;
        }
        if self.line != Line::Plain || self.is_bold || self.is_code {
            out.push(ScreenText::reset());
        }
        (self.is_bold, self.is_code, self.line) = (false, false, Line::Start);
        out.push_char('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markdown() -> Markdown {
        Markdown::new(Box::new(|sid| {
            Some(Source {
                title: format!("T{sid}"),
                place: format!("https://{sid}.example"),
            })
        }))
    }

    fn plain(text: &str, piece: usize) -> String {
        let mut markdown = markdown();
        let mut out = ScreenText::default();
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(piece) {
            out.push(markdown.push(&piece.iter().collect::<String>()));
        }
        let (rest, sources) = markdown.finish();
        out.push(rest);
        out.push(sources);
        anstream::adapter::strip_str(out.as_str()).to_string()
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
            ("[[S:]] [[S:1] [x] (y) [z", "[[S:]] [[S:1] [x] (y) [z"),
            ("[[x]](y) [[S:1x]] [[S:1]", "[[x]](y) [[S:1x]] [[S:1]"),
            ("[a\n](https://x.example)", "[a\n](https://x.example)"),
            ("`[a](https://x.example)`", "[a](https://x.example)"),
            ("2 * [3] ** [4](", "2 * [3]  [4]("),
        ] {
            for piece in [1, 3, 100] {
                assert_eq!(plain(text, piece), expected, "pieces of {piece}");
            }
        }
        let link = markdown().push("[a](https://x.example)");
        assert!(
            link.as_str().contains("\u{1b}]8;;https://x.example\u{1b}\\"),
            "{link:?}"
        );
    }

    #[test]
    fn a_citation_is_a_number_wherever_its_token_is_split() {
        let text = "# On [[S:5]]\nA [[S:2, 5]] and **b [[S:2]]**, `[[S:1]]`\n```\n[[S:1]]\n```\n";
        let expected = "# On [1]\nA [2][1] and b [2], [[S:1]]\n```\n[[S:1]]\n```\n\
                        [1] T5 https://5.example\n[2] T2 https://2.example\n";
        for piece in [1, 2, 3, 5, 100] {
            assert_eq!(plain(text, piece), expected, "pieces of {piece}");
        }
        let mark = markdown().push("x [[S:7]]");
        assert!(
            mark.as_str().contains("]8;;https://7.example\u{1b}\\[1]"),
            "{mark:?}"
        );
    }

    #[test]
    fn escapes_are_shown_in_every_kind_of_line() {
        for text in [
            "# a\u{1b}[2J\n",
            "[a\u{1b}]0;x\u{7}](https://x.example)\n",
            "[a](https://x.example/\u{9b}2J)\n",
            "```\u{1b}c\n\u{9d}0;x\u{9c}\n```",
            "**\u{1b}[8m**`\u{1b}[8m`",
            "[[S:\u{1b}",
            "##\u{1b}c",
        ] {
            for piece in [1, 100] {
                let shown = plain(text, piece);
                assert!(!shown.chars().any(crate::screen_text::must_be_shown), "{shown:?}");
            }
        }
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
