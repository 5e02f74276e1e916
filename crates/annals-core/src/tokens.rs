//! How many tokens a text costs, by a real tokenizer, and what media are taken to cost.
//!
//! The vocabulary is o200k. Providers differ by some percent; what matters is that every count is made the
//! same way, once, and kept with the block. A provider's own usage figures are recorded beside, never mixed in.
//! Without the feature `tokenizer` texts are estimated, see `tokens/estimate.rs`.

#[cfg(any(test, not(feature = "tokenizer")))]
mod estimate;

use crate::limits;

/// Tokens of a text. The first call in a process loads the vocabulary (tens of milliseconds).
#[cfg(feature = "tokenizer")]
pub fn count(text: &str) -> u32 {
    if text.is_empty() {
        return 0;
    }
    u32::try_from(bpe_openai::o200k_base().count(text)).unwrap_or(u32::MAX)
}

/// Tokens of a text, estimated: this build is without the feature `tokenizer`.
#[cfg(not(feature = "tokenizer"))]
pub fn count(text: &str) -> u32 {
    estimate::count(text)
}

/// Estimated tokens of an image whose size is known: one per 750 pixels, after providers scale its long side down.
pub fn image(width_px: u32, height_px: u32) -> u32 {
    const PIXELS_PER_TOKEN: f64 = 750.0;
    let long_side_px = f64::from(width_px.max(height_px).max(1));
    let scale = (f64::from(limits::IMAGE_LONG_SIDE_MAX_PX) / long_side_px).min(1.0);
    let pixels = f64::from(width_px) * scale * f64::from(height_px) * scale;
    ((pixels / PIXELS_PER_TOKEN).ceil() as u32).clamp(1, limits::IMAGE_MAX_TOKENS)
}

/// Estimated tokens of an image whose size is not known: as many as an image can cost.
pub fn image_of_unknown_size() -> u32 {
    limits::IMAGE_MAX_TOKENS
}

/// Estimated tokens of a PDF: each page as an image and as text.
pub fn pdf(pages: u32) -> u32 {
    pages.max(1).saturating_mul(limits::PDF_PAGE_TOKENS)
}

/// Estimated tokens of a PDF whose pages were not counted, from its size.
pub fn pdf_of_unknown_pages(size_bytes: u64) -> u32 {
    let pages = size_bytes
        .div_ceil(limits::PDF_PAGE_TYPICAL_BYTES)
        .clamp(1, u64::from(limits::PDF_MAX_PAGES));
    pdf(pages as u32)
}

/// Estimated tokens of a binary block of this type and size; types that no model is shown cost nothing.
pub fn media(mime: &str, size_bytes: u64) -> u32 {
    match mime {
        "application/pdf" => pdf_of_unknown_pages(size_bytes),
        _ if mime.starts_with("image/") => image_of_unknown_size(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "tokenizer")]
    #[test]
    fn texts_are_counted_by_the_o200k_vocabulary() {
        assert_eq!(count(""), 0);
        assert_eq!(count("hello world"), 2);
        assert_eq!(count("Antidisestablishmentarianism"), 6);
        assert_eq!(count("多言語"), 3);
    }

    #[test]
    fn images_cost_by_area_up_to_a_cap() {
        assert_eq!(image(750, 100), 100);
        assert_eq!(image(1, 1), 1);
        assert_eq!(image(0, 0), 1);
        assert_eq!(image(8_000, 8_000), limits::IMAGE_MAX_TOKENS);
        assert_eq!(image(u32::MAX, u32::MAX), limits::IMAGE_MAX_TOKENS);
        // Scaled to 1568 × 196 pixels.
        assert_eq!(image(8_000, 1_000), 410);
    }

    #[test]
    fn documents_cost_by_page() {
        assert_eq!(pdf(3), 3 * limits::PDF_PAGE_TOKENS);
        assert_eq!(pdf(0), pdf(1));
        assert_eq!(pdf_of_unknown_pages(0), pdf(1));
        assert_eq!(pdf_of_unknown_pages(u64::MAX), pdf(limits::PDF_MAX_PAGES));
        assert_eq!(media("application/pdf", 1), pdf(1));
        assert_eq!(media("image/png", 1), image_of_unknown_size());
        assert_eq!(media("application/zip", 1), 0);
    }
}
