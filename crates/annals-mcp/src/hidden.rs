//! Tokens that a server was sent and may repeat: taken out of everything it says, before anybody reads it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::limits;

/// Whether a token is long enough to be told from ordinary text.
pub(crate) fn can_hide(token: &str) -> bool {
    token.len() >= limits::TOKEN_HIDDEN_MIN_BYTES
}

/// The text with `instead` in place of each of these tokens.
pub(crate) fn without<'t>(text: &'t str, tokens: &[String], instead: &str) -> Cow<'t, str> {
    let mut hidden = Cow::Borrowed(text);
    for token in tokens {
        if hidden.contains(token.as_str()) {
            hidden = Cow::Owned(hidden.replace(token.as_str(), instead));
        }
    }
    hidden
}

/// A message with `instead` in place of each of these tokens, in whatever place and with whatever escapes it is written.
pub(crate) fn without_in_json<'t>(json: &'t str, tokens: &[String], instead: &str) -> Cow<'t, str> {
    if tokens.is_empty() {
        return Cow::Borrowed(json);
    }
    match serde_json::from_str::<Value>(json) {
        Ok(value) => match without_in(&value, tokens, instead) {
            Some(hidden) => Cow::Owned(hidden.to_string()),
            None => Cow::Borrowed(json),
        },
        Err(_) => without(json, tokens, instead),
    }
}

/// The value without the tokens; none where there are none in it.
fn without_in(value: &Value, tokens: &[String], instead: &str) -> Option<Value> {
    match value {
        Value::String(words) => match without(words, tokens, instead) {
            Cow::Owned(hidden) => Some(Value::String(hidden)),
            Cow::Borrowed(_) => None,
        },
        Value::Array(items) => {
            let hidden: Vec<Option<Value>> = items
                .iter()
                .map(|item| without_in(item, tokens, instead))
                .collect();
            let is_hidden = hidden.iter().any(Option::is_some);
            let items = hidden.into_iter().zip(items);
            is_hidden.then(|| {
                Value::Array(
                    items
                        .map(|(hidden, item)| hidden.unwrap_or_else(|| item.clone()))
                        .collect(),
                )
            })
        }
        Value::Object(object) => {
            let mut is_hidden = false;
            let mut hidden = Map::with_capacity(object.len());
            for (key, value) in object {
                let key = without(key, tokens, instead);
                let value_hidden = without_in(value, tokens, instead);
                is_hidden |= matches!(key, Cow::Owned(_)) || value_hidden.is_some();
                hidden.insert(key.into_owned(), value_hidden.unwrap_or_else(|| value.clone()));
            }
            is_hidden.then_some(Value::Object(hidden))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_in_any_place_and_spelling_and_the_rest_stays_as_it_is() {
        let tokens = ["token-0123456789".to_owned()];
        let hidden = |json: &str| without_in_json(json, &tokens, "[x]").into_owned();
        assert_eq!(
            hidden(
                r#"{"a": ["token-0123456789", {"b": "is token-\u0030123456789."}], "token-0123456789": 1.50}"#
            ),
            r#"{"a":["[x]",{"b":"is [x]."}],"[x]":1.5}"#
        );
        for same in [r#"{"a":  "b\u0041"}"#, "no json", "[1, 2.50]"] {
            assert_eq!(hidden(same), same);
        }
        assert_eq!(hidden("half a line: token-0123456789"), "half a line: [x]");
    }
}
