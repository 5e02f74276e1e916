//! What is known of models by name: windows, prices, how pictures are counted, how they are spoken to.
//!
//! A convenience, not an authority: vendors change all of it. Every entry says what date its figures are of, and where the
//! vendor publishes them; `tests/catalog.rs` compares the entries with two tables that others keep. Entries of the user's own
//! win over these. A name that is not here gets what holds for its vendor's models in general, and no price.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use annals_core::tokens::{MediaRule, PatchFit, Patches, TilePrice};
use serde::{Deserialize, Serialize};

use crate::model::Window;
use crate::usage::{LongPrice, Price};

/// A window that nearly every model in use has.
pub const UNKNOWN_WINDOW: Window = Window {
    context_tokens: 128_000,
    max_output_tokens: 8_192,
};

/// Local servers cut prompts silently when they are longer than what the server was started with: be careful.
pub const LOCAL_WINDOW: Window = Window {
    context_tokens: 32_768,
    max_output_tokens: 4_096,
};

/// Which of OpenAI's protocols a model is asked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Wire {
    /// Chat completions, which nearly every server speaks.
    #[default]
    Chat,
    /// Responses, which keeps a model's reasoning within a turn.
    Responses,
}

/// What is known of a family of models.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// What the names of the family begin with.
    pub prefix: Cow<'static, str>,
    /// How much fits.
    pub window: Window,
    /// List price; none if tokens cost nothing or nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// How it is asked at OpenAI itself.
    #[serde(default)]
    pub wire: Wire,
    /// Whether it reasons before it answers.
    #[serde(default)]
    pub reasons: bool,
    /// How pictures are counted, if not as its provider's models usually do.
    #[serde(skip)]
    pub media: Option<MediaRule>,
    /// The date that the figures are of.
    pub as_of: Cow<'static, str>,
    /// Where the vendor publishes it.
    pub source: Cow<'static, str>,
}

/// Entries of the user's own over those of the program. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    own: Arc<[Known]>,
}

impl Catalog {
    /// With these entries, which win over those of the program whatever their prefixes are.
    pub fn with(own: impl IntoIterator<Item = Known>) -> Self {
        Catalog {
            own: own.into_iter().collect(),
        }
    }

    /// What is known of the model of this name: the user's entry with the longest prefix of it, else the program's entry
    /// for this model, else what holds for all of its vendor's.
    pub fn find(&self, name: &str) -> Option<&Known> {
        // Gateways put the vendor in front: `anthropic/claude-…`.
        let name = name.rsplit('/').next().unwrap_or(name);
        longest(&self.own, name)
            .or_else(|| MODELS.iter().find(|known| is_version(&known.prefix, name)))
            .or_else(|| longest(&FAMILIES, name))
    }

    /// The program's own entries, one a model.
    pub fn models() -> &'static [Known] {
        &MODELS
    }
}

fn longest<'k>(known: &'k [Known], name: &str) -> Option<&'k Known> {
    known
        .iter()
        .filter(|known| name.starts_with(&*known.prefix))
        .max_by_key(|known| known.prefix.len())
}

/// Whether `name` is `model` or a dated version of it. A model with a longer name is another one, with its own price.
fn is_version(model: &str, name: &str) -> bool {
    let Some(rest) = name.strip_prefix(model) else {
        return false;
    };
    let is_date = |rest: &str| {
        let digits = rest.bytes().filter(u8::is_ascii_digit).count();
        digits == 8 && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    rest.is_empty() || rest == "-latest" || rest.strip_prefix(['-', '@']).is_some_and(is_date)
}

/// The date that the entries below are of.
const AS_OF: Cow<'static, str> = Cow::Borrowed("2026-10-21");
const ANTHROPIC: Cow<'static, str> =
    Cow::Borrowed("https://platform.claude.com/docs/en/about-claude/models/overview");
const OPENAI: Cow<'static, str> = Cow::Borrowed("https://developers.openai.com/api/docs/models");

/// Claude from 4.7 on sees pictures in more detail than the models before it.
const FINE_PATCHES: MediaRule = MediaRule::Patches(Patches {
    side_px: 28,
    long_side_max_px: 2_576,
    max: 4_784,
    percent: 100,
    fit: PatchFit::Area,
});

/// GPT from 5.4 on.
const GPT_PATCHES: MediaRule = gpt_patches(2_500, 120);

/// GPT before 5.4 and small models, of which each counts a patch as another number of tokens.
const fn small_patches(percent: u32) -> MediaRule {
    gpt_patches(1_536, percent)
}

const fn gpt_patches(max: u32, percent: u32) -> MediaRule {
    MediaRule::Patches(Patches {
        side_px: 32,
        long_side_max_px: 2_048,
        max,
        percent,
        fit: PatchFit::Whole,
    })
}

/// Models that see tiles, each at its own price; those that are usual need none.
const fn tiles(base_tokens: u32, tile_tokens: u32) -> MediaRule {
    MediaRule::TilesAt(TilePrice {
        base_tokens,
        tile_tokens,
    })
}

/// What a prompt may have and what an answer may have. Where a vendor's window is for both together and the prompt's part
/// of it is bounded, that part.
const fn window(prompt_tokens: u32, max_output_tokens: u32) -> Window {
    Window {
        context_tokens: prompt_tokens,
        max_output_tokens,
    }
}

/// Thousandths of a dollar per million tokens: uncached, read from the cache, answered.
type Rates = (u64, u64, u64);

/// Writing to Anthropic's cache for five minutes costs a quarter more than an uncached token.
fn claude(model: &'static str, window: Window, (input, cached, output): Rates) -> Known {
    Known {
        prefix: Cow::Borrowed(model),
        window,
        price: Some(Price {
            input_nanousd: input,
            cache_read_nanousd: cached,
            cache_write_nanousd: input * 5 / 4,
            output_nanousd: output,
            long: None,
        }),
        wire: Wire::Chat,
        reasons: true,
        media: None,
        as_of: AS_OF,
        source: ANTHROPIC,
    }
}

/// Writing to OpenAI's cache costs no more than not doing so, unless [`Known::charging_writes`] says otherwise.
fn gpt(model: &'static str, window: Window, (input, cached, output): Rates) -> Known {
    Known {
        prefix: Cow::Borrowed(model),
        window,
        price: Some(Price {
            input_nanousd: input,
            cache_read_nanousd: cached,
            cache_write_nanousd: input,
            output_nanousd: output,
            long: None,
        }),
        wire: Wire::Responses,
        reasons: false,
        media: None,
        as_of: AS_OF,
        source: OPENAI,
    }
}

impl Known {
    fn reasoning(self) -> Self {
        Known {
            reasons: true,
            ..self
        }
    }

    fn seeing(self, media: MediaRule) -> Self {
        Known {
            media: Some(media),
            ..self
        }
    }

    fn charging_writes(self) -> Self {
        let price = self.price.map(|price| Price {
            cache_write_nanousd: price.input_nanousd * 5 / 4,
            ..price
        });
        Known { price, ..self }
    }

    /// With another price for prompts above a number of tokens, in percent of the ordinary one.
    fn long(self, over_tokens: u64, prompt_percent: u64, output_percent: u64) -> Self {
        let price = self.price.map(|price| Price {
            long: Some(LongPrice {
                over_tokens,
                input_nanousd: price.input_nanousd * prompt_percent / 100,
                cache_read_nanousd: price.cache_read_nanousd * prompt_percent / 100,
                cache_write_nanousd: price.cache_write_nanousd * prompt_percent / 100,
                output_nanousd: price.output_nanousd * output_percent / 100,
            }),
            ..price
        });
        Known { price, ..self }
    }
}

/// One entry a model.
static MODELS: LazyLock<Vec<Known>> = LazyLock::new(|| [claude_models(), gpt_models()].concat());

/// What is known of models that have no entry: enough to ask them, and no price.
static FAMILIES: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let unpriced = |known: Known| Known { price: None, ..known };
    vec![
        unpriced(claude("claude-", window(200_000, 32_000), (0, 0, 0))).seeing(FINE_PATCHES),
        unpriced(gpt("gpt-4", window(128_000, 16_384), (0, 0, 0))),
        unpriced(gpt("gpt-5", window(128_000, 16_384), (0, 0, 0)))
            .reasoning()
            .seeing(GPT_PATCHES),
        unpriced(gpt("gpt-6", window(128_000, 16_384), (0, 0, 0)))
            .reasoning()
            .seeing(GPT_PATCHES),
    ]
});

fn claude_models() -> Vec<Known> {
    let earlier = window(200_000, 64_000);
    let large = window(1_000_000, 128_000);
    let fine = |model, rates| claude(model, large, rates).seeing(FINE_PATCHES);
    vec![
        Known {
            reasons: false,
            ..claude("claude-3-5-haiku", window(200_000, 8_192), (800, 80, 4_000))
        },
        claude("claude-3-7-sonnet", earlier, (3_000, 300, 15_000)),
        claude("claude-sonnet-4", earlier, (3_000, 300, 15_000)),
        claude("claude-sonnet-4-0", earlier, (3_000, 300, 15_000)),
        claude("claude-sonnet-4-5", earlier, (3_000, 300, 15_000)),
        claude("claude-sonnet-4-6", large, (3_000, 300, 15_000)),
        fine("claude-sonnet-5", (2_000, 200, 10_000)),
        fine("claude-sonnet-5-5", (2_000, 100, 10_000)),
        claude("claude-haiku-4-5", earlier, (1_000, 100, 5_000)),
        fine("claude-haiku-5-5", (100, 10, 500)).long(100_000, 500, 500),
        claude("claude-opus-4", window(200_000, 32_000), (15_000, 1_500, 75_000)),
        claude(
            "claude-opus-4-0",
            window(200_000, 32_000),
            (15_000, 1_500, 75_000),
        ),
        claude(
            "claude-opus-4-1",
            window(200_000, 32_000),
            (15_000, 1_500, 75_000),
        ),
        claude("claude-opus-4-5", earlier, (5_000, 500, 25_000)),
        claude("claude-opus-4-6", large, (5_000, 500, 25_000)),
        fine("claude-opus-4-7", (5_000, 500, 25_000)),
        fine("claude-opus-4-8", (5_000, 500, 25_000)),
        fine("claude-opus-5", (5_000, 500, 25_000)),
        fine("claude-opus-5-5", (4_000, 200, 20_000)),
        fine("claude-fable-5", (10_000, 1_000, 50_000)),
        fine("claude-fable-5-1", (10_000, 250, 50_000)),
    ]
}

fn gpt_models() -> Vec<Known> {
    let reasoning = |model, window, rates| gpt(model, window, rates).reasoning();
    let middle = window(272_000, 128_000);
    let large = window(922_000, 128_000);
    let patched = |model, window, rates| reasoning(model, window, rates).seeing(GPT_PATCHES);
    let tiled = |model, window, rates| reasoning(model, window, rates).seeing(tiles(70, 140));
    let tiered = |model, window, rates| patched(model, window, rates).long(272_000, 200, 150);
    let charging = |model, rates| {
        patched(model, large, rates)
            .charging_writes()
            .long(272_000, 200, 150)
    };
    vec![
        gpt("gpt-4o", window(128_000, 16_384), (2_500, 1_250, 10_000)),
        gpt("gpt-4o-mini", window(128_000, 16_384), (150, 75, 600)).seeing(tiles(2_833, 5_667)),
        gpt("gpt-4.1", window(1_047_576, 32_768), (2_000, 500, 8_000)),
        gpt("gpt-4.1-mini", window(1_047_576, 32_768), (400, 100, 1_600)).seeing(small_patches(162)),
        gpt("gpt-4.1-nano", window(1_047_576, 32_768), (100, 25, 400)).seeing(small_patches(246)),
        tiled("gpt-5", middle, (1_250, 125, 10_000)),
        reasoning("gpt-5-mini", middle, (250, 25, 2_000)).seeing(small_patches(162)),
        reasoning("gpt-5-nano", middle, (50, 5, 400)).seeing(small_patches(246)),
        tiled("gpt-5-pro", window(128_000, 272_000), (15_000, 15_000, 120_000)),
        tiled("gpt-5.1", middle, (1_250, 125, 10_000)),
        reasoning("gpt-5.2", middle, (1_750, 175, 14_000)).seeing(small_patches(120)),
        reasoning("gpt-5.2-pro", middle, (21_000, 21_000, 168_000)).seeing(small_patches(120)),
        reasoning("gpt-5.3-codex", middle, (1_750, 175, 14_000)).seeing(small_patches(120)),
        tiered("gpt-5.4", large, (2_500, 250, 15_000)),
        reasoning("gpt-5.4-mini", middle, (750, 75, 4_500)).seeing(small_patches(162)),
        reasoning("gpt-5.4-nano", middle, (200, 20, 1_250)).seeing(small_patches(246)),
        tiered("gpt-5.4-pro", large, (30_000, 30_000, 180_000)),
        tiered("gpt-5.5", window(872_000, 128_000), (5_000, 500, 30_000)),
        tiered("gpt-5.5-pro", window(872_000, 128_000), (30_000, 30_000, 180_000)),
        charging("gpt-5.6", (4_000, 400, 20_000)),
        charging("gpt-5.6-sol", (4_000, 400, 20_000)),
        charging("gpt-5.6-terra", (2_000, 200, 12_000)),
        charging("gpt-5.6-luna", (200, 20, 1_200)),
        charging("gpt-6-astra", (10_000, 1_000, 50_000)),
        charging("gpt-6-sol", (2_000, 200, 10_000)),
        charging("gpt-6-luna", (100, 10, 500)),
        charging("gpt-6.1-sol", (2_000, 100, 10_000)),
        charging("gpt-6.1-terra", (1_000, 50, 5_000)),
        reasoning("o3", window(200_000, 100_000), (2_000, 500, 8_000)).seeing(tiles(75, 150)),
        reasoning("o3-pro", window(200_000, 100_000), (20_000, 20_000, 80_000)).seeing(tiles(75, 150)),
        reasoning("o3-mini", window(200_000, 100_000), (1_100, 550, 4_400)),
        reasoning("o4-mini", window(200_000, 100_000), (1_100, 275, 4_400)).seeing(small_patches(172)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Option<Known> {
        Catalog::default().find(name).cloned()
    }

    #[test]
    fn a_name_means_one_model_and_its_dated_versions() {
        for (name, entry) in [
            ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
            ("claude-opus-4-5-20251101", "claude-opus-4-5"),
            ("claude-opus-4-5@20251101", "claude-opus-4-5"),
            ("claude-opus-4-20250514", "claude-opus-4"),
            ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
            ("openai/gpt-4o", "gpt-4o"),
        ] {
            assert_eq!(find(name).unwrap().prefix, entry, "{name}");
        }
        assert_eq!(
            find("claude-opus-4-6").unwrap().price.unwrap().input_nanousd,
            5_000
        );
        assert_eq!(find("some-local-model"), None);
    }

    #[test]
    fn a_model_without_an_entry_gets_its_vendors_protocol_and_no_price() {
        for (name, wire, reasons) in [
            ("claude-opus-9", Wire::Chat, true),
            ("gpt-5-codex", Wire::Responses, true),
            ("gpt-5.9", Wire::Responses, true),
            ("gpt-6-astra-turbo", Wire::Responses, true),
            ("gpt-4o-search-preview", Wire::Responses, false),
        ] {
            let known = find(name).unwrap();
            assert_eq!(
                (known.price, known.wire, known.reasons),
                (None, wire, reasons),
                "{name}"
            );
            assert!(known.window.context_tokens <= 200_000, "{name}");
        }
    }

    #[test]
    fn a_square_picture_costs_what_the_vendor_publishes() {
        for (model, tokens) in [
            ("gpt-4o", None),
            ("gpt-4o-mini", Some(2_833 + 4 * 5_667)),
            ("gpt-5", Some(70 + 4 * 140)),
            ("gpt-5.1", Some(70 + 4 * 140)),
            ("gpt-5-mini", Some(1_659)),
            ("gpt-5.2", Some(1_229)),
            ("gpt-5.4", Some(1_229)),
            ("gpt-5.4-nano", Some(2_520)),
            ("o3", Some(75 + 4 * 150)),
            ("o4-mini", Some(1_762)),
        ] {
            let rule = find(model).unwrap().media;
            assert_eq!(rule.map(|rule| rule.image(1_024, 1_024)), tokens, "{model}");
        }
    }

    #[test]
    fn an_entry_of_the_user_wins_over_a_longer_one_of_the_program() {
        let own: Known = serde_json::from_value(serde_json::json!({
            "prefix": "gpt-5", "window": {"context_tokens": 9_000, "max_output_tokens": 500}, "wire": "chat",
            "as_of": "2026-02-01", "source": "our gateway",
        }))
        .unwrap();
        let catalog = Catalog::with([own]);
        let known = catalog.find("gpt-5-mini").unwrap();
        assert_eq!(
            (known.window.context_tokens, known.price, known.wire),
            (9_000, None, Wire::Chat)
        );
        assert_eq!(catalog.find("gpt-4o").unwrap().window.context_tokens, 128_000);
    }

    #[test]
    fn every_entry_says_when_and_where_and_a_cache_read_is_never_dearer_than_an_uncached_token() {
        for known in Catalog::models() {
            let price = known.price.unwrap();
            assert!(
                price.cache_read_nanousd <= price.input_nanousd,
                "{}",
                known.prefix
            );
            assert!(
                known.as_of.len() == 10 && known.source.starts_with("https://"),
                "{}",
                known.prefix
            );
        }
    }
}
