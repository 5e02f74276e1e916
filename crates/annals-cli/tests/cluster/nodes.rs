//! Processes that share a database, each behind a network of its own that can be broken.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use annals_testbed::{Durability, Edition, FaultProxy, PostgresServer, Upstream};
use tempfile::TempDir;
use tokio::sync::Mutex;

use super::model::Model;

/// What a step of a test may take on a machine that is busy with others.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// All that nodes share, and the nodes.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) token: String,
    pub(crate) folder: TempDir,
    pub(crate) server: PostgresServer,
    pub(crate) lease: Duration,
    _model: Model,
}

/// One node: where it is reached, how it reaches the database, and its process.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) base: String,
    pub(crate) proxy: FaultProxy,
    arguments: Vec<String>,
    home: TempDir,
    process: Mutex<Option<Child>>,
}

/// A statement or a request that lacks a condition: a text of it, and what it is replaced by.
pub(crate) type Mutant = (&'static str, &'static str);

/// What nodes run commands in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Commands<'s> {
    /// This machine.
    Here,
    /// The OpenSandbox server at this address.
    Sandboxes(&'s str),
}

/// Notes in the database who moved which head on, and who held it: what appends say of themselves is not believed. And until
/// when each node might act, each time that this changed.
const NOTES: &str = "
CREATE TABLE public.grown (number int8 GENERATED ALWAYS AS IDENTITY, conversation int8, tail int8, token int8, holder text,
    epoch int8, by text);
CREATE FUNCTION public.note_growth() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.grown (conversation, tail, token, holder, epoch, by)
    VALUES (NEW.conversation, NEW.tail, NEW.token, NEW.node, NEW.epoch, current_setting('application_name'));
    RETURN NULL;
END $$;
CREATE TRIGGER note_growth AFTER UPDATE OF tail ON annals.head FOR EACH ROW WHEN (OLD.tail <> NEW.tail)
    EXECUTE FUNCTION public.note_growth();
CREATE TABLE public.lived (number int8 GENERATED ALWAYS AS IDENTITY, node text, epoch int8, until int8, at int8);
CREATE FUNCTION public.note_life() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.lived (node, epoch, until, at)
    VALUES (NEW.node, NEW.epoch, NEW.until, (extract(epoch FROM clock_timestamp()) * 1000000)::int8);
    RETURN NULL;
END $$;
CREATE TRIGGER note_life AFTER INSERT OR UPDATE ON annals.member FOR EACH ROW EXECUTE FUNCTION public.note_life();
CREATE TABLE public.begun (conversation text, seq int8, at int8);";

impl Cluster {
    /// Starts `count` nodes; nothing where PostgreSQL is not installed. `mutant` changes the statements that nodes send.
    pub(crate) async fn start(count: usize, lease: Duration, mutant: Option<Mutant>) -> Option<Self> {
        Self::start_with(count, lease, mutant, Commands::Here).await
    }

    /// The same, with commands that run elsewhere.
    pub(crate) async fn start_with(
        count: usize,
        lease: Duration,
        mutant: Option<Mutant>,
        commands: Commands<'_>,
    ) -> Option<Self> {
        // Fails when another test of this process was first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = PostgresServer::start(Edition::Debian, Durability::Synced, &[])?;
        let url = server.database("a", None).await;
        let folder = tempfile::tempdir().unwrap();
        let model = Model::start(&folder.path().join("ledger")).await;
        annals(&["--store", &url, "store", "init"], folder.path());
        server.execute("a", NOTES).await;
        let token = annals(
            &["--store", &url, "token", "create", "--name", "all"],
            folder.path(),
        );
        let mut nodes = Vec::new();
        for number in 1..=count {
            let proxy = FaultProxy::start(Upstream::Unix(server.socket())).await;
            if let Some((from, to)) = mutant {
                proxy.rewrite(from, to);
            }
            let node = Node::new(number, proxy, &folder, (&model, lease, commands));
            nodes.push(Arc::new(node));
        }
        let cluster = Cluster {
            nodes,
            token: token.trim().to_owned(),
            folder,
            server,
            lease,
            _model: model,
        };
        for node in &cluster.nodes {
            node.start().await;
        }
        for node in &cluster.nodes {
            node.wait_until_ready().await;
        }
        Some(cluster)
    }

    /// One number that a statement gives.
    pub(crate) async fn count(&self, statement: &str) -> i64 {
        self.server.count("a", statement).await
    }

    /// Runs a command of an operator, past every fault; gives what it printed.
    pub(crate) fn operate(&self, arguments: &[&str]) -> String {
        let (url, artifacts) = (self.server.url("a"), self.artifacts());
        let common = ["--store", &url, "--artifacts", &artifacts];
        annals(&[&common[..], arguments].concat(), self.folder.path())
    }

    /// Where all nodes keep artifacts.
    pub(crate) fn artifacts(&self) -> String {
        artifacts(&self.folder)
    }
}

fn artifacts(folder: &TempDir) -> String {
    format!("file:{}", folder.path().join("artifacts").display())
}

/// Runs the binary to its end in a home of its own.
fn annals(arguments: &[&str], folder: &Path) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_annals"))
        .args(arguments)
        .env("ANNALS_HOME", folder.join("operator"))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

impl Node {
    fn new(
        number: usize,
        proxy: FaultProxy,
        folder: &TempDir,
        (model, lease, commands): (&Model, Duration, Commands<'_>),
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("policy.toml"), "default = \"allow-all\"\n").unwrap();
        // A node keeps its address when it is started again.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = free.local_addr().unwrap().to_string();
        let (name, port) = (format!("n{number}"), proxy.port());
        let store = format!("postgres://postgres@127.0.0.1:{port}/a?sslmode=disable&application_name={name}");
        let artifacts = artifacts(folder);
        let sandbox = match commands {
            Commands::Here => "trusted-host".to_owned(),
            Commands::Sandboxes(url) => {
                let config = "[sandbox.opensandbox]\nworkspace = '/workspace/home'\n";
                std::fs::write(home.path().join("config.toml"), config).unwrap();
                format!("opensandbox:{url}")
            }
        };
        let arguments = [
            "--store",
            &store,
            "--artifacts",
            &artifacts,
            "--sandbox",
            &sandbox,
            "--model",
            "openai:plan",
            "--base-url",
            &model.base_url,
            "serve",
            "--listen",
            &listen,
            "--node",
            &name,
            "--lease",
            &lease.as_secs().to_string(),
            "--grace",
            "10",
            "--public-url",
            "https://annals.example",
        ];
        Node {
            base: format!("http://{listen}"),
            arguments: arguments.map(str::to_owned).to_vec(),
            name,
            proxy,
            home,
            process: Mutex::new(None),
        }
    }

    pub(crate) async fn start(&self) {
        let said = File::options()
            .create(true)
            .append(true)
            .open(self.home.path().join("said"))
            .unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_annals"))
            .args(&self.arguments)
            .env("ANNALS_HOME", self.home.path())
            .env("OPENAI_API_KEY", "none")
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .unwrap();
        *self.process.lock().await = Some(child);
    }

    /// What it has said on standard error.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.home.path().join("said")).unwrap_or_default()
    }

    pub(crate) async fn wait_until_ready(&self) {
        let (began, client) = (Instant::now(), client());
        loop {
            let asked = client.get(format!("{}/readyz", self.base)).send().await;
            if asked.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{} is not ready: {}",
                self.name,
                self.said()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub(crate) async fn signal(&self, signal: i32) {
        if let Some(child) = &*self.process.lock().await {
            // SAFETY: sends a signal to a process that this test started and has not waited for.
            let sent = unsafe { libc::kill(child.id() as i32, signal) };
            assert_eq!(sent, 0);
        }
    }

    pub(crate) async fn kill(&self) {
        if let Some(mut child) = self.process.lock().await.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Tells it to stop, and waits until it has; gives its exit code.
    pub(crate) async fn terminate(&self) -> Option<i32> {
        self.signal(libc::SIGTERM).await;
        let mut child = self.process.lock().await.take()?;
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code();
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{} does not stop: {}",
                self.name,
                self.said()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = self.process.get_mut() {
            let _ended = child.kill();
            let _ended = child.wait();
        }
    }
}

/// A client that waits for no answer for ever.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .connect_timeout(Duration::from_secs(2))
        .build()
        .unwrap()
}
