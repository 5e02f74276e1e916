//! Letters without case and accents.

use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization as _;

/// Adds a character as a small letter without its accents; an accent by itself adds nothing.
pub fn push(text: &mut String, c: char) {
    if c.is_ascii() {
        text.push(c.to_ascii_lowercase());
    } else {
        let plain = std::iter::once(c).nfd().filter(|c| !is_accent(*c));
        plain.flat_map(char::to_lowercase).for_each(|c| text.push(c));
    }
}

/// Whether a character only changes the one before it.
pub fn is_accent(c: char) -> bool {
    !c.is_ascii() && get_general_category(c) == GeneralCategory::NonspacingMark
}
