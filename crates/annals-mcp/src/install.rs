//! Installs the package of a server by the registry's own client, as the person who asked for it: into a folder of the home,
//! in one version, without running anything of the package. Only what is started later runs in the sandbox.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use crate::limits;
use crate::package::{InstalledPackage, Package, PackageFolder, Registry};
use crate::text;

/// Whether a package may run code of its own while it is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripts {
    /// It may not: no scripts of npm packages, no building of Python ones.
    Refused,
    /// It may, as a process of the user: somebody asked for that by name.
    Run,
}

/// Why a package is not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The registry's client is not there.
    #[error(
        "`{spec}` is installed by {client}, which is not on the `PATH`: install {remedy}, or give the server's own program"
    )]
    NoClient {
        /// What was to be installed.
        spec: String,
        /// The programs that could.
        client: &'static str,
        /// What has them.
        remedy: &'static str,
    },
    /// The client failed.
    #[error("`{client}` could not install `{spec}` ({how}): {said}{hint}")]
    Failed {
        /// Which.
        client: String,
        /// What was to be installed.
        spec: String,
        /// How it ended.
        how: String,
        /// Its last words.
        said: String,
        /// What could help.
        hint: &'static str,
    },
    /// It is there, and which program to start is not clear.
    #[error("`{spec}` is installed, but {reason}: name the program, {example}")]
    NoProgram {
        /// What was installed.
        spec: String,
        /// What is missing.
        reason: String,
        /// How to name it.
        example: &'static str,
    },
    /// The folder cannot be used.
    #[error("the package cannot be kept in `{path}`: {error}")]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

const NAME_NPM_PROGRAM: &str = "`npx -p PACKAGE PROGRAM`";
const NAME_PYTHON_PROGRAM: &str = "`uvx --from PACKAGE PROGRAM`";
const SCRIPTS_HINT: &str = "; nothing of a package runs while it is installed, so one that has to be built needs `--install-scripts`";

/// Installs the package of the server with this namespace anew. `on_line` hears what the client says.
pub async fn install(
    packages: &PackageFolder,
    namespace: &str,
    package: &Package,
    scripts: Scripts,
    on_line: &(dyn Fn(&str) + Sync),
) -> Result<InstalledPackage, InstallError> {
    let above = packages.of_server(namespace);
    let folder = new_folder(&above).map_err(|error| kept(&above, error))?;
    let installing = Installing {
        package,
        folder: &folder,
        scripts,
        on_line,
    };
    let installed = match package.registry {
        Registry::Npm => installing.by_npm().await,
        Registry::Pypi => installing.by_python().await,
    };
    let installed = match installed {
        Ok(installed) => packages
            .put(namespace, &installed, &folder)
            .map(|()| installed)
            .map_err(|error| kept(&above, error)),
        Err(error) => Err(error),
    };
    if installed.is_err() {
        // What was installed before is started as before.
        let _ = std::fs::remove_dir_all(&folder);
    }
    installed
}

/// Environments of Python cannot be moved, so each installation has its place from the beginning.
fn new_folder(above: &Path) -> io::Result<PathBuf> {
    crate::private_file::make_folder(above)?;
    let above = above.canonicalize()?;
    for number in 1_u32.. {
        let folder = above.join(number.to_string());
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
    Err(io::Error::other("too many installations"))
}

fn kept(path: &Path, error: io::Error) -> InstallError {
    InstallError::Io {
        path: path.to_owned(),
        error,
    }
}

struct Installing<'i> {
    package: &'i Package,
    folder: &'i Path,
    scripts: Scripts,
    on_line: &'i (dyn Fn(&str) + Sync),
}

impl Installing<'_> {
    async fn by_npm(&self) -> Result<InstalledPackage, InstallError> {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--no-update-notifier"]);
        npm.arg("--prefix").arg(self.folder);
        if self.scripts == Scripts::Refused {
            npm.arg("--ignore-scripts");
        }
        npm.arg("--").args(&self.package.specs).current_dir(self.folder);
        if !self.run(npm).await? {
            return Err(self.no_client("`npm`", "Node.js, which has it"));
        }
        let modules = self.folder.join("node_modules");
        let name = self.npm_name(&modules)?;
        let about = json_file(&modules.join(&name).join("package.json"));
        let program = npm_program(&about, &name, self.package.program.as_deref());
        let script = program.map_err(|reason| self.no_program(reason, NAME_NPM_PROGRAM))?;
        let script = match script {
            NpmProgram::Own(script) => modules.join(&name).join(script),
            NpmProgram::Linked(name) => modules.join(".bin").join(name),
        };
        let script = script
            .canonicalize()
            .map_err(|_| self.no_program(format!("`{}` is not in it", script.display()), NAME_NPM_PROGRAM))?;
        let script_text = script.to_string_lossy().into_owned();
        Ok(InstalledPackage {
            registry: Registry::Npm,
            specs: self.package.specs.clone(),
            program: self.package.program.clone(),
            version: text_of(&about, "version"),
            name,
            argv: match is_for_node(&script) {
                true => vec!["node".to_owned(), script_text],
                false => vec![script_text],
            },
            read: vec![self.folder.to_owned()],
        })
    }

    /// The package's name, which an address of one does not say.
    fn npm_name(&self, modules: &Path) -> Result<String, InstallError> {
        let spec = self.package.spec();
        let at = spec.char_indices().skip(1).find(|(_, c)| *c == '@');
        let name = at.map_or(spec, |(at, _)| &spec[..at]);
        if modules.join(name).join("package.json").is_file() {
            return Ok(name.to_owned());
        }
        let listed = json_file(&self.folder.join("package.json"));
        let mut names = listed["dependencies"]
            .as_object()
            .into_iter()
            .flat_map(|all| all.keys());
        match (names.next(), names.next()) {
            (Some(name), None) => Ok(name.clone()),
            _ => Err(self.no_program("its name is not known".to_owned(), NAME_NPM_PROGRAM)),
        }
    }

    async fn by_python(&self) -> Result<InstalledPackage, InstallError> {
        let python = self.folder.join("bin/python");
        if !self.by_uv(&python).await? {
            self.by_pip(&python).await?;
        }
        let program = match &self.package.program {
            Some(program) => program.clone(),
            None => python_name(self.package.spec()).to_owned(),
        };
        let found = self.ask(&python, &program).await?;
        let file = self.folder.join("bin").join(&program);
        if !file.is_file() {
            let reason = format!("it has no program `{program}`");
            return Err(self.no_program(reason, NAME_PYTHON_PROGRAM));
        }
        let [base, name, version] = found;
        let mut read = vec![self.folder.to_owned()];
        read.extend(interpreter_folders(Path::new(&base), &python));
        Ok(InstalledPackage {
            registry: Registry::Pypi,
            specs: self.package.specs.clone(),
            program: self.package.program.clone(),
            name,
            version,
            argv: vec![file.to_string_lossy().into_owned()],
            read,
        })
    }

    /// Whether there is a `uv`, which has then installed it.
    async fn by_uv(&self, python: &Path) -> Result<bool, InstallError> {
        let mut environment = Command::new("uv");
        environment.args(["venv", "--quiet", "--allow-existing"]);
        if let Some(version) = &self.package.python {
            environment.args(["--python", version]);
        }
        environment.arg(self.folder);
        if !self.run(environment).await? {
            return Ok(false);
        }
        let mut uv = Command::new("uv");
        uv.args(["pip", "install", "--python"]).arg(python);
        if self.scripts == Scripts::Refused {
            uv.args(["--only-binary", ":all:"]);
        }
        uv.arg("--").args(&self.package.specs);
        self.run(uv).await
    }

    async fn by_pip(&self, python: &Path) -> Result<(), InstallError> {
        let no_client = || self.no_client("`uv` (or `python3` with `pip`)", "uv");
        if self.package.python.is_some() {
            return Err(no_client());
        }
        let mut environment = Command::new("python3");
        environment.args(["-m", "venv", "--without-pip"]).arg(self.folder);
        if !self.run(environment).await? {
            return Err(no_client());
        }
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check", "--python"])
            .arg(python);
        pip.args(["install", "--no-input", "--progress-bar", "off"]);
        if self.scripts == Scripts::Refused {
            pip.args(["--only-binary", ":all:"]);
        }
        pip.arg("--").args(&self.package.specs);
        match self.run(pip).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(no_client()),
            // Debian's Python comes without it.
            Err(InstallError::Failed { said, .. }) if said.contains("No module named pip") => {
                Err(no_client())
            }
            Err(error) => Err(error),
        }
    }

    /// Where the interpreter is from, and which package has the program, in which version.
    async fn ask(&self, python: &Path, program: &str) -> Result<[String; 3], InstallError> {
        const QUESTION: &str = "import sys, importlib.metadata as m\n\
            found = [d for d in m.distributions() for e in d.entry_points\n\
            \x20        if e.group == 'console_scripts' and e.name == sys.argv[1]]\n\
            print(sys.base_prefix)\n\
            print(found[0].metadata['Name'] if found else '')\n\
            print(found[0].version if found else '')\n";
        let mut command = Command::new(python);
        command.args(["-I", "-c", QUESTION, program]).stdin(Stdio::null());
        let answered = command.kill_on_drop(true).output().await;
        let answered = answered.map_err(|error| kept(python, error))?;
        let said = String::from_utf8_lossy(&answered.stdout).into_owned();
        let mut lines = said.lines().map(str::to_owned);
        let answer = [(); 3].map(|()| lines.next().unwrap_or_default());
        Ok(answer)
    }

    /// Runs a client to its end. Says false if there is no such program.
    async fn run(&self, mut command: Command) -> Result<bool, InstallError> {
        let client = command.as_std().get_program().to_string_lossy().into_owned();
        let started = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(self.failed(client, "it did not start", error.to_string())),
        };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let heard = async {
            let (out, err) = tokio::join!(self.hear(out), self.hear(err));
            let ended = child.wait().await;
            // What went wrong is said on the second stream, by those that use both.
            (ended, [out, err].into_iter().flatten().collect::<Vec<_>>())
        };
        let Ok((ended, said)) = tokio::time::timeout(limits::INSTALL_TIMEOUT, heard).await else {
            let words = format!("no end after {} s", limits::INSTALL_TIMEOUT.as_secs());
            return Err(self.failed(client, "it took too long", words));
        };
        match ended {
            Ok(status) if status.success() => Ok(true),
            Ok(status) => Err(self.failed(client, &status.to_string(), said.join("\n"))),
            Err(error) => Err(self.failed(client, "it is lost", error.to_string())),
        }
    }

    /// Passes on what a client says, and keeps the last of it.
    async fn hear(&self, stream: Option<impl AsyncRead + Unpin>) -> Vec<String> {
        let mut last = Vec::new();
        let Some(stream) = stream else { return last };
        let mut lines = BufReader::new(stream.take(limits::INSTALL_OUTPUT_MAX_BYTES)).split(b'\n');
        while let Ok(Some(line)) = lines.next_segment().await {
            let line = text::one_line(&String::from_utf8_lossy(&line), 400);
            if line.is_empty() {
                continue;
            }
            (self.on_line)(&line);
            if last.len() == limits::INSTALL_LINES_KEPT {
                last.remove(0);
            }
            last.push(line);
        }
        last
    }

    fn no_client(&self, client: &'static str, remedy: &'static str) -> InstallError {
        InstallError::NoClient {
            spec: self.package.spec().to_owned(),
            client,
            remedy,
        }
    }

    fn failed(&self, client: String, how: &str, said: String) -> InstallError {
        // Python's clients say that nothing fits where nothing is built already.
        let is_unbuilt = ["No matching distribution", "wheel", "binary"]
            .iter()
            .any(|words| said.contains(words));
        let hint = match self.scripts {
            Scripts::Refused if is_unbuilt && self.package.registry == Registry::Pypi => SCRIPTS_HINT,
            _ => "",
        };
        InstallError::Failed {
            client,
            spec: self.package.spec().to_owned(),
            how: how.to_owned(),
            said,
            hint,
        }
    }

    fn no_program(&self, reason: String, example: &'static str) -> InstallError {
        InstallError::NoProgram {
            spec: self.package.spec().to_owned(),
            reason,
            example,
        }
    }
}

/// A program of npm packages.
#[derive(Debug, PartialEq, Eq)]
enum NpmProgram {
    /// A file of the package.
    Own(String),
    /// A name among all that were installed.
    Linked(String),
}

/// The program that `npx` would run: the only one of the package, or the one of its name.
fn npm_program(about: &Value, name: &str, wanted: Option<&str>) -> Result<NpmProgram, String> {
    if let Some(wanted) = wanted {
        return match is_plain(wanted) {
            true => Ok(NpmProgram::Linked(wanted.to_owned())),
            false => Err(format!("`{wanted}` is no name of a program")),
        };
    }
    let bare = name.rsplit('/').next().unwrap_or(name);
    let programs: Vec<(&str, &str)> = match &about["bin"] {
        Value::String(script) => vec![(bare, script)],
        Value::Object(all) => all
            .iter()
            .filter_map(|(name, script)| Some((name.as_str(), script.as_str()?)))
            .collect(),
        _ => Vec::new(),
    };
    match programs.as_slice() {
        [] => Err("it has no program".to_owned()),
        [(_, script)] => Ok(NpmProgram::Own((*script).to_owned())),
        several => match several.iter().find(|(name, _)| *name == bare) {
            Some((_, script)) => Ok(NpmProgram::Own((*script).to_owned())),
            None => {
                let names: Vec<&str> = several.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "it has several programs ({})",
                    text::one_line(&names.join(", "), 300)
                ))
            }
        },
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\'])
}

/// Whether Node runs it, which may be elsewhere in the sandbox than where its first line says.
fn is_for_node(script: &Path) -> bool {
    let is_script = script
        .extension()
        .is_some_and(|end| ["js", "mjs", "cjs"].iter().any(|js| end == *js));
    let begins = || {
        let mut first = [0; 64];
        let mut file = std::fs::File::open(script).ok()?;
        let read = io::Read::read(&mut file, &mut first).ok()?;
        let line = first[..read].split(|byte| *byte == b'\n').next()?.to_owned();
        Some(line.starts_with(b"#!") && line.windows(4).any(|word| word == b"node"))
    };
    is_script || begins().unwrap_or_default()
}

/// The name in a requirement such as `srv[extra]==1.0`.
fn python_name(spec: &str) -> &str {
    let end = spec.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    end.map_or(spec, |end| &spec[..end])
}

/// What of the interpreter is not the system's own, by every name that leads to it.
fn interpreter_folders(base: &Path, python: &Path) -> Vec<PathBuf> {
    let is_system = |path: &Path| {
        ["/usr", "/bin", "/lib", "/nix/store"]
            .iter()
            .any(|own| path.starts_with(own))
    };
    let mut folders: Vec<PathBuf> = Vec::new();
    let linked = std::fs::read_link(python)
        .ok()
        .and_then(|to| Some(to.parent()?.parent()?.to_owned()));
    let real = base.canonicalize().ok();
    for folder in [Some(base.to_owned()), real, linked].into_iter().flatten() {
        let is_new = folder.is_absolute() && folder.parent().is_some() && !folders.contains(&folder);
        if is_new && !is_system(&folder) {
            folders.push(folder);
        }
    }
    folders
}

fn json_file(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn text_of(value: &Value, key: &str) -> String {
    text::one_line(value[key].as_str().unwrap_or_default(), 100)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_program_of_an_npm_package_is_the_one_that_npx_runs() {
        let own = |script: &str| Ok(NpmProgram::Own(script.to_owned()));
        for (bin, wanted, expected) in [
            (json!("cli.js"), None, own("cli.js")),
            (json!({"mcp-x": "dist/index.js"}), None, own("dist/index.js")),
            (json!({"other": "a.js", "srv": "b.js"}), None, own("b.js")),
            (json!({}), None, Err("it has no program".to_owned())),
            (
                json!({"a": "a.js", "b": "b.js"}),
                None,
                Err("it has several programs (a, b)".to_owned()),
            ),
            (json!({}), Some("x"), Ok(NpmProgram::Linked("x".to_owned()))),
            (
                json!({}),
                Some("../x"),
                Err("`../x` is no name of a program".to_owned()),
            ),
        ] {
            let about = json!({ "bin": bin });
            assert_eq!(npm_program(&about, "@a/srv", wanted), expected, "{about}");
        }
    }

    #[test]
    fn a_requirement_names_its_package() {
        for (spec, name) in [
            ("srv", "srv"),
            ("my-srv[x]==1.0", "my-srv"),
            ("srv>=2", "srv"),
            ("a.b_c", "a.b_c"),
        ] {
            assert_eq!(python_name(spec), name);
        }
    }
}
