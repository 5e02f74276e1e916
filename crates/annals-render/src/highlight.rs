//! Code as coloured pieces, for the writers that do not colour it themselves.
//!
//! The same syntaxes and colours as Typst's, so that all files of one document agree. Code in a language nobody knows
//! stays plain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use syntect::easy::HighlightLines;
use syntect::highlighting::{FontStyle, Style as Look};
use typst::text::{RAW_SYNTAXES, RAW_THEME};

use crate::doc::{Document, Inline, Rgb, Style};
use crate::limits::MAX_HIGHLIGHTED_BYTES;
use crate::visit::{self, Leaf};

/// Languages made ready at once.
const MAX_THREADS: usize = 4;
/// Languages remembered as ready; authors may name any number.
const MAX_LANGUAGES: usize = 200;

/// Begins to make the languages of a document ready, each on a thread of its own, and returns at once.
///
/// The rules of a language are compiled when its first code is coloured, some tens of milliseconds each: time in which
/// the rest of the first document can be laid out. Who comes to the code before its language is ready waits for it.
pub(crate) fn prepare(document: &Document) {
    static BEGUN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut samples: BTreeMap<&str, &str> = BTreeMap::new();
    visit::leaves(document, &mut |leaf| {
        if let Leaf::Listing {
            lang: Some(lang),
            text,
        } = leaf
        {
            samples.entry(lang).or_insert(text);
        }
    });
    let mut begun = BEGUN.lock().unwrap_or_else(PoisonError::into_inner);
    for (lang, text) in samples.into_iter().take(MAX_THREADS) {
        if begun.len() >= MAX_LANGUAGES || !begun.insert(lang.to_owned()) {
            continue;
        }
        let (lang, text) = (lang.to_owned(), text.to_owned());
        // Without a thread the layout does it, later.
        let _ = std::thread::Builder::new()
            .name("annals-highlight".into())
            .spawn(move || drop(coloured(&text, Some(&lang))));
    }
}

/// The lines of `text`, each in pieces.
pub(crate) fn lines(text: &str, lang: Option<&str>) -> Vec<Vec<Inline>> {
    coloured(text, lang).unwrap_or_else(|| text.split('\n').map(plain).collect())
}

fn plain(line: &str) -> Vec<Inline> {
    vec![Inline::Text(line.to_owned())]
}

fn coloured(text: &str, lang: Option<&str>) -> Option<Vec<Vec<Inline>>> {
    if text.len() > MAX_HIGHLIGHTED_BYTES {
        return None;
    }
    let syntax = RAW_SYNTAXES.find_syntax_by_token(lang?)?;
    let mut highlighter = HighlightLines::new(syntax, &RAW_THEME);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let pieces = highlighter.highlight_line(line, &RAW_SYNTAXES).ok()?;
        lines.push(pieces.into_iter().map(|(look, text)| piece(look, text)).collect());
    }
    Some(lines)
}

fn piece(look: Look, text: &str) -> Inline {
    let text = Inline::Text(text.to_owned());
    let Look {
        foreground: color,
        font_style,
        ..
    } = look;
    // Black is what the theme says of words it has nothing to say about.
    let is_plain = (color.r, color.g, color.b) == (0, 0, 0);
    let style = Style {
        color: (!is_plain).then_some(Rgb(color.r, color.g, color.b)),
        bold: font_style.contains(FontStyle::BOLD).then_some(true),
        italic: font_style.contains(FontStyle::ITALIC).then_some(true),
        ..Style::default()
    };
    if style.is_plain() {
        return text;
    }
    Inline::Span {
        style,
        inlines: vec![text],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::plain_text;

    #[test]
    fn known_code_is_coloured_and_no_character_of_any_is_changed() {
        let code = "def f(x):\n\treturn 'é' # why\n\n";
        for lang in [Some("python"), Some("py"), Some("no such language"), None] {
            let lines = lines(code, lang);
            let texts: Vec<String> = lines.iter().map(|line| plain_text(line)).collect();
            assert_eq!(texts.join("\n"), code, "{lang:?}");
            let is_coloured = lines
                .iter()
                .flatten()
                .any(|inline| matches!(inline, Inline::Span { .. }));
            assert_eq!(is_coloured, matches!(lang, Some("python" | "py")), "{lang:?}");
        }
    }
}
