//! Windows and prices of models by name.
//!
//! A convenience, not an authority: vendors change both, so either can be overridden in a
//! [`ModelSpec`](crate::ModelSpec), and a name that is not here gets a careful window and no price. A wrong price is
//! worse than none.

use crate::model::Window;
use crate::usage::Price;

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

/// What is known of a family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What the names of the family begin with.
    pub prefix: &'static str,
    /// How much fits.
    pub window: Window,
    /// List price.
    pub price: Price,
}

/// The family with the longest prefix of this name, if any.
pub fn find(name: &str) -> Option<&'static Known> {
    // Gateways put the vendor in front: `anthropic/claude-…`.
    let name = name.rsplit('/').next().unwrap_or(name);
    KNOWN
        .iter()
        .filter(|known| name.starts_with(known.prefix))
        .max_by_key(|known| known.prefix.len())
}

const fn window(context_tokens: u32, max_output_tokens: u32) -> Window {
    Window {
        context_tokens,
        max_output_tokens,
    }
}

/// Dollars per million tokens, times 1,000. A write costs a quarter more than an uncached token, a read a tenth.
const fn claude(prefix: &'static str, max_output_tokens: u32, input: u64, output: u64) -> Known {
    let price = Price {
        input_nanousd: input,
        cache_read_nanousd: input / 10,
        cache_write_nanousd: input * 5 / 4,
        output_nanousd: output,
    };
    Known {
        prefix,
        window: window(200_000, max_output_tokens),
        price,
    }
}

/// Dollars per million tokens, times 1,000. Writing to the automatic cache costs no more than not doing so.
const fn gpt(prefix: &'static str, window: Window, input: u64, cached: u64, output: u64) -> Known {
    let price = Price {
        input_nanousd: input,
        cache_read_nanousd: cached,
        cache_write_nanousd: input,
        output_nanousd: output,
    };
    Known {
        prefix,
        window,
        price,
    }
}

static KNOWN: &[Known] = &[
    claude("claude-3-5-haiku", 8_192, 800, 4_000),
    claude("claude-3-7-sonnet", 64_000, 3_000, 15_000),
    claude("claude-sonnet-4", 64_000, 3_000, 15_000),
    claude("claude-haiku-4", 64_000, 1_000, 5_000),
    claude("claude-opus-4", 32_000, 15_000, 75_000),
    claude("claude-opus-4-5", 64_000, 5_000, 25_000),
    gpt("gpt-4o", window(128_000, 16_384), 2_500, 1_250, 10_000),
    gpt("gpt-4o-mini", window(128_000, 16_384), 150, 75, 600),
    gpt("gpt-4.1", window(1_047_576, 32_768), 2_000, 500, 8_000),
    gpt("gpt-4.1-mini", window(1_047_576, 32_768), 400, 100, 1_600),
    gpt("gpt-4.1-nano", window(1_047_576, 32_768), 100, 25, 400),
    gpt("gpt-5", window(400_000, 128_000), 1_250, 125, 10_000),
    gpt("gpt-5-mini", window(400_000, 128_000), 250, 25, 2_000),
    gpt("gpt-5-nano", window(400_000, 128_000), 50, 5, 400),
    gpt("o3", window(200_000, 100_000), 2_000, 500, 8_000),
    gpt("o4-mini", window(200_000, 100_000), 1_100, 275, 4_400),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_of_a_name_wins() {
        assert_eq!(find("gpt-5-mini-2025-08-07").unwrap().prefix, "gpt-5-mini");
        assert_eq!(
            find("claude-opus-4-5-20251101").unwrap().prefix,
            "claude-opus-4-5"
        );
        assert_eq!(find("claude-opus-4-1").unwrap().price.input_nanousd, 15_000);
        assert_eq!(find("openai/gpt-4o").unwrap().prefix, "gpt-4o");
        assert_eq!(find("some-local-model"), None);
    }

    #[test]
    fn a_cache_read_is_never_dearer_than_an_uncached_token() {
        for known in KNOWN {
            assert!(
                known.price.cache_read_nanousd < known.price.input_nanousd,
                "{}",
                known.prefix
            );
            assert!(
                known.window.max_output_tokens < known.window.context_tokens,
                "{}",
                known.prefix
            );
        }
    }
}
