//! Programs that a sandbox is to lack: commands get a search path without them, kernels keep theirs, as in an image that has
//! a language only behind its code interpreter.

use std::fs;
use std::path::Path;

/// The variable of a sandbox's environment that names them.
const VARIABLE: &str = "DOUBLE_HIDES";
const FOLDER: &str = "/tmp/double-programs";

/// The search path without the hidden programs, if any are to be hidden.
pub(super) fn search_path() -> Option<String> {
    let hidden = std::env::var(VARIABLE).ok()?;
    let path = std::env::var_os("PATH")?;
    fs::create_dir_all(FOLDER).ok()?;
    for folder in std::env::split_paths(&path) {
        let Ok(programs) = fs::read_dir(&folder) else {
            continue;
        };
        for program in programs.flatten() {
            let name = program.file_name();
            if name.to_str() != Some(&hidden) {
                // The first of a name is the one that is found, so a link that is there stays.
                let _ = std::os::unix::fs::symlink(program.path(), Path::new(FOLDER).join(name));
            }
        }
    }
    Some(FOLDER.to_owned())
}
