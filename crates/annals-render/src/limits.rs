//! Every bound of this crate, in one place.

use std::time::Duration;

/// Blocks within blocks, and inlines within inlines, that readers keep; deeper ones are flattened into their
/// parent. Typst refuses about five times as much, and every writer recurses.
pub const MAX_NESTING: usize = 12;

/// Columns of a table; further cells are joined into the last one.
pub const MAX_COLUMNS: usize = 64;

/// Sources that one citation may name; a longer one is left as text.
pub const MAX_SIDS: usize = 100;

/// Bytes of a formula; a longer one is shown as it was typed.
pub const MAX_FORMULA_BYTES: usize = 8_000;

/// Bytes of one piece of code that is coloured in office files; a longer one stays black.
pub const MAX_HIGHLIGHTED_BYTES: usize = 200_000;

/// Distinct pictures in one document; later ones become placeholders.
pub const MAX_IMAGES: usize = 256;

/// Pixels of all pictures of one document together; decoded, each takes four bytes. Later ones become
/// placeholders.
pub const MAX_PIXELS_TOGETHER: u64 = 500_000_000;

/// The most pixels a rendered PNG may have; the scale is lowered to fit.
pub const MAX_PNG_PIXELS: f64 = 60e6;

/// Pixels along the longer side of a PNG; viewers and the encoder fail above 2^15.
pub const MAX_PNG_SIDE: f64 = 32_000.0;

/// Bounds a caller may set.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of content.
    pub content_bytes: usize,
    /// Bytes of one picture.
    pub image_bytes: usize,
    /// Pixels of one picture, against decompression bombs.
    pub image_pixels: u64,
    /// Pages (or slides) of one result.
    pub pages: usize,
    /// Wall time of one call.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            content_bytes: 4 << 20,
            image_bytes: 32 << 20,
            image_pixels: 100_000_000,
            pages: 1000,
            deadline: Duration::from_secs(30),
        }
    }
}
