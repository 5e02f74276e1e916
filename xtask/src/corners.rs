//! The corners of the library's features: none, each alone, all. A feature that only builds beside another is not additive.

use crate::repository::{cargo, root, target};
use crate::stage::status;

/// The features of the façade, in the order of its manifest.
fn features() -> anyhow::Result<Vec<String>> {
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

/// Type-checks every corner; runs the program outside the workspace that has the fewest features, and its tests.
pub(crate) fn check() -> anyhow::Result<()> {
    let library = ["check", "--package", "annals", "--lib", "--quiet"];
    let corner = |more: &[&str]| status(cargo(&[library.as_slice(), more].concat()));
    corner(&["--no-default-features"])?;
    for feature in features()? {
        println!("feature `{feature}` alone");
        corner(&["--no-default-features", "--features", &feature])?;
    }
    corner(&["--all-features"])?;
    let manifest = root().join("examples/minimal/Cargo.toml");
    for verb in ["run", "test"] {
        let mut minimal = cargo(&[verb, "--quiet", "--locked", "--manifest-path"]);
        minimal.arg(&manifest).env("CARGO_TARGET_DIR", target()?);
        status(minimal)?;
    }
    Ok(())
}
