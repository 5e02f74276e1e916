//! Through LiteLLM's proxy, over each of the three protocols that Annals speaks.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use annals::model::{Anthropic, OpenAi, Wire};
use annals_requirements::installed;

use crate::{same, script, scripted, timeline};

const KEY: &str = "sk-annals-a-key-of-the-tests-that-is-long-enough";
const START_LIMIT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn the_timeline_is_the_same_through_a_proxy_of_another_project() {
    let Some(packages) = installed("litellm-proxy") else {
        return;
    };
    let proxy = Proxy::start(&packages.program("litellm"));
    let at = |path: &str| format!("http://127.0.0.1:{}{path}", proxy.port);
    let openai = |wire| {
        let model = OpenAi::builder("played").base_url(&at("/v1")).key(KEY).wire(wire);
        model.build().unwrap()
    };
    let scripted = scripted(&script()).await;
    assert!(scripted.contains("Both are written."), "{scripted}");
    same("chat completions", &timeline(openai(Wire::Chat)).await, &scripted);
    same("responses", &timeline(openai(Wire::Responses)).await, &scripted);
    let anthropic = Anthropic::builder("played")
        .base_url(&at(""))
        .key(KEY)
        .build()
        .unwrap();
    same("messages", &timeline(anthropic).await, &scripted);
}

/// LiteLLM's proxy with a provider that plays the script.
struct Proxy {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Proxy {
    fn start(program: &Path) -> Proxy {
        let folder = tempfile::tempdir().unwrap();
        let files = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/same_timeline/litellm");
        for name in ["player.py", "config.yaml"] {
            std::fs::copy(files.join(name), folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("script.json"), script().to_string()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let process = Command::new(program)
            .args([
                "--config",
                "config.yaml",
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
            ])
            .current_dir(folder.path())
            .env("ANNALS_SCRIPT", folder.path().join("script.json"))
            .env("LITELLM_MASTER_KEY", KEY)
            // Otherwise it asks the network for prices first.
            .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            .stdout(std::fs::File::create(folder.path().join("log")).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let proxy = Proxy {
            process,
            port,
            _folder: folder,
        };
        proxy.wait_until_ready();
        proxy
    }

    fn wait_until_ready(&self) {
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(started.elapsed() < START_LIMIT, "the proxy does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
