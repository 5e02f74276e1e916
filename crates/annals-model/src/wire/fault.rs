//! What a provider's complaint means.
//!
//! Vendors and gateways word the same faults differently; this is the one place that reads their words. Only what
//! is certain is named: everything else is a bad request with the provider's own message.

use std::time::Duration;

use serde_json::Value;

use crate::error::ModelError;
use crate::wire::ApiKey;

/// Longer messages of providers are cut.
const MESSAGE_MAX_CHARS: usize = 600;

/// A complaint, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    /// The HTTP status; 0 when the complaint came inside a stream.
    pub(crate) status: u16,
    /// The vendor's words for it: type and code.
    words: Vec<String>,
    message: String,
    retry_after: Option<Duration>,
}

impl Fault {
    /// From the body of an answer with this status.
    pub(crate) fn from_body(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let mut fault = match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(value.get("error").unwrap_or(&value)),
            Err(_) => Fault {
                message: String::from_utf8_lossy(body).trim().to_owned(),
                ..Fault::default()
            },
        };
        if fault.message.is_empty() {
            fault.message = format!("status {status} without a message");
        }
        Fault {
            status,
            retry_after,
            ..fault
        }
    }

    /// From the `error` value of an event in a stream.
    pub(crate) fn from_value(error: &Value) -> Self {
        let text = |key: &str| match error.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let message = match error {
            Value::String(message) => Some(message.clone()),
            _ => text("message").or_else(|| text("detail")),
        };
        let status = error
            .get("code")
            .and_then(Value::as_u64)
            .and_then(|code| u16::try_from(code).ok());
        Fault {
            status: status.unwrap_or(0),
            words: ["type", "code"].into_iter().filter_map(text).collect(),
            message: message.unwrap_or_else(|| error.to_string()),
            retry_after: None,
        }
    }

    /// What it means. The key is taken out of the message.
    pub(crate) fn into_error(self, key: Option<&ApiKey>) -> ModelError {
        let message = shown(&self.message, key);
        let retry_after = self.retry_after;
        if self.is_context_limit() {
            return ModelError::ContextLimit { message };
        }
        if self.is_quota() {
            return ModelError::Quota { message };
        }
        let word = |words: &[&str]| self.words.iter().any(|own| words.contains(&own.as_str()));
        match self.status {
            401 | 403 => ModelError::Auth { message },
            _ if word(&["authentication_error", "permission_error", "invalid_api_key"]) => {
                ModelError::Auth { message }
            }
            429 => ModelError::RateLimited { retry_after, message },
            _ if word(&["rate_limit_error", "rate_limit_exceeded"]) => {
                ModelError::RateLimited { retry_after, message }
            }
            408 | 409 | 425 | 500..=599 => ModelError::Overloaded { retry_after, message },
            _ if word(&["overloaded_error", "api_error", "timeout_error", "server_error"]) => {
                ModelError::Overloaded { retry_after, message }
            }
            // A complaint in mid-stream that says nothing we know: the request was good enough to begin.
            0 if !word(&["invalid_request_error"]) => ModelError::Overloaded { retry_after, message },
            _ => ModelError::BadRequest { message },
        }
    }

    fn is_context_limit(&self) -> bool {
        const WORDS: [&str; 4] = [
            "context_length_exceeded",
            "request_too_large",
            "exceed_context_size_error",
            "model_max_prompt_tokens_exceeded",
        ];
        const PHRASES: [&str; 10] = [
            "prompt is too long",
            "input is too long",
            "maximum context length",
            "exceed context limit",
            "exceeds the available context size",
            "exceeds the context window",
            "exceed the context window",
            "maximum prompt length",
            "exceeds the maximum number of tokens",
            "reduce the length of the messages",
        ];
        if self.status == 429 {
            return false;
        }
        let message = self.message.to_lowercase();
        self.status == 413
            || self.words.iter().any(|word| WORDS.contains(&word.as_str()))
            || PHRASES.iter().any(|phrase| message.contains(phrase))
    }

    fn is_quota(&self) -> bool {
        const WORDS: [&str; 3] = ["insufficient_quota", "billing_error", "billing_not_active"];
        self.status == 402
            || self.words.iter().any(|word| WORDS.contains(&word.as_str()))
            || self.message.contains("credit balance is too low")
    }
}

/// A provider's text as it may stand in an error: without the key, without control characters, not too long.
pub(crate) fn shown(text: &str, key: Option<&ApiKey>) -> String {
    let text = key.map_or_else(|| text.to_owned(), |key| key.redact(text));
    let mut shown: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MESSAGE_MAX_CHARS)
        .collect();
    if text.chars().nth(MESSAGE_MAX_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> &'static str {
        Fault::from_body(status, body.as_bytes(), None)
            .into_error(None)
            .kind()
    }

    #[test]
    fn the_context_limit_is_recognised_in_the_words_of_each_server() {
        for (status, body) in [
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 212345 tokens > 200000 maximum"}}"#,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"}}"#,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","code":null}}"#,
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}"#,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#,
            ),
        ] {
            assert_eq!(kind(status, body), "context_limit", "{body}");
        }
    }

    #[test]
    fn other_faults_keep_their_meaning() {
        for (status, body, expected) in [
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}"#,
                "auth",
            ),
            (403, "forbidden", "auth"),
            (
                404,
                r#"{"error":{"message":"model `x` not found"}}"#,
                "bad_request",
            ),
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"max_tokens: 99999 > 64000, which is the maximum allowed number of output tokens"}}"#,
                "bad_request",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
                "quota",
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                "quota",
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}"#,
                "rate_limit",
            ),
            (500, "", "overloaded"),
            (503, "<html>busy</html>", "overloaded"),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "overloaded",
            ),
            (301, "", "bad_request"),
        ] {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_long_message_is_cut_and_a_key_is_taken_out() {
        let key = ApiKey::new("sk-secret-1");
        let body = format!("key sk-secret-1\n{}", "x".repeat(2_000));
        let error = Fault::from_body(400, body.as_bytes(), None).into_error(Some(&key));
        let message = error.to_string();
        assert!(
            message.contains("key [key] xxx") && message.ends_with('…'),
            "{message}"
        );
        assert!(message.chars().count() < 700);
    }
}
