//! Three PostgreSQL servers whose leader Patroni chooses, by an etcd of their own.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use annals_requirements::{Requirement, installed, met, program};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::account;
use crate::postgres::{children, is_alive, signal};

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// Until one of the two standbys has it, too; without any, nothing is committed.
    Quorum,
    /// For the leader alone.
    Asynchronous,
}

/// How long a set may take to come up, or to find another leader.
const PATIENCE: Duration = Duration::from_secs(120);

const MEMBERS: usize = 3;

/// A running set. Its data and processes go with it.
#[derive(Debug)]
pub struct PatroniSet {
    folder: TempDir,
    etcd: Child,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    data: PathBuf,
    port: u16,
    api: u16,
    patroni: Option<Child>,
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("its number").port()
}

impl PatroniSet {
    /// Starts three empty servers; nothing where Patroni, etcd or PostgreSQL is not installed.
    ///
    /// # Panics
    /// If no leader is found, or in CI if something is not installed.
    pub fn start(replication: Replication) -> Option<Self> {
        let patroni = installed("patroni")?.program("patroni");
        if !met(Requirement::Postgres) || !met(Requirement::Etcd) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder for the set");
        account::own(folder.path());
        let (clients, etcd) = start_etcd(folder.path());
        let mut set = PatroniSet {
            folder,
            etcd,
            members: Vec::new(),
        };
        for number in 1..=MEMBERS {
            let member = Member {
                data: set.folder.path().join(format!("data{number}")),
                port: free_port(),
                api: free_port(),
                patroni: None,
            };
            let settings = member.settings(number, set.folder.path(), clients, replication);
            let file = set.folder.path().join(format!("member{number}.yml"));
            std::fs::write(&file, settings).expect("settings for a member");
            let patroni = Some(set.start_patroni(&patroni, &file));
            set.members.push(Member { patroni, ..member });
        }
        let standing = match replication {
            Replication::Quorum => "/quorum",
            Replication::Asynchronous => "/replica",
        };
        set.wait_until("the set did not come up", |set| {
            set.leader().is_some()
                && set.members.iter().filter(|member| member.is(standing)).count() == MEMBERS - 1
        });
        Some(set)
    }

    fn start_patroni(&self, patroni: &Path, settings: &Path) -> Child {
        let log = File::options()
            .create(true)
            .append(true)
            .open(settings.with_extension("log"));
        let log = log.expect("a log for a member");
        account::command_that_reads_all(patroni)
            .arg(settings)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("Patroni starts")
    }

    fn wait_until(&self, otherwise: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{otherwise}: {}", self.said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn said(&self) -> String {
        let logs = (1..=MEMBERS).map(|number| {
            let log = self.folder.path().join(format!("member{number}.log"));
            std::fs::read_to_string(log).unwrap_or_default()
        });
        logs.collect()
    }

    /// Which member leads, by its own account.
    fn leader(&self) -> Option<usize> {
        self.members.iter().position(|member| member.is("/leader"))
    }

    /// The address of a database of the set, whichever server leads.
    pub fn url(&self, database: &str) -> String {
        let hosts: Vec<String> = self
            .members
            .iter()
            .map(|member| format!("127.0.0.1:{}", member.port))
            .collect();
        format!(
            "postgres://postgres@{}/{database}?target_session_attrs=read-write",
            hosts.join(",")
        )
    }

    /// Keeps the standbys of an asynchronous set from receiving what the leader writes from now on, for most of a minute.
    ///
    /// # Panics
    /// If a standby goes on receiving.
    pub fn hold_up_standbys(&self) {
        let leader = self.leader();
        let standbys = self.members.iter().enumerate();
        for (_, member) in standbys.filter(|(at, _)| Some(*at) != leader) {
            member.end_receivers();
        }
    }

    /// Kills the leader with everything on its machine, and waits until another leads; gives how long that took.
    ///
    /// # Panics
    /// If nobody leads, or nobody takes over.
    pub fn lose_leader(&mut self) -> Duration {
        let lost = self.leader().expect("somebody leads");
        let began = Instant::now();
        self.members[lost].kill();
        self.wait_until("nobody took over", |set| set.leader().is_some());
        began.elapsed()
    }
}

impl Drop for PatroniSet {
    fn drop(&mut self) {
        for member in &mut self.members {
            member.kill();
        }
        let _gone = self.etcd.kill();
        let _status = self.etcd.wait();
    }
}

impl Member {
    fn settings(&self, number: usize, folder: &Path, etcd: u16, replication: Replication) -> String {
        // A receiver that was ended comes back after the interval.
        let (mode, is_strict, interval) = match replication {
            Replication::Quorum => ("quorum", true, "1s"),
            Replication::Asynchronous => ("off", false, "60s"),
        };
        let programs = annals_requirements::postgres_programs().expect("PostgreSQL is installed");
        let Member { data, port, api, .. } = self;
        format!(
            "scope: annals\n\
             name: member{number}\n\
             restapi: {{listen: '127.0.0.1:{api}', connect_address: '127.0.0.1:{api}'}}\n\
             etcd3: {{hosts: ['127.0.0.1:{etcd}']}}\n\
             bootstrap:\n\
             \x20 dcs:\n\
             \x20   ttl: 20\n\
             \x20   loop_wait: 1\n\
             \x20   retry_timeout: 3\n\
             \x20   maximum_lag_on_failover: 1073741824\n\
             \x20   synchronous_mode: {mode}\n\
             \x20   synchronous_mode_strict: {is_strict}\n\
             \x20   postgresql: {{parameters: {{max_connections: 100, wal_retrieve_retry_interval: {interval}}}}}\n\
             \x20 initdb: [{{encoding: UTF8}}, no-locale, no-sync]\n\
             postgresql:\n\
             \x20 listen: 127.0.0.1:{port}\n\
             \x20 connect_address: 127.0.0.1:{port}\n\
             \x20 data_dir: {data}\n\
             \x20 bin_dir: {programs}\n\
             \x20 pgpass: {folder}/pgpass{number}\n\
             \x20 authentication: {{superuser: {{username: postgres}}, replication: {{username: replicator}}}}\n\
             \x20 parameters: {{unix_socket_directories: {folder}}}\n\
             \x20 pg_hba: [local all all trust, host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]\n\
             \x20 basebackup: [no-sync, {{checkpoint: fast}}]\n",
            data = data.display(),
            programs = programs.display(),
            folder = folder.display(),
        )
    }

    /// Whether Patroni says so of its server.
    fn is(&self, path: &str) -> bool {
        let asked = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.api))?;
            stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        asked().is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
    }

    /// Ends the process that receives what the leader writes. The first comes back at once, the next after the interval.
    fn end_receivers(&self) {
        let is_receiver = |pid: &u32| {
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
            line.is_ok_and(|line| line.contains("walreceiver"))
        };
        let receiver = || self.postmaster().into_iter().flat_map(children).find(is_receiver);
        let (began, mut last_seen) = (Instant::now(), Instant::now());
        while last_seen.elapsed() < Duration::from_secs(1) {
            if let Some(pid) = receiver() {
                signal(pid, Signal::TERM);
                last_seen = Instant::now();
            }
            assert!(began.elapsed() < PATIENCE, "a standby goes on receiving");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn postmaster(&self) -> Option<u32> {
        let status = std::fs::read_to_string(self.data.join("postmaster.pid")).ok()?;
        status.lines().next()?.parse().ok()
    }

    /// Kills Patroni and its server with all processes.
    fn kill(&mut self) {
        if let Some(mut patroni) = self.patroni.take() {
            let _gone = patroni.kill();
            let _status = patroni.wait();
        }
        let Some(postmaster) = self.postmaster().filter(|pid| is_server_of(*pid, &self.data)) else {
            return;
        };
        let pids: Vec<u32> = children(postmaster).into_iter().chain([postmaster]).collect();
        for pid in &pids {
            signal(*pid, Signal::KILL);
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while pids.iter().any(|pid| is_alive(*pid)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether a process is the server of this folder, and not another that was given its number.
fn is_server_of(pid: u32, data: &Path) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.contains(&data.display().to_string())
}

/// An etcd of one node; gives the port for its clients.
fn start_etcd(folder: &Path) -> (u16, Child) {
    let (clients, peers) = (free_port(), free_port());
    let log = File::create(folder.join("etcd.log")).expect("a log for etcd");
    let mut command = account::command(&program("etcd").expect("etcd is installed"));
    for (flag, port) in [
        ("--listen-client-urls", clients),
        ("--advertise-client-urls", clients),
        ("--listen-peer-urls", peers),
        ("--initial-advertise-peer-urls", peers),
    ] {
        command.arg(flag).arg(format!("http://127.0.0.1:{port}"));
    }
    let etcd = command
        .arg("--initial-cluster")
        .arg(format!("default=http://127.0.0.1:{peers}"))
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log)
        .spawn()
        .expect("etcd starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", clients)).is_err() {
        assert!(Instant::now() < deadline, "etcd did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    (clients, etcd)
}
