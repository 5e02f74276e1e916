//! Programs and builtins that run other programs: what they run is looked at by rules that deny or ask, never by rules that allow.

use super::{Line, Simple, Word};

/// Programs that run what their arguments name, after options of their own.
const RUNNERS: [&str; 27] = [
    "sudo", "doas", "su", "env", "nohup", "nice", "ionice", "timeout", "time", "xargs", "stdbuf", "setsid",
    "exec", "command", "builtin", "parallel", "watch", "chroot", "busybox", "unshare", "nsenter", "strace",
    "ltrace", "flock", "script", "chrt", "taskset",
];

/// Shells: `-c` makes a script of an argument.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash"];

/// Options of `find` after which a command stands.
const FIND_RUNS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];

/// At most this many arguments of a wrapper are tried as the beginning of its command.
const SUFFIXES_MAX: usize = 64;

/// What was found behind a wrapper.
#[derive(Default)]
pub(super) struct Unwrapped {
    pub(super) commands: Vec<Simple>,
    pub(super) is_computed: bool,
}

/// The program's name without its folder.
pub(crate) fn base_name(word: &Word) -> &str {
    word.text.rsplit('/').next().unwrap_or_default()
}

pub(super) fn is_shell(command: &Simple) -> bool {
    let is_named = |word: &Word| SHELLS.contains(&base_name(word));
    match command.words.split_first() {
        Some((name, rest)) => {
            is_named(name) || RUNNERS.contains(&base_name(name)) && rest.iter().any(is_named)
        }
        None => false,
    }
}

/// The commands that this one runs.
pub(super) fn look_through(command: &Simple, depth: u32) -> Unwrapped {
    let mut found = Unwrapped::default();
    found.run_by(&command.words, depth);
    found
}

fn join(words: &[Word]) -> String {
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    texts.join(" ")
}

impl Unwrapped {
    /// Looks at the words of one command.
    fn run_by(&mut self, words: &[Word], depth: u32) {
        let Some((name, arguments)) = words.split_first() else {
            return;
        };
        match base_name(name) {
            "eval" => {
                self.script(&join(arguments), depth);
                self.is_computed |= arguments.iter().any(|word| !word.is_literal);
            }
            // Kept by the shell and run later: on a signal, under another name, for each line.
            "trap" | "mapfile" | "readarray" => self.later(arguments, depth),
            "alias" => {
                let named = arguments.iter().filter_map(|word| word.text.split_once('='));
                let texts: Vec<String> = named.map(|(_, text)| text.to_owned()).collect();
                texts.iter().for_each(|text| self.script(text, depth));
                self.is_computed |= arguments.iter().any(|word| !word.is_literal);
            }
            "source" | "." | "hash" | "enable" | "complete" | "compgen" => self.is_computed = true,
            "find" => self.find(arguments, depth),
            "su" if arguments.iter().any(|word| word.text == "-c") => self.shell(arguments, depth),
            name if SHELLS.contains(&name) => self.shell(arguments, depth),
            name if RUNNERS.contains(&name) => self.runner(arguments, depth),
            _ => {}
        }
    }

    /// Any argument may be a script.
    fn later(&mut self, arguments: &[Word], depth: u32) {
        for word in arguments {
            self.script(&word.text, depth);
            self.is_computed |= !word.is_literal;
        }
    }

    /// Which arguments are values of the wrapper's own options is not guessed: any of them may begin the command.
    fn runner(&mut self, arguments: &[Word], depth: u32) {
        self.is_computed |= arguments.len() > SUFFIXES_MAX;
        for at in 0..arguments.len().min(SUFFIXES_MAX) {
            self.suffix(&arguments[at..]);
        }
        let looks_further = |word: &Word| {
            matches!(
                base_name(word),
                "eval" | "source" | "." | "find" | "trap" | "alias"
            ) || SHELLS.contains(&base_name(word))
        };
        if let Some(at) = arguments.iter().position(looks_further) {
            self.run_by(&arguments[at..], depth);
        }
    }

    /// Each command of `find` ends before `;` or `+`.
    fn find(&mut self, arguments: &[Word], depth: u32) {
        let mut rest = arguments;
        while let Some(at) = rest
            .iter()
            .position(|word| FIND_RUNS.contains(&word.text.as_str()))
        {
            rest = &rest[at + 1..];
            let end = rest
                .iter()
                .position(|word| matches!(word.text.as_str(), ";" | "+"));
            let (command, after) = rest.split_at(end.unwrap_or(rest.len()));
            self.suffix(command);
            self.run_by(command, depth);
            rest = after;
        }
    }

    fn suffix(&mut self, words: &[Word]) {
        if let Some(name) = words.first() {
            self.is_computed |= !name.is_literal;
            self.commands.push(Simple {
                words: words.to_vec(),
                is_wrapped: true,
            });
        }
    }

    fn script(&mut self, text: &str, depth: u32) {
        let mut inner = Line::parse_at(text, depth + 1);
        self.is_computed |= inner.is_computed;
        for command in &mut inner.commands {
            command.is_wrapped = true;
        }
        self.commands.extend(inner.commands);
    }

    /// The arguments of a shell: scripts after `-c`, files and standard input otherwise.
    fn shell(&mut self, arguments: &[Word], depth: u32) {
        let is_option = |word: &&Word| word.text.starts_with('-') || word.text.starts_with('+');
        let takes_script = arguments
            .iter()
            .filter(is_option)
            .any(|word| !word.text.starts_with("--") && word.text.contains('c'));
        if !takes_script {
            let only_tells = |word: &Word| matches!(word.text.as_str(), "--version" | "--help");
            self.is_computed |= !arguments.iter().any(only_tells);
            return;
        }
        for word in arguments.iter().filter(|word| !is_option(word)) {
            self.script(&word.text, depth);
            self.is_computed |= !word.is_literal;
        }
    }
}
