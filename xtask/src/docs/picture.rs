//! The pictures in the README: the demo's timeline as a terminal shows it, taken from a real run.

use std::process::Stdio;

use anyhow::{Context as _, ensure};

use crate::repository::cargo;

/// What the demo left, as pictures.
pub(super) struct Pictures {
    /// Everything.
    pub(super) whole: String,
    /// Its second turn, which finds what the first one made.
    pub(super) second_turn: String,
}

/// Plays the demo in a folder of its own and draws the timeline that it left.
pub(super) fn pictures() -> anyhow::Result<Pictures> {
    let home = std::env::temp_dir().join(format!("annals-picture-{}", std::process::id()));
    let drawn = draw(&home.to_string_lossy());
    // The demo's files are of no use after this, and a folder that cannot be removed is no reason to fail.
    let _ = std::fs::remove_dir_all(&home);
    drawn
}

fn draw(home: &str) -> anyhow::Result<Pictures> {
    annals(&["--home", home, "demo", "--fast"])?;
    let kept = std::fs::read_dir(std::path::Path::new(home).join("demo"))?
        .next()
        .context("the demo left no folder")??;
    let kept = kept.path().to_string_lossy().into_owned();
    let listed = annals(&["--home", &kept, "conversations", "--json"])?;
    let listed: serde_json::Value = serde_json::from_str(&listed)?;
    let id = listed[0]["id"]
        .as_str()
        .context("the demo left no conversation")?;
    let show = ["--home", &kept, "--color", "always", "timeline", "show", id];
    let second = ["--turn", "turn_demo_2"];
    let terminal = anstyle_svg::Term::new();
    Ok(Pictures {
        whole: terminal.render_svg(&annals(&show)?),
        second_turn: terminal.render_svg(&annals(&[&show[..], &second[..]].concat())?),
    })
}

fn annals(arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = cargo(&["run", "--quiet", "--package", "annals-cli", "--"]);
    let output = command
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(
        output.status.success(),
        "`annals {}` ended with {}",
        arguments.join(" "),
        output.status
    );
    String::from_utf8(output.stdout).context("annals printed something other than text")
}
