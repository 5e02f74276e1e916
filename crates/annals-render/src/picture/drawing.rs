//! Drawings that point to other pictures.
//!
//! An SVG may show a file or an address. Nothing is opened or fetched for it: the layout engine would give up on
//! the whole document, so the pointers are blanked out here. Pictures inside the drawing (`data:`) stay.

use std::ops::Range;

/// Of what a drawing points to, nobody reads more.
const TARGETS_MAX_COUNT: usize = 3;

/// Bytes of a picture that point to nothing outside of it.
pub(super) struct Unlinked {
    /// The picture; unchanged unless it was a drawing with links.
    pub(super) bytes: Vec<u8>,
    /// What it pointed to, the first few, each once.
    pub(super) targets: Vec<String>,
}

/// Takes the links out of a drawing. Anything else, and what is not well-formed, is given back as it is.
pub(super) fn without_links(mut bytes: Vec<u8>) -> Unlinked {
    let mut targets: Vec<String> = Vec::new();
    for link in links(&bytes) {
        bytes[link.place].fill(b' ');
        if targets.len() < TARGETS_MAX_COUNT && !targets.contains(&link.target) {
            targets.push(link.target);
        }
    }
    Unlinked { bytes, targets }
}

struct Link {
    /// The attribute, with its name and quotes.
    place: Range<usize>,
    target: String,
}

fn links(bytes: &[u8]) -> Vec<Link> {
    // Most drawings show no pictures at all.
    let may_show =
        |text: &&str| text.contains("<svg") && (text.contains("mage") || text.contains("<!ENTITY"));
    let Some(text) = std::str::from_utf8(bytes).ok().filter(may_show) else {
        return Vec::new();
    };
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..roxmltree::ParsingOptions::default()
    };
    let Ok(tree) = roxmltree::Document::parse_with_options(text, options) else {
        return Vec::new();
    };
    let mut links = Vec::new();
    for element in tree.descendants() {
        let name = element.tag_name().name();
        if !matches!(name, "image" | "feImage") {
            continue;
        }
        for attribute in element
            .attributes()
            .filter(|attribute| attribute.name() == "href")
        {
            let target = attribute.value();
            // A filter may show a part of its own drawing.
            let is_own = name == "feImage" && target.starts_with('#');
            if !is_own && !is_inside(target) {
                links.push(Link {
                    place: attribute.range(),
                    target: target.to_owned(),
                });
            }
        }
    }
    links
}

/// Whether the picture itself is in the address.
fn is_inside(address: &str) -> bool {
    let scheme = address.get(..5).unwrap_or_default();
    scheme.eq_ignore_ascii_case("data:") && address.contains(',')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(inner: &str) -> Vec<u8> {
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink'>{inner}</svg>"
        )
        .into_bytes()
    }

    #[test]
    fn only_pointers_out_of_the_drawing_are_blanked() {
        let kept =
            "<image href='data:image/png;base64,AA'/><use href='#a'/><feImage href='#a'/><a href='x.png'/>";
        let unlinked = without_links(drawing(kept));
        assert_eq!((unlinked.bytes, unlinked.targets), (drawing(kept), vec![]));
        let unlinked = without_links(drawing(
            "<image x='1' xlink:href=\"/etc/passwd\" y='2'/><g><image href='http://x.example/a.png'/></g>\
             <feImage href='b.png'/><image href='b.png'/><image href='#a'/>",
        ));
        assert_eq!(
            unlinked.targets,
            ["/etc/passwd", "http://x.example/a.png", "b.png"]
        );
        let text = String::from_utf8(unlinked.bytes).unwrap();
        assert!(
            text.contains("<image x='1'") && text.contains("y='2'/>"),
            "{text}"
        );
        for target in ["passwd", "x.example", "b.png", "#a"] {
            assert!(!text.contains(target), "{text}");
        }
    }

    #[test]
    fn what_is_no_drawing_is_given_back() {
        for bytes in [
            &b""[..],
            b"\xff\xfe image <svg",
            b"<svg><image href='a.png'",
            b"image",
        ] {
            assert_eq!(without_links(bytes.to_vec()).bytes, bytes);
        }
    }

    #[test]
    fn entities_hide_nothing() {
        let text = "<!DOCTYPE svg [<!ENTITY e \"<image href='a.png'/>\">]>\
                    <svg xmlns='http://www.w3.org/2000/svg'>&e;</svg>";
        let unlinked = without_links(text.as_bytes().to_vec());
        assert_eq!(unlinked.targets, ["a.png"]);
        assert!(links(&unlinked.bytes).is_empty());
    }
}
