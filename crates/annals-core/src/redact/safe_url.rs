//! An address as it may be shown: without user, password and the values of its query.

use std::fmt;

/// Shows an address without what may be secret in it. What is no address is shown by the same rule, so that a
/// misspelt one keeps its secret too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafeUrl<'a>(pub &'a str);

impl fmt::Display for SafeUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, fragment) = match self.0.split_once('#') {
            Some((address, _)) => (address, "#…"),
            None => (self.0, ""),
        };
        let (address, query) = match address.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (address, None),
        };
        let (scheme, rest) = match address.find("://") {
            Some(at) => address.split_at(at + 3),
            None => ("", address),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((_, host)) => ("…@", host),
            // A password may have a slash in it: then what looks like the path has the host.
            None => match path.rsplit_once('@') {
                Some((_, rest)) if scheme.is_empty() || authority.contains(':') => {
                    return write!(f, "{scheme}…@{rest}");
                }
                _ => ("", authority),
            },
        };
        write!(f, "{scheme}{user}{host}{path}")?;
        if let Some(query) = query {
            let names = query.split('&').map(|pair| match pair.split_once('=') {
                Some((name, _)) => format!("{name}=…"),
                None => "…".to_owned(),
            });
            write!(f, "?{}", names.collect::<Vec<_>>().join("&"))?;
        }
        f.write_str(fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_of_an_address_is_shown() {
        for (address, shown) in [
            ("https://api.example/v1", "https://api.example/v1"),
            (
                "https://me:hunter2@api.example:8443/v1",
                "https://…@api.example:8443/v1",
            ),
            ("https://hunter2@api.example/v1", "https://…@api.example/v1"),
            (
                "https://a.example/v1?key=hunter2&hunter2",
                "https://a.example/v1?key=…&…",
            ),
            ("https://a.example/#hunter2", "https://a.example/#…"),
            ("me:hunter2@a.example", "…@a.example"),
            ("htp:/me:hunter2@a.example", "…@a.example"),
            ("https://me:hun/ter2@a.example/v1", "https://…@a.example/v1"),
            ("https://me:hun@ter2@a.example", "https://…@a.example"),
            ("", ""),
        ] {
            assert_eq!(SafeUrl(address).to_string(), shown);
        }
    }
}
