//! Answers that must fit a JSON schema.

use annals_tools::schema::Schema;
use serde_json::Value;

/// An answer is repaired at most this often.
pub(crate) const REPAIRS_MAX: u32 = 2;
/// At most this many errors are named to the model.
const SHOWN_ERRORS_MAX: usize = 5;

/// What the model is told before it begins.
pub(crate) fn instructions(own: Option<&str>, schema: &Value) -> String {
    let asked = format!(
        "Your final answer must be one JSON value that fits this JSON schema, without any other text and without a code \
         fence:\n{schema}"
    );
    match own {
        Some(own) => format!("{own}\n\n{asked}"),
        None => asked,
    }
}

/// Why a text is no usable schema, if it is none.
pub(crate) fn defect(schema: &Value) -> Option<String> {
    Schema::new(schema).err().map(|error| error.to_string())
}

/// The answer as compact JSON if it fits, else what is wrong with it.
pub(crate) fn fit(schema: &Value, answer: &str) -> Result<String, String> {
    let value: Value =
        serde_json::from_str(unfenced(answer)).map_err(|error| format!("the answer is not JSON: {error}"))?;
    let schema = Schema::new(schema).map_err(|error| error.to_string())?;
    let misfits = schema.misfits(&value, SHOWN_ERRORS_MAX).shown;
    let errors: Vec<String> = misfits
        .iter()
        .map(|misfit| format!("at `{}`: {}", misfit.path, misfit.said))
        .collect();
    match errors.is_empty() {
        true => Ok(value.to_string()),
        false => Err(format!(
            "the answer does not fit the schema: {}",
            errors.join("; ")
        )),
    }
}

/// Models like to put a fence around JSON.
fn unfenced(answer: &str) -> &str {
    let text = answer.trim();
    let inside = text.strip_prefix("```").and_then(|text| text.strip_suffix("```"));
    match inside.and_then(|inside| inside.split_once('\n')) {
        Some((_, inside)) => inside.trim(),
        None => text,
    }
}
