//! Which interpreters this machine has, and which directories each needs to run.
//!
//! An interpreter found through `PATH` may be a shim of a version tool, and may live outside `/usr`. It is asked
//! for its real place once per process, when a sandbox first needs it; only that place appears inside sandboxes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::language::Language;

/// An interpreter of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// What it runs.
    pub language: Language,
    /// The program itself, not a shim.
    pub program: PathBuf,
    /// What it calls itself.
    pub version: String,
    /// Directories it needs that are not part of the system.
    pub prefixes: BTreeSet<PathBuf>,
}

/// The interpreter for `language`, if this machine has one. Asked once per process.
pub fn find(language: Language) -> Option<&'static Interpreter> {
    static FOUND: [OnceLock<Option<Interpreter>>; 3] = [const { OnceLock::new() }; 3];
    FOUND[language as usize].get_or_init(|| ask(language)).as_ref()
}

/// Whether the search path has a program for `language`. Says so without starting it: a shim of a version tool takes a third of a
/// second to answer, which a process that runs no code should not spend. One that turns out not to start is told by the sandbox.
pub fn is_on_path(language: Language) -> bool {
    on_path(language.program()).is_some()
}

/// All interpreters of this machine.
pub fn all() -> impl Iterator<Item = &'static Interpreter> {
    Language::ALL.into_iter().filter_map(find)
}

/// Prints the program, its version, then the directories it loads from, one a line.
fn question(language: Language) -> [&'static str; 2] {
    match language {
        Language::Python => [
            "-c",
            "import sys, platform, os\n\
             print(os.path.realpath(sys.executable)); print(platform.python_version())\n\
             for p in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}: print(p)",
        ],
        Language::Bash => ["-c", "echo \"$BASH\"; echo \"${BASH_VERSION}\""],
        Language::JavaScript => [
            "-e",
            "console.log(process.execPath); console.log(process.versions.node)",
        ],
    }
}

fn ask(language: Language) -> Option<Interpreter> {
    let output = Command::new(on_path(language.program())?)
        .args(question(language))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines();
    let program = std::fs::canonicalize(lines.next()?).ok()?;
    let version = lines.next()?.to_owned();
    let mut prefixes: BTreeSet<PathBuf> = lines.map(PathBuf::from).collect();
    // A program in `<prefix>/bin` needs its prefix; anything else needs only its own directory.
    let home = program.parent()?;
    prefixes.insert(
        if home.ends_with("bin") {
            home.parent()?
        } else {
            home
        }
        .to_owned(),
    );
    prefixes.retain(|prefix| !is_system(prefix));
    Some(Interpreter {
        language,
        program,
        version,
        prefixes,
    })
}

fn is_system(path: &Path) -> bool {
    path == Path::new("/")
        || ["/usr", "/bin", "/lib", "/nix/store"]
            .iter()
            .any(|system| path.starts_with(system))
}

/// First executable file of this name in the host's `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| {
            rustix::fs::access(candidate, rustix::fs::Access::EXEC_OK).is_ok() && candidate.is_file()
        })
}
