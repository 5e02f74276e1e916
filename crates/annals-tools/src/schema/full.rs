//! The whole standard, by the crate `jsonschema`, within bounds: its checks cannot be ended once they have begun.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::work::{TooMuch, VISITS_MAX, Work};
use super::{Misfit, Misfits, SchemaError};

/// Steps that one match of a regular expression with look-around or back references may take.
const BACKTRACK_MAX: usize = 20_000;
/// Bytes that one regular expression may become.
const PATTERN_MAX_BYTES: usize = 256 * 1024;

/// A schema whose work is counted.
#[derive(Debug)]
pub(super) struct Checker {
    validator: Validator,
    work: Work,
}

impl Checker {
    pub(super) fn new(schema: &Value) -> Result<Self, SchemaError> {
        let work = Work::of(schema)?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACK_MAX)
            .size_limit(PATTERN_MAX_BYTES)
            .dfa_size_limit(PATTERN_MAX_BYTES);
        let validator = jsonschema::options().with_pattern_options(patterns).build(schema);
        let validator = validator.map_err(|error| SchemaError::Invalid(error.to_string()))?;
        Ok(Checker { validator, work })
    }

    pub(super) fn is_valid(&self, value: &Value) -> bool {
        self.work.allow(value).is_ok() && self.validator.is_valid(value)
    }

    /// Where a value does not fit.
    pub(super) fn misfits(&self, value: &Value, shown_max: usize) -> Misfits {
        if let Err(TooMuch) = self.work.allow(value) {
            return Misfits {
                shown: vec![unchecked()],
                more: 0,
            };
        }
        let mut errors = self.validator.iter_errors(value);
        let shown = errors.by_ref().take(shown_max).map(misfit).collect();
        Misfits {
            shown,
            more: errors.count(),
        }
    }
}

/// What is said of a value that would take too long to check.
fn unchecked() -> Misfit {
    let said = format!(
        "checking this against its schema takes more than {VISITS_MAX} steps: make it smaller or less nested"
    );
    Misfit {
        path: String::new(),
        masked: said.clone(),
        said,
        choices: None,
    }
}

fn misfit(error: ValidationError<'_>) -> Misfit {
    Misfit {
        path: error.instance_path().to_string(),
        said: error.to_string(),
        masked: error.masked_with(super::plain::MASK).to_string(),
        choices: match error.kind() {
            ValidationErrorKind::Enum { options } => Some(options.to_string()),
            _ => None,
        },
    }
}
