//! The whole standard, by the crate `jsonschema`.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::{Misfit, Misfits};

/// Where a value does not fit.
pub(super) fn misfits(validator: &Validator, value: &Value, shown_max: usize) -> Misfits {
    let mut errors = validator.iter_errors(value);
    let shown = errors.by_ref().take(shown_max).map(misfit).collect();
    Misfits {
        shown,
        more: errors.count(),
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
