//! Moments, as blocks carry them: UTC, to the microsecond, always written the same way.
//!
//! There is no clock here. Zones come from the bundled database, so that a machine without one renders the same.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::ids::{deserialize_parsed, shown};

/// Why a text or a number is not a moment or a zone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// Not a moment with an offset from UTC.
    #[error("`{given}` is not a time: expected RFC 3339 such as `2026-02-09T02:14:32.676425Z`")]
    Malformed {
        /// The offending text, cut to a readable length.
        given: String,
    },
    /// Not the name of a time zone.
    #[error("`{given}` is not a time zone: give an IANA name such as `Europe/Berlin`, or `UTC`")]
    UnknownZone {
        /// The offending text, cut to a readable length.
        given: String,
    },
}

impl TimeError {
    fn malformed(given: &str) -> Self {
        Self::Malformed { given: shown(given) }
    }
}

/// A moment in UTC with microseconds, between the years 0000 and 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    unix_micros: i64,
}

/// 0000-01-01T00:00:00Z and the last microsecond before 9999-12-30T22:00:00Z: what RFC 3339 can write, in any zone.
const FIRST_MICROS: i64 = -62_167_219_200_000_000;
const LAST_MICROS: i64 = 253_402_207_199_999_999;

impl Timestamp {
    /// The moment this many microseconds after 1970; moments RFC 3339 cannot write become the nearest it can.
    pub fn from_unix_micros(unix_micros: i64) -> Self {
        Self {
            unix_micros: unix_micros.clamp(FIRST_MICROS, LAST_MICROS),
        }
    }

    /// The moment this many milliseconds after 1970.
    pub fn from_unix_millis(unix_millis: i64) -> Self {
        Self::from_unix_micros(unix_millis.saturating_mul(1_000))
    }

    /// Reads RFC 3339 with any offset; digits below the microsecond are dropped.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| TimeError::malformed(text))?;
        let unix_micros = moment.as_nanosecond().div_euclid(1_000) as i64;
        if (FIRST_MICROS..=LAST_MICROS).contains(&unix_micros) {
            Ok(Self { unix_micros })
        } else {
            Err(TimeError::malformed(text))
        }
    }

    /// Reads a bare number, as some sources have it: Unix seconds (with a fraction), milliseconds or
    /// microseconds, told apart by size. Seconds reach to the year 5138, where milliseconds begin.
    pub fn from_unix_number(number: f64) -> Option<Self> {
        let micros = match number.abs() {
            size if size < 1e11 => number * 1e6,
            size if size < 1e14 => number * 1e3,
            size if size < 1e17 => number,
            _ => return None,
        };
        let micros = micros.round() as i64;
        (FIRST_MICROS..=LAST_MICROS)
            .contains(&micros)
            .then_some(Self { unix_micros: micros })
    }

    /// Reads a moment from foreign JSON: RFC 3339, or a number as in [`Self::from_unix_number`].
    pub fn from_json(value: &Value) -> Result<Self, TimeError> {
        let read = match value {
            Value::String(text) => return Self::parse(text),
            Value::Number(number) => number.as_f64().and_then(Self::from_unix_number),
            _ => None,
        };
        read.ok_or_else(|| TimeError::malformed(&value.to_string()))
    }

    /// Microseconds after 1970.
    pub fn unix_micros(self) -> i64 {
        self.unix_micros
    }

    /// Milliseconds after 1970.
    pub fn unix_millis(self) -> i64 {
        self.unix_micros.div_euclid(1_000)
    }

    /// Whole microseconds since `earlier`; zero when that is later.
    pub fn micros_since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.unix_micros.saturating_sub(earlier.unix_micros)).unwrap_or(0)
    }

    /// Whole seconds since `earlier`; zero when that is later.
    pub fn seconds_since(self, earlier: Timestamp) -> u64 {
        self.micros_since(earlier) / 1_000_000
    }

    /// This moment, this many microseconds later.
    #[must_use]
    pub fn plus_micros(self, micros: i64) -> Self {
        Self::from_unix_micros(self.unix_micros.saturating_add(micros))
    }

    /// As a person there reads it: `Sunday 2026-11-15 22:54:38 +01:00 Europe/Berlin`.
    pub fn in_zone(self, zone: &Zone) -> String {
        let there = self.moment().to_zoned(zone.rules.clone());
        format!("{} {zone}", there.strftime("%A %Y-%m-%d %H:%M:%S %:z"))
    }

    fn moment(self) -> jiff::Timestamp {
        // The range of this type lies within the range of the library's.
        jiff::Timestamp::from_microsecond(self.unix_micros).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with exactly six digits and `Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}", self.moment())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({self})")
    }
}

impl FromStr for Timestamp {
    type Err = TimeError;
    fn from_str(text: &str) -> Result<Self, TimeError> {
        Self::parse(text)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_parsed(deserializer, "an RFC 3339 time", Self::parse)
    }
}

/// A time zone by its IANA name.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

impl Zone {
    /// Reads an IANA name such as `Europe/Berlin`; letter case does not matter.
    pub fn parse(name: &str) -> Result<Self, TimeError> {
        static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
        if name.eq_ignore_ascii_case("utc") {
            return Ok(Self::default());
        }
        match ZONES.get(name) {
            Ok(rules) => Ok(Self {
                name: rules.iana_name().unwrap_or(name).to_owned(),
                rules,
            }),
            Err(_) => Err(TimeError::UnknownZone { given: shown(name) }),
        }
    }

    /// Its IANA name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Whether it is UTC itself, so that saying both times would say one thing twice.
    pub fn is_utc(&self) -> bool {
        self.rules == TimeZone::UTC
    }
}

impl Default for Zone {
    /// UTC.
    fn default() -> Self {
        Self {
            name: "UTC".to_owned(),
            rules: TimeZone::UTC,
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name)
    }
}

impl FromStr for Zone {
    type Err = TimeError;
    fn from_str(name: &str) -> Result<Self, TimeError> {
        Self::parse(name)
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize_parsed(deserializer, "an IANA time zone", Self::parse)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> String {
        Timestamp::parse(text).map_or_else(|e| e.to_string(), |ts| ts.to_string())
    }

    #[test]
    fn every_form_of_rfc_3339_is_written_in_one() {
        assert_eq!(read("2026-02-09T02:14:32.676425Z"), "2026-02-09T02:14:32.676425Z");
        assert_eq!(read("2026-02-09T03:15:49Z"), "2026-02-09T03:15:49.000000Z");
        assert_eq!(read("2026-02-09T03:15:49.1+01:00"), "2026-02-09T02:15:49.100000Z");
        assert_eq!(
            read("2026-02-09T03:15:49.123456789Z"),
            "2026-02-09T03:15:49.123456Z"
        );
        assert_eq!(
            read("1969-12-31T23:59:59.9999999Z"),
            "1969-12-31T23:59:59.999999Z"
        );
    }

    #[test]
    fn what_is_not_a_moment_is_refused() {
        for bad in [
            "",
            "2026-02-09",
            "2026-02-09T03:15:49",
            "1770603272",
            "yesterday",
            "2026-13-01T00:00:00Z",
        ] {
            assert!(Timestamp::parse(bad).is_err(), "{bad}");
        }
        insta::assert_snapshot!(read("soon"), @"`soon` is not a time: expected RFC 3339 such as `2026-02-09T02:14:32.676425Z`");
    }

    #[test]
    fn numbers_are_seconds_milliseconds_or_microseconds() {
        let moment = Timestamp::parse("2026-02-09T02:14:32.5Z").unwrap();
        let seconds = moment.unix_micros() / 1_000_000;
        for number in [
            json!(seconds as f64 + 0.5),
            json!(moment.unix_millis()),
            json!(moment.unix_micros()),
        ] {
            assert_eq!(Timestamp::from_json(&number), Ok(moment), "{number}");
        }
        assert_eq!(Timestamp::from_json(&json!("2026-02-09T02:14:32.5Z")), Ok(moment));
        for bad in [
            json!(null),
            json!(1e18),
            json!(f64::MAX),
            json!([1]),
            json!("1770603272"),
        ] {
            assert!(Timestamp::from_json(&bad).is_err(), "{bad}");
        }
        assert_eq!(Timestamp::from_unix_number(f64::NAN), None);
        assert_eq!(Timestamp::from_unix_number(f64::INFINITY), None);
    }

    #[test]
    fn a_zone_shows_its_own_clock() {
        let moment = Timestamp::parse("2026-11-15T21:54:38.123456Z").unwrap();
        let there = |name: &str| moment.in_zone(&Zone::parse(name).unwrap());
        insta::assert_snapshot!(there("Europe/Berlin"), @"Sunday 2026-11-15 22:54:38 +01:00 Europe/Berlin");
        insta::assert_snapshot!(there("Asia/Kolkata"), @"Monday 2026-11-16 03:24:38 +05:30 Asia/Kolkata");
        insta::assert_snapshot!(there("utc"), @"Sunday 2026-11-15 21:54:38 +00:00 UTC");
        assert_eq!(Zone::parse("europe/berlin").unwrap().as_str(), "Europe/Berlin");
        assert!(Zone::parse("Mars/Base").is_err());
        assert!(Zone::parse("../etc/passwd").is_err());
    }

    proptest! {
        #[test]
        fn display_parses_back(micros in any::<i64>()) {
            let moment = Timestamp::from_unix_micros(micros);
            prop_assert_eq!(Timestamp::parse(&moment.to_string()), Ok(moment));
            prop_assert_eq!(moment.to_string().len(), "2026-02-09T02:14:32.676425Z".len());
        }

        #[test]
        fn order_of_text_is_order_of_time(a in any::<i64>(), b in any::<i64>()) {
            let (a, b) = (Timestamp::from_unix_micros(a), Timestamp::from_unix_micros(b));
            prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        }
    }
}
