//! `cargo xtask docs`: pages that are made from other things, so that they cannot say something else.

pub(crate) mod dependencies;
pub(crate) mod limits;
mod page_picture;
mod picture;
mod tools;

use anyhow::Context as _;

use crate::flags::Flags;
use crate::repository::root;

/// Writes `docs/dependencies.md`, `docs/limits.md`, `docs/tools.md` and the pictures of the demo and the page, or those that are named.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let names = Flags::new(arguments).names()?;
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    if is_wanted("dependencies") {
        write(dependencies::PAGE, &dependencies::page()?)?;
    }
    if is_wanted("limits") {
        write(limits::PAGE, &limits::page()?)?;
    }
    if is_wanted("tools") {
        write("docs/tools.md", &tools::page()?)?;
    }
    if is_wanted("pictures") {
        let pictures = picture::pictures()?;
        write("docs/demo.svg", &pictures.whole)?;
        write("docs/demo-turn.svg", &pictures.second_turn)?;
        page_picture::take()?;
    }
    Ok(())
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
