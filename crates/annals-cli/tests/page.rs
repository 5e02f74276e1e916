//! The web page in a real browser, driven from outside: `tests/page/` has the scenarios.

#![allow(
    clippy::print_stdout,
    reason = "what was measured is part of the test's record"
)]

use std::path::Path;
use std::process::Command;

use annals_requirements::{Requirement, installed, met};

/// `ANNALS_PAGE_SCENARIOS` names those to run, for somebody who works on one of them.
const SCENARIOS: &str = "ANNALS_PAGE_SCENARIOS";

#[test]
fn the_page_does_what_people_do_with_it() {
    let (true, Some(playwright), Some(axe), Some(mcp)) = (
        met(Requirement::Chromium),
        installed("playwright"),
        installed("axe"),
        installed("mcp-python"),
    ) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let main = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/main.py");
    let wanted = std::env::var(SCENARIOS).unwrap_or_default();
    let run = Command::new(playwright.program("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("ANNALS_PAGE_MCP", mcp.folder())
        .arg(main)
        .arg(env!("CARGO_BIN_EXE_annals"))
        .arg(axe.folder().join("node_modules/axe-core/axe.min.js"))
        .arg(folder.path())
        .args(wanted.split_whitespace())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    println!("{said}");
    assert!(
        run.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&run.stderr)
    );
}
