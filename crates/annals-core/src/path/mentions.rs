//! Files that a text or a piece of code speaks of, so that they can be brought back before it runs or renders.
//!
//! A mention is `<turn>/files/…`, `<turn>/attachments/…` or `fi:<turn>.…`. Where a name ends is a guess that
//! depends on what stands before it: inside quotes, brackets or `<>` it ends where they close, else at white
//! space or punctuation. A wrong guess names a file that does not exist, never one outside the conversation.

use std::collections::HashSet;
use std::ops::Range;

use super::LogicalPath;
use super::kind::PathKind;
use crate::ids::is_id_byte;
use crate::limits;

/// One place in a text that names a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The file it names.
    pub path: LogicalPath,
    /// Where the name stands in the text, in bytes.
    pub span: Range<usize>,
}

impl Mention {
    /// The file it names when its name is percent-encoded, as links in Markdown and HTML are (`my%20chart.png`).
    /// A file with the literal name comes first: look for [`Self::path`], then for this.
    pub fn decoded(&self) -> Option<LogicalPath> {
        let text = self.path.as_str();
        let mut pieces = text.split('%');
        let mut bytes = pieces.next()?.as_bytes().to_vec();
        for piece in pieces {
            let byte = piece
                .get(..2)
                .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))?;
            bytes.push(u8::from_str_radix(byte, 16).ok()?);
            bytes.extend_from_slice(&piece.as_bytes()[2..]);
        }
        // Decoded names are judged again: `%2e%2e` must not become a way out.
        let decoded = LogicalPath::parse(std::str::from_utf8(&bytes).ok()?).ok()?;
        (decoded != self.path).then_some(decoded)
    }
}

/// The files that `text` mentions, each once, in the order of their first mention.
pub fn files(text: &str) -> Vec<LogicalPath> {
    let mut seen = HashSet::new();
    all(text)
        .map(|mention| mention.path)
        .filter(|path| seen.insert(path.clone()))
        .collect()
}

/// Every mention of a file in `text`, in order, repeated ones too. Takes time linear in the text.
pub fn all(text: &str) -> impl Iterator<Item = Mention> + '_ {
    Mentions {
        text,
        at: 0,
        url_end: 0,
    }
}

struct Mentions<'a> {
    text: &'a str,
    at: usize,
    /// Addresses of the web may contain what looks like a physical path; nothing before this byte is a mention.
    url_end: usize,
}

impl Iterator for Mentions<'_> {
    type Item = Mention;

    fn next(&mut self) -> Option<Mention> {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() {
            let at = self.at;
            self.at += 1;
            match bytes[at] {
                b':' if bytes[at..].starts_with(b"://") && at >= self.url_end => {
                    self.url_end = at
                        + bytes[at..]
                            .iter()
                            .position(|b| ends_url(*b))
                            .unwrap_or(bytes.len() - at);
                }
                b't' | b'f' if at >= self.url_end && begins_word(self.text, at) => {
                    if let Some(mention) = mention_at(self.text, at) {
                        self.at = mention.span.end;
                        return Some(mention);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

fn ends_url(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b')' | b']')
}

fn begins_word(text: &str, at: usize) -> bool {
    let Some(before) = text[..at].chars().next_back() else {
        return true;
    };
    match u8::try_from(before) {
        Ok(byte) if byte.is_ascii() => !(is_id_byte(byte) || byte == b':'),
        // Chinese and Japanese put no space between words.
        _ => {
            !before.is_alphanumeric() || matches!(before, '\u{2e80}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
        }
    }
}

/// The longest thing worth looking at: a turn, the longest folder name and the longest safe path.
const WINDOW_BYTES: usize = 128 + limits::PATH_MAX_BYTES;

fn mention_at(text: &str, start: usize) -> Option<Mention> {
    let rest = &text[start..];
    let name_at = head_len(rest)?;
    let rest = &rest[..rest.floor_char_boundary(WINDOW_BYTES)];
    let quoted = closing_of(&text.as_bytes()[..start]).and_then(|close| {
        rest[name_at..]
            .find(['\n', '\\', close])
            .filter(|&i| rest[name_at + i..].starts_with(close))
    });
    let end = match quoted {
        Some(length) => name_at + length,
        None => {
            link_end(&text.as_bytes()[..start], rest, name_at).unwrap_or_else(|| plain_end(rest, name_at))
        }
    };
    let named = &rest[..end];
    let named = super::lines::suffix_start(named).map_or(named, |at| &named[..at]);
    let path = LogicalPath::parse(named).ok()?;
    matches!(path.kind(), PathKind::File { .. } | PathKind::Attachment { .. }).then(|| Mention {
        path,
        span: start..start + named.len(),
    })
}

/// The bytes of `fi:<turn>.files/` and its like at the start of `rest`.
fn head_len(rest: &str) -> Option<usize> {
    let family = if rest.starts_with("fi:turn_") {
        "fi:".len()
    } else {
        0
    };
    let turn = rest[family..].strip_prefix("turn_")?;
    let turn_len = turn
        .bytes()
        .take_while(|b| is_id_byte(*b))
        .take(limits::PATH_PART_MAX_BYTES)
        .count();
    let folders: &[&str] = if family > 0 {
        &[".files/", ".user.attachments/"]
    } else {
        &["/files/", "/attachments/"]
    };
    let folder = folders
        .iter()
        .find(|folder| turn[turn_len..].starts_with(**folder))?;
    Some(family + "turn_".len() + turn_len + folder.len())
}

/// What closes the quotes or brackets that were opened right before a path, if any were. `./`, `$OUT_DIR/` and
/// the like may stand between.
fn closing_of(before: &[u8]) -> Option<char> {
    const LOOK_BACK_BYTES: usize = 64;
    let lead = |b: &u8| is_id_byte(*b) || matches!(b, b'.' | b'/' | b'$' | b'{' | b'}' | b'~');
    let opened = before.iter().rev().take(LOOK_BACK_BYTES).find(|b| !lead(b))?;
    match opened {
        b'"' => Some('"'),
        b'\'' => Some('\''),
        b'`' => Some('`'),
        b'<' => Some('>'),
        _ => None,
    }
}

/// Where a name ends that a Markdown link or picture gives as it is, spaces and all: `![chart](turn_1/files/a b.png)`.
fn link_end(before: &[u8], rest: &str, name_at: usize) -> Option<usize> {
    if !before.ends_with(b"](") && !before.ends_with(b"](./") {
        return None;
    }
    let mut open = 0_i32;
    let close = rest[name_at..].find(|c| {
        open += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        open < 0 || c == '\n'
    })?;
    let target = &rest[..name_at + close];
    // A title may follow the name.
    let end = target
        .find([' ', '\t'])
        .filter(|at| target[*at..].trim_start().starts_with(['"', '\'']))
        .unwrap_or(target.len());
    rest[name_at + close..].starts_with(')').then_some(end)
}

/// Where a name that nothing encloses ends: at white space, a quote or the like, a bracket it did not open,
/// or before punctuation that ends a sentence.
fn plain_end(rest: &str, name_at: usize) -> usize {
    let mut open = 0_i32;
    let mut end = rest.len();
    for (index, c) in rest[name_at..].char_indices() {
        let stop = match c {
            '(' | '[' | '{' | '（' => {
                open += 1;
                false
            }
            ')' | ']' | '}' | '）' => {
                open -= 1;
                open < 0
            }
            '"' | '\'' | '`' | '<' | '>' | '|' | '\\' | ',' | ';' | '*' | '”' | '»' | '’' => true,
            // Chinese and Japanese sentences go on without a space.
            '，' | '。' | '、' | '；' | '：' | '！' | '？' | '」' | '』' | '】' | '》' => true,
            _ => c.is_whitespace() || c.is_control(),
        };
        if stop {
            end = name_at + index;
            break;
        }
    }
    let kept = rest[..end].trim_end_matches(['.', ':', '!', '?', '/', '…']);
    kept.len().max(name_at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str) -> Vec<String> {
        files(text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn code_names_files_in_quotes() {
        let code = r#"
import pandas as pd
a = pd.read_csv("turn_1/files/sales 2026.csv")
b = open('./turn_2/attachments/menu.pdf', "rb")
c = open(f"{OUT_DIR}/turn_3/files/x/y (final).txt")
d = fetch_ctx('fi:turn_4.files/notes.md')
e = pd.read_csv("turn_1/files/sales 2026.csv")
"#;
        insta::assert_snapshot!(found(code).join("\n"), @r"
        fi:turn_1.files/sales 2026.csv
        fi:turn_2.user.attachments/menu.pdf
        fi:turn_3.files/x/y (final).txt
        fi:turn_4.files/notes.md
        ");
    }

    #[test]
    fn markdown_and_html_name_files_in_links_and_attributes() {
        let text = "![chart](turn_1/files/chart.png) and <img src=\"turn_1/attachments/my photo.jpg\">, \
                    [a](<turn_1/files/a b.md>) `fi:turn_2.user.attachments/x.png` | turn_1/files/t.csv | \
                    see turn_1/files/end.md. Also (turn_1/files/in (1).txt) or turn_1/files/a(1).txt, \
                    fi:turn_2.files/r.md#L3-9: cat turn_1/files/z.txt;\n\"turn_1/files/unclosed.md\nnext";
        insta::assert_snapshot!(found(text).join("\n"), @r"
        fi:turn_1.files/chart.png
        fi:turn_1.user.attachments/my photo.jpg
        fi:turn_1.files/a b.md
        fi:turn_2.user.attachments/x.png
        fi:turn_1.files/t.csv
        fi:turn_1.files/end.md
        fi:turn_1.files/in
        fi:turn_1.files/a(1).txt
        fi:turn_2.files/r.md
        fi:turn_1.files/z.txt
        fi:turn_1.files/unclosed.md
        ");
    }

    #[test]
    fn links_keep_spaces_and_drop_titles_and_sentences_end_in_any_script() {
        let text = "![a](turn_1/files/my chart (2).png) [b](./turn_1/files/c.md 'its title') \
                    ![c](turn_1/files/d.png \"A title\") 请见turn_1/files/x 和 turn_1/files/报告.pdf，谢谢 \
                    （turn_1/files/表（1）.csv）[open](turn_1/files/never closed\n";
        insta::assert_snapshot!(found(text).join("\n"), @r"
        fi:turn_1.files/my chart (2).png
        fi:turn_1.files/c.md
        fi:turn_1.files/d.png
        fi:turn_1.files/x
        fi:turn_1.files/报告.pdf
        fi:turn_1.files/表（1）.csv
        fi:turn_1.files/never
        ");
    }

    #[test]
    fn what_only_looks_like_a_mention_is_left_alone() {
        for text in [
            "my_turn_1/files/x",
            "https://example.com/turn_1/files/x.png",
            "turn_1/other/x",
            "turn_1/files/",
            "turn_/files/x",
            "turn_1/files/../../etc/passwd",
            "wifi:turn_1.files/x",
            "fi:turn_1.code.c1",
            "tc:turn_1.c1.result",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn spans_point_at_the_names() {
        let text = "é \"turn_1/files/a b.md\" fi:turn_2.files/c.md.";
        let spans: Vec<&str> = all(text).map(|m| &text[m.span]).collect();
        assert_eq!(spans, ["turn_1/files/a b.md", "fi:turn_2.files/c.md"]);
    }

    #[test]
    fn an_encoded_name_can_be_decoded_but_not_into_a_way_out() {
        let decoded = |text: &str| all(text).next().unwrap().decoded().map(|path| path.to_string());
        assert_eq!(
            decoded("![](turn_1/files/my%20chart.png)"),
            Some("fi:turn_1.files/my chart.png".into())
        );
        assert_eq!(
            decoded("fi:turn_1.files/%C3%A9.md"),
            Some("fi:turn_1.files/é.md".into())
        );
        for text in [
            "turn_1/files/a.md",
            "turn_1/files/100%",
            "turn_1/files/%2e%2e/x",
            "turn_1/files/%ff",
        ] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_every_mention_is_where_it_says(
            pieces in proptest::collection::vec(
                proptest::sample::select(vec![
                    "turn_1/files/", "fi:turn_2.files/", "\"", "'", "(", ")", "<", ">", "://", "\\", "\n", " ", "é", "a",
                    ".", "#L3",
                ]),
                0..30,
            )
        ) {
            let text = pieces.concat();
            for mention in all(&text) {
                let named = LogicalPath::parse(&text[mention.span.clone()]);
                prop_assert_eq!(named, Ok(mention.path));
            }
        }
    }
}
