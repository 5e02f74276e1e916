//! The binary in a home of its own, and what it printed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A home for one test.
pub(crate) struct Annals {
    folder: TempDir,
}

/// What a command did.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) bytes: Vec<u8>,
}

/// What models of scripts cost, in the catalog of a home.
const PRICED: &str = "[[model]]\nprefix = \"script\"\nas_of = \"2026-10-21\"\nsource = \"a test\"\n\
                      window = { context_tokens = 128000, max_output_tokens = 8192 }\n\
                      price = { input_nanousd = 3000, cache_read_nanousd = 300, cache_write_nanousd = 3750, \
                      output_nanousd = 15000 }\n";

impl Annals {
    /// Writes the home's catalog.
    pub(crate) fn price_scripts(&self) {
        std::fs::write(self.in_home("catalog.toml"), PRICED).unwrap();
    }

    pub(crate) fn new() -> Self {
        Annals {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A file in this home, which is made for it.
    pub(crate) fn in_home(&self, name: &str) -> PathBuf {
        let home = self.path().join("home");
        std::fs::create_dir_all(&home).unwrap();
        home.join(name)
    }

    /// A command in this home, with nothing of the host's environment that matters.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_annals"));
        if let Ok(layout) = std::env::var(annals_requirements::LAYOUT_VARIABLE) {
            command.args(["--layout", &layout]);
        }
        command
            .args(args)
            .current_dir(self.path())
            .env("ANNALS_HOME", self.path().join("home"))
            .stdin(Stdio::null());
        for name in [
            "ANNALS_MODEL",
            "ANNALS_BASE_URL",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "ANNALS_SEARXNG_URL",
            "ANNALS_EMBEDDINGS",
            "ANNALS_EMBEDDINGS_URL",
        ] {
            command.env_remove(name);
        }
        for name in [
            "ANNALS_BRAVE_KEY",
            "ANNALS_WEB_ALLOW",
            "ANNALS_LOG",
            "NO_COLOR",
            "CLICOLOR_FORCE",
        ] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Runs with this on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// A turn of the conversation `c1`, in a process of its own that has printed a block of this type.
    pub(crate) fn run_until(&self, prompt: &str, script: &Value, block_type: &str) -> Child {
        let model = self.script(script);
        let asked = ["run", prompt, "--model", &model, "--conversation", "c1"];
        let how = ["--json", "--approvals", "wait"];
        let mut child = self
            .command(&[&asked[..], &how].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(&format!("\"{block_type}\"")) {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "no `{block_type}` came");
        }
        // The rest is read by nobody, and must not block the turn.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        child
    }

    /// Writes a file and gives its path.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a script and gives the name of its model.
    pub(crate) fn script(&self, script: &Value) -> String {
        format!(
            "script:{}",
            self.file("script.json", script.to_string()).display()
        )
    }
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
        }
    }

    /// The lines of standard output as JSON.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Everything a snapshot needs.
    pub(crate) fn shown(&self) -> String {
        format!(
            "exit {}\n--- stdout\n{}--- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }

    /// That it worked; the rest of the test makes no sense otherwise.
    #[track_caller]
    pub(crate) fn good(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.shown());
        self
    }
}

/// The types of some blocks, one a line.
pub(crate) fn types(blocks: &[Value]) -> String {
    blocks
        .iter()
        .map(|block| block["type"].as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Replaces what differs from run to run.
pub(crate) fn filters() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    for (pattern, replacement) in [
        (r"conv_[0-9a-f]{16}", "[CONV]"),
        (r"turn_\d{13}_[a-z0-9]{6}", "[TURN]"),
        (r"tc_[0-9a-f]{12}", "[CALL]"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "[TIME]"),
        (r"\b\d+(\.\d)? m?s\b", "[DURATION]"),
        (r"/[^ `]*/\.tmp[A-Za-z0-9]+", "[HOME]"),
    ] {
        settings.add_filter(pattern, replacement);
    }
    settings
}
