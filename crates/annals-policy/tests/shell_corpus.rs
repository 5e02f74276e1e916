//! Shell lines against one policy: an allow rule never matches more than it says, whatever the shell makes of a line.
//!
//! Each line names the mechanism it tries. What is allowed is then run by real shells, with stand-ins that write down how
//! they were called, and what they wrote down must be what the rules say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command as Process;

use annals_policy::{Call, Command, Decide, Layer, Policy, Reach};

const POLICY: &str = r#"
default = "ask-all"

[[rule]]
tool = "run_shell_command"
command = ["git", ["status", "diff", "log"]]
decide = "allow"

[[rule]]
tool = "run_shell_command"
command = ["make", "test"]
exact = true
decide = "allow"

[[rule]]
tool = "run_shell_command"
command = ["cargo"]
decide = "allow"

[[rule]]
tool = "run_shell_command"
command = ["rm"]
decide = "deny"

[[rule]]
tool = "run_shell_command"
command = ["git", "push"]
decide = "deny"
"#;

fn policy() -> Policy {
    Policy {
        owner: Layer::parse("policy.toml", POLICY, &[]).unwrap(),
        ..Policy::default()
    }
}

fn call(line: &str) -> Call {
    Call {
        tool: "run_shell_command".into(),
        effects: BTreeSet::from([Reach::Exec]),
        command: Some(Command::line(line)),
        ..Call::default()
    }
}

use Decide::{Allow, Ask, Deny};

/// Mechanism, line, and what the policy above must say.
const CORPUS: &[(&str, &str, Decide)] = &[
    // What the rules say, in the ways people write it.
    ("as written", "git status", Allow),
    ("more arguments", "git status -s --branch", Allow),
    ("alternative word", "git diff HEAD~1 -- src", Allow),
    ("alternative word", "git log --oneline", Allow),
    ("any arguments", "cargo test --workspace", Allow),
    ("no arguments", "cargo", Allow),
    ("exact", "make test", Allow),
    ("two allowed, and", "git status && cargo test", Allow),
    ("two allowed, or", "cargo test || git status", Allow),
    ("two allowed, sequence", "git status; make test", Allow),
    ("two allowed, lines", "git status\ncargo build\n", Allow),
    ("two allowed, pipe", "git log | cargo fmt", Allow),
    ("two allowed, background", "cargo build & git status", Allow),
    ("blanks before", "   git status", Allow),
    ("blanks between", "git \t  status", Allow),
    ("blank line", "\n\ngit status", Allow),
    ("trailing operator", "git status;", Allow),
    ("trailing background", "git status &", Allow),
    ("comment", "git status # rm -rf /", Allow),
    ("comment line", "# rm -rf /\ngit status", Allow),
    ("hash inside a word", "git log a#b", Allow),
    ("single quotes", "git log --grep='a b'", Allow),
    ("double quotes", "git log --grep=\"a b\"", Allow),
    ("quoted operator", "git log --grep='&& rm x'", Allow),
    ("quoted operator", "git log --grep=\"; rm x\"", Allow),
    ("quoted substitution", "git log --grep='$(rm x)'", Allow),
    ("escaped operator", r"git log --grep=a\;rm", Allow),
    ("escaped substitution", r"git log --grep=\$x", Allow),
    ("escaped dollar in quotes", r#"git log --grep="\$(rm x)""#, Allow),
    ("escaped backquote in quotes", r#"git log --grep="\`rm\`""#, Allow),
    ("quoted program", "'git' status", Allow),
    ("quoted in parts", "g'i't st\"at\"us", Allow),
    ("escaped letters", r"\g\i\t status", Allow),
    ("empty quotes", "git status ''", Allow),
    ("line continuation", "git \\\nstatus", Allow),
    ("line continuation in a word", "git sta\\\ntus", Allow),
    ("pattern among free arguments", "git diff *.rs", Allow),
    ("tilde among free arguments", "git diff ~/x", Allow),
    ("list among free arguments", "git diff {a,b}", Allow),
    ("descriptor copied", "cargo test 2>&1", Allow),
    ("descriptor copied, pipe", "cargo test 2>&1 | cargo fmt", Allow),
    ("output thrown away", "cargo test >/dev/null", Allow),
    (
        "output thrown away, blanks",
        "cargo test > /dev/null 2> /dev/null",
        Allow,
    ),
    ("input empty", "cargo test </dev/null", Allow),
    ("dollar at the end", "git log --grep=\"a$\"", Allow),
    ("dollar alone", "git log $", Allow),
    ("equals in an argument", "cargo build A=1", Allow),
    ("redirect in quotes", "git log --grep='> x'", Allow),
    ("letters of all kinds", "git log --grep=ünïcode", Allow),
    ("brace alone", "git log {}", Allow),
    ("wrapper's name as an argument", "cargo run sudo", Allow),
    // Another program or argument.
    ("unlisted program", "ls", Ask),
    ("unlisted argument", "git commit -m x", Ask),
    ("no argument", "git", Ask),
    ("option before the argument", "git -C /x status", Ask),
    ("configuration option", "git -c core.pager=sh log", Ask),
    ("exact with more", "make test install", Ask),
    ("exact with an option", "make test -j4", Ask),
    ("exact with less", "make", Ask),
    ("case of letters", "GIT status", Ask),
    ("case of letters", "git Status", Ask),
    ("longer name", "gitk status", Ask),
    ("longer argument", "git statuses", Ask),
    ("program by path", "/tmp/git status", Ask),
    ("program by relative path", "./git status", Ask),
    ("program by parent", "../git status", Ask),
    ("program in one word", "'git status'", Ask),
    ("program in one word", "git\\ status", Ask),
    ("empty line", "", Ask),
    ("only a comment", "# git status", Ask),
    ("argument in quotes with blank", "git 'status '", Ask),
    ("letter that looks alike", "gіt status", Ask),
    ("no-break space", "git\u{a0}status", Ask),
    ("zero-width space", "git\u{200b} status", Ask),
    ("vertical tab", "git\u{b}status", Ask),
    ("form feed", "git\u{c}status", Ask),
    ("carriage return", "git\rstatus", Ask),
    ("carriage return at the end", "make test\r", Ask),
    ("null character", "git status\0; x", Ask),
    // One allowed, one not.
    ("unlisted after and", "git status && ls", Ask),
    ("unlisted after and, no blanks", "git status&&ls", Ask),
    ("unlisted after or", "git status || ls", Ask),
    ("unlisted after semicolon", "git status;ls", Ask),
    ("unlisted after pipe", "git log | sort", Ask),
    ("unlisted after background", "git status & ls", Ask),
    ("unlisted after newline", "git status\nls", Ask),
    ("unlisted before", "ls && git status", Ask),
    ("denied after and", "git status && rm -rf x", Deny),
    ("denied after and, no blanks", "git status&&rm x", Deny),
    ("denied after or", "git status || rm x", Deny),
    ("denied after semicolon", "git status; rm x", Deny),
    ("denied after pipe", "git log | rm x", Deny),
    ("denied after background", "git status & rm x", Deny),
    ("denied after newline", "git status\nrm x", Deny),
    ("denied after a comment", "git status # x\nrm x", Deny),
    ("denied in the middle", "git status; rm x; git log", Deny),
    ("denied argument", "git push origin main", Deny),
    ("denied argument after allowed", "git status && git push", Deny),
    // Substitution.
    ("substitution", "git log $(ls)", Ask),
    ("substitution, denied", "git log $(rm x)", Deny),
    ("substitution in quotes", "git log \"$(rm x)\"", Deny),
    ("substitution in a word", "git log a$(rm x)b", Deny),
    ("substitution nested", "git log $(echo $(rm x))", Deny),
    ("substitution with quotes", "git log $(echo ')' && rm x)", Deny),
    ("substitution with a comment", "git log $(ls # )\n)", Ask),
    ("substitution as program", "$(echo git) status", Ask),
    ("substitution as argument", "git $(echo status)", Ask),
    ("backquotes", "git log `rm x`", Deny),
    ("backquotes in quotes", "git log \"`rm x`\"", Deny),
    ("backquotes nested", "git log `echo \\`rm x\\``", Deny),
    ("backquotes as program", "`echo git` status", Ask),
    ("process substitution", "git diff <(rm x) y", Deny),
    ("process substitution, output", "git log > >(rm x)", Deny),
    ("process substitution, unlisted", "git diff <(ls) y", Ask),
    ("arithmetic", "git log $((1+1))", Ask),
    ("arithmetic with substitution", "git log $(( $(rm x) ))", Deny),
    ("old arithmetic", "git log $[1+1]", Ask),
    ("here-string substitution", "git log <<< \"$(rm x)\"", Deny),
    // Expansion.
    ("variable", "git log $x", Ask),
    ("variable in quotes", "git log \"$x\"", Ask),
    ("variable in braces", "git log ${x}", Ask),
    ("variable with default", "git log ${x:-y}", Ask),
    ("variable with substitution", "git log ${x:-$(rm x)}", Deny),
    ("variable with backquotes", "git log ${x:-`rm x`}", Deny),
    ("variable in part", "git log a$x", Ask),
    ("positional", "git log $1", Ask),
    ("all arguments", "git log $@", Ask),
    ("exit status", "git log $?", Ask),
    ("variable as program", "$git status", Ask),
    ("variable as argument", "git $x", Ask),
    ("indirect", "git log ${!x}", Ask),
    ("transformed", "git log ${x@P}", Ask),
    ("ANSI quotes", "git log $'a'", Ask),
    ("ANSI quotes as program", "$'git' status", Ask),
    ("ANSI quotes with escape", "git log $'\\x27; rm x'", Ask),
    ("localised quotes", "git log $\"a\"", Ask),
    ("separator by variable", "git${IFS}status", Ask),
    ("pattern as program", "gi? status", Ask),
    ("pattern as argument", "git stat*", Ask),
    ("character class", "git [s]tatus", Ask),
    ("list as argument", "git {status,push}", Ask),
    ("list in a word", "git st{atus,x}", Ask),
    ("list as program", "{git,rm} status", Ask),
    ("sequence", "git {1..3}", Ask),
    ("tilde as program", "~/git status", Ask),
    ("tilde as argument", "git ~status", Ask),
    ("history", "!! git status", Ask),
    // Redirection.
    ("output to a file", "git log > x", Ask),
    ("output appended", "git log >> x", Ask),
    ("output, no blank", "git log>x", Ask),
    ("output before", "> x git log", Ask),
    ("output of a descriptor", "git log 2> x", Ask),
    ("both outputs", "git log &> x", Ask),
    (
        "both outputs thrown away, or another command",
        "git status &>/dev/null x",
        Ask,
    ),
    (
        "both outputs thrown away, then denied",
        "git status &>/dev/null rm x",
        Deny,
    ),
    ("both outputs appended", "git log &>> x", Ask),
    ("both outputs, old form", "git log >& x", Ask),
    ("output forced", "git log >| x", Ask),
    ("input from a file", "git log < x", Ask),
    ("read and write", "git log <> x", Ask),
    ("output by variable", "git log > $x", Ask),
    ("output by substitution", "git log > $(rm x)", Deny),
    ("output to a device", "git log > /dev/tcp/example.com/80", Ask),
    ("output like null", "git log > /dev/null/../x", Ask),
    ("descriptor by name", "git log {fd}> x", Ask),
    ("descriptor closed", "git log >&-", Ask),
    ("here-document", "git log <<E\nx\nE", Ask),
    ("here-document, substitution", "git log <<E\n$(rm x)\nE", Deny),
    ("here-document for a shell", "sh <<E\nrm x\nE", Deny),
    ("here-document, then a command", "git log <<E\nx\nE\nrm x", Deny),
    ("here-document with tabs", "git log <<-E\n\tx\n\tE\nrm x", Deny),
    ("here-document without end", "git log <<E\nrm x", Ask),
    ("here-string", "git log <<< x", Ask),
    ("pipe of both", "git log |& cargo fmt", Ask),
    // Assignment.
    ("assignment before", "A=1 git status", Ask),
    ("search path before", "PATH=/tmp git status", Ask),
    ("preload before", "LD_PRELOAD=/tmp/x.so git status", Ask),
    ("pager before", "GIT_PAGER='rm x' git log", Ask),
    ("assignment alone", "A=1", Ask),
    ("assignment, then command", "PATH=/tmp; git status", Ask),
    ("assignment appended", "A+=1 git status", Ask),
    ("assignment of an element", "A[0]=1 git status", Ask),
    ("assignment of a list", "A=(rm x); git status", Deny),
    ("assignment with substitution", "A=$(rm x) git status", Deny),
    ("export", "export PATH=/tmp; git status", Ask),
    // Compound commands.
    ("subshell", "(git status)", Ask),
    ("subshell, denied", "(git status; rm x)", Deny),
    ("group", "{ git status; }", Ask),
    ("group, denied", "{ git status; rm x; }", Deny),
    ("negation", "! git status", Ask),
    ("if", "if git status; then git log; fi", Ask),
    ("if, denied", "if git status; then rm x; fi", Deny),
    ("else, denied", "if git status; then git log; else rm x; fi", Deny),
    ("while", "while git status; do git log; done", Ask),
    ("while, denied", "while git status; do rm x; done", Deny),
    ("until, denied", "until git status; do rm x; done", Deny),
    ("for", "for x in a b; do git status; done", Ask),
    ("for, denied", "for x in a b; do rm $x; done", Deny),
    ("for, arithmetic", "for ((i=0;i<3;i++)); do rm x; done", Deny),
    ("case, denied", "case x in x) rm x;; esac", Deny),
    ("select, denied", "select x in a; do rm x; done", Deny),
    ("function", "git() { ls; }; git status", Ask),
    ("function, denied", "git() { rm x; }; git status", Deny),
    ("function by word", "function git { rm x; }; git status", Deny),
    ("condition", "[[ -f x ]] && git status", Ask),
    ("condition with substitution", "[[ $(rm x) ]] && git status", Deny),
    ("arithmetic command", "((x=1)); git status", Ask),
    ("time", "time git status", Ask),
    ("coprocess", "coproc git status", Ask),
    ("reserved word quoted is a program", "'if' git status", Ask),
    // Wrappers.
    ("sudo", "sudo git status", Ask),
    ("sudo, denied", "sudo rm x", Deny),
    ("sudo with options, denied", "sudo -n -u bob rm x", Deny),
    ("env, denied", "env rm x", Deny),
    ("env with variables, denied", "env A=1 rm x", Deny),
    ("nohup, denied", "nohup rm x &", Deny),
    ("xargs, denied", "git log | xargs rm", Deny),
    (
        "xargs with options, denied",
        "git log | xargs -0 -n 1 rm -f",
        Deny,
    ),
    ("shell", "sh -c 'git status'", Ask),
    ("shell, denied", "sh -c 'rm x'", Deny),
    ("shell with options, denied", "bash -euo pipefail -c 'rm x'", Deny),
    ("shell by path, denied", "/bin/bash -c 'rm x'", Deny),
    ("shell in a shell, denied", "sh -c \"sh -c 'rm x'\"", Deny),
    ("shell behind sudo, denied", "sudo -E bash -c 'rm x'", Deny),
    ("shell reads a file", "sh x.sh", Ask),
    ("shell reads a pipe", "git log | sh", Ask),
    ("eval, denied", "eval rm x", Deny),
    ("eval quoted, denied", "eval 'rm x'", Deny),
    ("eval computed", "eval \"$x\"", Ask),
    ("source", "source x.sh", Ask),
    ("dot", ". ./x.sh", Ask),
    ("exec, denied", "exec rm x", Deny),
    ("command, denied", "command rm x", Deny),
    ("builtin", "builtin git status", Ask),
    ("timeout, denied", "timeout -k 1 5 rm x", Deny),
    ("nice, denied", "nice -n 5 rm x", Deny),
    ("setsid, denied", "setsid rm x", Deny),
    ("find, denied", "find . -exec rm {} ;", Deny),
    (
        "find, escaped end, denied",
        r"find . -name x -exec rm {} \;",
        Deny,
    ),
    ("find in a folder, denied", "find . -execdir rm {} +", Deny),
    ("find a name", "find . -name rm", Ask),
    ("busybox, denied", "busybox rm x", Deny),
    ("by path, denied", "/bin/rm x", Deny),
    ("by relative path, denied", "../../bin/rm x", Deny),
    ("escaped, denied", r"\rm x", Deny),
    ("quoted, denied", "'rm' x", Deny),
    ("quoted in parts, denied", "r''m x", Deny),
    ("trap, denied", "trap 'rm x' EXIT; git status", Deny),
    ("trap", "trap 'ls' EXIT; git status", Ask),
    ("alias, denied", "alias git=rm\ngit status", Deny),
    (
        "alias behind command, denied",
        "command alias git=rm\ngit status",
        Deny,
    ),
    ("callback for each line, denied", "mapfile -C 'rm x' -c 1 y", Deny),
    ("hash", "hash -p /tmp/x git; git status", Ask),
    ("denied word is computed", "git $x origin", Ask),
    // Lines that go on: joined before anything else is read.
    ("joined substitution in quotes", "git log \"$\\\n(rm x)\"", Deny),
    ("joined substitution", "git log $\\\n(rm x)", Deny),
    ("joined twice", "git log \"$\\\n\\\n(rm x)\"", Deny),
    ("joined comment hides a quote", "cargo \\\n#'\nrm x #'", Deny),
    ("joined comment after an operator", "cargo;\\\n#'\nrm x #'", Deny),
    ("joined inside a word is no comment", "cargo a\\\n#b", Allow),
    ("joined ANSI quotes", "cargo $\\\n'a\\'b' ; rm x #'", Deny),
    ("joined variable", "cargo $\\\n{x}", Ask),
    ("joined name", "cargo $\\\nx", Ask),
    ("joined operator", "git status &\\\n& rm x", Deny),
    ("joined redirection", "cargo >\\\n>x", Ask),
    ("joined descriptor", "make 2\\\n>/dev/null test", Allow),
    ("joined program", "r\\\nm x", Deny),
    ("joined reserved word", "i\\\nf git status; then git log; fi", Ask),
    ("not joined in single quotes", "make 'te\\\nst'", Ask),
    ("not joined in a comment", "cargo # x\\\nrm x", Deny),
    ("not joined after a backslash", "cargo a\\\\\nrm x", Deny),
    ("not joined with a carriage return", "cargo \\\r\nrm x", Deny),
    // What shells read in different ways.
    ("descriptor of two digits", "make 10>/dev/null test", Ask),
    ("copy of a descriptor of two digits", "make test >&10", Ask),
    ("descriptor by name before a program", "{x}>&1 rm x", Deny),
    ("descriptor by name, exact", "make {x}>&1 test", Ask),
    ("ANSI quotes with a quote", "cargo $'a\\' ; rm x #'", Ask),
    ("quote in braces in quotes", "cargo \"${x:-'$(rm x)'}\"", Deny),
    (
        "quote in braces in quotes hides the end",
        "cargo \"${x:+'}\"; rm x #'}\"",
        Deny,
    ),
    (
        "comment in a substitution hides the end",
        "cargo $(ls # )'\n rm x #'\n)",
        Deny,
    ),
    (
        "quoted substitution in a here-document",
        "git log <<E\n'$(rm x)'\nE",
        Deny,
    ),
    (
        "joined substitution in a here-document",
        "git log <<E\n$\\\n(rm x)\nE",
        Deny,
    ),
    (
        "joined end of a here-document",
        "git log <<E\nE\\\n\nrm x\nE",
        Deny,
    ),
    (
        "quotes in backquotes in quotes",
        "cargo \"`sh -c \\\"rm x\\\"`\"",
        Deny,
    ),
    ("carriage return in an argument", "cargo build\r", Ask),
    ("control character in quotes", "cargo '\u{1}'", Ask),
    ("element with blanks", "A[1 + 2]=1 rm x", Ask),
    // Not a line at all.
    ("quote does not end", "git status 'a", Ask),
    ("double quote does not end", "git status \"a", Ask),
    ("substitution does not end", "git status $(ls", Ask),
    ("backquote does not end", "git status `ls", Ask),
    ("brace does not end", "git status ${x", Ask),
    ("escape at the end", "git status \\", Ask),
    ("operator first", "&& git status", Ask),
    ("operator twice", "git status ;; git log", Ask),
    ("operator without operand", "git status && && git log", Ask),
    ("bracket alone", "git status )", Ask),
    ("bracket in a word", "git status a(b", Ask),
];

#[test]
fn each_line_is_judged_as_its_mechanism_demands() {
    let policy = policy();
    let mut wrong = Vec::new();
    for (mechanism, line, expected) in CORPUS {
        let judgement = policy.judge(&call(line));
        if judgement.decide != *expected {
            wrong.push(format!(
                "{mechanism}: `{line}` is {}, not {expected}: {}",
                judgement.decide,
                judgement.reason()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(CORPUS.len() >= 200, "{} lines", CORPUS.len());
}

/// Programs that write down how they were called, and nothing else to be found.
struct Shells {
    folder: tempfile::TempDir,
}

const STAND_INS: [&str; 6] = ["git", "make", "cargo", "rm", "ls", "sort"];

impl Shells {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in STAND_INS {
            let text = format!(
                "#!/bin/sh\n{{ printf '{name}'; printf '\\037%s' \"$@\"; printf '\\036'; }} > \"$LOG/$$\"\n"
            );
            let file = bin.join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir(folder.path().join("work")).unwrap();
        Shells { folder }
    }

    /// What the shell ran: programs with their arguments, and the names of everything that its trace shows.
    fn run(&self, shell: &str, line: &str) -> (Vec<Vec<String>>, Vec<String>) {
        let log = self.folder.path().join("log");
        let _ = fs::remove_dir_all(&log);
        fs::create_dir(&log).unwrap();
        let ran = Process::new(shell)
            .args(["-x", "-c", line])
            .env_clear()
            .env("PATH", self.folder.path().join("bin"))
            .env("LOG", &log)
            .env("HOME", self.folder.path())
            .env("PS4", "+ ")
            .current_dir(self.folder.path().join("work"))
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        // One file a process, so that those that run at the same time do not mix.
        let files = fs::read_dir(&log)
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
        let calls = files.map(|call| {
            let call = call.trim_end_matches('\u{1e}');
            call.split('\u{1f}').map(str::to_owned).collect()
        });
        let trace = String::from_utf8_lossy(&ran.stderr).into_owned();
        let names = trace
            .lines()
            .filter(|line| line.starts_with('+'))
            .filter_map(|line| line.trim_start_matches('+').strip_prefix(' '))
            .filter_map(|command| command.split_whitespace().next().map(str::to_owned));
        (calls.collect(), names.collect())
    }
}

/// What the allow rules of the policy say, in other words.
fn is_said(call: &[String]) -> bool {
    let words: Vec<&str> = call.iter().map(String::as_str).collect();
    match words[..] {
        ["git", "status" | "diff" | "log", ..] | ["make", "test"] | ["cargo", ..] => true,
        // `printf` without arguments writes one empty word.
        _ => false,
    }
}

/// Runs what was allowed and collects what went beyond the rules.
fn beyond_the_rules(shells: &Shells, line: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for shell in ["/bin/sh", "/bin/bash"] {
        if !Path::new(shell).exists() {
            continue;
        }
        let (calls, traced) = shells.run(shell, line);
        let calls = calls.into_iter().map(|mut call: Vec<String>| {
            if call.len() == 2 && call[1].is_empty() {
                call.pop();
            }
            call
        });
        wrong.extend(
            calls
                .filter(|call| !is_said(call))
                .map(|call| format!("{shell} ran {call:?} for `{line}`")),
        );
        // Commands that run at the same time write into each other's traces.
        let is_sequence = !line.replace("&&", "").replace(">&", "").contains(['&', '|']);
        let traced = if is_sequence { traced } else { Vec::new() };
        let named = traced
            .into_iter()
            .filter(|name| !matches!(name.trim_matches('\''), "git" | "make" | "cargo"));
        wrong.extend(named.map(|name| format!("{shell} traced `{name}` for `{line}`")));
    }
    let written: Vec<_> = fs::read_dir(shells.folder.path().join("work")).unwrap().collect();
    wrong.extend(written.iter().map(|entry| format!("`{line}` wrote {entry:?}")));
    wrong
}

#[test]
fn what_is_allowed_runs_what_the_rules_say_in_real_shells() {
    let (policy, shells) = (policy(), Shells::new());
    let allowed: Vec<&str> = CORPUS
        .iter()
        .map(|(_, line, _)| *line)
        .filter(|line| policy.judge(&call(line)).decide == Allow)
        .collect();
    assert!(allowed.len() > 40);
    let wrong: Vec<String> = allowed
        .iter()
        .flat_map(|line| beyond_the_rules(&shells, line))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A sequence that follows from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

const PIECES: [&str; 64] = [
    "git",
    "status",
    "log",
    "make",
    "test",
    "cargo",
    "rm",
    "x",
    " ",
    " ",
    " ",
    " ",
    " ",
    "\t",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "$",
    "$(",
    ")",
    "(",
    "`",
    "{",
    "}",
    "<",
    ">",
    "2>&1",
    ">/dev/null",
    "#",
    "=",
    "*",
    "~",
    "!",
    ",",
    "\\\n",
    "\\\n",
    "if",
    "\"$\\\n(",
    "$\\\n",
    "\\\n#'",
    "\n",
    "r",
    "m",
    "1",
    "10>/dev/null",
    "{x}>&1",
    "${x:-",
    "${x#",
    "$'",
    "\\'",
    "<<E\n",
    "\nE\n",
    "E",
    "[",
    "\r",
    ";rm x ",
];

/// A line that begins as the rules allow and goes on at random.
fn random_line(random: &mut Random) -> String {
    let starts = ["git status", "git log", "make test", "cargo", ""];
    let mut line = starts[random.below(starts.len())].to_owned();
    for _ in 0..1 + random.below(9) {
        line.push_str(PIECES[random.below(PIECES.len())]);
    }
    line
}

/// The lines among many random ones that a policy allows, those with the most punctuation first: they are the most likely to
/// be misread.
fn random_allowed(policy: &Policy, seed: u64, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    const LINES: usize = 20_000;
    let (mut random, mut allowed, mut counts) = (Random(seed), BTreeSet::new(), BTreeMap::new());
    for _ in 0..LINES {
        let line = random_line(&mut random);
        let decide = policy.judge(&call(&line)).decide;
        *counts.entry(decide).or_insert(0) += 1;
        let odd = line.chars().filter(|c| !c.is_alphanumeric() && *c != ' ').count();
        if decide == Allow && odd > 2 && is_wanted(&line) {
            allowed.insert((std::cmp::Reverse(odd), line));
        }
    }
    assert_eq!(counts.len(), 3, "{counts:?}");
    allowed.into_iter().map(|(_, line)| line).collect()
}

#[test]
fn random_lines_that_are_allowed_run_what_the_rules_say_in_real_shells() {
    const RUN_MAX: usize = 150;
    let shells = Shells::new();
    let allowed = random_allowed(&policy(), 20_261_117, |_| true);
    assert!(allowed.len() > RUN_MAX, "{}", allowed.len());
    let wrong: Vec<String> = allowed
        .iter()
        .take(RUN_MAX)
        .flat_map(|line| beyond_the_rules(&shells, line))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Everything is allowed but one program and what cannot be told from the text.
const DENIES_ONE: &str = r#"
default = "allow-all"

[[rule]]
tool = "run_shell_command"
command = ["rm"]
decide = "deny"
"#;

#[test]
fn no_line_hides_a_denied_program_from_the_rules_that_real_shells_run() {
    const RUN_MAX: usize = 150;
    let shells = Shells::new();
    let policy = Policy {
        owner: Layer::parse("policy.toml", DENIES_ONE, &[]).unwrap(),
        ..Policy::default()
    };
    let mut lines: Vec<String> = CORPUS
        .iter()
        .filter(|(_, line, _)| policy.judge(&call(line)).decide == Allow && line.contains("rm"))
        .map(|(_, line, _)| (*line).to_owned())
        .collect();
    let is_wanted = |line: &str| line.contains('r') && line.contains('m');
    let random = random_allowed(&policy, 20_261_118, is_wanted);
    assert!(random.len() > RUN_MAX, "{}", random.len());
    lines.extend(random.into_iter().take(RUN_MAX));
    let runs_it = |shell: &str, line: &str| {
        Path::new(shell).exists() && shells.run(shell, line).0.iter().any(|call| call[0] == "rm")
    };
    let is_run = |line: &&String| {
        ["/bin/sh", "/bin/bash"]
            .into_iter()
            .any(|shell| runs_it(shell, line))
    };
    let wrong: Vec<&String> = lines.iter().filter(is_run).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
