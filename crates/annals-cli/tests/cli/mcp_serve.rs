//! `mcp serve` with tools of the agent that clients may call: code in the sandbox, documents, the web.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::annals::Annals;

/// A client that writes its messages by hand.
struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Client {
    fn start(annals: &Annals, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut child = annals
            .command(&[&["mcp", "serve"], args].concat())
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut client = Client {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            last: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"},
        });
        client.asks("initialize", hello);
        client.says(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn says(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
        input.flush().unwrap();
    }

    fn asks(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.says(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server is gone");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message["result"].clone();
            }
        }
    }

    /// Calls a tool, and waits for as long as it takes.
    fn calls(&mut self, tool: &str, arguments: Value) -> Value {
        let mut told = self.asks("tools/call", json!({"name": tool, "arguments": arguments}));
        while told["structuredContent"]["state"] == "running" {
            let handle = &told["structuredContent"];
            let handle = json!({"conversation": handle["conversation"], "turn": handle["turn"]});
            told = self.asks("tools/call", json!({"name": "annals_wait", "arguments": handle}));
        }
        told
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Serves one page to whoever comes; gives its address.
fn page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let body = "<html><body><h1>Tides</h1><p>High water is at noon.</p></body></html>";
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

const ALLOWED: [&str; 3] = [
    "exec_tools.execute_code_python",
    "rendering_tools.write_pdf",
    "web_tools.web_fetch",
];

#[test]
fn allowed_tools_run_code_in_the_sandbox_make_documents_and_read_the_web() {
    let annals = Annals::new();
    std::fs::write(annals.in_home("policy.toml"), "default = \"allow-all\"\n").unwrap();
    let model = annals.script(&json!({"steps": []}));
    let address = page();
    let mut args = vec!["--model", &model];
    args.extend(ALLOWED.iter().flat_map(|tool| ["--allow", tool]));
    let mut client = Client::start(&annals, &args, &[("ANNALS_WEB_ALLOW", &address)]);

    let tools = client.asks("tools/list", json!({}))["tools"].clone();
    let open_world = |name: &str| {
        let tools = tools.as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["annotations"]["openWorldHint"].clone()
    };
    assert_eq!(open_world("web_tools__web_fetch"), true);
    assert_eq!(open_world("rendering_tools__write_pdf"), false);

    // What the sandbox hides is not there for the code.
    let secret = annals.in_home("policy.toml");
    let code = format!(
        "import os\nseen = os.path.exists({:?})\n\
         open(os.environ['FILES_DIR'] + '/seen.csv', 'w').write('seen\\n%s\\n' % seen)\n",
        secret.to_str().unwrap()
    );
    let contract = json!([{"filename": "seen.csv", "description": "what can be seen"}]);
    let ran = client.calls(
        "exec_tools__execute_code_python",
        json!({"code": code, "contract": contract, "prog_name": "look"}),
    );
    let told = &ran["structuredContent"];
    assert_ne!(ran["isError"], true, "{ran}");
    assert_eq!(told["files"][0]["media_type"], "text/csv", "{ran}");
    let read = client.asks("resources/read", json!({"uri": told["files"][0]["uri"]}));
    assert_eq!(read["contents"][0]["text"], "seen\nFalse\n", "{read}");

    // In the conversation of the code, a document.
    let written = client.calls(
        "rendering_tools__write_pdf",
        json!({"path": "tides.pdf", "content": "# Tides\n\nHigh water is at noon.", "conversation": told["conversation"]}),
    );
    let file = &written["structuredContent"]["files"][0];
    assert_eq!(file["media_type"], "application/pdf", "{written}");
    assert_eq!(written["structuredContent"]["conversation"], told["conversation"]);
    let link = written["content"]
        .as_array()
        .unwrap()
        .iter()
        .find(|part| part["type"] == "resource_link")
        .unwrap();
    assert_eq!(
        (&link["uri"], &link["mimeType"]),
        (&file["uri"], &json!("application/pdf"))
    );
    let read = client.asks("resources/read", json!({"uri": file["uri"]}));
    let contents = &read["contents"][0];
    assert_eq!(contents["mimeType"], "application/pdf", "{contents}");
    assert!(
        contents["blob"].as_str().unwrap().starts_with("JVBERi"),
        "the bytes of a PDF"
    );

    let fetched = client.calls(
        "web_tools__web_fetch",
        json!({"urls": [format!("http://{address}/tides")]}),
    );
    assert_ne!(fetched["isError"], true, "{fetched}");
    let result = fetched["structuredContent"]["result"].as_str().unwrap();
    assert!(result.contains("High water is at noon."), "{fetched}");

    // Whatever was not allowed is not there.
    let refused = client.calls("react__write", json!({"path": "a.md"}));
    assert_eq!(refused["isError"], true, "{refused}");
}

#[test]
fn a_client_on_the_streams_waits_for_a_person_like_every_other() {
    let annals = Annals::new();
    let rule = "[[rule]]\ntool = \"react.write\"\ndecide = \"ask\"\n";
    std::fs::write(annals.in_home("policy.toml"), rule).unwrap();
    let model = annals.script(&json!({"steps": []}));
    let mut client = Client::start(&annals, &["--model", &model, "--allow", "react.write"], &[]);
    let note = json!({"path": "a.md", "channel": "canvas", "content": "# A", "kind": "file"});
    let called = client.calls("react__write", note);
    let told = &called["structuredContent"];
    assert_eq!(told["state"], "waiting", "{called}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (conversation, approval) = (text(&told["conversation"]), text(&told["waiting_for"][0]["id"]));
    let handle = json!({"conversation": conversation, "turn": told["turn"]});
    // A person decides in another process, which leaves; the client's own goes on with the turn.
    annals.run(&["approve", &conversation, &approval]).good();
    let ended = client.asks("tools/call", json!({"name": "annals_wait", "arguments": handle}));
    assert_eq!(ended["structuredContent"]["state"], "ended", "{ended}");
    assert_eq!(
        ended["structuredContent"]["files"][0]["media_type"], "text/markdown",
        "{ended}"
    );
}
