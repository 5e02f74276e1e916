//! `cargo xtask docs`: pages that are made from other things, so that they cannot say something else.

mod dependencies;
mod picture;
mod tools;

use anyhow::Context as _;

use crate::flags::Flags;
use crate::repository::root;

/// Writes `docs/dependencies.md`, `docs/tools.md` and the pictures of the demo.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    Flags::new(arguments).done()?;
    write("docs/dependencies.md", &dependencies::page()?)?;
    dependencies::unexplained()?
        .iter()
        .for_each(|line| println!("no word about {line}"));
    write("docs/tools.md", &tools::page()?)?;
    let pictures = picture::pictures()?;
    write("docs/demo.svg", &pictures.whole)?;
    write("docs/demo-turn.svg", &pictures.second_turn)
}

fn write(name: &str, text: &str) -> anyhow::Result<()> {
    std::fs::write(root().join(name), text).with_context(|| format!("cannot write `{name}`"))?;
    println!("wrote {name}");
    Ok(())
}

/// A text as one cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}
