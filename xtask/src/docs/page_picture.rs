//! The picture of the web page in the README, taken by a real browser from a real run of the demo.

use anyhow::{Context as _, ensure};

use crate::repository::{cargo, root};

/// The picture's place.
pub(super) const PICTURE: &str = "docs/img/page.png";

const SCRIPT: &str = "crates/annals-cli/tests/page/picture.py";

/// Builds the program and takes the picture.
pub(super) fn take() -> anyhow::Result<()> {
    let playwright = annals_requirements::installed("playwright")
        .context("the set `playwright` is not installed: `cargo xtask setup --packages playwright`")?;
    let built = cargo(&["build", "--quiet", "--package", "annals-cli"]).status();
    ensure!(
        built.context("cannot start cargo")?.success(),
        "annals cannot be built"
    );
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let program = root().join(target).join("debug/annals");
    let taken = playwright
        .script(&root().join(SCRIPT))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(program)
        .arg(root().join(PICTURE))
        .status()
        .context("cannot start Python")?;
    ensure!(taken.success(), "`{SCRIPT}` ended with {taken}");
    println!("wrote {PICTURE}");
    Ok(())
}
