//! When two addresses are one source.
//!
//! Only what cannot change the page is taken away; the row keeps the address as it was given. Parameters keep
//! their order, because a server may care.

/// Parameters that say where a click came from. A name ending in `*` is a prefix.
const TRACKING: &[&str] = &[
    "utm_*",
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "fbclid",
    "msclkid",
    "yclid",
    "twclid",
    "ttclid",
    "li_fat_id",
    "igshid",
    "mc_cid",
    "mc_eid",
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "mkt_tok",
    "oly_anon_id",
    "oly_enc_id",
    "vero_id",
    "srsltid",
];

/// The address by which a source is recognised again.
///
/// Scheme and host in lower case, no default port, no fragment (but `#!…` and `#/…`, which name pages), no
/// tracking parameters, no trailing slash, percent escapes of plain characters undone and others in upper case.
/// A text that is no `scheme://…` address stands for itself.
pub fn normalised(url: &str) -> String {
    let url = url.trim();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(is_scheme_byte) {
        return url.to_owned();
    }
    let scheme = scheme.to_ascii_lowercase();
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));

    let mut out = format!("{scheme}://{}", host(&scheme, authority));
    out.push_str(unescaped(path).trim_end_matches('/'));
    let mut separator = '?';
    for parameter in query
        .split('&')
        .map(unescaped)
        .filter(|p| !p.is_empty() && !is_tracking(p))
    {
        out.push(separator);
        out.push_str(&parameter);
        separator = '&';
    }
    if fragment.starts_with(['!', '/']) {
        out.push('#');
        out.push_str(fragment);
    }
    out
}

fn is_scheme_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// The authority with its host in lower case and without the scheme's own port.
fn host(scheme: &str, authority: &str) -> String {
    let (user, host) = authority
        .rsplit_once('@')
        .map_or(("", authority), |(user, host)| (user, host));
    let default_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => ":",
    };
    let mut host = host.to_lowercase();
    while host.ends_with(default_port) || host.ends_with(':') {
        host.truncate(
            host.len()
                - if host.ends_with(':') {
                    1
                } else {
                    default_port.len()
                },
        );
    }
    if user.is_empty() {
        host
    } else {
        format!("{user}@{host}")
    }
}

fn is_tracking(parameter: &str) -> bool {
    let name = parameter
        .split('=')
        .next()
        .unwrap_or(parameter)
        .to_ascii_lowercase();
    TRACKING.iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *known,
    })
}

/// Undoes escapes of characters that never need one and writes the others in upper case. A text with a stray
/// `%` stands for itself.
fn unescaped(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut out = String::with_capacity(text.len());
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let byte = piece
            .get(..2)
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let Some(byte) = byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) else {
            return text.to_owned();
        };
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out.push_str(&piece[2..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_of_one_page_are_one() {
        for (url, expected) in [
            ("HTTPS://Example.COM", "https://example.com"),
            ("https://example.com/", "https://example.com"),
            ("https://example.com:443/a/", "https://example.com/a"),
            ("http://example.com:80/a#part", "http://example.com/a"),
            (
                "https://example.com/a?utm_source=x&id=7&UTM_Medium=y&fbclid=z",
                "https://example.com/a?id=7",
            ),
            ("https://example.com/a?gclid=1", "https://example.com/a"),
            (
                "https://example.com/%7eann/%c3%a9",
                "https://example.com/~ann/%C3%A9",
            ),
            (" https://example.com/a ", "https://example.com/a"),
            ("https://ann@Example.com/", "https://ann@example.com"),
        ] {
            assert_eq!(normalised(url), expected, "{url}");
        }
    }

    #[test]
    fn what_may_name_another_page_is_kept() {
        for url in [
            "https://example.com/Case",
            "https://example.com/a?b=1&a=2",
            "https://example.com/a?b",
            "https://example.com:8443/a",
            "http://example.com:443/a",
            "https://app.example.com/#/inbox",
            "https://example.com/#!page",
            "https://example.com/a%2Fb",
            "https://example.com/100%",
            "https://[2001:db8::1]/a",
            "not an address",
            "turn_1/files/a.md",
            "doi:10.1000/182",
        ] {
            let expected = url.replace("com/#", "com#");
            assert_eq!(normalised(url), expected, "{url}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(
            url in "(https?|HTTPS|ftp)://[A-Za-z@:.%0-9]{0,12}(/[a-zA-Z%0-9é/]{0,10})?(\\?[a-z=&%0-9_]{0,12})?(#[!/a-z]{0,5})?|\\PC{0,30}"
        ) {
            let once = normalised(&url);
            prop_assert_eq!(normalised(&once), once);
        }
    }
}
