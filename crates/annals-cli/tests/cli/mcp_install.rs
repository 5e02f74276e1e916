//! Servers that are packages: `npx` and `uvx` are typed, the registry's own client installs once, and what was installed runs
//! in the sandbox.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use annals_requirements::{Installed, PackageSet, installed};
use serde_json::{Value, json};

use super::annals::{Annals, Ran};

/// The registries, and a home whose clients ask these and no others.
struct Shop {
    annals: Annals,
    registry: Child,
    port: String,
    path: OsString,
}

impl Shop {
    /// With these programs before all others.
    fn open(node: &Installed, python: &Installed, programs: &[PathBuf]) -> Self {
        let annals = Annals::new();
        let links = annals.path().join("programs");
        std::fs::create_dir(&links).unwrap();
        for program in programs {
            std::os::unix::fs::symlink(program, links.join(program.file_name().unwrap())).unwrap();
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/registry.py");
        let mut registry = Command::new("python3")
            .arg(script)
            .args([node.folder(), python.folder()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(registry.stdout.take().unwrap())
            .read_line(&mut port)
            .unwrap();
        let host = std::env::var_os("PATH").unwrap();
        let folders = std::iter::once(links).chain(std::env::split_paths(&host));
        Shop {
            annals,
            registry,
            port: port.trim().to_owned(),
            path: std::env::join_paths(folders).unwrap(),
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.annals.command(args);
        let simple = format!("http://127.0.0.1:{}/simple/", self.port);
        command
            .env("PATH", &self.path)
            .env(
                "npm_config_registry",
                format!("http://127.0.0.1:{}/npm/", self.port),
            )
            .env("npm_config_cache", self.annals.path().join("npm-cache"))
            .env("npm_config_fetch_retries", "0")
            .env("PIP_INDEX_URL", &simple)
            .env("PIP_NO_CACHE_DIR", "1")
            .env("PIP_RETRIES", "0")
            .env("UV_DEFAULT_INDEX", &simple)
            .env("UV_CACHE_DIR", self.annals.path().join("uv-cache"))
            .env("UV_PYTHON_DOWNLOADS", "never")
            .env("NO_PROXY", "127.0.0.1");
        for name in [
            "PIP_FIND_LINKS",
            "PIP_EXTRA_INDEX_URL",
            "UV_FIND_LINKS",
            "UV_INDEX",
        ] {
            command.env_remove(name);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// The text of a tool's result.
    fn called(&self, tool: &str, params: &Value) -> String {
        let blocks = self
            .run(&["tool", "call", "c1", tool, &params.to_string()])
            .good()
            .json_lines();
        let result = blocks.iter().find(|block| block["type"] == "react.tool.result");
        result.unwrap()["text"].as_str().unwrap().to_owned()
    }

    fn close(&mut self) {
        // It has ended already where the test ended it.
        let _ = self.registry.kill();
        let _ = self.registry.wait();
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.close();
    }
}

/// Node's own programs. Python's, which lie beside them, would hide those of the host.
fn node_programs() -> [PathBuf; 2] {
    ["node", "npm"].map(|program| PackageSet::node().folder().join("bin").join(program))
}

fn sets() -> Option<(Installed, Installed)> {
    Some((installed("mcp-node")?, installed("mcp-python")?))
}

#[test]
fn a_server_of_npm_is_installed_once_and_runs_without_the_registry() {
    let Some((node, python)) = sets() else { return };
    let mut shop = Shop::open(&node, &python, &node_programs());
    let package = "@modelcontextprotocol/server-everything";
    let ran = shop
        .run(&["mcp", "add", "every", "--", "npx", "-y", package, "stdio"])
        .good();
    assert!(
        ran.stderr.contains(&format!("installing {package} from npm")),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains(&format!("installed {package} 2026.8.31")),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.contains("every.echo"), "{}", ran.stdout);
    shop.close();
    assert!(
        shop.called("every.echo", &json!({"message": "hello"}))
            .contains("hello")
    );
    let rows = shop.run(&["mcp", "list", "--json"]).good().json();
    assert_eq!(
        rows[0]["package"],
        json!({"registry": "npm", "spec": package, "name": package, "version": "2026.8.31"})
    );
    // The list is the one that other programs share: it says what was typed.
    let list = std::fs::read_to_string(shop.annals.in_home("mcp.json")).unwrap();
    assert!(list.contains("\"npx\"") && list.contains(package), "{list}");
    // An update that fails leaves what was there.
    std::fs::remove_dir_all(shop.annals.path().join("npm-cache")).unwrap();
    let failed = shop.run(&["mcp", "install", "every"]);
    assert_eq!(failed.code, 3, "{}", failed.stderr);
    assert!(
        failed.stderr.contains("`npm` could not install"),
        "{}",
        failed.stderr
    );
    assert!(
        shop.called("every.echo", &json!({"message": "again"}))
            .contains("again")
    );
    shop.run(&["mcp", "remove", "every"]).good();
    assert!(!shop.annals.in_home("mcp/packages/every").exists());
}

#[test]
fn a_server_of_pypi_is_installed_by_uv_or_by_pip() {
    let Some((node, python)) = sets() else { return };
    let Some(uv) = installed("uv") else { return };
    for (client, programs) in [("uv", vec![uv.program("uv")]), ("pip", Vec::new())] {
        let mut shop = Shop::open(&node, &python, &programs);
        let ran = shop.run(&[
            "mcp",
            "add",
            "time",
            "--",
            "uvx",
            "mcp-server-time",
            "--local-timezone",
            "UTC",
        ]);
        let ran = ran.good();
        assert!(
            ran.stderr.contains("installed mcp-server-time 2026.10.19"),
            "{client}: {}",
            ran.stderr
        );
        shop.close();
        let told = shop.called("time.get_current_time", &json!({"timezone": "Europe/Berlin"}));
        assert!(told.contains("Europe/Berlin"), "{client}: {told}");
    }
}

#[test]
fn what_is_not_installed_says_how_it_is() {
    let Some((node, python)) = sets() else { return };
    let shop = Shop::open(&node, &python, &node_programs());
    // A list of another program, put there as it is.
    let package = "@modelcontextprotocol/server-filesystem";
    let folder = shop.annals.path().join("notes");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), "from the notes").unwrap();
    let list = json!({"mcpServers": {"files": {
        "command": "npx", "args": ["-y", package, &folder], "read": [&folder],
    }}});
    std::fs::write(shop.annals.in_home("mcp.json"), list.to_string()).unwrap();
    let remedy = "`annals mcp install files`";
    let model = shop.annals.script(&json!({"steps": [{"text": "Done."}]}));
    for args in [
        &["mcp", "list"][..],
        &["mcp", "inspect", "files"],
        &["run", "work", "--model", &model],
    ] {
        let ran = shop.run(args);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(remedy), "{args:?} {said}");
    }
    shop.run(&["mcp", "install", "files"]).good();
    shop.run(&["mcp", "inspect", "files", "--accept"]).good();
    let file = folder.join("a.txt");
    assert!(
        shop.called("files.read_text_file", &json!({ "path": file }))
            .contains("from the notes")
    );
    // Something else is something that is not installed.
    let other = list.to_string().replace("server-filesystem", "server-everything");
    std::fs::write(shop.annals.in_home("mcp.json"), other).unwrap();
    let ran = shop.run(&["mcp", "inspect", "files"]);
    assert_eq!(ran.code, 3);
    assert!(ran.stderr.contains(remedy), "{}", ran.stderr);
}

#[test]
fn a_package_that_cannot_be_had_is_not_added_and_the_reason_is_told() {
    let Some((node, python)) = sets() else { return };
    let shop = Shop::open(&node, &python, &node_programs());
    for (command, says) in [
        (
            &["npx", "-y", "@nobody/no-such-server"][..],
            "`npm` could not install `@nobody/no-such-server`",
        ),
        (
            &["uvx", "no-such-server-anywhere"],
            "could not install `no-such-server-anywhere`",
        ),
        // It is there, and has no program.
        (&["npx", "zod"], "it has no program"),
        (
            &["uvx", "--from", "mcp-server-time", "other"],
            "it has no program `other`",
        ),
    ] {
        let ran = shop.run(&[&["mcp", "add", "srv", "--"], command].concat());
        assert_eq!(ran.code, 3, "{command:?} {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{command:?} {}", ran.stderr);
        assert!(!shop.annals.in_home("mcp/packages/srv").exists(), "{command:?}");
    }
    assert_eq!(shop.run(&["mcp", "list", "--json"]).good().json(), json!([]));
    let without = |command: &[&str]| {
        let args = [&["mcp", "add", "srv", "--"], command].concat();
        Ran::of(shop.command(&args).env("PATH", "/nonexistent").output().unwrap())
    };
    for (command, says) in [
        (
            &["npx", "-y", "zod"][..],
            "`zod` is installed by `npm`, which is not on the `PATH`: install Node.js",
        ),
        (
            &["uvx", "srv"],
            "`srv` is installed by `uv` (or `python3` with `pip`), which is not on the `PATH`: install uv",
        ),
    ] {
        let ran = without(command);
        assert_eq!(ran.code, 3);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
    let needless = shop.run(&["mcp", "add", "srv", "--install-scripts", "--", "cat"]);
    assert_eq!(needless.code, 2, "{}", needless.stderr);
}
