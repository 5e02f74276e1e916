//! Rules as people write them: what they decide together, and what is wrong with a file.

use std::collections::BTreeSet;

use annals_policy::{Call, Command, Decide, KnownTool, Layer, Policy, Reach};

fn known() -> Vec<KnownTool> {
    let tool = |name: &str, effects: &[Reach], has: [bool; 3]| KnownTool {
        name: name.into(),
        effects: effects.to_vec(),
        has_command: has[0],
        has_path: has[1],
        has_host: has[2],
    };
    vec![
        tool("run_shell_command", &[Reach::Exec], [true, false, false]),
        tool("react.write", &[Reach::Write], [false, true, false]),
        tool("react.read", &[Reach::Read], [false, true, false]),
        tool(
            "web_tools.web_fetch",
            &[Reach::Read, Reach::Network],
            [false, false, true],
        ),
    ]
}

fn layer(text: &str) -> Layer {
    Layer::parse("policy.toml", text, &known()).unwrap_or_else(|error| panic!("{error}"))
}

fn owner(text: &str) -> Policy {
    Policy {
        owner: layer(text),
        ..Policy::default()
    }
}

fn call(tool: &str, effects: &[Reach]) -> Call {
    Call {
        tool: tool.into(),
        effects: effects.iter().copied().collect(),
        ..Call::default()
    }
}

fn shell(line: &str) -> Call {
    Call {
        command: Some(Command::line(line)),
        ..call("run_shell_command", &[Reach::Exec])
    }
}

#[test]
fn by_default_what_stays_in_the_sandbox_or_only_reads_is_allowed() {
    let policy = Policy::default();
    let decide = |effects: &[Reach]| policy.judge(&call("t", effects)).decide;
    for effects in [
        &[Reach::Read][..],
        &[Reach::Write],
        &[Reach::Exec, Reach::Write],
        &[Reach::Read, Reach::Network],
    ] {
        assert_eq!(decide(effects), Decide::Allow, "{effects:?}");
    }
    let leaving = [
        &[Reach::Network][..],
        &[Reach::External],
        &[Reach::Spend],
        &[Reach::Exec, Reach::External],
        &[],
    ];
    for effects in leaving {
        assert_eq!(decide(effects), Decide::Ask, "{effects:?}");
    }
    let said = policy.judge(&call("github.create_issue", &[Reach::External]));
    insta::assert_snapshot!(said.reason(), @"no rule speaks of a call with the effects external, and the default is `allow-sandboxed` (rule `default`)");
    for (default, expected) in [
        ("ask-all", Decide::Ask),
        ("deny-unlisted", Decide::Deny),
        ("allow-all", Decide::Allow),
    ] {
        let policy = owner(&format!("default = \"{default}\""));
        assert_eq!(
            policy.judge(&call("t", &[Reach::External])).decide,
            expected,
            "{default}"
        );
    }
}

#[test]
fn deny_wins_over_ask_and_ask_over_allow_whatever_the_order_and_layer() {
    let rules = [
        "[[rule]]\nname = \"a\"\ntool = \"github.*\"\ndecide = \"allow\"\n",
        "[[rule]]\nname = \"b\"\ntool = \"github.create_*\"\ndecide = \"ask\"\n",
        "[[rule]]\nname = \"c\"\ntool = \"*.create_repo\"\ndecide = \"deny\"\nwhy = \"no new repositories\"\n",
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let policy = owner(&order.map(|at| rules[at]).concat());
        let judge = |tool: &str| policy.judge(&call(tool, &[Reach::External]));
        assert_eq!(judge("github.list").decide, Decide::Allow);
        assert_eq!(judge("github.create_issue").decide, Decide::Ask);
        let denied = judge("github.create_repo");
        assert_eq!(denied.decide, Decide::Deny);
        assert_eq!(denied.reason(), "no new repositories (rule `c`)");
    }
    for (at, deny_is_users) in [(0, true), (1, false)] {
        let mut layers = [layer(rules[0]), layer(rules[2])];
        layers.rotate_left(at);
        let [owner, user] = layers;
        let policy = Policy {
            owner,
            user,
            ..Policy::default()
        };
        let judgement = policy.judge(&call("github.create_repo", &[Reach::External]));
        assert_eq!(judgement.decide, Decide::Deny);
        let place = if deny_is_users {
            "config.toml"
        } else {
            "policy.toml"
        };
        assert_eq!(judgement.by[0].place.unwrap().0, place);
    }
}

#[test]
fn a_lower_layer_tightens_and_loosens_only_where_the_owner_lets_it() {
    let user = "[[rule]]\ntool = \"github.*\"\ndecide = \"allow\"\n";
    let judge = |owner: &str| {
        let policy = Policy {
            owner: layer(owner),
            user: layer(user),
            ..Policy::default()
        };
        policy.judge(&call("github.list", &[Reach::External])).decide
    };
    assert_eq!(judge(""), Decide::Allow, "nothing of the owner's is loosened");
    assert_eq!(
        judge("default = \"ask-all\""),
        Decide::Ask,
        "the owner's default stands"
    );
    assert_eq!(judge("[[rule]]\ntool = \"*\"\ndecide = \"ask\"\n"), Decide::Ask);
    assert_eq!(
        judge("[[rule]]\ntool = \"*\"\ndecide = \"ask\"\nmay_loosen = true\n"),
        Decide::Allow
    );
    assert_eq!(judge("[[rule]]\ntool = \"*\"\ndecide = \"deny\"\n"), Decide::Deny);
}

#[test]
fn a_remembered_answer_overrides_the_rule_it_answers_and_no_other() {
    let rules = "[[rule]]\nname = \"net\"\ntool = \"run_shell_command\"\ncommand = [[\"curl\", \"wget\"]]\ndecide = \"ask\"\n\
                 [[rule]]\nname = \"all\"\ntool = \"run_shell_command\"\ncommand = [\"wget\"]\ndecide = \"ask\"\n\
                 [[rule]]\nname = \"never\"\ntool = \"run_shell_command\"\ncommand = [\"curl\", \"-T\"]\ndecide = \"deny\"\n";
    let mut policy = owner(rules);
    let asked = policy.judge(&shell("curl https://a.example && curl https://a.example"));
    assert_eq!(asked.ids(), ["net"]);
    let proposed = asked.proposed.unwrap();
    insta::assert_snapshot!(proposed, @r#"
    [[rule]]
    tool = "run_shell_command"
    command = ["curl", "https://a.example"]
    exact = true
    decide = "allow"
    answers = "net"
    "#);
    policy.user = layer(&proposed);
    let decide = |line: &str| policy.judge(&shell(line)).decide;
    assert_eq!(decide("curl https://a.example"), Decide::Allow);
    assert_eq!(decide("curl https://a.example; ls"), Decide::Allow);
    assert_eq!(decide("curl https://b.example"), Decide::Ask, "another argument");
    assert_eq!(
        decide("curl https://a.example; curl https://b.example"),
        Decide::Ask
    );
    assert_eq!(decide("curl -T x"), Decide::Deny, "a deny is never answered");
    policy.user = layer(&proposed.replace("\"curl\", \"https://a.example\"", "\"wget\", \"x\""));
    assert_eq!(
        policy.judge(&shell("wget x")).ids(),
        ["net", "all"],
        "both rules ask, one was answered"
    );
}

#[test]
fn a_line_that_no_words_can_tell_is_remembered_letter_by_letter() {
    let mut policy = owner("default = \"ask-all\"");
    let line = "for f in *; do echo \"$f\"; done > out.txt";
    let proposed = policy.judge(&shell(line)).proposed.unwrap();
    policy.user = layer(&proposed);
    assert_eq!(policy.judge(&shell(line)).decide, Decide::Allow);
    assert_eq!(
        policy.judge(&shell(&line.replace("out", "in"))).decide,
        Decide::Ask
    );
    assert_eq!(policy.judge(&shell(&format!("{line} "))).decide, Decide::Ask);
}

#[test]
fn paths_and_hosts_bind_allow_rules_to_all_and_deny_rules_to_any() {
    let policy = owner(
        "default = \"ask-all\"\n[[rule]]\ntool = \"web_tools.web_fetch\"\nhost = [\"docs.rs\", \"*.rust-lang.org\"]\ndecide = \"allow\"\n\
         [[rule]]\nhost = \"*.internal\"\ndecide = \"deny\"\n[[rule]]\ntool = \"react.*\"\npath = \"fi:*.files/*\"\ndecide = \"allow\"\n",
    );
    let fetch = |hosts: &[&str]| {
        let call = call("web_tools.web_fetch", &[Reach::Read, Reach::Network]);
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        policy.judge(&Call { hosts, ..call }).decide
    };
    assert_eq!(fetch(&["docs.rs", "doc.rust-lang.org"]), Decide::Allow);
    assert_eq!(fetch(&["docs.rs", "example.com"]), Decide::Ask);
    assert_eq!(fetch(&["docs.rs", "wiki.internal"]), Decide::Deny);
    assert_eq!(fetch(&[]), Decide::Ask);
    let write = |path: &str| {
        let call = call("react.write", &[Reach::Write]);
        policy
            .judge(&Call {
                paths: vec![path.into()],
                ..call
            })
            .decide
    };
    assert_eq!(write("fi:turn_1.files/a.md"), Decide::Allow);
    assert_eq!(write("fi:turn_1.user.attachments/a.md"), Decide::Ask);
}

#[test]
fn a_program_that_cannot_be_told_is_asked_about_where_rules_are_about_programs() {
    let line = "c=curl; $c https://example.com";
    assert_eq!(Policy::default().judge(&shell(line)).decide, Decide::Allow);
    let policy = owner("[[rule]]\ntool = \"run_shell_command\"\ncommand = [\"curl\"]\ndecide = \"deny\"\n");
    let judgement = policy.judge(&shell(line));
    assert_eq!(
        (judgement.decide, judgement.ids()),
        (Decide::Ask, vec!["computed-command"])
    );
    let mut remembered = policy.clone();
    remembered.user = layer(&judgement.proposed.unwrap());
    assert_eq!(remembered.judge(&shell(line)).decide, Decide::Allow);
    assert_eq!(remembered.judge(&shell("$c")).decide, Decide::Ask);
}

#[test]
fn a_file_that_says_nothing_sensible_is_refused_with_its_line() {
    let error = |text: &str| {
        Layer::parse("policy.toml", text, &known())
            .unwrap_err()
            .to_string()
    };
    let cases = [
        "\n\n[[rule]]\ntool = \"x.y\"\ndecide = \"perhaps\"",
        "[[rule]]\ntol = \"x.y\"\ndecide = \"ask\"",
        "default = \"allow\"",
        "[[rule]]\ntool = \"react.wirte\"\ndecide = \"ask\"",
        "[[rule]]\ntool = \"run_shell\"\ndecide = \"ask\"",
        "[[rule]]\ntool = \"react.read\"\ncommand = [\"ls\"]\ndecide = \"ask\"",
        "[[rule]]\ntool = \"react.read\"\neffect = \"spend\"\ndecide = \"ask\"",
        "[[rule]]\ntool = \"*\"\neffect = \"danger\"\ndecide = \"ask\"",
        "[[rule]]\ntool = \"*\"\ncommand = [\"git status\"]\ndecide = \"ask\"",
        "[[rule]]\ntool = \"*\"\ncommand = \"git push\"\ndecide = \"deny\"",
        "[[rule]]\ntool = \"*\"\ncommand = []\ndecide = \"ask\"",
        "[[rule]]\ntool = []\ndecide = \"ask\"",
        "[[rule]]\nhost = \"https://example.com\"\ndecide = \"deny\"",
        "[[rule]]\ntool = \"a.b\"\ndecide = \"allow\"\n\n[[rule]]\ntool = \"a.b\"\ndecide = \"deny\"",
        "[[rule]]\nname = \"a\"\ntool = \"a.b\"\ndecide = \"allow\"\n[[rule]]\nname = \"a\"\ntool = \"a.c\"\ndecide = \"deny\"",
        "[[rule]]\ntool = \"*\"\ncommand = [\"git\", [\"status\", \"diff\"]]\ndecide = \"allow\"\ntest = { match = [\"git status -s && git push\"] }",
        "[[rule]]\ntool = \"*\"\ncommand = [\"git\", \"status\"]\ndecide = \"allow\"\ntest = { match = [\"git status > x\"] }",
        "[[rule]]\ntool = \"*\"\ncommand = [\"git\"]\ndecide = \"deny\"\ntest = { not = [\"sudo git x\"] }",
        "[[rule]]\ntool = \"a.b\"\ndecide = \"ask\"\nexpires = \"soon\"",
        "[[rule]]\ntool = \"a.b\"\ndecide = \"allow\"\nmay_loosen = true",
    ];
    let said: Vec<String> = cases.iter().map(|text| error(text)).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn the_example_of_the_guide_is_a_policy() {
    let text = include_str!("../../../docs/policy.toml");
    let layer = layer(text);
    assert!(layer.rules.len() >= 4);
    let effects: BTreeSet<Reach> = layer.rules.iter().flat_map(|rule| rule.effect.clone()).collect();
    assert!(effects.contains(&Reach::External));
}
