//! What a program said about its own end, as one line for people.

use crate::ops::CommandResult;

/// The last line a program said about its end; its exit code if it said nothing.
pub fn last_words(result: &CommandResult) -> String {
    match result.signal {
        Some(signal) => format!("ended by signal {signal}"),
        None => last_line(&result.stderr.text()).unwrap_or_else(|| format!("exit code {}", result.exit_code)),
    }
}

/// Where Python puts the error into the last line, Node has its stack, a hint and its own version below it.
fn last_line(stderr: &str) -> Option<String> {
    let mut lines = stderr.lines().rev().filter(|line| !line.trim().is_empty());
    let last = lines.next()?;
    if !last.starts_with("Node.js v") {
        return Some(last.to_owned());
    }
    let is_error = |line: &&str| !line.starts_with([' ', '}', '(']);
    let error = lines.find(is_error).unwrap_or(last);
    Some(error.trim_end_matches(" {").to_owned())
}

#[cfg(test)]
mod tests {
    use super::last_line;

    #[test]
    fn the_last_words_of_a_program_are_its_error() {
        for (stderr, words) in [
            ("Traceback:\n  File\nValueError: no\n\n", Some("ValueError: no")),
            (
                "/m.js:3\nthrow new Error('three');\n^\n\nError: three\n    at Object.<anonymous> (/m.js:3:7)\n\nNode.js v20.20.2\n",
                Some("Error: three"),
            ),
            (
                "node:fs:441\n    ^\n\nError: ENOENT: no such file, open 'x' {\n  errno: -2,\n  code: 'ENOENT'\n}\n\nNode.js v20.20.2",
                Some("Error: ENOENT: no such file, open 'x'"),
            ),
            (
                "/m.js:1\nthrow 'x';\n^\nx\n(Use `node --trace-uncaught ...` to show where)\n\nNode.js v20.20.2",
                Some("x"),
            ),
            ("Node.js v20.20.2", Some("Node.js v20.20.2")),
            (" \n", None),
        ] {
            assert_eq!(last_line(stderr).as_deref(), words, "{stderr}");
        }
    }
}
