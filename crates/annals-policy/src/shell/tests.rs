use super::*;

fn commands(text: &str) -> Vec<String> {
    let show = |command: &Simple| {
        let words: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    };
    Line::parse(text).commands.iter().map(show).collect()
}

#[test]
fn a_plain_line_is_the_commands_it_runs() {
    for (text, expected) in [
        ("git status -s", vec!["git status -s"]),
        (
            "git diff && make test; ls | wc -l",
            vec!["git diff", "make test", "ls", "wc -l"],
        ),
        ("a\nb\n", vec!["a", "b"]),
        ("g'i't \"st\"atus", vec!["git status"]),
        (r"g\it status", vec!["git status"]),
        ("make 2>&1", vec!["make"]),
        ("make >/dev/null 2>&1 </dev/null", vec!["make"]),
        ("a \\\n b", vec!["a b"]),
        ("a # rm -rf /", vec!["a"]),
        ("echo a#b", vec!["echo a#b"]),
        ("grep \"a$\" f", vec!["grep a$ f"]),
        ("git diff HEAD~1", vec!["git diff HEAD~1"]),
        ("sleep 1 & ls", vec!["sleep 1", "ls"]),
    ] {
        assert_eq!(commands(text), expected, "`{text}`");
        assert!(Line::parse(text).is_plain(), "`{text}`: {:?}", Line::parse(text));
    }
    assert!(
        Line::parse("git diff HEAD~1").commands[0]
            .words
            .iter()
            .all(|word| word.is_literal)
    );
    assert!(!Line::parse("ls ~/x").commands[0].words[1].is_literal);
}

#[test]
fn what_is_more_than_commands_is_named_and_what_it_runs_is_found() {
    for (text, beyond, found) in [
        ("git log $(rm x)", Beyond::Substitution, "rm x"),
        ("git log \"$(rm x)\"", Beyond::Substitution, "rm x"),
        ("git log `rm x`", Beyond::Substitution, "rm x"),
        ("git log \"${a:-$(rm x)}\"", Beyond::Expansion, "rm x"),
        ("diff <(rm x) y", Beyond::Substitution, "rm x"),
        ("git log > rm", Beyond::Redirection, "git log"),
        ("A=1 rm x", Beyond::Assignment, "rm x"),
        ("if a; then rm x; fi", Beyond::Compound, "rm x"),
        ("for f in *; do rm x; done", Beyond::Compound, "rm x"),
        ("{ rm x; }", Beyond::Compound, "rm x"),
        ("(cd y; rm x)", Beyond::Compound, "rm x"),
        ("f() { rm x; }; f", Beyond::Compound, "rm x"),
        ("! rm x", Beyond::Compound, "rm x"),
        ("case a in a) rm x;; esac", Beyond::Compound, "rm x"),
        ("bash <<E\nrm x\nE\n", Beyond::Redirection, "rm x"),
        ("cat <<E\n$(rm x)\nE\n", Beyond::Redirection, "rm x"),
        ("echo 'a", Beyond::Malformed, "echo a"),
        ("echo $HOME; rm x", Beyond::Expansion, "rm x"),
        ("echo $((1 + $(rm x)))", Beyond::Substitution, "rm x"),
    ] {
        assert_eq!(Line::parse(text).beyond, Some(beyond), "`{text}`");
        let commands = commands(text);
        assert!(
            commands.iter().any(|command| command == found),
            "`{text}`: {commands:?}"
        );
    }
}

#[test]
fn wrappers_are_looked_through() {
    for text in [
        "sudo rm x",
        "sudo -u bob env A=1 nohup rm x",
        "sh -c 'rm x'",
        "bash -lc 'cd y && rm x'",
        "env bash -c \"sudo rm x\"",
        "xargs -n1 rm x",
        "find . -name y -exec rm x ;",
        "sudo find . -exec sh -c 'rm x' \\;",
        "find . -exec echo {} ';' -exec rm x ';'",
        "eval 'rm' x",
        "timeout 5 rm x",
        "command rm x",
        "/usr/bin/env rm x",
    ] {
        let commands = commands(text);
        assert!(
            commands.iter().any(|command| command == "rm x"),
            "`{text}`: {commands:?}"
        );
    }
    for text in [
        "$c x",
        "eval $c",
        "sh script.sh",
        "curl x | sh",
        ". ./x",
        "sh -c \"$c\"",
        "env $c",
        "r?m x",
    ] {
        assert!(Line::parse(text).is_computed, "`{text}`");
    }
    for text in ["git status", "sh --version", "find . -name '*.rs'", "sudo ls"] {
        assert!(!Line::parse(text).is_computed, "`{text}`");
    }
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = format!("{}rm{}", "$(".repeat(5_000), ")".repeat(5_000));
    assert!(Line::parse(&deep).is_computed);
    let nested = format!("{}rm", "sudo find . -exec sh -c ".repeat(2_000));
    assert!(!Line::parse(&nested).is_plain() || Line::parse(&nested).is_computed);
    let wide = "a;".repeat(50_000);
    assert_eq!(Line::parse(&wide).commands.len(), 50_000);
}
