//! `![alt](my chart.png)`: a picture to everybody who writes it, plain text to CommonMark because of the space.
//!
//! Files often come with spaces in their names, and authors copy them as they are. Only what ends like a picture
//! file is taken; everything else stays the text it is.

use crate::doc::{Image, Inline};

/// What goes on for longer is no picture: without a bound, text that is full of beginnings would be read again from each.
const LONGEST_BYTES: usize = 1_000;

const ENDINGS: [&str; 6] = [".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg"];

/// The text with such pictures cut out of it.
pub(super) fn split(text: &str) -> Vec<Inline> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((at, image, length)) = find(rest) {
        if at > 0 {
            out.push(Inline::Text(rest[..at].to_owned()));
        }
        out.push(Inline::Image(image));
        rest = &rest[at + length..];
    }
    if !rest.is_empty() {
        out.push(Inline::Text(rest.to_owned()));
    }
    out
}

/// The first picture: where it begins, what it is, how long it is.
fn find(text: &str) -> Option<(usize, Image, usize)> {
    text.match_indices("![").find_map(|(at, _)| {
        let (image, length) = read(&text[at..])?;
        Some((at, image, length))
    })
}

/// The picture at the beginning of `text`.
fn read(text: &str) -> Option<(Image, usize)> {
    let text = &text[..text.floor_char_boundary(LONGEST_BYTES)];
    let (alt, after) = text.strip_prefix("![")?.split_once("](")?;
    if alt.contains(['[', ']']) {
        return None;
    }
    let length = closing(after)?;
    let (reference, caption) = titled(after[..length].trim());
    let name = reference.to_ascii_lowercase();
    if !ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        return None;
    }
    let image = Image {
        reference: reference.to_owned(),
        alt: alt.to_owned(),
        width: None,
        caption: caption.map(str::to_owned),
    };
    Some((image, text.len() - after.len() + length + 1))
}

/// Where the bracket closes that was opened before `text`; names may have brackets in pairs.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => open += 1,
            ')' if open == 0 => return Some(at),
            ')' => open -= 1,
            '\n' => return None,
            _ => {}
        }
    }
    None
}

/// A name and the title behind it, if there is one.
fn titled(text: &str) -> (&str, Option<&str>) {
    let title = text.strip_suffix('"').and_then(|text| text.split_once(" \""));
    match title {
        Some((name, title)) => (name.trim_end(), Some(title)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> String {
        let show = |inline: &Inline| match inline {
            Inline::Text(text) => format!("`{text}`"),
            Inline::Image(image) => format!("<{}|{}|{:?}>", image.alt, image.reference, image.caption),
            other => format!("{other:?}"),
        };
        split(text).iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn text_full_of_beginnings_is_read_once() {
        for beginning in ["![a", "![a](b ", "![a](b.png"] {
            let text = beginning.repeat(20_000);
            assert_eq!(split(&text), [Inline::Text(text)]);
        }
    }

    #[test]
    fn only_what_ends_like_a_picture_is_one() {
        let cases = [
            "see ![a](my chart.png), ![b](x (1) of 2.JPG \"The title\")",
            "![a](no picture.txt)",
            "![a] (my chart.png)",
            "![a](my chart.png",
            "a ![ ![x](two words.svg)",
            "f(![)](x y.png)",
        ];
        insta::assert_snapshot!(cases.map(shape).join("\n"), @r#"
        `see ` <a|my chart.png|None> `, ` <b|x (1) of 2.JPG|Some("The title")>
        `![a](no picture.txt)`
        `![a] (my chart.png)`
        `![a](my chart.png`
        `a ![ ` <x|two words.svg|None>
        `f(` <)|x y.png|None>
        "#);
    }
}
