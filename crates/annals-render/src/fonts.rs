//! Which fonts there are, and which of them a text needs.
//!
//! Four faces of Noto Sans and Typst's own fonts are compiled in and cover European text, symbols and code.
//! The system's fonts are scanned once, when the first text comes that needs them: no document pays for fonts
//! it does not use. A character that no font covers is named, never dropped in silence.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use typst::foundations::Bytes;
use typst::layout::Abs;
use typst::text::{Font, FontBook, FontVariant, FontVariations};
use typst_kit::fonts::FontStore;

/// Sans serif families for scripts the body font lacks, in the order of our preference.
const FALLBACK_FAMILIES: [&str; 16] = [
    "noto sans arabic",
    "noto sans hebrew",
    "noto sans devanagari",
    "noto sans thai",
    "noto sans thai looped",
    "leelawadee ui",
    "thonburi",
    "loma",
    "noto color emoji",
    "apple color emoji",
    "segoe ui emoji",
    "noto sans symbols",
    "noto sans symbols 2",
    "noto sans math",
    "dejavu sans",
    "segoe ui",
];

/// The fonts of this process.
pub(crate) struct Fonts {
    embedded: FontStore,
    all: OnceLock<FontStore>,
}

impl Default for Fonts {
    fn default() -> Self {
        let mut embedded = FontStore::new();
        add_embedded(&mut embedded);
        Self {
            embedded,
            all: OnceLock::new(),
        }
    }
}

fn add_embedded(store: &mut FontStore) {
    let faces = [
        notosans::REGULAR_TTF,
        notosans::BOLD_TTF,
        notosans::ITALIC_TTF,
        notosans::BOLD_ITALIC_TTF,
    ];
    for face in faces {
        for font in Font::iter(Bytes::new(face)) {
            let info = font.info().clone();
            store.push((font, info));
        }
    }
    store.extend(typst_kit::fonts::embedded());
}

/// The fonts for one text.
pub(crate) struct Choice<'a> {
    /// Where the faces are.
    pub(crate) store: &'a FontStore,
    /// Families of the body, first come first served.
    pub(crate) body: Vec<String>,
    /// Families of code.
    pub(crate) code: Vec<String>,
    /// A family of colour pictures, when the text has some and one is installed.
    pub(crate) emoji: Option<String>,
    /// The language the layout should assume.
    pub(crate) lang: &'static str,
    /// What no font covers.
    pub(crate) missing: Vec<char>,
}

impl Fonts {
    /// Chooses fonts for a text that consists of `chars`.
    pub(crate) fn choose(&self, chars: &BTreeSet<char>) -> Choice<'_> {
        let visible: Vec<char> = chars.iter().copied().filter(|&c| needs_glyph(c)).collect();
        let embedded_is_enough = visible
            .iter()
            .all(|&c| !is_pictorial(c) && covers(&self.embedded, c));
        let store = if embedded_is_enough {
            &self.embedded
        } else {
            self.all()
        };
        let missing = match embedded_is_enough {
            true => Vec::new(),
            false => visible.into_iter().filter(|&c| !covers(store, c)).collect(),
        };
        let region = language(chars);
        let rest: Vec<String> = if embedded_is_enough {
            Vec::new()
        } else {
            families_for(store.book(), region)
        };
        // The layout breaks lines of Chinese and Japanese by rules that know no words of other scripts.
        let lang = match region {
            "zh" | "ja" if chars.iter().any(|&c| is_without_spaces(c)) => "th",
            _ => region,
        };
        let emoji = rest.iter().find(|family| family.ends_with("emoji")).cloned();
        let body = std::iter::once("noto sans".to_owned())
            .chain(rest.iter().cloned())
            .collect();
        let code = std::iter::once("dejavu sans mono".to_owned())
            .chain(rest)
            .collect();
        Choice {
            store,
            body,
            code,
            emoji,
            lang,
            missing,
        }
    }

    /// The compiled-in fonts and the system's; scans the system the first time.
    pub(crate) fn all(&self) -> &FontStore {
        self.all.get_or_init(|| {
            let mut store = FontStore::new();
            add_embedded(&mut store);
            store.extend(typst_kit::fonts::system());
            store
        })
    }

    /// Names of all families, sorted; scans the system the first time.
    pub(crate) fn families(&self) -> Vec<String> {
        let families: BTreeSet<String> = self
            .all()
            .book()
            .families()
            .map(|(name, _)| name.to_owned())
            .collect();
        families.into_iter().collect()
    }
}

/// Asks the face itself: a font's list of ranges may claim characters that it has no glyph for.
fn covers(store: &FontStore, c: char) -> bool {
    let claims = (0..).map_while(|index| store.book().info(index)).enumerate();
    claims
        .filter(|(_, info)| info.coverage.contains(u32::from(c)))
        .filter_map(|(index, _)| store.font(index))
        .any(|font| {
            let face = font.instantiate(FontVariant::default(), Abs::pt(10.0), &FontVariations::default());
            face.ttf().glyph_index(c).is_some_and(|glyph| glyph.0 != 0)
        })
}

/// Characters that print nothing by themselves.
fn needs_glyph(c: char) -> bool {
    !c.is_whitespace()
        && !c.is_control()
        && !matches!(u32::from(c), 0xAD | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFE00..=0xFE0F
            | 0xFEFF | 0xE0000..=0xE0FFF | 0x1F3FB..=0x1F3FF)
}

/// Characters people expect in colour: a monochrome glyph of a text font is not what they mean.
fn is_pictorial(c: char) -> bool {
    matches!(u32::from(c), 0x1F000..=0x1FAFF | 0x2705 | 0x270A..=0x270B | 0x2728 | 0x274C | 0x274E
        | 0x2753..=0x2755 | 0x2757 | 0x2795..=0x2797 | 0x2B50 | 0x2B55 | 0x26A1 | 0x23F0 | 0x23F3 | 0x231A..=0x231B)
}

/// Scripts whose words are not parted by spaces and found by a dictionary: Thai, Lao, Burmese, Khmer.
fn is_without_spaces(c: char) -> bool {
    matches!(u32::from(c), 0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF)
}

/// The language that decides between regional glyphs and sets the writing direction.
pub(crate) fn language(chars: &BTreeSet<char>) -> &'static str {
    let count = |from: u32, to: u32| {
        let (from, to) = (
            char::from_u32(from).unwrap_or('\0'),
            char::from_u32(to).unwrap_or(char::MAX),
        );
        chars.range(from..=to).count()
    };
    let latin = count(0x41, 0x24F);
    if count(0x3040, 0x30FF) > 0 {
        "ja"
    } else if count(0xAC00, 0xD7AF) > count(0x4E00, 0x9FFF) {
        "ko"
    } else if count(0x4E00, 0x9FFF) > 0 {
        "zh"
    } else if count(0x0600, 0x06FF) > latin {
        "ar"
    } else if count(0x0590, 0x05FF) > latin {
        "he"
    } else if count(0x0E00, 0x0E7F) > latin {
        "th"
    } else {
        "en"
    }
}

/// Installed families for scripts beyond the embedded ones; the document's own region comes first.
fn families_for(book: &FontBook, lang: &str) -> Vec<String> {
    let regions = match lang {
        "ja" => ["jp", "sc", "kr"],
        "ko" => ["kr", "sc", "jp"],
        _ => ["sc", "jp", "kr"],
    };
    let cjk = regions.iter().flat_map(|region| {
        [
            format!("noto sans cjk {region}"),
            format!("source han sans {region}"),
            format!("noto sans {region}"),
        ]
    });
    let others = FALLBACK_FAMILIES.into_iter().map(str::to_owned);
    cjk.chain(others)
        .filter(|family| book.contains_family(family))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chars(text: &str) -> BTreeSet<char> {
        text.chars().collect()
    }

    #[test]
    fn european_text_and_symbols_need_no_system_font() {
        let fonts = Fonts::default();
        let choice = fonts.choose(&chars(
            "Größe façade Ёлка Ελλάδα → ≤ ✓ • “” — € ½ ² ☐ ─ │ █\u{200b}",
        ));
        assert!(choice.missing.is_empty(), "{:?}", choice.missing);
        assert!(fonts.all.get().is_none(), "the system was scanned without need");
    }

    #[test]
    fn a_character_without_a_glyph_is_named() {
        let fonts = Fonts::default();
        let choice = fonts.choose(&chars("a\u{F8F0}\u{10FFFD}"));
        assert!(choice.missing.contains(&'\u{10FFFD}'), "{:?}", choice.missing);
        assert!(!choice.missing.contains(&'a'));
    }

    #[test]
    fn thai_beside_chinese_is_broken_into_words_and_chinese_keeps_its_fonts() {
        let fonts = Fonts::default();
        assert_eq!(fonts.choose(&chars("汉字 ภาษาไทย")).lang, "th");
        assert_eq!(fonts.choose(&chars("汉字")).lang, "zh");
    }

    #[test]
    fn the_script_decides_the_language() {
        assert_eq!(language(&chars("漢字かな")), "ja");
        assert_eq!(language(&chars("汉字 and text")), "zh");
        assert_eq!(language(&chars("한국어 漢")), "ko");
        assert_eq!(language(&chars("العربية")), "ar");
        assert_eq!(language(&chars("ภาษาไทย")), "th");
        assert_eq!(language(&chars("plain")), "en");
    }
}
