//! The reader: characters to words, words to simple commands. It never fails; what it does not understand, and what shells
//! read in different ways, is [beyond](super::Beyond).
//!
//! A backslash before the end of a line joins two lines before anything else is looked at, so [`Reader::peek`] never shows
//! one. Where shells join nothing, in single quotes, comments and after a backslash, [`Reader::next`] takes what stands there.

use super::{Beyond, DEPTH_MAX, Line, Simple, Word};

/// Words that mean something of their own where a command begins.
const RESERVED: [&str; 20] = [
    "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "for", "case", "esac", "in",
    "select", "function", "{", "}", "!", "time", "coproc",
];

pub(super) struct Reader<'t> {
    rest: std::iter::Peekable<std::str::CharIndices<'t>>,
    text: &'t str,
    depth: u32,
    line: Line,
    command: Simple,
    /// Whether the next word names a function.
    names_function: bool,
    /// Here-documents whose bodies begin at the next line.
    heredocs: Vec<Heredoc>,
    bodies: Vec<String>,
}

struct Heredoc {
    delimiter: String,
    /// Whether leading tabs are stripped.
    strips: bool,
    /// Whether the delimiter is quoted, and the body is taken as it stands.
    is_quoted: bool,
}

/// A word as it is read.
#[derive(Default)]
struct Draft {
    text: String,
    is_expanded: bool,
    /// Whether it has a `{` that a list may follow.
    has_brace: bool,
    is_quoted: bool,
    /// Whether anything was read, be it an empty pair of quotes.
    is_begun: bool,
    /// The last unquoted character, for `~` after `=` or `:`.
    last: Option<char>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, depth: u32) -> Self {
        Reader {
            rest: text.char_indices().peekable(),
            text,
            depth,
            line: Line::default(),
            command: Simple::default(),
            names_function: false,
            heredocs: Vec::new(),
            bodies: Vec::new(),
        }
    }

    pub(super) fn line(mut self) -> Line {
        if self.depth > DEPTH_MAX {
            self.line.note(Beyond::Malformed);
            return self.line;
        }
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => self.skip(),
                '\n' => {
                    self.skip();
                    self.end_command();
                    self.read_heredocs();
                }
                '#' => self.comment(),
                ';' | '&' | '|' => self.operator(c),
                '(' | ')' => {
                    self.skip();
                    self.end_command();
                    self.line.note(Beyond::Compound);
                }
                '<' | '>' => self.redirection(),
                _ => self.word(),
            }
        }
        self.end_command();
        if !self.heredocs.is_empty() {
            self.line.note(Beyond::Malformed);
        }
        self.read_bodies();
        self.line
    }

    /// The next character, after lines that go on are joined.
    fn peek(&mut self) -> Option<char> {
        loop {
            let (at, c) = *self.rest.peek()?;
            if !self.text[at..].starts_with("\\\n") {
                return Some(c);
            }
            self.rest.nth(1);
        }
    }

    /// Leaves out what was peeked at.
    fn skip(&mut self) {
        self.next();
    }

    /// The next character as it stands.
    fn next(&mut self) -> Option<char> {
        let (_, c) = self.rest.next()?;
        // Shells use such characters inside, and terminals hide what stands around them.
        if c.is_control() && !matches!(c, '\n' | '\t') {
            self.line.note(Beyond::Malformed);
        }
        Some(c)
    }

    /// No line goes on in a comment.
    fn comment(&mut self) {
        while self.rest.next_if(|(_, c)| *c != '\n').is_some() {}
    }

    /// Where the reader stands, in bytes.
    fn at(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn take(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.skip();
        }
        is_there
    }

    fn end_command(&mut self) {
        let command = std::mem::take(&mut self.command);
        if !command.words.is_empty() {
            self.line.commands.push(command);
        }
    }

    fn operator(&mut self, c: char) {
        self.skip();
        if c == '&' && self.peek() == Some('>') {
            // To bash both outputs go to a file; to other shells the command ends and what follows is another one.
            self.line.note(Beyond::Redirection);
            self.end_command();
            self.redirection();
            return;
        }
        let is_empty = self.command.words.is_empty();
        let doubled = self.take(c);
        match (c, doubled) {
            (';', true) => self.line.note(Beyond::Compound),
            ('|', false) if self.take('&') => self.line.note(Beyond::Redirection),
            // Nothing before `;` or `&&`: a shell refuses such a line, and what it means is not guessed.
            _ if is_empty => self.line.note(Beyond::Malformed),
            _ => {}
        }
        self.end_command();
    }

    /// `<`, `>` and their kin, with their operand.
    fn redirection(&mut self) {
        let operator = self.redirection_operator();
        match operator {
            "<<" | "<<-" => {
                self.line.note(Beyond::Redirection);
                self.skip_blanks();
                let delimiter = self.draft();
                self.heredocs.push(Heredoc {
                    delimiter: delimiter.text,
                    strips: operator == "<<-",
                    is_quoted: delimiter.is_quoted,
                });
            }
            "<(" | ">(" => {
                let inner = self.until_closing();
                self.line.absorb(inner, Beyond::Substitution);
                // It stands for the name of a file.
                self.command.words.push(Word::default());
            }
            _ => {
                self.skip_blanks();
                let target = self.draft();
                let is_descriptor =
                    matches!(operator, ">&" | "<&") && matches!(target.text.as_bytes(), [b'0'..=b'9']);
                let is_null = matches!(operator, "<" | ">" | ">>") && target.text == "/dev/null";
                if !(is_descriptor || is_null) || target.is_expanded {
                    self.line.note(Beyond::Redirection);
                }
            }
        }
    }

    fn redirection_operator(&mut self) -> &'static str {
        match (self.next(), self.peek()) {
            (Some('<'), Some('<')) => {
                self.skip();
                match self.peek() {
                    Some('<') => {
                        self.skip();
                        "<<<"
                    }
                    Some('-') => {
                        self.skip();
                        "<<-"
                    }
                    _ => "<<",
                }
            }
            (Some(first), Some(second @ ('&' | '>' | '|' | '('))) => {
                self.skip();
                match (first, second) {
                    ('<', '&') => "<&",
                    ('<', '(') => "<(",
                    ('<', _) => "<>",
                    (_, '&') => ">&",
                    (_, '>') => ">>",
                    (_, '(') => ">(",
                    _ => ">|",
                }
            }
            (Some('<'), _) => "<",
            _ => ">",
        }
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.skip();
        }
    }

    /// One word, and what it is where it stands.
    fn word(&mut self) {
        let draft = self.draft();
        if !draft.is_begun {
            return;
        }
        if !draft.is_quoted && matches!(self.peek(), Some('<' | '>')) {
            match draft.text.as_bytes() {
                // It belongs to the redirection: `2>`.
                [b'0'..=b'9'] => return,
                // A descriptor to some shells, which then run what follows; a word to others.
                [b'{', .., b'}'] | [b'0'..=b'9', .., b'0'..=b'9'] => {
                    return self.line.note(Beyond::Malformed);
                }
                _ => {}
            }
        }
        if std::mem::take(&mut self.names_function) {
            return;
        }
        let is_first = self.command.words.is_empty();
        let is_bare = !draft.is_quoted && !draft.is_expanded;
        if is_first && is_bare && RESERVED.contains(&draft.text.as_str()) {
            self.line.note(Beyond::Compound);
            self.names_function = draft.text == "function";
            return;
        }
        if is_first && is_assignment(&draft) {
            self.line.note(Beyond::Assignment);
            return;
        }
        if is_first && draft.text == "[[" {
            self.line.note(Beyond::Compound);
        }
        self.command.words.push(Word {
            text: draft.text,
            is_literal: !draft.is_expanded,
        });
    }

    /// Reads on to the end of a word.
    fn draft(&mut self) -> Draft {
        let mut draft = Draft::default();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\\' => self.escaped(&mut draft),
                '\'' => self.single_quoted(&mut draft),
                '"' => self.double_quoted(&mut draft),
                '$' => self.dollar(&mut draft, Quotes::None),
                '`' => self.backquoted(&mut draft, Quotes::None),
                _ => self.plain(&mut draft, c),
            }
        }
        draft
    }

    fn plain(&mut self, draft: &mut Draft, c: char) {
        self.skip();
        let begins = !draft.is_begun;
        draft.has_brace |= c == '{';
        // `{a,b}` and `{1..3}` become several words.
        let is_list = draft.has_brace && (c == ',' || c == '.' && draft.last == Some('.'));
        let is_pattern = matches!(c, '*' | '?' | '[')
            || is_list
            || c == '~' && (begins || matches!(draft.last, Some('=' | ':')));
        if is_pattern {
            draft.is_expanded = true;
        }
        draft.text.push(c);
        (draft.is_begun, draft.last) = (true, Some(c));
    }

    fn escaped(&mut self, draft: &mut Draft) {
        self.skip();
        match self.next() {
            Some(c) => {
                draft.text.push(c);
                (draft.is_begun, draft.is_quoted, draft.last) = (true, true, None);
            }
            None => self.line.note(Beyond::Malformed),
        }
    }

    fn single_quoted(&mut self, draft: &mut Draft) {
        self.skip();
        (draft.is_begun, draft.is_quoted, draft.last) = (true, true, None);
        loop {
            match self.next() {
                Some('\'') => return,
                Some(c) => draft.text.push(c),
                None => return self.line.note(Beyond::Malformed),
            }
        }
    }

    fn double_quoted(&mut self, draft: &mut Draft) {
        self.skip();
        (draft.is_begun, draft.is_quoted, draft.last) = (true, true, None);
        while let Some(c) = self.peek() {
            match c {
                '"' => return self.skip(),
                '$' => self.dollar(draft, Quotes::Double),
                '`' => self.backquoted(draft, Quotes::Double),
                '\\' => {
                    self.skip();
                    match self.next() {
                        Some(c @ ('$' | '`' | '"' | '\\')) => draft.text.push(c),
                        Some(c) => draft.text.extend(['\\', c]),
                        None => return self.line.note(Beyond::Malformed),
                    }
                }
                c => {
                    self.skip();
                    draft.text.push(c);
                }
            }
        }
        self.line.note(Beyond::Malformed);
    }

    /// `$` and what follows it.
    fn dollar(&mut self, draft: &mut Draft, quotes: Quotes) {
        self.skip();
        draft.is_begun = true;
        match self.peek() {
            Some('(') => {
                self.skip();
                let inner = self.until_closing();
                self.line.absorb(inner, Beyond::Substitution);
                draft.is_expanded = true;
            }
            Some('{') => {
                self.skip();
                self.braced(quotes);
                draft.is_expanded = true;
            }
            // `$'…'` and `$"…"` are quotes to some shells and not to others.
            Some(quote @ ('\'' | '"')) if quotes == Quotes::None => {
                self.line.note(Beyond::Expansion);
                draft.is_expanded = true;
                match quote {
                    '\'' => self.ansi_quoted(draft),
                    _ => self.double_quoted(draft),
                }
            }
            Some(c) if c.is_ascii_alphanumeric() || "_@*#?-$!".contains(c) => {
                while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.skip();
                }
                self.line.note(Beyond::Expansion);
                draft.is_expanded = true;
            }
            Some('[') => {
                self.line.note(Beyond::Expansion);
                draft.is_expanded = true;
            }
            _ => {
                draft.text.push('$');
                draft.last = Some('$');
            }
        }
    }

    fn ansi_quoted(&mut self, draft: &mut Draft) {
        self.skip();
        draft.is_quoted = true;
        loop {
            match self.next() {
                Some('\'') => return,
                // To a shell without such quotes the next one may be the last, and what follows may be commands.
                Some('\\') => {
                    self.line.note(Beyond::Malformed);
                    self.skip();
                }
                Some(c) => draft.text.push(c),
                None => return self.line.note(Beyond::Malformed),
            }
        }
    }

    /// `${…}`: what is substituted inside counts.
    fn braced(&mut self, quotes: Quotes) {
        self.line.note(Beyond::Expansion);
        let mut draft = Draft::default();
        while let Some(c) = self.peek() {
            match c {
                '}' => return self.skip(),
                '\\' => self.escaped(&mut draft),
                '\'' if quotes == Quotes::None => self.single_quoted(&mut draft),
                // A quote to some shells and with some operators.
                '\'' => {
                    self.line.note(Beyond::Malformed);
                    self.skip();
                }
                '"' => self.double_quoted(&mut draft),
                '$' => self.dollar(&mut draft, quotes),
                '`' => self.backquoted(&mut draft, quotes),
                _ => self.skip(),
            }
        }
        self.line.note(Beyond::Malformed);
    }

    fn backquoted(&mut self, draft: &mut Draft, quotes: Quotes) {
        self.skip();
        (draft.is_begun, draft.is_expanded) = (true, true);
        let mut inner = String::new();
        loop {
            match self.next() {
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(c @ ('`' | '\\' | '$')) => inner.push(c),
                    Some('"') if quotes == Quotes::Double => inner.push('"'),
                    Some(c) => inner.extend(['\\', c]),
                    None => return self.line.note(Beyond::Malformed),
                },
                Some(c) => inner.push(c),
                None => return self.line.note(Beyond::Malformed),
            }
        }
        let inner = Line::parse_at(&inner, self.depth + 1);
        self.line.absorb(inner, Beyond::Substitution);
    }

    /// What stands up to the `)` that closes a `(` just read, as a line of its own.
    fn until_closing(&mut self) -> Line {
        let start = self.at();
        let mut depth = 1_u32;
        // Quotes and comments hide brackets. Where they do not pair as expected, the rest of the text is taken, which is too
        // much.
        let mut quote: Option<char> = None;
        let mut may_comment = true;
        while let Some((at, c)) = self.rest.next() {
            match (quote, c) {
                (Some('\''), '\'') | (Some('"'), '"') => quote = None,
                (None, '\'' | '"') => quote = Some(c),
                (None | Some('"'), '\\') => {
                    let joins_lines = matches!(self.rest.next(), Some((_, '\n')));
                    // A line that goes on leaves everything as it is.
                    if joins_lines {
                        continue;
                    }
                }
                (None, '(') => depth += 1,
                (None, ')') => depth -= 1,
                (None, '#') if may_comment => self.comment(),
                _ => {}
            }
            may_comment = " \t\n;&|()<>".contains(c);
            if depth == 0 {
                return Line::parse_at(&self.text[start..at], self.depth + 1);
            }
        }
        let mut line = Line::parse_at(&self.text[start..], self.depth + 1);
        line.note(Beyond::Malformed);
        line
    }

    /// Takes the bodies of here-documents, which begin where the reader stands.
    fn read_heredocs(&mut self) {
        for heredoc in std::mem::take(&mut self.heredocs) {
            let body = self.read_heredoc(&heredoc);
            if !heredoc.is_quoted {
                let inner = Reader::new(&body, self.depth + 1).document();
                if inner.beyond.is_some() {
                    self.line.absorb(inner, Beyond::Redirection);
                }
            }
            self.bodies.push(body);
        }
    }

    fn read_heredoc(&mut self, heredoc: &Heredoc) -> String {
        let mut body = String::new();
        let mut begun: Option<String> = None;
        loop {
            let Some(line) = self.rest_of_line() else {
                self.line.note(Beyond::Malformed);
                return body;
            };
            let shown = match heredoc.strips {
                true => line.trim_start_matches('\t'),
                false => line,
            };
            let backslashes = shown.len() - shown.trim_end_matches('\\').len();
            let goes_on = !heredoc.is_quoted && backslashes % 2 == 1;
            let is_joined = begun.is_some();
            let mut whole = begun.take().unwrap_or_default();
            whole.push_str(shown.strip_suffix('\\').filter(|_| goes_on).unwrap_or(shown));
            if shown == heredoc.delimiter || !goes_on && whole == heredoc.delimiter {
                // Shells differ in whether lines that were joined can be the last.
                if is_joined {
                    self.line.note(Beyond::Malformed);
                }
                return body;
            }
            body.push_str(shown);
            body.push('\n');
            begun = goes_on.then_some(whole);
        }
    }

    /// A text in which only substitutions mean something: the body of a here-document.
    fn document(mut self) -> Line {
        if self.depth > DEPTH_MAX {
            self.line.note(Beyond::Malformed);
            return self.line;
        }
        let mut draft = Draft::default();
        while let Some(c) = self.peek() {
            match c {
                '$' => self.dollar(&mut draft, Quotes::Double),
                '`' => self.backquoted(&mut draft, Quotes::None),
                '\\' => {
                    self.skip();
                    self.next();
                }
                _ => self.skip(),
            }
        }
        self.line
    }

    fn rest_of_line(&mut self) -> Option<&'t str> {
        let start = self.at();
        if start == self.text.len() {
            return None;
        }
        let length = self.text[start..].find('\n');
        let end = length.map_or(self.text.len(), |length| start + length);
        while self.at() < end {
            self.skip();
        }
        self.skip();
        Some(&self.text[start..end])
    }

    /// A here-document is a script when a shell reads it.
    fn read_bodies(&mut self) {
        let is_script = self.line.commands.iter().any(super::wrapper::is_shell);
        for body in std::mem::take(&mut self.bodies) {
            if is_script {
                let inner = Line::parse_at(&body, self.depth + 1);
                self.line.absorb(inner, Beyond::Redirection);
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
}

/// `NAME=…`, `NAME+=…` or `NAME[…]=…`.
fn is_assignment(draft: &Draft) -> bool {
    let Some((name, _)) = draft.text.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
