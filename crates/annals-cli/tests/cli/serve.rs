//! `serve` as a process: killed in the middle of a turn and started again, it loses and repeats nothing for a subscriber that
//! holds only a number; told to stop, it lets turns end, and told twice, it ends at once.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use annals_requirements::Installed;
use serde_json::{Value, json};

use super::annals::Annals;

/// What a step of a test may take on a machine that is busy with others.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server in a process of its own.
pub(super) struct Serving {
    child: Child,
    pub(super) base: String,
    pub(super) token: String,
    client: reqwest::Client,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    pub(super) fn start(annals: &Annals, script: &Value, more: &[&str]) -> Self {
        Self::start_with(annals, &annals.script(script), more)
    }

    fn start_with(annals: &Annals, model: &str, more: &[&str]) -> Self {
        let args = [&["serve", "--listen", "127.0.0.1:0", "--model", model], more].concat();
        Self::of(&mut annals.command(&args))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut url)
            .unwrap();
        let (base, token) = url
            .trim()
            .split_once("/?token=")
            .unwrap_or_else(|| panic!("{url}"));
        // Fails when another test of this process was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Serving {
            child,
            base: base.to_owned(),
            token: token.to_owned(),
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    }

    pub(super) async fn post(&self, path: &str, body: &Value, key: &str) -> Value {
        let request = self
            .client
            .post(format!("{}{path}", self.base))
            .bearer_auth(&self.token);
        let response = request
            .header("idempotency-key", key)
            .json(body)
            .send()
            .await
            .unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let request = self
            .client
            .get(format!("{}{path}", self.base))
            .bearer_auth(&self.token);
        request.send().await.unwrap().json().await.unwrap()
    }

    async fn events(&self, conversation: &str, after: Option<u64>) -> Events {
        let address = format!("{}/v1/conversations/{conversation}/events", self.base);
        let mut request = self.client.get(address).bearer_auth(&self.token);
        if let Some(after) = after {
            request = request.header("last-event-id", after.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Events {
            response,
            text: String::new(),
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: sends a signal to a process that this test started and has not waited for.
        let sent = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(sent, 0);
    }

    /// Its exit code and what it said, once it has ended by itself.
    fn ended(&mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut said = String::new();
        self.child
            .stderr
            .as_mut()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        (status.code(), said)
    }
}

/// Blocks as a subscriber gets them.
struct Events {
    response: reqwest::Response,
    text: String,
}

impl Events {
    /// The next block and its number; none when the stream has ended.
    async fn block(&mut self) -> Option<(u64, Value)> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let event: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    event
                        .lines()
                        .find_map(|line| line.strip_prefix(name))
                        .map(str::trim)
                };
                if let (Some("block"), Some(id), Some(data)) = (field("event:"), field("id:"), field("data:"))
                {
                    return Some((id.parse().unwrap(), serde_json::from_str(data).unwrap()));
                }
            }
            let piece = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
            let piece = piece.expect("the next block does not come").ok()??;
            self.text.push_str(&String::from_utf8_lossy(&piece));
        }
    }
}

fn write(n: usize) -> Value {
    json!({"text": format!("Noting {n}"), "tool_calls": [{"tool": "react.write", "params": {
        "path": format!("f{n}.md"), "channel": "canvas", "content": "words", "kind": "file"}}]})
}

/// A model call that nobody lives to see the end of.
fn endless() -> Value {
    json!({"delay_ms": 600_000, "text": "never"})
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_a_turn_it_loses_and_repeats_nothing() {
    let annals = Annals::new();
    let mut seen: Vec<(u64, Value)> = Vec::new();
    let (mut conversation, mut turn) = (String::new(), Value::Null);
    // Killed before the model has answered, after its call, after the call's result, and then left alone.
    let scripts = [
        json!([endless()]),
        json!([write(1), endless()]),
        json!([write(2), write(3), endless()]),
        json!([{"text": "Done"}]),
    ];
    let kill_after = [
        "agent.log.header",
        "react.tool.call",
        "react.tool.result",
        "react.completion",
    ];
    for (steps, kind) in scripts.into_iter().zip(kill_after) {
        let mut server = Serving::start(&annals, &json!({ "steps": steps }), &[]);
        // A client that heard no answer sends its requests again.
        let made = server.post("/v1/conversations", &json!({}), "make").await;
        let started = server
            .post(
                &format!("/v1/conversations/{}/turns", made["id"].as_str().unwrap()),
                &json!({"prompt": "Go"}),
                "go",
            )
            .await;
        if seen.is_empty() {
            (conversation, turn) = (
                made["id"].as_str().unwrap().to_owned(),
                started["turn_id"].clone(),
            );
        }
        assert_eq!(
            (made["id"].as_str().unwrap(), &started["turn_id"]),
            (conversation.as_str(), &turn)
        );
        let mut events = server
            .events(&conversation, seen.last().map(|(seq, _)| *seq))
            .await;
        loop {
            let (seq, block) = events
                .block()
                .await
                .expect("the stream ends only with the server");
            let is_last = block["type"] == kind;
            seen.push((seq, block));
            if is_last {
                break;
            }
        }
        server.child.kill().unwrap();
        server.child.wait().unwrap();
    }
    check_seen(&seen);
    let server = Serving::start(&annals, &json!({"steps": []}), &[]);
    let kept = server
        .get(&format!("/v1/conversations/{conversation}/blocks?limit=1000"))
        .await;
    let shown: Vec<Value> = seen.into_iter().map(|(_, block)| block).collect();
    assert_eq!(kept["items"], json!(shown), "what was shown is what is there");
}

/// Every block once and in order, and one turn that ended once.
fn check_seen(seen: &[(u64, Value)]) {
    let numbers: Vec<u64> = seen.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(
        numbers,
        (1..=numbers.len() as u64).collect::<Vec<_>>(),
        "no gap and no duplicate"
    );
    let count = |kind: &str| seen.iter().filter(|(_, block)| block["type"] == kind).count();
    let once = ["user.prompt", "assistant.completion", "react.completion"];
    assert_eq!(once.map(count), [1, 1, 1]);
}

/// A turn whose model takes this long, begun when this returns.
async fn begun(annals: &Annals, delay_ms: u64, grace: &str) -> (Serving, String, String) {
    let script = json!({"steps": [{"delay_ms": delay_ms, "text": "Done"}]});
    let server = Serving::start(annals, &script, &["--grace", grace]);
    let made = server.post("/v1/conversations", &json!({}), "make").await;
    let conversation = made["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/conversations/{conversation}/turns");
    let started = server.post(&path, &json!({"prompt": "Go"}), "go").await;
    let mut events = server.events(&conversation, None).await;
    while events.block().await.unwrap().1["type"] != "agent.log.header" {}
    (
        server,
        conversation,
        started["turn_id"].as_str().unwrap().to_owned(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn told_to_stop_it_lets_the_turn_end() {
    let annals = Annals::new();
    let (mut server, conversation, turn) = begun(&annals, 500, "100").await;
    let mut open = server.events(&conversation, None).await;
    server.signal(libc::SIGTERM);
    let (code, said) = server.ended();
    assert_eq!(code, Some(0), "{said}");
    while open.block().await.is_some() {}
    let next = Serving::start(&annals, &json!({"steps": []}), &[]);
    let ended = next
        .get(&format!("/v1/conversations/{conversation}/turns/{turn}"))
        .await;
    assert_eq!(
        (&ended["outcome"], &ended["answer"]),
        (&json!("complete"), &json!("Done")),
        "{ended}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn told_twice_it_ends_at_once_and_the_turn_goes_on_at_the_next_start() {
    let annals = Annals::new();
    let (mut server, conversation, turn) = begun(&annals, 600_000, "600").await;
    server.signal(libc::SIGTERM);
    let mut said = BufReader::new(server.child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("once more") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it says that it stops");
    }
    server.signal(libc::SIGINT);
    server.child.stderr = Some(said.into_inner());
    let (code, said) = server.ended();
    assert_ne!(code, Some(0), "{said}");
    let next = Serving::start(&annals, &json!({"steps": [{"text": "After all"}]}), &[]);
    let mut events = next.events(&conversation, None).await;
    while events.block().await.unwrap().1["type"] != "react.completion" {}
    let ended = next
        .get(&format!("/v1/conversations/{conversation}/turns/{turn}"))
        .await;
    assert_eq!(ended["answer"], "After all", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_takes_as_many_open_files_as_it_may_have_and_says_when_that_is_too_few() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": []}));
    let mut command = annals.command(&["serve", "--listen", "127.0.0.1:0", "--model", &model]);
    let few = libc::rlimit {
        rlim_cur: 256,
        rlim_max: 1_000,
    };
    // SAFETY: between fork and exec only a system call is made, on a value that was copied into the closure.
    let command = unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_NOFILE, &few) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let mut server = Serving::of(command);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.child.id())).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let numbers: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers, ["1000", "1000"], "{files}");
    server.signal(libc::SIGTERM);
    let (_, said) = server.ended();
    assert!(said.contains("at most 1000 files may be open"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_access_log_has_a_line_with_its_time_for_each_request_and_no_secret() {
    let annals = Annals::new();
    let script = json!({"steps": [{"text": "Nobody logs this answer"}]});
    let mut server = Serving::start(&annals, &script, &["--access-log"]);
    let opened = server
        .client
        .get(format!("{}/?token={}", server.base, server.token));
    opened.send().await.unwrap();
    let made = server
        .post("/v1/conversations", &json!({}), "a-key-of-mine")
        .await;
    let conversation = made["id"].as_str().unwrap();
    let path = format!("/v1/conversations/{conversation}/turns");
    server
        .post(&path, &json!({"prompt": "Nobody logs this prompt"}), "go")
        .await;
    server.get("/v1/search?q=nobody-logs-this-query").await;
    let mut events = server.events(conversation, None).await;
    while events.block().await.unwrap().1["type"] != "react.completion" {}
    server.signal(libc::SIGTERM);
    let (_, said) = server.ended();
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("annals::access"))
        .collect();
    for route in [
        "route=\"/v1/conversations/{c}/turns\"",
        "route=\"/v1/search\"",
        "route=\"/\"",
    ] {
        assert!(lines.iter().any(|line| line.contains(route)), "{route}: {said}");
    }
    assert!(lines.iter().all(|line| line.contains("time=2")), "{said}");
    let token = server.token.as_str();
    for secret in [token, "Nobody", "nobody-logs", conversation, "a-key-of-mine"] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
}

/// Somebody who takes webhooks, or refuses them.
#[derive(Clone, Default)]
struct Hook {
    received: Arc<Mutex<Vec<(String, Value)>>>,
    takes: Arc<AtomicBool>,
}

impl Hook {
    /// Listens on a thread, and gives the address.
    fn listen(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, hook) = (listener.local_addr().unwrap(), self.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                hook.take(&mut stream.unwrap());
            }
        });
        address.to_string()
    }

    fn take(&self, stream: &mut TcpStream) {
        let (mut head, mut reader) = (String::new(), BufReader::new(stream.try_clone().unwrap()));
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
        }
        let field = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
        };
        let mut body = vec![0; field("content-length").unwrap().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        assert!(field("webhook-signature").unwrap().starts_with("v1,"));
        let row = (
            field("webhook-id").unwrap().to_owned(),
            serde_json::from_slice(&body).unwrap(),
        );
        self.received.lock().unwrap().push(row);
        let status = match self.takes.load(Ordering::SeqCst) {
            true => "204 No Content",
            false => "503 Service Unavailable",
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        stream.write_all(answer.as_bytes()).unwrap();
    }

    fn until(&self, count: usize) -> Vec<(String, Value)> {
        let began = Instant::now();
        loop {
            let received = self.received.lock().unwrap().clone();
            if received.len() >= count {
                return received;
            }
            assert!(began.elapsed() < PATIENCE, "only these came: {received:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_of_the_configuration_is_delivered_by_the_server_after_one_that_was_killed() {
    let (annals, hook) = (Annals::new(), Hook::default());
    let address = hook.listen();
    let config = format!(
        "[[webhook]]\nurl = \"http://{address}/hook\"\nsecret_env = \"HOOK_SECRET\"\nevents = [\"turn.ended\"]\n"
    );
    std::fs::write(annals.in_home("config.toml"), config).unwrap();
    let serve = |steps: Value| {
        let model = annals.script(&json!({ "steps": steps }));
        let mut command = annals.command(&["serve", "--listen", "127.0.0.1:0", "--model", &model]);
        command.env("ANNALS_WEB_ALLOW", &address);
        command.env(
            "HOOK_SECRET",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw7fKq2pXmY1U=",
        );
        Serving::of(&mut command)
    };
    let mut first = serve(json!([{"text": "Done"}]));
    let made = first.post("/v1/conversations", &json!({}), "make").await;
    let path = format!("/v1/conversations/{}/turns", made["id"].as_str().unwrap());
    let started = first.post(&path, &json!({"prompt": "Go"}), "go").await;
    let refused = hook.until(1);
    first.child.kill().unwrap();
    first.child.wait().unwrap();

    let before = hook.received.lock().unwrap().len();
    hook.takes.store(true, Ordering::SeqCst);
    let _next = serve(json!([]));
    let received = hook.until(before + 1);
    let (id, told) = received.last().unwrap();
    assert_eq!(*id, refused[0].0, "sent again, it is the same event");
    assert_eq!(
        (&told["type"], &told["data"]["outcome"]),
        (&json!("turn.ended"), &json!("complete"))
    );
    assert_eq!(told["data"]["turn_id"], started["turn_id"]);
}

#[test]
fn the_servers_own_scope_has_no_tokens() {
    let annals = Annals::new();
    let refused = annals.run(&["token", "create", "--scope", "annals.openai/side/x"]);
    assert_eq!(refused.code, 2, "{}", refused.shown());
    assert!(refused.stderr.contains("server's own"), "{}", refused.shown());
}

/// What calls wait to be told, once something does.
async fn asked(server: &Serving) -> Value {
    let began = Instant::now();
    loop {
        let waiting = server.get("/v1/inputs").await;
        if let Some(first) = waiting["items"].as_array().and_then(|items| items.first()) {
            return first.clone();
        }
        assert!(began.elapsed() < PATIENCE, "nothing is asked: {waiting}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A home whose MCP server books flights, and asks for the seat.
fn with_booking(packages: &Installed) -> Annals {
    let annals = Annals::new();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../annals-mcp/tests/servers");
    let scripts = scripts.canonicalize().unwrap();
    let (python, booking) = (packages.program("python"), scripts.join("booking.py"));
    let [folder, scripts, python, booking] =
        [packages.folder(), &scripts, &python, &booking].map(|path| path.to_str().unwrap());
    annals
        .run(&[
            "mcp", "add", "srv", "--read", folder, "--read", scripts, "--", python, booking,
        ])
        .good();
    let policy = annals.path().join("home/policy.toml");
    std::fs::write(policy, "default = \"allow-all\"\n").unwrap();
    annals
}

#[tokio::test]
async fn a_question_of_an_mcp_server_outlives_a_kill_and_is_answered_by_any_face() {
    let Some(set) = annals_requirements::installed("mcp-python") else {
        return;
    };
    for face in ["http", "cli"] {
        let annals = with_booking(&set);
        let steps = json!({"steps": [{"tool_calls": [{"tool": "srv.book", "params": {"flight": "LH 1"}}]}]});
        let mut first = Serving::start(&annals, &steps, &[]);
        let made = first.post("/v1/conversations", &json!({}), "c").await;
        let c = made["id"].as_str().unwrap().to_owned();
        let turns = format!("/v1/conversations/{c}/turns");
        let turn = first.post(&turns, &json!({"prompt": "Book."}), "t").await;
        let question = asked(&first).await;
        assert_eq!(
            question["message"], "[MCP server `srv`] Which seat in LH 1?",
            "{question}"
        );
        first.child.kill().unwrap();
        drop(first);
        let second = Serving::start(&annals, &json!({"steps": [{"text": "It is booked."}]}), &[]);
        assert_eq!(asked(&second).await, question, "it waits as before");
        let id = question["input_id"].as_str().unwrap();
        let inputs = format!("/v1/conversations/{c}/inputs/{id}");
        match face {
            "http" => {
                let body = json!({"content": {"seat": "12A"}});
                second.post(&inputs, &body, "a").await;
            }
            _ => {
                let listed = annals.run(&["inputs"]).good().stdout;
                assert!(listed.contains("Which seat") && listed.contains(id), "{listed}");
                annals.run(&["answer", &c, id, "{\"seat\": \"12A\"}"]).good();
            }
        }
        let path = format!("{turns}/{}", turn["turn_id"].as_str().unwrap());
        let began = Instant::now();
        let ended = loop {
            let found = second.get(&path).await;
            if found["state"] == "ended" {
                break found;
            }
            assert!(began.elapsed() < PATIENCE, "{face}: {found}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_eq!(ended["answer"], "It is booked.", "{face}: {ended}");
        let effects = annals.path().join("home/mcp/servers/srv/effects");
        assert_eq!(
            std::fs::read_to_string(effects).unwrap(),
            "booked 12A\n",
            "{face}"
        );
    }
}

#[tokio::test]
async fn steps_are_priced_by_the_catalog_of_the_home() {
    let annals = Annals::new();
    let model = annals.script(&json!({"steps": [{"text": "Priced."}]}));
    annals
        .run(&[
            "run",
            "Go",
            "--model",
            &model,
            "--conversation",
            "c1",
            "--turn-id",
            "turn_1",
        ])
        .good();
    annals.price_scripts();
    let other = annals.file("other.json", json!({"steps": []}).to_string());
    let server = Serving::start_with(&annals, &format!("script:{}", other.display()), &[]);
    let steps = server.get("/v1/conversations/c1/steps").await;
    assert_eq!(steps["prices"]["turn_1"]["input"], 3_000, "{steps}");
}

/// The status and body of a request with this token.
async fn answered(serving: &Serving, token: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let address = format!("{}{path}", serving.base);
    let request = match body {
        Some(body) => serving.client.post(address).json(&body),
        None => serving.client.get(address),
    };
    let response = request.bearer_auth(token).send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// Adds a server with resources and prompts.
fn add_library(annals: &Annals, set: &Installed) {
    let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../annals-mcp/tests/servers");
    let servers = servers.canonicalize().unwrap();
    let (folder, script) = (set.folder(), servers.join("library.py"));
    annals
        .run(&[
            "mcp",
            "add",
            "library",
            "--read",
            folder.to_str().unwrap(),
            "--read",
            servers.to_str().unwrap(),
            "--",
            set.program("python3").to_str().unwrap(),
            script.to_str().unwrap(),
        ])
        .good();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_and_prompts_of_mcp_servers_are_for_people_of_the_servers_own_scope() {
    let Some(set) = annals_requirements::installed("mcp-python") else {
        return;
    };
    let annals = Annals::new();
    add_library(&annals, &set);
    let token = annals
        .run(&["token", "create", "--scope", "other/team/ada"])
        .good()
        .stdout;
    let other = token.trim();
    let serving = Serving::start(&annals, &json!({"steps": []}), &[]);
    let own = serving.token.clone();
    let at = |rest: &str| format!("/v1/mcp/servers{rest}");
    let (_, listed) = answered(&serving, &own, &at(""), None).await;
    assert_eq!(listed["items"], json!([{"name": "library"}]));
    let (_, resources) = answered(&serving, &own, &at("/library/resources"), None).await;
    assert_eq!(resources["items"][0]["name"], "Harbour notes");
    assert_eq!(
        resources["items"][0]["description"],
        "What was seen at the harbour."
    );
    let (_, read) = answered(&serving, &own, &at("/library/resource?uri=notes://dot.png"), None).await;
    let item = &read["items"][0];
    assert_eq!(
        (&item["name"], &item["size_bytes"]),
        (&json!("dot.png"), &json!(70))
    );
    let (_, prompts) = answered(&serving, &own, &at("/library/prompts"), None).await;
    assert_eq!(prompts["items"][0]["arguments"][0]["is_required"], true);
    let chosen = json!({"name": "review", "arguments": {"language": "Rust"}});
    let (status, prompt) = answered(&serving, &own, &at("/library/prompt"), Some(chosen.clone())).await;
    assert_eq!(
        (status, &prompt["text"]),
        (200, &json!("Review this Rust code in a kind tone."))
    );
    let (status, problem) = answered(&serving, &own, &at("/library/resource?uri=notes://broken"), None).await;
    assert_eq!(
        (status, &problem["code"]),
        (502, &json!("mcp_server")),
        "{problem}"
    );
    // Another scope sees none of it, whatever it asks.
    assert_eq!(
        answered(&serving, other, &at(""), None).await.1["items"],
        json!([])
    );
    for (path, body) in [
        ("/library/resources", None),
        ("/library/resource?uri=notes://dot.png", None),
        ("/library/prompts", None),
        ("/library/prompt", Some(chosen)),
    ] {
        assert_eq!(answered(&serving, other, &at(path), body).await.0, 404, "{path}");
    }
    assert_eq!(answered(&serving, "annals_wrong", &at(""), None).await.0, 401);
}
