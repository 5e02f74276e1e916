//! Commands that the documentation names are commands of the program, with flags it knows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::annals::Annals;

/// The help of every command, by its words: `""`, `"timeline"`, `"timeline show"`.
fn helps() -> BTreeMap<String, String> {
    let annals = Annals::new();
    let mut helps = BTreeMap::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        args.push("--help");
        let ran = annals.run(&args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        for name in subcommands(&ran.stdout) {
            open.push(words.iter().cloned().chain([name]).collect());
        }
        helps.insert(words.join(" "), ran.stdout);
    }
    helps
}

/// The names below `Commands:`.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Why a command line, as a document writes it, cannot be meant.
fn fault(helps: &BTreeMap<String, String>, line: &str) -> Option<String> {
    let mut command = String::new();
    let mut words = line.split_whitespace().peekable();
    while let Some(word) = words.peek() {
        let deeper = format!("{command} {word}").trim().to_owned();
        match (helps.contains_key(&deeper), command.is_empty()) {
            (true, _) => command = deeper,
            // A value of a global flag, a placeholder, or the end of the command's words.
            (false, true) if !word.starts_with(['-', '<', '[', '…', '.']) && !line.starts_with('-') => {
                return Some(format!("there is no command `{word}`"));
            }
            (false, true) => {}
            (false, false) => break,
        }
        words.next();
    }
    let help = &helps[&command];
    // Behind `--` are words of another program.
    let own = line.split_whitespace().take_while(|word| *word != "--");
    let flags = own.filter_map(|word| {
        let flag = word.trim_matches(['[', ']', '(', ')', ',', '`']);
        let flag = flag.split(['=', ']']).next().unwrap_or_default();
        flag.strip_prefix("--")
    });
    flags
        .filter(|name| !help.contains(&format!("--{name}")))
        .map(|name| format!("`annals {command}` has no flag `--{name}`"))
        .next()
}

/// Command lines of a page: in blocks of shell code, and in backticks.
fn command_lines(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in page.lines() {
        let line = line.trim().trim_start_matches("$ ");
        let typed = line.split(" #").next().unwrap_or_default();
        // A dependency in a `Cargo.toml` is no command.
        if typed.starts_with("annals = ") {
            continue;
        }
        for start in ["annals ", "cargo run -- "] {
            lines.extend(typed.strip_prefix(start).map(str::to_owned));
        }
        let quoted = line.split('`').skip(1).step_by(2);
        lines.extend(quoted.filter_map(|text| text.strip_prefix("annals ").map(str::to_owned)));
    }
    lines
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for folder in ["docs", "docs/format"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        pages.extend(files.filter(|file| file.extension().is_some_and(|extension| extension == "md")));
    }
    pages
}

#[test]
fn every_command_that_the_documentation_names_exists() {
    let helps = helps();
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for page in pages() {
        for line in command_lines(&std::fs::read_to_string(&page).unwrap()) {
            checked += 1;
            let found = fault(&helps, &line);
            wrong.extend(found.map(|fault| format!("{}: `annals {line}`: {fault}", page.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 20, "only {checked} command lines were found");
}

#[test]
fn a_command_or_a_flag_that_is_not_there_is_found_out() {
    let helps = helps();
    assert_eq!(fault(&helps, "timeline show c1 --turn t"), None);
    assert_eq!(fault(&helps, "--home h demo"), None);
    assert_eq!(fault(&helps, "mcp add time -- uvx server --no-such-flag"), None);
    for wrong in [
        "tmeline show",
        "demo --no-such-flag",
        "timeline show --no-such-flag c1",
    ] {
        assert!(fault(&helps, wrong).is_some(), "{wrong}");
    }
}
