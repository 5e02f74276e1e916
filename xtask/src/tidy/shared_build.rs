//! `cargo run` and the tests must agree on the features of every dependency, or it is built twice.

use std::collections::BTreeMap;
use std::process::Stdio;

use anyhow::{Context as _, ensure};

use crate::repository::cargo;

/// Dependencies with other features in the tests than in the program.
pub(super) fn check() -> anyhow::Result<Vec<String>> {
    let program = features(&["--edges", "normal,build"])?;
    let tests = features(&["--workspace", "--edges", "normal,build,dev"])?;
    let differ = program
        .iter()
        .filter_map(|(package, features)| Some((package, features, tests.get(package)?)));
    let differ =
        differ.filter(|(package, program, tests)| program != tests && !package.starts_with("annals"));
    Ok(differ
        .map(|(package, program, tests)| {
            format!(
                "`{package}` is built twice, with `{program}` and, for the tests, `{tests}`: turn the difference on in \
                 `crates/annals-cli/Cargo.toml` or off in the dev-dependencies"
            )
        })
        .collect())
}

/// Each package of a build with its features. One that occurs in several forms has them all.
fn features(selection: &[&str]) -> anyhow::Result<BTreeMap<String, String>> {
    let arguments = [
        &["tree", "--locked", "--prefix", "none", "--format", "{p}|{f}"][..],
        selection,
    ]
    .concat();
    let output = cargo(&arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "`cargo {}` ended with {}",
        arguments.join(" "),
        output.status
    );
    Ok(by_package(&String::from_utf8_lossy(&output.stdout)))
}

fn by_package(tree: &str) -> BTreeMap<String, String> {
    let mut packages: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in tree.lines() {
        let Some((package, features)) = line.trim_end_matches(" (*)").split_once('|') else {
            continue;
        };
        let forms = packages.entry(package.to_owned()).or_default();
        if !forms.contains(&features) {
            forms.push(features);
        }
    }
    let sorted = packages.into_iter().map(|(package, mut forms)| {
        forms.sort_unstable();
        (package, forms.join(" / "))
    });
    sorted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_by_its_features() {
        let tree = by_package("tokio v1|fs,rt\nbytes v1|\ntokio v1|fs,rt (*)\nsyn v2|full\nsyn v2|derive\n");
        assert_eq!(tree["tokio v1"], "fs,rt");
        assert_eq!(tree["syn v2"], "derive / full");
    }
}
