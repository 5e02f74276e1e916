//! What can be written down of servers, and how mistakes are named.

use super::*;

fn toml(text: &str) -> Result<Servers, ConfigError> {
    Servers::from_toml(text.parse().unwrap())
}

#[test]
fn both_forms_give_the_same_server() {
    let ours =
        toml("[git]\ncommand = 'mcp-server-git'\nargs = ['--repository', '/r']\nenv = { A = 'b' }").unwrap();
    let common = Servers::from_json(
        r#"{"mcpServers": {"git": {"command": "mcp-server-git", "args": ["--repository", "/r"],
           "env": {"A": "b"}, "type": "stdio"}}, "theme": "dark"}"#,
    );
    assert_eq!(common.unwrap(), ours);
}

#[test]
fn what_is_wrong_is_said_with_the_server_and_the_value() {
    for (text, why) in [
        ("[react]\ncommand = 'x'", "`react` cannot name"),
        (
            "[a-b]\ncommand = 'x'\n[a_b]\ncommand = 'y'",
            "share the namespace `a_b`",
        ),
        ("[a]\n", "neither `command` nor `url`"),
        ("[a]\ncommand = 'x'\nurl = 'http://h'", "give one of them"),
        ("[a]\ncommand = ''", "name a program"),
        ("[a]\ncommand = 'x'\ntrust = 'full'", "`trust` is `full`"),
        ("[a]\ncommand = 'x'\nread = ['rel']", "`rel` is relative"),
        (
            "[a]\ncommand = 'x'\nhosts = ['https://h']",
            "`https://h` in `hosts`",
        ),
        (
            "[a]\ncommand = 'x'\nhosts = ['h.example']\ntrust = 'host'",
            "leave out `hosts`",
        ),
        (
            "[a]\nurl = 'http://h'\nhosts = ['h.example']",
            "`hosts` are for a `command`",
        ),
        ("[a]\ncommand = 'x'\nbearer = 't'", "are for a `url`"),
        ("[a]\nurl = 'ftp://h'", "give `https://host/path`"),
        ("[a]\nurl = 'http://u:p@h'", "carries a password"),
        (
            "[a]\nurl = 'http://h'\nheaders = { 'a b' = 'c' }",
            "`a b` in `headers`",
        ),
        (
            "[a]\nurl = 'http://h'\nheaders = { Mcp-Session-Id = 'c' }",
            "the protocol's own",
        ),
        ("[a]\ncommand = 'x'\ntimeout_ms = 0", "give 1 to 600000"),
        ("[a]\ncommand = 7", "invalid type"),
        ("[a]\ncommand = 'x'\nhost = ['h.example']", "there is no `host`"),
        (
            "[a]\nurl = 'http://h'\noauth = { client = 'c' }",
            "there is no `client` in `oauth`",
        ),
        ("[a]\ncommand = 'x'\ntools = { alow = ['y'] }", "`alow`"),
        ("[a]\ncommand = 'x'\ncwd = '/srv'", "`cwd` is `/srv`"),
        ("[a]\ncommand = 'x'\ncwd = 'rel'", "`rel` is relative"),
    ] {
        let error = toml(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text:?}: {error}");
    }
}

#[test]
fn every_key_of_an_entry_can_be_written_and_hosts_in_either_spelling() {
    let paths = || vec![PathBuf::from("/p")];
    let words = || vec!["w".to_owned()];
    let all = Entry {
        command: Some("c".to_owned()),
        args: words(),
        env: [("a".to_owned(), "b".to_owned())].into(),
        url: Some("u".to_owned()),
        headers: [("a".to_owned(), "b".to_owned())].into(),
        bearer: Some("t".to_owned()),
        oauth: Some(OauthEntry {
            client_id: Some("i".to_owned()),
            client_secret: Some("s".to_owned()),
            scopes: words(),
            redirect_port: Some(1),
            hosts: words(),
        }),
        read: paths(),
        write: paths(),
        cwd: Some("/p".into()),
        hosts: words(),
        trust: Some("host".to_owned()),
        tools: Offered {
            allow: words(),
            deny: words(),
        },
        replay: words(),
        timeout_ms: Some(1),
        disabled: true,
    };
    let written = toml::Value::try_from(&all).unwrap();
    assert_eq!(no_unknown_key(&written), Ok(()));
    assert_eq!(written.as_table().unwrap().len(), KEYS.len() - 1, "and `network`");
    let hosts = toml("[a]\ncommand = 'x'\nhosts = ['h.example']").unwrap();
    assert_eq!(
        toml("[a]\ncommand = 'x'\nnetwork = ['h.example']").unwrap(),
        hosts
    );
}

#[test]
fn a_login_is_configured_in_either_spelling_and_its_mistakes_are_named() {
    let ours = toml("[a]\nurl = 'https://h/mcp'\noauth = { client_id = 'c', redirect_port = 8085 }").unwrap();
    let common = Servers::from_json(
        r#"{"mcpServers": {"a": {"url": "https://h/mcp", "oauth": {"clientId": "c", "callbackPort": 8085}}}}"#,
    );
    assert_eq!(common.unwrap(), ours);
    for (oauth, why) in [
        ("client_secret = 's'", "give `oauth.client_id`, too"),
        ("scopes = ['a b']", "`a b` in `oauth.scopes`"),
        ("hosts = ['sso']", "`sso` is not `host:port`"),
    ] {
        let error = toml(&format!("[a]\nurl = 'https://h'\noauth = {{ {oauth} }}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(why), "{oauth}: {error}");
    }
    for (server, why) in [
        ("url = 'https://h'\nbearer = 't'", "a token and `oauth`"),
        (
            "url = 'https://h'\nheaders = { authorization = 't' }",
            "a token and `oauth`",
        ),
        ("command = 'x'", "are for a `url`"),
    ] {
        let error = toml(&format!("[a]\n{server}\noauth = {{ client_id = 'c' }}"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains(why), "{server}: {error}");
    }
}

#[test]
fn a_disabled_server_is_none_and_patterns_choose_tools() {
    assert!(toml("[a]\ncommand = 'x'\ndisabled = true").unwrap().is_empty());
    let offered = Offered {
        allow: vec!["read_*".to_owned(), "list".to_owned()],
        deny: vec!["*_secret".to_owned()],
    };
    let names = ["read_file", "read_secret", "list", "listing", "write"];
    let chosen: Vec<&str> = names.into_iter().filter(|name| offered.includes(name)).collect();
    assert_eq!(chosen, ["read_file", "list"]);
}
