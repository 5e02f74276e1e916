//! What the smallest program builds: its build time is a promise, and one careless dependency breaks it.
//!
//! Time cannot be checked on a busy machine, but the crates can be listed.

use std::collections::BTreeSet;
use std::process::Stdio;

use anyhow::{Context as _, ensure};

use crate::repository::{cargo, root};

const MANIFEST: &str = "examples/minimal/Cargo.toml";
/// A crate a line; behind the name the feature of the program that brings it.
const LIST: &str = "examples/minimal/crates.txt";
const FEATURE: &str = "sqlite";

/// Crates that the program builds and nobody has allowed, and the other way round.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let plain = built(&[])?;
    let with_feature = built(&["--features", FEATURE])?;
    let added = with_feature
        .difference(&plain)
        .map(|name| format!("{name} {FEATURE}"));
    let builds: BTreeSet<String> = plain.iter().cloned().chain(added).collect();
    let list = std::fs::read_to_string(root().join(LIST)).with_context(|| format!("cannot read `{LIST}`"))?;
    Ok(compare(&builds, &list))
}

/// The names of what is built for these features, build scripts and macros too.
fn built(features: &[&str]) -> anyhow::Result<BTreeSet<String>> {
    let tree = ["tree", "--locked", "--prefix", "none", "--format", "{p}"];
    let selection = ["--edges", "normal,build", "--manifest-path", MANIFEST];
    let output = cargo(&[&tree[..], &selection, features].concat())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "`cargo tree` of `{MANIFEST}` ended with {}",
        output.status
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

fn compare(builds: &BTreeSet<String>, list: &str) -> Vec<String> {
    let lines = list
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let allowed: BTreeSet<String> = lines.map(str::to_owned).collect();
    let more = builds.difference(&allowed).map(|line| {
        format!("{LIST}: the smallest program builds `{line}` now: put it behind a feature, or allow it with a line")
    });
    let less = allowed
        .difference(builds)
        .map(|line| format!("{LIST}: `{line}` is not built any more: remove the line"));
    more.chain(less).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_and_what_is_gone_is_named() {
        let builds = BTreeSet::from(["a".to_owned(), "b".to_owned(), "c sqlite".to_owned()]);
        assert_eq!(compare(&builds, "# why\na\nb\nc sqlite\n"), Vec::<String>::new());
        let wrong = compare(&builds, "a\nc\n");
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong[0].contains("builds `b` now") && wrong[1].contains("builds `c sqlite` now"));
        assert!(wrong[2].contains("`c` is not built"));
    }
}
