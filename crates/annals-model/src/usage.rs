//! What an answer took, by bucket, and what that costs.
//!
//! Vendors disagree whether "input tokens" include the cached ones. Here they always do, and the adapters convert:
//! `input_tokens` is the whole prompt, of which some were read from the cache and some written to it.

use std::fmt;
use std::ops::{Add, AddAssign};

use annals_core::block::payload::TurnUsage;
use serde::{Deserialize, Serialize};

/// Tokens of one or more model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// The whole prompt, cached or not.
    pub input_tokens: u64,
    /// Of these, how many the provider's cache had.
    pub cache_read_tokens: u64,
    /// Of these, how many the provider stored for the next call.
    pub cache_write_tokens: u64,
    /// The answer, reasoning included.
    pub output_tokens: u64,
}

impl Usage {
    /// Prompt tokens that were neither read from nor written to the cache.
    pub fn uncached_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_sub(self.cache_read_tokens + self.cache_write_tokens)
    }

    /// What one model call that took this costs. Costs of several are added up, not their tokens: a long prompt may be
    /// dearer than several short ones.
    pub fn cost(&self, price: &Price) -> Cost {
        let price = price.of_prompt(self.input_tokens);
        Cost {
            uncached_nanousd: self.uncached_tokens() * price.input_nanousd,
            cache_read_nanousd: self.cache_read_tokens * price.cache_read_nanousd,
            cache_write_nanousd: self.cache_write_tokens * price.cache_write_nanousd,
            output_nanousd: self.output_tokens * price.output_nanousd,
        }
    }
}

impl From<TurnUsage> for Usage {
    fn from(usage: TurnUsage) -> Self {
        Usage {
            input_tokens: usage.input_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            output_tokens: usage.output_tokens,
        }
    }
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens + other.input_tokens,
            cache_read_tokens: self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens: self.cache_write_tokens + other.cache_write_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Usage>>(usages: I) -> Usage {
        usages.fold(Usage::default(), Add::add)
    }
}

/// The price of one token of each bucket, in billionths of a dollar, so that sums are exact: 1,000 here is one
/// dollar per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// A prompt token that the cache had no part in.
    pub input_nanousd: u64,
    /// A prompt token read from the cache.
    pub cache_read_nanousd: u64,
    /// A prompt token written to the cache.
    pub cache_write_nanousd: u64,
    /// A token of the answer.
    pub output_nanousd: u64,
    /// What holds instead for a request with a long prompt, if that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrice>,
}

/// Prices of all tokens of a request whose prompt is longer than a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongPrice {
    /// The longest prompt at the ordinary price.
    pub over_tokens: u64,
    /// A prompt token that the cache had no part in.
    pub input_nanousd: u64,
    /// A prompt token read from the cache.
    pub cache_read_nanousd: u64,
    /// A prompt token written to the cache.
    pub cache_write_nanousd: u64,
    /// A token of the answer.
    pub output_nanousd: u64,
}

impl Price {
    /// The price of a request with a prompt of this length.
    pub fn of_prompt(self, input_tokens: u64) -> Price {
        match self.long.filter(|long| input_tokens > long.over_tokens) {
            None => self,
            Some(long) => Price {
                input_nanousd: long.input_nanousd,
                cache_read_nanousd: long.cache_read_nanousd,
                cache_write_nanousd: long.cache_write_nanousd,
                output_nanousd: long.output_nanousd,
                long: None,
            },
        }
    }
}

/// Money by bucket, in billionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// For prompt tokens that the cache had no part in.
    pub uncached_nanousd: u64,
    /// For prompt tokens read from the cache.
    pub cache_read_nanousd: u64,
    /// For prompt tokens written to the cache.
    pub cache_write_nanousd: u64,
    /// For the answer.
    pub output_nanousd: u64,
}

impl Cost {
    /// All buckets together.
    pub fn total_nanousd(&self) -> u64 {
        self.uncached_nanousd + self.cache_read_nanousd + self.cache_write_nanousd + self.output_nanousd
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            uncached_nanousd: self.uncached_nanousd + other.uncached_nanousd,
            cache_read_nanousd: self.cache_read_nanousd + other.cache_read_nanousd,
            cache_write_nanousd: self.cache_write_nanousd + other.cache_write_nanousd,
            output_nanousd: self.output_nanousd + other.output_nanousd,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        *self = *self + other;
    }
}

impl fmt::Display for Cost {
    /// Dollars with six decimals: `$0.001234`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let microusd = (self.total_nanousd() + 500) / 1_000;
        write!(f, "${}.{:06}", microusd / 1_000_000, microusd % 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SONNET: Price = Price {
        input_nanousd: 3_000,
        cache_read_nanousd: 300,
        cache_write_nanousd: 3_750,
        output_nanousd: 15_000,
        long: None,
    };

    #[test]
    fn each_bucket_is_paid_once_at_its_own_price() {
        let usage = Usage {
            input_tokens: 1_000_000,
            cache_read_tokens: 900_000,
            cache_write_tokens: 50_000,
            output_tokens: 10_000,
        };
        let cost = usage.cost(&SONNET);
        assert_eq!(cost.uncached_nanousd, 50_000 * 3_000);
        assert_eq!(cost.cache_read_nanousd, 900_000 * 300);
        assert_eq!(cost.cache_write_nanousd, 50_000 * 3_750);
        assert_eq!(cost.output_nanousd, 10_000 * 15_000);
        assert_eq!(cost.to_string(), "$0.757500");
    }

    #[test]
    fn a_long_prompt_is_paid_at_its_own_price() {
        let price = Price {
            long: Some(LongPrice {
                over_tokens: 272_000,
                input_nanousd: 6_000,
                cache_read_nanousd: 600,
                cache_write_nanousd: 7_500,
                output_nanousd: 22_500,
            }),
            ..SONNET
        };
        let of = |input_tokens| {
            let usage = Usage {
                input_tokens,
                output_tokens: 1,
                ..Usage::default()
            };
            usage.cost(&price).total_nanousd()
        };
        assert_eq!(of(272_000), 272_000 * 3_000 + 15_000);
        assert_eq!(of(272_001), 272_001 * 6_000 + 22_500);
    }

    #[test]
    fn the_sum_of_costs_is_the_cost_of_the_sum() {
        let one = Usage {
            input_tokens: 7,
            cache_read_tokens: 3,
            cache_write_tokens: 2,
            output_tokens: 11,
        };
        let total: Usage = (0..1_000).map(|_| one).sum();
        let costs = (0..1_000).fold(Cost::default(), |sum, _| sum + one.cost(&SONNET));
        assert_eq!(total.cost(&SONNET), costs);
    }
}
