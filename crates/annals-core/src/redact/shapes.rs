//! What vendors' keys look like: a prefix of their own, then enough characters of an alphabet.
//!
//! Only shapes with a prefix that nothing else begins with are here; a key without one is found by its value.

use std::sync::{Arc, LazyLock};

use super::{End, SecretAt, marker};

/// The shape of a vendor's key.
struct Shape {
    name: &'static str,
    prefix: &'static str,
    /// Fewer characters after the prefix are no key.
    min_bytes: usize,
    /// Fewer digits among them are none either: words with hyphens look alike.
    min_digits: usize,
    /// What may stand in it beside letters, digits, `_` and `-`.
    also: &'static [u8],
}

const fn shape(name: &'static str, prefix: &'static str, min_bytes: usize) -> Shape {
    Shape {
        name,
        prefix,
        min_bytes,
        min_digits: 1,
        also: b"",
    }
}

const fn dotted(name: &'static str, prefix: &'static str, min_bytes: usize) -> Shape {
    Shape {
        also: b".",
        ..shape(name, prefix, min_bytes)
    }
}

/// Longer runs are no keys; the bound keeps looking linear.
const KEY_MAX_BYTES: usize = 2_048;
/// The longest private key in use has a third of this.
const PEM_MAX_BYTES: usize = 32_768;
/// A longer user part of an address is none.
const USER_MAX_BYTES: usize = 256;

const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_KEY: &str = "PRIVATE KEY";

static SHAPES: &[Shape] = &[
    shape("anthropic", "sk-ant-", 20),
    shape("openai", "sk-proj-", 20),
    shape("openai", "sk-svcacct-", 20),
    shape("openrouter", "sk-or-v1-", 20),
    Shape {
        min_digits: 3,
        ..shape("openai", "sk-", 20)
    },
    shape("github", "ghp_", 30),
    shape("github", "gho_", 30),
    shape("github", "ghu_", 30),
    shape("github", "ghs_", 30),
    shape("github", "ghr_", 30),
    shape("github", "github_pat_", 22),
    shape("gitlab", "glpat-", 20),
    Shape {
        min_digits: 0,
        ..shape("aws", "AKIA", 16)
    },
    Shape {
        min_digits: 0,
        ..shape("aws", "ASIA", 16)
    },
    shape("google", "AIza", 35),
    dotted("google", "ya29.", 20),
    shape("google", "GOCSPX-", 24),
    shape("slack", "xoxb-", 20),
    shape("slack", "xoxp-", 20),
    shape("slack", "xoxa-", 20),
    shape("slack", "xoxs-", 20),
    shape("slack", "xapp-", 20),
    shape("stripe", "sk_live_", 16),
    shape("stripe", "rk_live_", 16),
    shape("stripe", "sk_test_", 16),
    shape("stripe", "whsec_", 24),
    shape("huggingface", "hf_", 30),
    shape("npm", "npm_", 36),
    shape("pypi", "pypi-AgE", 50),
    dotted("sendgrid", "SG.", 40),
    shape("digitalocean", "dop_v1_", 40),
    shape("xai", "xai-", 40),
    shape("groq", "gsk_", 40),
    shape("perplexity", "pplx-", 40),
    shape("replicate", "r8_", 36),
    shape("tavily", "tvly-", 20),
    shape("linear", "lin_api_", 32),
    shape("notion", "ntn_", 40),
    shape("shopify", "shpat_", 32),
    shape("databricks", "dapi", 32),
    dotted("vault", "hvs.", 24),
    dotted("doppler", "dp.pt.", 40),
    shape("e2b", "e2b_", 32),
    shape("age", "AGE-SECRET-KEY-1", 50),
    dotted("jwt", "eyJ", 30),
];

const PRIVATE_KEY: &str = "private-key";
const URL_PASSWORD: &str = "url-password";

/// The names that stand in a marker.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SHAPES
        .iter()
        .map(|shape| shape.name)
        .chain([PRIVATE_KEY, URL_PASSWORD])
}

/// The markers of [`SHAPES`], in their order.
static MARKERS: LazyLock<Vec<Arc<str>>> =
    LazyLock::new(|| SHAPES.iter().map(|shape| marker(shape.name).into()).collect());

/// The shapes that begin with each byte, as places in [`SHAPES`], in its order.
static BY_FIRST_BYTE: LazyLock<[Vec<u8>; 256]> = LazyLock::new(|| {
    let places = |byte: usize| {
        let begins = |at: &u8| usize::from(SHAPES[usize::from(*at)].prefix.as_bytes()[0]) == byte;
        (0..SHAPES.len() as u8).filter(begins).collect()
    };
    std::array::from_fn(places)
});

/// What keys begin with.
pub(super) fn beginnings<'t>() -> impl Iterator<Item = &'t str> {
    SHAPES.iter().map(|shape| shape.prefix).chain([PEM_BEGIN, "://"])
}

/// Whether a key begins here.
pub(super) fn look(text: &str, at: usize, previous: Option<u8>, end: End) -> SecretAt {
    let bytes = text.as_bytes();
    match bytes[at] {
        b':' => return url_password(bytes, at, end),
        b'-' => return private_key(text, at, end),
        _ => {}
    }
    // A key is a word: `task-` does not begin with `sk-`.
    if previous.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return SecretAt::Nothing;
    }
    let rest = &bytes[at..];
    for at_shape in &BY_FIRST_BYTE[usize::from(rest[0])] {
        let shape = &SHAPES[usize::from(*at_shape)];
        let prefix = shape.prefix.as_bytes();
        if end == End::Open && rest.len() < prefix.len() && prefix.starts_with(rest) {
            return SecretAt::NeedsMore;
        }
        let Some(body) = rest.strip_prefix(prefix) else {
            continue;
        };
        match shape.body(body, end) {
            Body::Key(length) => {
                return SecretAt::Secret {
                    range: at..at + prefix.len() + length,
                    marker: MARKERS[usize::from(*at_shape)].clone(),
                };
            }
            Body::NeedsMore => return SecretAt::NeedsMore,
            Body::None => {}
        }
    }
    SecretAt::Nothing
}

enum Body {
    Key(usize),
    NeedsMore,
    None,
}

impl Shape {
    fn body(&self, bytes: &[u8], end: End) -> Body {
        let window = &bytes[..bytes.len().min(KEY_MAX_BYTES)];
        let is_part = |byte: &u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || self.also.contains(byte)
        };
        let length = window
            .iter()
            .position(|byte| !is_part(byte))
            .unwrap_or(window.len());
        if length == bytes.len() && end == End::Open {
            return Body::NeedsMore;
        }
        // A full stop at the end of a sentence is no part of a key.
        let body = window[..length].trim_ascii_end();
        let dots = body.iter().rev().take_while(|byte| **byte == b'.').count();
        let body = &body[..body.len() - dots];
        let digits = body.iter().filter(|byte| byte.is_ascii_digit()).count();
        let is_jwt = self.prefix != "eyJ" || body.iter().filter(|byte| **byte == b'.').count() == 2;
        match body.len() >= self.min_bytes && digits >= self.min_digits && is_jwt {
            true => Body::Key(body.len()),
            false => Body::None,
        }
    }
}

/// `-----BEGIN … PRIVATE KEY-----` up to its end, or as far as it looks like one.
fn private_key(text: &str, at: usize, end: End) -> SecretAt {
    let rest = &text[at..];
    if rest.len() < PEM_BEGIN.len() {
        let may_begin = end == End::Open && PEM_BEGIN.starts_with(rest);
        return if may_begin {
            SecretAt::NeedsMore
        } else {
            SecretAt::Nothing
        };
    }
    let Some(label) = rest.strip_prefix(PEM_BEGIN) else {
        return SecretAt::Nothing;
    };
    let head = &label.as_bytes()[..label.len().min(64)];
    let Some(dashes) = head.windows(5).position(|five| five == b"-----") else {
        let may_follow = end == End::Open && label.len() < 64;
        return if may_follow {
            SecretAt::NeedsMore
        } else {
            SecretAt::Nothing
        };
    };
    if !label.as_bytes()[..dashes].ends_with(PEM_KEY.as_bytes()) {
        return SecretAt::Nothing;
    }
    let body_at = PEM_BEGIN.len() + dashes + 5;
    let body = &rest.as_bytes()[body_at..rest.len().min(body_at + PEM_MAX_BYTES)];
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=\\ \r\n\t-:,".contains(byte);
    let stop = body.iter().position(|byte| !is_part(byte));
    let part = &body[..stop.unwrap_or(body.len())];
    let tail = find(part, b"-----END ").and_then(|tail| {
        let after = tail + "-----END ".len();
        Some(after + find(&part[after..], b"-----")? + 5)
    });
    match tail {
        None if stop.is_none() && end == End::Open && body.len() < PEM_MAX_BYTES => SecretAt::NeedsMore,
        tail => SecretAt::Secret {
            range: at..at + body_at + tail.unwrap_or(part.len()),
            marker: marker(PRIVATE_KEY).into(),
        },
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// User and password of `scheme://user:password@host`.
fn url_password(bytes: &[u8], at: usize, end: End) -> SecretAt {
    let rest = &bytes[at..];
    if rest.len() < 3 {
        let may_begin = end == End::Open && b"://".starts_with(rest);
        return if may_begin {
            SecretAt::NeedsMore
        } else {
            SecretAt::Nothing
        };
    }
    let Some(authority) = rest.strip_prefix(b"://") else {
        return SecretAt::Nothing;
    };
    let window = &authority[..authority.len().min(USER_MAX_BYTES)];
    let is_end = |byte: &u8| {
        byte.is_ascii_whitespace() || matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`')
    };
    let length = window.iter().position(is_end).unwrap_or(window.len());
    if length == authority.len() && end == End::Open {
        return SecretAt::NeedsMore;
    }
    let authority = &window[..length];
    let Some(sign) = authority.iter().rposition(|byte| *byte == b'@') else {
        return SecretAt::Nothing;
    };
    match authority[..sign].iter().position(|byte| *byte == b':') {
        // All of it, so that nothing between here and there escapes being looked at.
        Some(colon) if colon + 1 < sign => SecretAt::Secret {
            range: at + 3..at + 3 + sign,
            marker: marker(URL_PASSWORD).into(),
        },
        _ => SecretAt::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Redactor;

    #[test]
    fn keys_of_vendors_are_found_and_words_are_not() {
        let redactor = Redactor::default();
        let long = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5";
        for (text, expected) in [
            (
                format!("key sk-ant-api03-{long}."),
                "key [secret:anthropic].".to_owned(),
            ),
            (format!("sk-proj-{long}"), "[secret:openai]".to_owned()),
            (format!("(ghp_{long})"), "([secret:github])".to_owned()),
            ("AKIAIOSFODNN7EXAMPLE,".to_owned(), "[secret:aws],".to_owned()),
            (format!("hf_{long} hf_x"), "[secret:huggingface] hf_x".to_owned()),
            (
                "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl.".to_owned(),
                "[secret:jwt].".to_owned(),
            ),
            (
                "postgres://me:pa:ss@db/x http://h:80/a@b".to_owned(),
                "postgres://[secret:url-password]@db/x http://h:80/a@b".to_owned(),
            ),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\nb".to_owned(),
                "a\n[secret:private-key]\nb".to_owned(),
            ),
        ] {
            assert_eq!(redactor.redact(&text), expected);
        }
        for text in [
            "task-force-with-a-very-long-name-123456",
            "sk-button-primary-large-outlined-left",
            "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
            "eyJ only.two",
            "https://example.org/@user and mailto:a@b",
            "AKIA is a prefix",
            "--------- a line ---------",
        ] {
            assert_eq!(redactor.redact(text), text);
        }
    }
}
