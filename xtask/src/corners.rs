//! The corners of the library's features: none, all, and mixtures in which each feature stands without others. A feature that only
//! builds beside another is not additive.

use crate::flags::Flags;
use crate::repository::{cargo, root, target};
use crate::stage::status;

/// The features of the façade, in the order of its manifest.
pub(crate) fn features() -> anyhow::Result<Vec<String>> {
    let manifest = std::fs::read_to_string(root().join("crates/annals/Cargo.toml"))?;
    let names = manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = ["))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name != "default");
    Ok(names.collect())
}

/// Sets of features such that for any two there is a set with the first and without the second. Each feature is given its own
/// choice of half the sets (Sperner's theorem: no choice contains another), so the number of sets grows with the logarithm of the
/// number of features, and each is a whole `cargo check`.
fn mixtures(features: &[String]) -> Vec<Vec<&str>> {
    let choices = |sets: u32| (0..1_u32 << sets).filter(move |choice| choice.count_ones() == sets / 2);
    let sets = (2..)
        .find(|sets| choices(*sets).count() >= features.len())
        .unwrap_or(2);
    let member = |set: u32| {
        let chosen = features
            .iter()
            .zip(choices(sets))
            .filter(move |(_, choice)| choice & 1 << set != 0);
        chosen.map(|(feature, _)| feature.as_str()).collect()
    };
    (0..sets).map(member).collect()
}

/// Two sets: one half of the features, and the other.
fn halves(features: &[String]) -> Vec<Vec<&str>> {
    let half = |parity: usize| {
        let every_other = features.iter().skip(parity).step_by(2);
        every_other.map(String::as_str).collect()
    };
    vec![half(0), half(1)]
}

/// `cargo xtask features`: type-checks the library in all mixtures, which takes a minute each from nothing.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    Flags::new(arguments).done()?;
    check(&mixtures(&features()?))?;
    minimal()
}

/// What every change is checked with: two mixtures instead of all.
pub(crate) fn check_few() -> anyhow::Result<()> {
    check(&halves(&features()?))?;
    minimal()
}

fn check(mixtures: &[Vec<&str>]) -> anyhow::Result<()> {
    let library = ["check", "--package", "annals", "--lib", "--quiet"];
    let corner = |more: &[&str]| status(cargo(&[library.as_slice(), more].concat()));
    corner(&["--no-default-features"])?;
    for mixture in mixtures {
        let mixture = mixture.join(",");
        println!("features {mixture}");
        corner(&["--no-default-features", "--features", &mixture])?;
    }
    corner(&["--all-features"])
}

/// Runs the program outside the workspace that has the fewest features, and its tests.
fn minimal() -> anyhow::Result<()> {
    let manifest = root().join("examples/minimal/Cargo.toml");
    for verb in ["run", "test"] {
        let mut minimal = cargo(&[verb, "--quiet", "--locked", "--manifest-path"]);
        minimal.arg(&manifest).env("CARGO_TARGET_DIR", target()?);
        status(minimal)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_feature_stands_without_every_other_one_somewhere() {
        for count in 2..24 {
            let features: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
            let mixtures = super::mixtures(&features);
            for (first, second) in features
                .iter()
                .flat_map(|first| features.iter().map(move |second| (first, second)))
            {
                let apart =
                    |mixture: &Vec<&str>| mixture.contains(&&**first) && !mixture.contains(&&**second);
                assert!(
                    first == second || mixtures.iter().any(apart),
                    "{count}: {first} without {second}"
                );
            }
        }
        let features: Vec<String> = super::features().unwrap();
        assert!(super::mixtures(&features).len() < features.len() / 2);
        let halves = super::halves(&features);
        assert_eq!(halves.iter().map(Vec::len).sum::<usize>(), features.len());
        assert!(halves[0].iter().all(|feature| !halves[1].contains(feature)));
    }
}
