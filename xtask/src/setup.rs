//! What the tests need on the machine: interpreters, fonts, a PDF reader. Installed with apt where that is possible.
//!
//! Chromium and LibreOffice are large and only a few tests use them; they are not installed, and those tests say that
//! they were left out.

use std::path::Path;
use std::process::Command;

use crate::flags::Flags;
use crate::repository::program;
use crate::stage;

/// Something the tests use.
struct Need {
    what: &'static str,
    package: &'static str,
    is_there: fn() -> bool,
}

const NEEDS: &[Need] = &[
    Need {
        what: "bash",
        package: "bash",
        is_there: || program("bash").is_some(),
    },
    Need {
        what: "python3",
        package: "python3-minimal",
        is_there: || program("python3").is_some(),
    },
    Need {
        what: "node",
        package: "nodejs",
        is_there: || program("node").is_some(),
    },
    Need {
        what: "unshare and flock",
        package: "util-linux",
        is_there: || program("unshare").is_some() && program("flock").is_some(),
    },
    Need {
        what: "pdftotext and pdftoppm",
        package: "poppler-utils",
        is_there: || program("pdftotext").is_some() && program("pdftoppm").is_some(),
    },
    Need {
        what: "git",
        package: "git",
        is_there: || program("git").is_some(),
    },
    Need {
        what: "valgrind",
        package: "valgrind",
        is_there: || program("valgrind").is_some(),
    },
    Need {
        what: "a system font",
        package: "fonts-dejavu-core",
        is_there: || {
            ["/usr/share/fonts", "/usr/local/share/fonts"]
                .iter()
                .any(|folder| has_font(Path::new(folder), FONT_DEPTH))
        },
    },
];

/// Programs that some tests use when they find them.
const WELCOME: &[(&str, &[&str])] = &[
    (
        "Chromium (HTML laid out by a browser)",
        &["chromium", "chromium-browser", "google-chrome"],
    ),
    (
        "LibreOffice (office files opened by another program)",
        &["soffice", "libreoffice"],
    ),
    ("cargo-nextest (tests in parallel processes)", &["cargo-nextest"]),
];

const FONT_DEPTH: u32 = 4;

/// `cargo xtask setup`.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    Flags::new(arguments).done()?;
    prepare();
    Ok(())
}

/// Installs what is missing, or says what is. Never fails: a test that lacks something says so itself.
pub(crate) fn prepare() {
    let missing = missing();
    if missing.is_empty() {
        println!("setup: everything the tests need is here");
    } else {
        install(&missing);
    }
    for (what, names) in WELCOME {
        if names.iter().all(|name| program(name).is_none()) {
            println!("setup: no {what}; what needs it is left out or done another way");
        }
    }
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !(need.is_there)()).collect()
}

fn install(missing: &[&Need]) {
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let what: Vec<&str> = missing.iter().map(|need| need.what).collect();
    println!("setup: missing {}", what.join(", "));
    if program("apt-get").is_none() || !is_root() {
        println!(
            "setup: not installed here, since that takes root and apt: apt-get install {}",
            packages.join(" ")
        );
        return;
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(std::process::Stdio::null());
        stage::status(command)
    };
    let install = [&["install", "-y", "-q", "--no-install-recommends"][..], &packages].concat();
    if let Err(error) = apt(&["update", "-q"]).and_then(|()| apt(&install)) {
        println!("setup: {error:#}; going on, tests that need it will say so");
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

fn has_font(folder: &Path, depth: u32) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        let is_font = path
            .extension()
            .is_some_and(|extension| extension == "ttf" || extension == "otf");
        is_font || (depth > 0 && path.is_dir() && has_font(&path, depth - 1))
    })
}
