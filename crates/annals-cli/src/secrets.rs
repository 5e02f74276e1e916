//! Which values are secret: those that `[secrets]` of the configuration names, and those that the program was given
//! for itself: keys of vendors, and what addresses carry.

use std::path::Path;

use annals::core::redact::Secrets;
use anyhow::{Context as _, bail};

/// Variables whose values are keys.
const KEYS: [&str; 5] = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANNALS_BRAVE_KEY",
    "OPEN_SANDBOX_API_KEY",
    "E2B_API_KEY",
];

/// The secrets that a configuration names: `NAME = "value"`, `"env:VARIABLE"` or `"file:PATH"`.
pub(crate) fn configured(
    table: Option<toml::Value>,
    env: &impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Secrets> {
    let mut secrets = Secrets::new();
    let table = match table {
        None => return Ok(secrets),
        Some(toml::Value::Table(table)) => table,
        Some(other) => bail!(
            "`secrets` in the configuration is {}: give a table of names",
            other.type_str()
        ),
    };
    for (name, value) in table {
        let toml::Value::String(value) = value else {
            bail!("the secret `{name}` is {}: give a text", value.type_str());
        };
        secrets.insert(&name, &resolved(&name, &value, env)?)?;
    }
    Ok(secrets)
}

fn resolved(name: &str, value: &str, env: &impl Fn(&str) -> Option<String>) -> anyhow::Result<String> {
    if let Some(variable) = value.strip_prefix("env:") {
        return env(variable).with_context(|| {
            format!("the secret `{name}` is in the variable `{variable}`, which is not set")
        });
    }
    if let Some(path) = value.strip_prefix("file:") {
        let text = std::fs::read_to_string(Path::new(path));
        let text = text.with_context(|| format!("cannot read the secret `{name}` from `{path}`"))?;
        // An editor ends a file with a line end, which is not part of the secret.
        return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
    }
    Ok(value.to_owned())
}

/// With the keys of the environment and what these addresses carry. What is too short to be told from text is left out.
pub(crate) fn with_own<'u>(
    mut secrets: Secrets,
    env: &impl Fn(&str) -> Option<String>,
    addresses: impl IntoIterator<Item = &'u str>,
) -> Secrets {
    for name in KEYS {
        if let Some(value) = env(name) {
            let _ = secrets.insert(name, &value);
        }
    }
    let carried = addresses.into_iter().flat_map(carried);
    for (at, value) in carried.enumerate() {
        let _ = secrets.insert(&format!("address-{}", at + 1), value);
    }
    secrets
}

/// The password, or else the user, and the values of the query. Databases and buckets have users and options that are no
/// secrets, and hiding them would hide ordinary words.
fn carried(address: &str) -> Vec<&str> {
    let (scheme, after_scheme) = address.split_once("://").unwrap_or(("", address));
    let is_database = matches!(scheme, "postgres" | "postgresql" | "s3");
    let (authority, query) = after_scheme.split_once('?').unwrap_or((after_scheme, ""));
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    let password = user.and_then(|user| match user.split_once(':') {
        Some((_, password)) => Some(password),
        None => (!is_database).then_some(user),
    });
    let values = query.split('&').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (!is_database || name == "password").then_some(value)
    });
    password.into_iter().chain(values).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        (name == "DB_PASSWORD").then(|| "from-the-env".to_owned())
    }

    fn parse(text: &str) -> anyhow::Result<Secrets> {
        let table: toml::Table = text.parse()?;
        configured(Some(toml::Value::Table(table)), &env)
    }

    #[test]
    fn a_secret_is_a_value_a_variable_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "from-a-file\n").unwrap();
        let text = format!(
            "A = 'as-it-stands'\nB = 'env:DB_PASSWORD'\nC = 'file:{}'",
            file.display()
        );
        let secrets = parse(&text).unwrap();
        let values: Vec<&str> = ["A", "B", "C"]
            .iter()
            .map(|name| &**secrets.get(name).unwrap())
            .collect();
        assert_eq!(values, ["as-it-stands", "from-the-env", "from-a-file"]);
    }

    #[test]
    fn what_cannot_be_a_secret_is_refused_without_its_value() {
        for (text, why) in [
            ("A = 'env:ABSENT'", "`ABSENT`, which is not set"),
            ("A = 'file:/absent'", "cannot read the secret `A`"),
            ("A = 'hunter2'", "fewer than 8"),
            ("A = 7", "give a text"),
            ("'a b' = 'long enough'", "no name for a secret"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(why) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_an_address_carries_is_secret() {
        let addresses = [
            "http://me:pass-of-mine@h/v1?key=value-of-key&x",
            "https://token-alone@h",
            "https://h/",
            "postgres://user-of-it:pass-of-base@h/x?sslmode=verify-full&password=pass-in-query",
            "postgres://user-of-it@h/x",
            "s3://bucket/x?region=eu-central-1",
        ];
        let secrets = with_own(Secrets::new(), &|_| None, addresses);
        let values: Vec<&str> = secrets
            .names()
            .filter_map(|name| secrets.get(name).map(|value| &**value))
            .collect();
        assert_eq!(
            values,
            [
                "pass-of-mine",
                "value-of-key",
                "token-alone",
                "pass-of-base",
                "pass-in-query"
            ]
        );
    }
}
