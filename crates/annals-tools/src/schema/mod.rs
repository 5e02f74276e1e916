//! JSON Schemas as values are checked against them: arguments of tools, answers in a form, what people are asked.
//!
//! Most schemas need little of the standard: what Rust types derive, what the built-in tools declare. [`plain`] reads
//! those and is always there. The rest of the standard (patterns, references, conditions) is the work of the crate
//! `jsonschema`, which takes longer to build than everything else that a small program needs: feature `json-schema`. Which
//! of the two checks a value depends on the schema and never on the features, and both say the same in the same words; a
//! test holds them against each other. What strangers' schemas may cost is bounded before anything is checked: `work.rs`.

#[cfg(feature = "json-schema")]
mod full;
mod plain;
#[cfg(all(test, feature = "json-schema"))]
mod tests;
#[cfg(feature = "json-schema")]
mod work;

use serde_json::Value;

/// A schema, read once.
#[derive(Debug)]
pub struct Schema {
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    Plain(plain::Node),
    #[cfg(feature = "json-schema")]
    Full(Box<full::Checker>),
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// It is none.
    #[error("{0}")]
    Invalid(String),
    /// It needs more of the standard than is built in.
    #[error(
        "`{keyword}` at `{place}` is not built in: leave it out, or turn on the feature `json-schema` of `annals`"
    )]
    NotBuiltIn {
        /// The keyword.
        keyword: String,
        /// Where it stands in the schema, as a JSON pointer.
        place: String,
    },
    /// Checking values against it would take too long, or too much memory.
    #[error("it has more than {most} {what}: a schema is checked only within these bounds")]
    TooMuch {
        /// What it has too much of.
        what: &'static str,
        /// How much of it is taken.
        most: usize,
    },
}

/// One place of a value that does not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misfit {
    /// The place as a JSON pointer, empty for the whole.
    pub path: String,
    /// What is wrong with the value there.
    pub said: String,
    /// The same without the value itself, which may be long.
    pub masked: String,
    /// All that would be allowed, where one of a few values is.
    pub choices: Option<String>,
}

/// Where a value does not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misfits {
    /// The first of them.
    pub shown: Vec<Misfit>,
    /// How many more there are.
    pub more: usize,
}

impl Schema {
    /// Reads a schema.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        let reader = match plain::Node::read(schema) {
            Ok(node) => Reader::Plain(node),
            Err(beyond) => other(schema, beyond)?,
        };
        Ok(Schema { reader })
    }

    /// Whether a value fits.
    pub fn is_valid(&self, value: &Value) -> bool {
        match &self.reader {
            Reader::Plain(node) => node.fits(value),
            #[cfg(feature = "json-schema")]
            Reader::Full(checker) => checker.is_valid(value),
        }
    }

    /// Where a value does not fit; at most `shown_max` places are described.
    pub fn misfits(&self, value: &Value, shown_max: usize) -> Misfits {
        match &self.reader {
            Reader::Plain(node) => node.misfits(value, shown_max),
            #[cfg(feature = "json-schema")]
            Reader::Full(checker) => checker.misfits(value, shown_max),
        }
    }
}

#[cfg(feature = "json-schema")]
fn other(schema: &Value, _beyond: plain::Beyond) -> Result<Reader, SchemaError> {
    full::Checker::new(schema).map(|checker| Reader::Full(Box::new(checker)))
}

#[cfg(not(feature = "json-schema"))]
fn other(_schema: &Value, beyond: plain::Beyond) -> Result<Reader, SchemaError> {
    Err(SchemaError::NotBuiltIn {
        keyword: beyond.keyword,
        place: beyond.place,
    })
}
