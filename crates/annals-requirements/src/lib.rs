//! What the tests need of the machine beside a Rust toolchain: programs, fonts, rights, packages from PyPI and npm.
//!
//! One list for the test that asks ([`met`], [`installed`]) and for `cargo xtask setup`, which installs. A test without
//! what it needs is left out on a person's machine and says so; in CI (`CI` is set) it fails, unless `exceptions.txt` has
//! a reason. Read in this order: [`Requirement`], [`met`], [`PackageSet`], `fonts`. [`assert_listed`]
//! keeps the published lists of the hostile corpora; [`again`] runs tests once more under other circumstances.

#![forbid(unsafe_code)]

mod again;
mod corpus;
mod fonts;
mod packages;

pub use again::{LAYOUT_VARIABLE, again, again_in_the_timeline_layout};
pub use corpus::assert_listed;
pub use packages::{Installed, OUTSIDE_FOLDER, PackageSet, Registry, installed};

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The file that gets a line for each test that was left out; set by `cargo xtask test`.
pub const LEFT_OUT_FILE: &str = "ANNALS_LEFT_OUT";

const EXCEPTIONS: &str = include_str!("../exceptions.txt");

/// Something of the machine that a test uses.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    Bash,
    Python,
    /// Python's installer and virtual environments, for packages from PyPI.
    Pip,
    Node,
    Git,
    /// The client of the guide to the server, and `jq`, which reads answers in it.
    Curl,
    UtilLinux,
    Poppler,
    Valgrind,
    LatinFont,
    CjkFont,
    ThaiFont,
    Chromium,
    LibreOffice,
    Postgres,
    PgBouncer,
    /// Where Patroni keeps who leads.
    Etcd,
    /// The user id 0, to become an ordinary user from it.
    Root,
}

impl Requirement {
    /// All of them, those first that everything else stands on.
    pub const ALL: [Requirement; 18] = [
        Requirement::Bash,
        Requirement::Python,
        Requirement::Pip,
        Requirement::Node,
        Requirement::Git,
        Requirement::Curl,
        Requirement::UtilLinux,
        Requirement::Poppler,
        Requirement::Valgrind,
        Requirement::LatinFont,
        Requirement::CjkFont,
        Requirement::ThaiFont,
        Requirement::Chromium,
        Requirement::LibreOffice,
        Requirement::Postgres,
        Requirement::PgBouncer,
        Requirement::Etcd,
        Requirement::Root,
    ];

    /// Its name in `exceptions.txt`.
    pub fn name(self) -> &'static str {
        match self {
            Requirement::Bash => "bash",
            Requirement::Python => "python",
            Requirement::Pip => "pip",
            Requirement::Node => "node",
            Requirement::Git => "git",
            Requirement::Curl => "curl",
            Requirement::UtilLinux => "util-linux",
            Requirement::Poppler => "poppler",
            Requirement::Valgrind => "valgrind",
            Requirement::LatinFont => "latin-font",
            Requirement::CjkFont => "cjk-font",
            Requirement::ThaiFont => "thai-font",
            Requirement::Chromium => "chromium",
            Requirement::LibreOffice => "libreoffice",
            Requirement::Postgres => "postgres",
            Requirement::PgBouncer => "pgbouncer",
            Requirement::Etcd => "etcd",
            Requirement::Root => "root",
        }
    }

    /// Debian packages that provide it; none for what cannot be installed.
    pub fn packages(self) -> &'static [&'static str] {
        match self {
            Requirement::Bash => &["bash"],
            Requirement::Python => &["python3-minimal"],
            Requirement::Pip => &["python3-pip", "python3-venv"],
            Requirement::Node => &["nodejs"],
            Requirement::Git => &["git"],
            Requirement::Curl => &["curl", "jq"],
            Requirement::UtilLinux => &["util-linux"],
            Requirement::Poppler => &["poppler-utils"],
            Requirement::Valgrind => &["valgrind"],
            Requirement::LatinFont => &["fonts-dejavu-core"],
            // Chinese, Japanese and Korean in five megabytes; Noto's take ninety.
            Requirement::CjkFont => &["fonts-wqy-microhei"],
            Requirement::ThaiFont => &["fonts-tlwg-loma-otf"],
            Requirement::Chromium => &["chromium"],
            Requirement::LibreOffice => &["libreoffice-writer-nogui", "libreoffice-impress-nogui"],
            Requirement::Postgres => &["postgresql"],
            Requirement::PgBouncer => &["pgbouncer"],
            Requirement::Etcd => &["etcd-server"],
            Requirement::Root => &[],
        }
    }

    /// Whether this machine has it.
    pub fn is_met(self) -> bool {
        let all = |names: &[&str]| names.iter().all(|name| program(name).is_some());
        let any = |names: &[&str]| names.iter().any(|name| program(name).is_some());
        match self {
            Requirement::Bash => all(&["bash"]),
            Requirement::Python => all(&["python3"]),
            Requirement::Pip => all(&["python3", "pip3"]),
            Requirement::Node => all(&["node"]),
            Requirement::Git => all(&["git"]),
            Requirement::Curl => all(&["curl", "jq"]),
            Requirement::UtilLinux => all(&["unshare", "flock"]),
            Requirement::Poppler => all(&["pdftotext", "pdftoppm"]),
            Requirement::Valgrind => all(&["valgrind"]),
            Requirement::LatinFont => fonts::any_covers(&['é', 'Ж', '😀']),
            Requirement::CjkFont => fonts::any_covers(&['日', '传', '항']),
            Requirement::ThaiFont => fonts::any_covers(&['ไ', 'ท', 'ย']),
            Requirement::Chromium => any(&["chromium", "chromium-browser", "google-chrome"]),
            Requirement::LibreOffice => all(&["soffice"]),
            Requirement::Postgres => postgres_programs().is_some() && all(&["setpriv"]),
            Requirement::PgBouncer => Path::new(PGBOUNCER).is_file() || all(&["pgbouncer"]),
            Requirement::Etcd => all(&["etcd"]),
            Requirement::Root => is_root(),
        }
    }
}

/// Whether a test can run. Where it cannot, says so; fails in CI.
///
/// # Panics
/// In CI, if the requirement is not met and `exceptions.txt` has no reason for that.
pub fn met(requirement: Requirement) -> bool {
    if requirement.is_met() {
        return true;
    }
    let packages = requirement.packages().join(" ");
    permitted_without(
        requirement.name(),
        &format!("`cargo xtask setup` installs it (Debian: {packages})"),
    );
    false
}

/// Notes that a test is left out for want of something.
///
/// # Panics
/// In CI, unless `exceptions.txt` has a reason.
fn permitted_without(name: &str, remedy: &str) {
    assert!(
        !in_ci(std::env::var("CI").ok().as_deref()) || exception(EXCEPTIONS, name).is_some(),
        "this test needs `{name}`, which is not here: {remedy}"
    );
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    report(&format!("{test}: needs `{name}`"));
}

/// Where Debian's package puts it, which is not on everybody's search path.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

/// The folder with the programs of the newest PostgreSQL that Debian's packages installed.
pub fn postgres_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.flatten().filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("postgres").is_file().then_some((version, programs))
    });
    folders.max().map(|(_, programs)| programs)
}

/// A program on the search path.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Whether this process has the user id 0.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

fn in_ci(value: Option<&str>) -> bool {
    !matches!(value, None | Some("" | "0" | "false"))
}

/// The reason why a requirement may be missing in CI.
fn exception<'t>(exceptions: &'t str, name: &str) -> Option<&'t str> {
    let lines = exceptions.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(": "))
        .find(|(listed, reason)| *listed == name && !reason.trim().is_empty())
        .map(|(_, reason)| reason)
}

#[allow(clippy::print_stderr, reason = "a test that is left out says so")]
fn report(line: &str) {
    eprintln!("left out: {line}");
    let Some(file) = std::env::var_os(LEFT_OUT_FILE) else {
        return;
    };
    let opened = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(Path::new(&file));
    let written = opened.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.expect("the list of tests that were left out can be written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listed_reason_excuses_what_is_missing_in_ci() {
        let list = "# node: a comment\nroot: because\nchromium: \n";
        assert_eq!(exception(list, "root"), Some("because"));
        for name in ["node", "chromium", "python"] {
            assert_eq!(exception(list, name), None, "{name}");
        }
        assert_eq!(
            [None, Some(""), Some("false"), Some("true"), Some("1")].map(in_ci),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn every_exception_names_a_requirement() {
        let lines = EXCEPTIONS.lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            let name = line.split(':').next().unwrap_or_default();
            let is_requirement = Requirement::ALL.iter().any(|known| known.name() == name);
            let is_set = PackageSet::all().iter().any(|known| known.name == name);
            assert!(is_requirement || is_set, "{line}");
        }
    }

    #[test]
    fn what_is_on_every_machine_is_found_and_nonsense_is_not() {
        assert!(program("sh").is_some());
        assert!(program("no-such-program-anywhere").is_none());
        assert!(!fonts::any_covers(&['\u{10fffd}']), "no font has this character");
    }
}
