//! Letters without case and accents.

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization as _;

/// Adds a character as a small letter without its accents; an accent by itself adds nothing.
#[inline]
pub fn push(text: &mut String, c: char) {
    match c.is_ascii() {
        true => text.push(c.to_ascii_lowercase()),
        false => push_plain(text, c),
    }
}

fn push_plain(text: &mut String, c: char) {
    let plain = std::iter::once(c).nfd().filter(|c| !is_accent(*c));
    plain.flat_map(char::to_lowercase).for_each(|c| text.push(c));
}

/// Whether a character only changes the one before it.
pub fn is_accent(c: char) -> bool {
    !c.is_ascii() && get_general_category(c) == GeneralCategory::NonspacingMark
}
