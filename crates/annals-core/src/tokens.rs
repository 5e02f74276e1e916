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

/// By which provider's rule pictures and documents are counted. `docs/models.md` says where each rule is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MediaRule {
    /// By area: one token for 750 pixels, the long side scaled down to 1,568 pixels.
    #[default]
    Area,
    /// By tiles of 512 pixels, after fitting into 2,048 pixels and scaling the short side down to 768: 85 tokens, and 170 for
    /// each tile.
    Tiles,
    /// By the same tiles at other prices.
    TilesAt(TilePrice),
    /// By square patches, as many as a picture may have.
    Patches(Patches),
}

/// What a picture of tiles costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct TilePrice {
    /// Tokens of any picture.
    pub base_tokens: u32,
    /// Tokens of each tile.
    pub tile_tokens: u32,
}

impl TilePrice {
    fn image(self, width: f64, height: f64) -> u32 {
        let fit = (TILES_FIT_PX / width.max(height)).min(1.0);
        let shrink = (TILES_SHORT_SIDE_PX / (width.min(height) * fit)).min(1.0);
        let tiles = |side: f64| (side * fit * shrink / TILE_PX).ceil().max(1.0) as u32;
        self.base_tokens + self.tile_tokens * tiles(width) * tiles(height)
    }

    /// Two rows of four tiles.
    fn max_tokens(self) -> u32 {
        self.image(TILES_FIT_PX, TILES_SHORT_SIDE_PX)
    }
}

/// How a picture that has too many patches is scaled down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatchFit {
    /// To the area of as many as it may have; those that rounding adds do not count.
    #[default]
    Area,
    /// Further, until one side is made of whole patches, so that it has few enough.
    Whole,
}

/// A grid of patches over a picture that was scaled down until it has few enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Patches {
    /// The side of a patch.
    pub side_px: u32,
    /// The longest side that is not scaled down.
    pub long_side_max_px: u32,
    /// The most patches of one picture.
    pub max: u32,
    /// Tokens for a hundred patches.
    pub percent: u32,
    /// How a picture with more is scaled down.
    #[serde(default, skip_serializing_if = "is_area")]
    pub fit: PatchFit,
}

fn is_area(fit: &PatchFit) -> bool {
    *fit == PatchFit::Area
}

impl Patches {
    fn image(self, width: f64, height: f64) -> u32 {
        let scale = match self.fit {
            PatchFit::Area => self
                .longest(width, height)
                .min(self.shrink(width, height))
                .min(1.0),
            PatchFit::Whole => self.whole(width, height),
        };
        let patches = self
            .patches(width * scale, height * scale)
            .min(f64::from(self.max));
        (patches * f64::from(self.percent) / 100.0).ceil() as u32
    }

    fn side(self) -> f64 {
        f64::from(self.side_px)
    }

    fn patches(self, width: f64, height: f64) -> f64 {
        let count = |length: f64| (length / self.side()).ceil().max(1.0);
        count(width) * count(height)
    }

    /// By how much the long side has to shrink.
    fn longest(self, width: f64, height: f64) -> f64 {
        f64::from(self.long_side_max_px) / width.max(height)
    }

    /// By how much a picture shrinks to the area of as many patches as it may have.
    fn shrink(self, width: f64, height: f64) -> f64 {
        (f64::from(self.max) * self.side() * self.side() / (width * height)).sqrt()
    }

    fn whole(self, width: f64, height: f64) -> f64 {
        let first = self.longest(width, height).min(1.0);
        let (width, height) = (width * first, height * first);
        if self.patches(width, height) <= f64::from(self.max) {
            return first;
        }
        let shrink = self.shrink(width, height);
        let kept = |length: f64| {
            let patches = length * shrink / self.side();
            patches.floor().max(1.0) / patches
        };
        // Pixels are whole, so what lies within half of one of a patch's edge is no further patch.
        let exact = first * shrink * kept(width).min(kept(height));
        exact * (1.0 - 0.5 / (width.max(height) * shrink))
    }

    fn max_tokens(self) -> u32 {
        (self.max * self.percent).div_ceil(100)
    }
}

impl MediaRule {
    /// Tokens of a picture of this size.
    pub fn image(self, width_px: u32, height_px: u32) -> u32 {
        let (width, height) = (f64::from(width_px.max(1)), f64::from(height_px.max(1)));
        match self {
            MediaRule::Area => {
                let scale = (f64::from(limits::IMAGE_LONG_SIDE_MAX_PX) / width.max(height)).min(1.0);
                let tokens = (width * scale * height * scale / AREA_PIXELS_PER_TOKEN).ceil() as u32;
                tokens.clamp(1, limits::IMAGE_MAX_TOKENS)
            }
            MediaRule::Tiles => TILE_PRICE.image(width, height),
            MediaRule::TilesAt(price) => price.image(width, height),
            MediaRule::Patches(patches) => patches.image(width, height),
        }
    }

    /// What a picture can cost.
    fn image_max(self) -> u32 {
        match self {
            MediaRule::Area | MediaRule::Tiles => limits::IMAGE_MAX_TOKENS,
            MediaRule::TilesAt(price) => price.max_tokens(),
            MediaRule::Patches(patches) => patches.max_tokens(),
        }
    }

    /// Tokens of a PDF: each page as a picture and as text.
    pub fn pdf(self, pages: u32) -> u32 {
        let (width_px, height_px) = PDF_PAGE_PX;
        let page = self.image(width_px, height_px) + limits::PDF_PAGE_TEXT_TOKENS;
        pages.max(1).saturating_mul(page)
    }

    /// Tokens of a binary of this type; types that no model is shown cost nothing. A picture whose size is not known is
    /// taken to cost what a picture can cost, a PDF's pages are estimated from its size.
    pub fn tokens(self, mime: &str, size_bytes: u64, pixels: Option<(u32, u32)>, pages: Option<u32>) -> u32 {
        match mime {
            "application/pdf" => self.pdf(pages.unwrap_or_else(|| typical_pages(size_bytes))),
            _ if mime.starts_with("image/") => match pixels {
                Some((width_px, height_px)) => self.image(width_px, height_px),
                None => self.image_max(),
            },
            _ => 0,
        }
    }
}

const AREA_PIXELS_PER_TOKEN: f64 = 750.0;
const TILES_FIT_PX: f64 = 2_048.0;
const TILES_SHORT_SIDE_PX: f64 = 768.0;
const TILE_PX: f64 = 512.0;
const TILE_PRICE: TilePrice = TilePrice {
    base_tokens: 85,
    tile_tokens: 170,
};
/// A page of A4 or Letter as providers draw it.
const PDF_PAGE_PX: (u32, u32) = (1_240, 1_754);

fn typical_pages(size_bytes: u64) -> u32 {
    let pages = size_bytes.div_ceil(limits::PDF_PAGE_TYPICAL_BYTES);
    pages.clamp(1, u64::from(limits::PDF_MAX_PAGES)) as u32
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
    fn pictures_cost_by_area_up_to_a_cap() {
        let image = |width, height| MediaRule::Area.image(width, height);
        assert_eq!(image(750, 100), 100);
        assert_eq!(image(120, 80), 13);
        assert_eq!(image(0, 0), 1);
        assert_eq!(image(8_000, 8_000), limits::IMAGE_MAX_TOKENS);
        assert_eq!(image(u32::MAX, u32::MAX), limits::IMAGE_MAX_TOKENS);
        // Scaled to 1568 × 196 pixels.
        assert_eq!(image(8_000, 1_000), 410);
    }

    #[test]
    fn pictures_cost_by_tiles() {
        let image = |width, height| MediaRule::Tiles.image(width, height);
        // The worked examples of the provider's documentation.
        assert_eq!(image(1_024, 1_024), 765);
        assert_eq!(image(2_048, 4_096), 1_105);
        assert_eq!(image(120, 80), 255);
        assert_eq!(image(0, 0), 255);
        assert_eq!(image(u32::MAX, 1), 85 + 4 * 170);
    }

    #[test]
    fn tiles_have_the_price_of_their_model() {
        let gpt_5 = MediaRule::TilesAt(TilePrice {
            base_tokens: 70,
            tile_tokens: 140,
        });
        assert_eq!(gpt_5.image(1_024, 1_024), 70 + 4 * 140);
        assert_eq!(gpt_5.tokens("image/png", 1, None, None), 70 + 8 * 140);
        assert!(gpt_5.image(u32::MAX, u32::MAX) <= 70 + 8 * 140);
    }

    /// The worked examples of the provider's documentation, and what users measured.
    #[test]
    fn patches_of_a_picture_that_is_too_large_become_whole() {
        let mini = MediaRule::Patches(Patches {
            side_px: 32,
            long_side_max_px: 2_048,
            max: 1_536,
            percent: 100,
            fit: PatchFit::Whole,
        });
        assert_eq!(mini.image(1_024, 1_024), 1_024);
        assert_eq!(mini.image(1_800, 2_400), 33 * 44);
        for ((width, height), patches) in [
            ((256, 256), 64),
            ((768, 1_024), 768),
            ((1_280, 720), 920),
            ((2_048, 768), 1_536),
        ] {
            assert_eq!(mini.image(width, height), patches, "{width} × {height}");
        }
        // Scaled to 2048 × 2 pixels, and to 1248 × 1248.
        assert_eq!(mini.image(2_048_000, 2_000), 64);
        assert_eq!(mini.image(8_000, 8_000), 39 * 39);
        assert_eq!(mini.image(u32::MAX, 1), 64);
    }

    #[test]
    fn pictures_cost_by_patches() {
        let claude = MediaRule::Patches(Patches {
            side_px: 28,
            long_side_max_px: 2_576,
            max: 4_784,
            percent: 100,
            fit: PatchFit::Area,
        });
        assert_eq!(claude.image(1_000, 1_000), 36 * 36);
        assert_eq!(claude.image(0, 0), 1);
        assert_eq!(claude.image(8_000, 8_000), 4_784);
        // Scaled to 2576 × 322 pixels.
        assert_eq!(claude.image(8_000, 1_000), 92 * 12);
        let gpt = MediaRule::Patches(Patches {
            side_px: 32,
            long_side_max_px: 2_048,
            max: 2_500,
            percent: 120,
            fit: PatchFit::Area,
        });
        assert_eq!(gpt.image(1_024, 1_024), 1_229);
        assert!(gpt.image(4_000, 3_000) <= 3_000);
        assert_eq!(gpt.tokens("image/png", 1, None, None), 3_000);
        assert_eq!(gpt.image(u32::MAX, u32::MAX), 3_000);
        assert_eq!(gpt.image(u32::MAX, 1), 77);
    }

    #[test]
    fn documents_cost_by_page() {
        for rule in [MediaRule::Area, MediaRule::Tiles] {
            let page = rule.pdf(1);
            assert_eq!(rule.pdf(300), 300 * page);
            assert_eq!(rule.pdf(0), page);
            let tokens = |size_bytes, pages| rule.tokens("application/pdf", size_bytes, None, pages);
            assert_eq!(tokens(u64::MAX, Some(2)), 2 * page);
            assert_eq!(tokens(0, None), page);
            assert_eq!(tokens(u64::MAX, None), rule.pdf(limits::PDF_MAX_PAGES));
            assert_eq!(rule.tokens("image/png", 1, None, None), limits::IMAGE_MAX_TOKENS);
            assert_eq!(
                rule.tokens("image/png", 1, Some((120, 80)), None),
                rule.image(120, 80)
            );
            assert_eq!(rule.tokens("application/zip", 1, None, None), 0);
        }
        assert_eq!((MediaRule::Area.pdf(1), MediaRule::Tiles.pdf(1)), (2_300, 1_805));
    }
}
