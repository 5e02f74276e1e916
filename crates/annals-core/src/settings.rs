//! What a user may set, under the names that configuration files carry.
//!
//! Unknown names are refused, so that a misspelt one is noticed; [`Settings::validate`] refuses values that
//! contradict each other. Defaults are the [`crate::limits`].

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::time::Zone;

/// Settings of a runtime.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where cache points lie and how far from the tail blocks may be hidden.
    pub cache: CacheSettings,
    /// What pruning keeps when the provider's cache has gone cold.
    pub session: SessionSettings,
    /// The model's window in tokens, when the model does not say its own.
    pub max_tokens: u32,
    /// Model calls a turn.
    pub max_iterations: u32,
    /// The user's time zone, for the time in the announcement.
    pub timezone: Zone,
    /// What may be used up.
    pub budget: BudgetSettings,
}

/// Settings named `budget.*`: what may be used up before the model has to answer with what it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetSettings {
    /// In one turn.
    pub turn: SpendingLimits,
    /// In all turns of a conversation.
    pub conversation: SpendingLimits,
    /// In all conversations of a scope, within a period.
    pub scope: ScopeLimits,
}

/// What a scope may use up within a period; what is absent is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScopeLimits {
    /// How long until it begins anew.
    pub period: Period,
    /// Tokens, those sent and those received.
    pub tokens: Option<u64>,
    /// Cents of a dollar. Where the model's price is not known, no turn asks it.
    pub cents: Option<u64>,
    /// Model calls.
    pub model_calls: Option<u64>,
    /// Seconds that turns took, those of turns that ran at the same time added up.
    pub seconds: Option<u64>,
}

impl ScopeLimits {
    /// The limits alone.
    pub fn limits(&self) -> SpendingLimits {
        SpendingLimits {
            tokens: self.tokens,
            cents: self.cents,
            model_calls: self.model_calls,
            seconds: self.seconds,
        }
    }
}

/// A stretch of the calendar, in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// From one full hour to the next.
    Hour,
    /// From midnight to midnight.
    #[default]
    Day,
    /// From the first of a month to the next.
    Month,
}

impl Period {
    /// As it is written in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Period::Hour => "hour",
            Period::Day => "day",
            Period::Month => "month",
        }
    }
}

/// What may be used up; what is absent is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpendingLimits {
    /// Tokens, those sent and those received.
    pub tokens: Option<u64>,
    /// Cents of a dollar. Where the model's price is not known, no turn asks it.
    pub cents: Option<u64>,
    /// Model calls.
    pub model_calls: Option<u64>,
    /// Seconds from the prompt on, without those in which a person was asked.
    pub seconds: Option<u64>,
}

/// Settings named `cache.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CacheSettings {
    /// Blocks may be hidden this many tokens from the tail.
    pub editable_tail_size_in_tokens: u32,
    /// The pre-tail cache point needs this many rounds.
    pub cache_point_min_rounds: u32,
    /// The pre-tail cache point lies this many rounds before the last.
    pub cache_point_offset_rounds: u32,
}

/// Settings named `session.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionSettings {
    /// A provider's cache goes cold after this many seconds.
    pub cache_ttl_seconds: u64,
    /// Pruning starts this many seconds before that.
    pub cache_ttl_prune_buffer_seconds: u64,
    /// Turns older than this number of most recent ones are hidden.
    pub keep_recent_turns: u32,
    /// This number of most recent turns stays whole.
    pub keep_recent_intact_turns: u32,
    /// A pruned text keeps at most this many characters.
    pub cache_truncation_max_text_chars: usize,
    /// A field of a pruned JSON text keeps at most this many characters.
    pub cache_truncation_max_field_chars: usize,
    /// A list in a pruned JSON text keeps at most this many items.
    pub cache_truncation_max_list_items: usize,
    /// An object in a pruned JSON text keeps at most this many keys.
    pub cache_truncation_max_dict_keys: usize,
    /// Base64 of more characters is pruned.
    pub cache_truncation_max_base64_chars: usize,
    /// This many of the newest images and PDFs are kept.
    pub cache_truncation_keep_recent_images: u32,
    /// At most this many characters of base64 of images and PDFs are kept in all.
    pub cache_truncation_max_image_pdf_b64_sum: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cache: CacheSettings::default(),
            session: SessionSettings::default(),
            max_tokens: limits::WINDOW_DEFAULT_TOKENS,
            max_iterations: limits::TURN_MAX_ITERATIONS,
            timezone: Zone::default(),
            budget: BudgetSettings::default(),
        }
    }
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            editable_tail_size_in_tokens: limits::EDITABLE_TAIL_TOKENS,
            cache_point_min_rounds: limits::CACHE_POINT_MIN_ROUNDS,
            cache_point_offset_rounds: limits::CACHE_POINT_OFFSET_ROUNDS,
        }
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            cache_ttl_seconds: limits::CACHE_TTL_SECONDS,
            cache_ttl_prune_buffer_seconds: limits::CACHE_TTL_PRUNE_BUFFER_SECONDS,
            keep_recent_turns: limits::KEEP_RECENT_TURNS,
            keep_recent_intact_turns: limits::KEEP_RECENT_INTACT_TURNS,
            cache_truncation_max_text_chars: limits::TRUNCATION_MAX_TEXT_CHARS,
            cache_truncation_max_field_chars: limits::TRUNCATION_MAX_FIELD_CHARS,
            cache_truncation_max_list_items: limits::TRUNCATION_MAX_LIST_ITEMS,
            cache_truncation_max_dict_keys: limits::TRUNCATION_MAX_DICT_KEYS,
            cache_truncation_max_base64_chars: limits::TRUNCATION_MAX_BASE64_CHARS,
            cache_truncation_keep_recent_images: limits::TRUNCATION_KEEP_RECENT_IMAGES,
            cache_truncation_max_image_pdf_b64_sum: limits::TRUNCATION_MAX_IMAGE_PDF_B64_SUM_CHARS,
        }
    }
}

/// Why settings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A value lies outside what makes sense.
    #[error("`{name}` is {given}: give {least} to {most}")]
    OutOfRange {
        /// The setting's name.
        name: &'static str,
        /// What was given.
        given: u64,
        /// The least that works.
        least: u64,
        /// The most that works.
        most: u64,
    },
    /// A value must not be above another.
    #[error(
        "`{name}` is {given}, which is more than `{bound_name}` ({bound}): lower the one or raise the other"
    )]
    Above {
        /// The setting's name.
        name: &'static str,
        /// What was given.
        given: u64,
        /// The name of the setting that bounds it.
        bound_name: &'static str,
        /// That setting's value.
        bound: u64,
    },
}

impl Settings {
    /// Refuses values that cannot work or contradict each other.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let ceiling = u64::from(limits::TURN_ITERATIONS_CEILING);
        within("max_iterations", self.max_iterations, 1, ceiling)?;
        within(
            "max_tokens",
            self.max_tokens,
            u64::from(limits::WINDOW_MIN_TOKENS),
            u64::from(u32::MAX),
        )?;
        within(
            "cache.cache_point_min_rounds",
            self.cache.cache_point_min_rounds,
            1,
            ceiling,
        )?;
        within(
            "cache.cache_point_offset_rounds",
            self.cache.cache_point_offset_rounds,
            0,
            ceiling,
        )?;
        let session = &self.session;
        not_above(
            (
                "session.cache_ttl_prune_buffer_seconds",
                session.cache_ttl_prune_buffer_seconds,
            ),
            ("session.cache_ttl_seconds", session.cache_ttl_seconds),
        )?;
        not_above(
            (
                "session.keep_recent_intact_turns",
                u64::from(session.keep_recent_intact_turns),
            ),
            ("session.keep_recent_turns", u64::from(session.keep_recent_turns)),
        )?;
        not_above(
            (
                "session.cache_truncation_max_field_chars",
                session.cache_truncation_max_field_chars as u64,
            ),
            (
                "session.cache_truncation_max_text_chars",
                session.cache_truncation_max_text_chars as u64,
            ),
        )
    }
}

fn within(name: &'static str, given: u32, least: u64, most: u64) -> Result<(), SettingsError> {
    let given = u64::from(given);
    if (least..=most).contains(&given) {
        Ok(())
    } else {
        Err(SettingsError::OutOfRange {
            name,
            given,
            least,
            most,
        })
    }
}

fn not_above(
    (name, given): (&'static str, u64),
    (bound_name, bound): (&'static str, u64),
) -> Result<(), SettingsError> {
    if given <= bound {
        Ok(())
    } else {
        Err(SettingsError::Above {
            name,
            given,
            bound_name,
            bound,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_and_names_are_the_documented_ones() {
        let settings = serde_json::to_value(Settings::default()).unwrap();
        let documented = json!({
            "cache": {
                "editable_tail_size_in_tokens": 2_000,
                "cache_point_min_rounds": 2,
                "cache_point_offset_rounds": 4,
            },
            "session": {
                "cache_ttl_seconds": 300,
                "cache_ttl_prune_buffer_seconds": 10,
                "keep_recent_turns": 10,
                "keep_recent_intact_turns": 2,
                "cache_truncation_max_text_chars": 4_000,
                "cache_truncation_max_field_chars": 1_000,
                "cache_truncation_max_list_items": 50,
                "cache_truncation_max_dict_keys": 80,
                "cache_truncation_max_base64_chars": 4_000,
                "cache_truncation_keep_recent_images": 2,
                "cache_truncation_max_image_pdf_b64_sum": 1_000_000,
            },
            "max_tokens": 128_000,
            "max_iterations": 15,
            "timezone": "UTC",
            "budget": {
                "turn": {"tokens": null, "cents": null, "model_calls": null, "seconds": null},
                "conversation": {"tokens": null, "cents": null, "model_calls": null, "seconds": null},
                "scope": {"period": "day", "tokens": null, "cents": null, "model_calls": null, "seconds": null},
            },
        });
        assert_eq!(settings, documented);
        assert_eq!(
            serde_json::from_value::<Settings>(documented).unwrap(),
            Settings::default()
        );
        assert_eq!(Settings::default().validate(), Ok(()));
    }

    #[test]
    fn a_file_names_only_what_it_changes() {
        let settings: Settings =
            serde_json::from_value(json!({"session": {"keep_recent_turns": 3}, "timezone": "Europe/Berlin"}))
                .unwrap();
        assert_eq!(settings.session.keep_recent_turns, 3);
        assert_eq!(settings.session.cache_ttl_seconds, 300);
        assert_eq!(settings.timezone.as_str(), "Europe/Berlin");
    }

    #[test]
    fn a_misspelt_name_or_zone_is_refused() {
        let refused = |value| serde_json::from_value::<Settings>(value).unwrap_err().to_string();
        assert!(refused(json!({"max_iteration": 3})).contains("`max_iteration`"));
        assert!(refused(json!({"cache": {"ttl": 3}})).contains("`ttl`"));
        assert!(refused(json!({"timezone": "Berlin"})).contains("`Berlin` is not a time zone"));
    }

    #[test]
    fn values_that_cannot_work_are_refused_with_their_name() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.validate().map_err(|e| e.to_string()).unwrap_err()
        };
        let messages = [
            refused(|s| s.max_iterations = 0),
            refused(|s| s.max_tokens = 10),
            refused(|s| s.cache.cache_point_min_rounds = 0),
            refused(|s| s.cache.cache_point_offset_rounds = 5_000),
            refused(|s| s.session.cache_ttl_prune_buffer_seconds = 301),
            refused(|s| s.session.keep_recent_turns = 1),
            refused(|s| s.session.cache_truncation_max_field_chars = 5_000),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r"
        `max_iterations` is 0: give 1 to 1000
        `max_tokens` is 10: give 512 to 4294967295
        `cache.cache_point_min_rounds` is 0: give 1 to 1000
        `cache.cache_point_offset_rounds` is 5000: give 0 to 1000
        `session.cache_ttl_prune_buffer_seconds` is 301, which is more than `session.cache_ttl_seconds` (300): lower the one or raise the other
        `session.keep_recent_intact_turns` is 2, which is more than `session.keep_recent_turns` (1): lower the one or raise the other
        `session.cache_truncation_max_field_chars` is 5000, which is more than `session.cache_truncation_max_text_chars` (4000): lower the one or raise the other
        ");
    }
}
