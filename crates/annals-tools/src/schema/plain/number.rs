//! Numbers compared by their value, however they are written.

use std::cmp::Ordering;

use serde_json::Number;

/// Beyond it every `f64` is larger than any whole number that JSON is read into.
const WHOLE_LIMIT: f64 = 1e30;

/// How two numbers compare. JSON has no number that does not.
pub(super) fn compare(one: &Number, other: &Number) -> Ordering {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(one), None) => fraction_to_whole(real(other), one).reverse(),
        (None, Some(other)) => fraction_to_whole(real(one), other),
        (None, None) => real(one).partial_cmp(&real(other)).unwrap_or(Ordering::Equal),
    }
}

/// Whether a number has no fraction, also when it is written with one.
pub(super) fn is_integer(number: &Number) -> bool {
    whole(number).is_some() || real(number).fract() == 0.0
}

/// The number's digits if it is written without a fraction.
fn whole(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

fn real(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

fn fraction_to_whole(real: f64, whole: i128) -> Ordering {
    if real.abs() >= WHOLE_LIMIT {
        return real.partial_cmp(&0.0).unwrap_or(Ordering::Equal);
    }
    let below = real.floor();
    let fraction = match real > below {
        true => Ordering::Greater,
        false => Ordering::Equal,
    };
    (below as i128).cmp(&whole).then(fraction)
}

/// A text that equal numbers share.
pub(super) fn canonical(number: &Number) -> String {
    let real = real(number);
    match whole(number) {
        Some(whole) => whole.to_string(),
        None if real.fract() == 0.0 && real.abs() < WHOLE_LIMIT => (real as i128).to_string(),
        None => real.to_string(),
    }
}
