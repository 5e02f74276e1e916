//! What is known of models by name: windows, prices, how they are spoken to.
//!
//! A convenience, not an authority: vendors change all of it, and nobody has compared these entries with the vendors'
//! pages yet. Every entry says what date its figures are of, and where the vendor publishes them; entries of the user's
//! own win over these, and both over nothing: a name that is not here gets a careful window and no price.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

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

/// Which of OpenAI's protocols a model is asked with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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

    /// The family with the longest prefix of this name, if any.
    pub fn find(&self, name: &str) -> Option<&Known> {
        // Gateways put the vendor in front: `anthropic/claude-…`.
        let name = name.rsplit('/').next().unwrap_or(name);
        longest(&self.own, name).or_else(|| longest(&KNOWN, name))
    }
}

fn longest<'k>(known: &'k [Known], name: &str) -> Option<&'k Known> {
    known
        .iter()
        .filter(|known| name.starts_with(&*known.prefix))
        .max_by_key(|known| known.prefix.len())
}

/// The date that the entries below are of.
const AS_OF: Cow<'static, str> = Cow::Borrowed("2025-11-24");
const ANTHROPIC: Cow<'static, str> =
    Cow::Borrowed("https://docs.claude.com/en/docs/about-claude/models/overview");
const OPENAI: Cow<'static, str> = Cow::Borrowed("https://platform.openai.com/docs/models");

const fn window(context_tokens: u32, max_output_tokens: u32) -> Window {
    Window {
        context_tokens,
        max_output_tokens,
    }
}

/// Dollars per million tokens, times 1,000. A write costs a quarter more than an uncached token, a read a tenth.
fn claude(prefix: &'static str, max_output_tokens: u32, input: u64, output: u64) -> Known {
    let price = Price {
        input_nanousd: input,
        cache_read_nanousd: input / 10,
        cache_write_nanousd: input * 5 / 4,
        output_nanousd: output,
    };
    Known {
        prefix: Cow::Borrowed(prefix),
        window: window(200_000, max_output_tokens),
        price: Some(price),
        wire: Wire::Chat,
        reasons: true,
        as_of: AS_OF,
        source: ANTHROPIC,
    }
}

/// Dollars per million tokens, times 1,000. Writing to the automatic cache costs no more than not doing so.
fn gpt(prefix: &'static str, window: Window, input: u64, cached: u64, output: u64) -> Known {
    let price = Price {
        input_nanousd: input,
        cache_read_nanousd: cached,
        cache_write_nanousd: input,
        output_nanousd: output,
    };
    Known {
        prefix: Cow::Borrowed(prefix),
        window,
        price: Some(price),
        wire: Wire::Responses,
        reasons: false,
        as_of: AS_OF,
        source: OPENAI,
    }
}

/// As [`gpt`], for a model that reasons.
fn reasoning(prefix: &'static str, window: Window, input: u64, cached: u64, output: u64) -> Known {
    Known {
        reasons: true,
        ..gpt(prefix, window, input, cached, output)
    }
}

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    vec![
        Known {
            reasons: false,
            ..claude("claude-3-5-haiku", 8_192, 800, 4_000)
        },
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
        reasoning("gpt-5", window(400_000, 128_000), 1_250, 125, 10_000),
        reasoning("gpt-5-mini", window(400_000, 128_000), 250, 25, 2_000),
        reasoning("gpt-5-nano", window(400_000, 128_000), 50, 5, 400),
        reasoning("o3", window(200_000, 100_000), 2_000, 500, 8_000),
        reasoning("o4-mini", window(200_000, 100_000), 1_100, 275, 4_400),
    ]
});

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Option<Known> {
        Catalog::default().find(name).cloned()
    }

    #[test]
    fn the_longest_prefix_of_a_name_wins() {
        assert_eq!(find("gpt-5-mini-2025-08-07").unwrap().prefix, "gpt-5-mini");
        assert_eq!(
            find("claude-opus-4-5-20251101").unwrap().prefix,
            "claude-opus-4-5"
        );
        assert_eq!(
            find("claude-opus-4-1").unwrap().price.unwrap().input_nanousd,
            15_000
        );
        assert_eq!(find("openai/gpt-4o").unwrap().prefix, "gpt-4o");
        assert_eq!(find("some-local-model"), None);
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
        for known in KNOWN.iter() {
            let price = known.price.unwrap();
            assert!(price.cache_read_nanousd < price.input_nanousd, "{}", known.prefix);
            assert!(
                known.window.max_output_tokens < known.window.context_tokens,
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
