//! Processes that share a database, each behind a network of its own that can be broken.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use annals_testbed::{
    Durability, Edition, FaultProxy, PostgresServer, S3_KEY_ID, S3_SECRET, S3Server, Upstream,
};
use tempfile::TempDir;
use tokio::sync::{Mutex, RwLock, oneshot};

use super::model::Model;

/// What a step of a test may take on a machine that is busy with others.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// All that nodes share, and the nodes.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) token: String,
    pub(crate) folder: TempDir,
    pub(crate) lease: Duration,
    /// Goes before the server, which it starts again.
    keeper: Keeper,
    server: Arc<RwLock<PostgresServer>>,
    /// Where artifacts are, past every fault.
    artifacts: String,
    _model: Model,
}

/// One node: where it is reached, how it reaches the database, and its process.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) base: String,
    pub(crate) proxy: FaultProxy,
    /// How it reaches the bucket, and the server of sandboxes, where nodes have them.
    pub(crate) bucket: Option<FaultProxy>,
    pub(crate) sandboxes: Option<FaultProxy>,
    /// Held by whoever starts and stops it.
    pub(crate) struck: Mutex<()>,
    arguments: Vec<String>,
    home: TempDir,
    process: Mutex<Option<Child>>,
}

/// A statement or a request that lacks a condition: a text of it, and what it is replaced by.
pub(crate) type Mutant = (&'static str, &'static str);

/// What nodes use beside the database, each behind a network of its own.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside<'s> {
    /// Artifacts are kept in its bucket instead of a folder.
    pub(crate) bucket: Option<&'s S3Server>,
    /// Commands run in sandboxes of the OpenSandbox server at this port instead of on this machine.
    pub(crate) sandboxes: Option<u16>,
}

/// Kills the database server and starts it again, on one thread: a server ends with the thread that started it.
struct Keeper {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// How long the server is away, and whom to tell that it is back.
type Order = (Duration, oneshot::Sender<()>);

impl Keeper {
    fn of(server: Arc<RwLock<PostgresServer>>) -> Self {
        let (orders, received) = mpsc::channel::<Order>();
        let thread = std::thread::spawn(move || {
            for (away, done) in received {
                let mut server = server.blocking_write();
                server.kill();
                std::thread::sleep(away);
                server.resume();
                drop(server);
                // Who asked may be gone.
                let _told = done.send(());
            }
            server.blocking_write().kill();
        });
        Keeper {
            orders: Some(orders),
            thread: Some(thread),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Notes in the database who moved which head on, and who held it: what appends say of themselves is not believed. Also how
/// often somebody took a conversation that did not get on, and until when each node might act, each time that this changed.
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
CREATE INDEX ON public.grown (conversation, tail);
CREATE TABLE public.taken (conversation int8, tail int8, token int8);
CREATE FUNCTION public.note_taking() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.taken VALUES (NEW.conversation, NEW.tail, NEW.token);
    RETURN NULL;
END $$;
CREATE TRIGGER note_taking AFTER UPDATE OF token ON annals.head FOR EACH ROW WHEN (OLD.token <> NEW.token)
    EXECUTE FUNCTION public.note_taking();
CREATE TABLE public.begun (conversation text, seq int8, at int8);
CREATE TABLE public.heard (conversation text, seq int8, node text, micros int8);";

impl Cluster {
    /// Starts `count` nodes; nothing where PostgreSQL is not installed. `mutant` changes the statements that nodes send.
    pub(crate) async fn start(count: usize, lease: Duration, mutant: Option<Mutant>) -> Option<Self> {
        Self::start_with(count, lease, mutant, Beside::default()).await
    }

    /// The same, with artifacts and commands elsewhere.
    pub(crate) async fn start_with(
        count: usize,
        lease: Duration,
        mutant: Option<Mutant>,
        beside: Beside<'_>,
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
            let behind = async |port: u16| FaultProxy::start(Upstream::Port(port)).await;
            let bucket = match beside.bucket {
                Some(bucket) => Some(behind(bucket.port()).await),
                None => None,
            };
            let sandboxes = match beside.sandboxes {
                Some(port) => Some(behind(port).await),
                None => None,
            };
            let artifacts = artifacts(&folder, beside.bucket.zip(bucket.as_ref().map(FaultProxy::port)));
            let node = Node::new(number, (proxy, bucket, sandboxes), &artifacts, (&model, lease));
            nodes.push(Arc::new(node));
        }
        let server = Arc::new(RwLock::new(server));
        let cluster = Cluster {
            nodes,
            token: token.trim().to_owned(),
            lease,
            keeper: Keeper::of(Arc::clone(&server)),
            server,
            artifacts: artifacts(&folder, beside.bucket.map(|bucket| (bucket, bucket.port()))),
            folder,
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
        self.server.read().await.count("a", statement).await
    }

    /// Runs statements, past every node.
    pub(crate) async fn execute(&self, statements: &str) {
        self.server.read().await.execute("a", statements).await;
    }

    /// The database server's socket.
    pub(crate) async fn socket(&self) -> PathBuf {
        self.server.read().await.socket()
    }

    /// Kills the database server with all of its processes, and starts it again after a while.
    pub(crate) async fn restart_database(&self, away: Duration) {
        let (done, back) = oneshot::channel();
        let orders = self.keeper.orders.as_ref().expect("it goes with the cluster");
        orders.send((away, done)).expect("the keeper lives");
        back.await.expect("the server starts again");
    }

    /// Runs a command of an operator, past every fault; gives what it printed.
    pub(crate) async fn operate(&self, arguments: &[&str]) -> String {
        // Held for as long as the command runs: nobody restarts the server meanwhile.
        let server = self.server.read().await;
        let url = server.url("a");
        let common = ["--store", &url, "--artifacts", &self.artifacts];
        let arguments = [&common[..], arguments].concat();
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let folder = self.folder.path().to_owned();
        let ran = tokio::task::spawn_blocking(move || {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            annals(&arguments, &folder)
        });
        ran.await.expect("the command ends well")
    }

    /// Where all nodes keep artifacts.
    pub(crate) fn artifacts(&self) -> &str {
        &self.artifacts
    }
}

/// A folder, or the bucket of a server that is reached through this port.
fn artifacts(folder: &TempDir, bucket: Option<(&S3Server, u16)>) -> String {
    match bucket {
        Some((server, port)) => server.url(port, "a"),
        None => format!("file:{}", folder.path().join("artifacts").display()),
    }
}

/// The keys of the bucket's server.
const BUCKET_KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", S3_KEY_ID),
    ("AWS_SECRET_ACCESS_KEY", S3_SECRET),
];

/// The program whose nodes are started: the one that was built with this test, unless another is named.
fn program() -> PathBuf {
    match std::env::var_os("ANNALS_NODE_LOSS_PROGRAM") {
        Some(program) => program.into(),
        None => env!("CARGO_BIN_EXE_annals").into(),
    }
}

/// Runs the binary to its end in a home of its own.
fn annals(arguments: &[&str], folder: &Path) -> String {
    let ran = Command::new(program())
        .args(arguments)
        .env("ANNALS_HOME", folder.join("operator"))
        .envs(BUCKET_KEYS)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

impl Node {
    fn new(
        number: usize,
        (proxy, bucket, sandboxes): (FaultProxy, Option<FaultProxy>, Option<FaultProxy>),
        artifacts: &str,
        (model, lease): (&Model, Duration),
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("policy.toml"), "default = \"allow-all\"\n").unwrap();
        // A node keeps its address when it is started again.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = free.local_addr().unwrap().to_string();
        let (name, port) = (format!("n{number}"), proxy.port());
        let store = format!("postgres://postgres@127.0.0.1:{port}/a?sslmode=disable&application_name={name}");
        let sandbox = match &sandboxes {
            None => "trusted-host".to_owned(),
            Some(server) => {
                let config = "[sandbox.opensandbox]\nworkspace = '/workspace/home'\n";
                std::fs::write(home.path().join("config.toml"), config).unwrap();
                format!("opensandbox:http://127.0.0.1:{}", server.port())
            }
        };
        let arguments = [
            "--store",
            &store,
            "--artifacts",
            artifacts,
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
            bucket,
            sandboxes,
            struck: Mutex::new(()),
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
        let child = Command::new(program())
            .args(&self.arguments)
            .env("ANNALS_HOME", self.home.path())
            .env("OPENAI_API_KEY", "none")
            .envs(BUCKET_KEYS)
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

    /// Waits until it can work. What failed to start, as without a database, is started again, as whoever supervises nodes does.
    pub(crate) async fn wait_until_ready(&self) {
        let (began, client) = (Instant::now(), client());
        loop {
            if self.has_failed().await {
                self.start().await;
            }
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

    /// Whether it has ended by itself.
    async fn has_failed(&self) -> bool {
        let mut process = self.process.lock().await;
        let ended = process.as_mut().map(|child| child.try_wait().unwrap());
        matches!(ended, Some(Some(status)) if !status.success())
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
        self.ended().await
    }

    /// Waits until it has ended; gives its exit code.
    pub(crate) async fn ended(&self) -> Option<i32> {
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
