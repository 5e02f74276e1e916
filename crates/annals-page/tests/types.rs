//! The modules of the page hold what their comments say of types, by TypeScript's own checker.

use std::path::Path;
use std::process::Command;

use annals_requirements::installed;

const OPTIONS: [&str; 12] = [
    "--noEmit",
    "--allowJs",
    "--checkJs",
    "--strict",
    "--target",
    "esnext",
    "--module",
    "esnext",
    "--moduleResolution",
    "bundler",
    "--lib",
    "esnext,dom,dom.iterable",
];

#[test]
fn every_module_is_well_typed() {
    let Some(typescript) = installed("typescript") else {
        return;
    };
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/js");
    let checked = Command::new(typescript.program("node"))
        .arg(typescript.folder().join("node_modules/typescript/bin/tsc"))
        .args(OPTIONS)
        .arg("main.js")
        .current_dir(modules)
        .output()
        .unwrap();
    assert!(
        checked.status.success(),
        "{}{}",
        String::from_utf8_lossy(&checked.stdout),
        String::from_utf8_lossy(&checked.stderr)
    );
}
