//! PgBouncer in transaction mode before a PostgreSQL server.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use annals_requirements::{Requirement, met, program};
use tempfile::TempDir;

use crate::postgres::url;
use crate::{PostgresServer, account};

const PORT: u16 = 6432;

/// A running pooler.
#[derive(Debug)]
pub struct PgBouncer {
    folder: TempDir,
    child: Option<Child>,
}

impl PgBouncer {
    /// Starts a pooler before a server; nothing where it is not installed.
    ///
    /// # Panics
    /// If it does not start, or in CI if it is not installed.
    pub fn start(server: &PostgresServer) -> Option<Self> {
        Self::start_with(server, 20)
    }

    /// The same with this many connections to the server, which all clients share.
    ///
    /// # Panics
    /// If it does not start, or in CI if it is not installed.
    pub fn start_with(server: &PostgresServer, connections: usize) -> Option<Self> {
        if !met(Requirement::PgBouncer) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder for the pooler");
        let settings = format!(
            "[databases]\n* = host={} port=5432\n[pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\n\
             unix_socket_dir = {here}\nauth_type = trust\nauth_file = {here}/users.txt\npool_mode = transaction\n\
             max_client_conn = 500\ndefault_pool_size = {connections}\nserver_idle_timeout = 1\nlogfile = {here}/pooler.log\n",
            server.socket_folder().display(),
            here = folder.path().display()
        );
        std::fs::write(folder.path().join("pooler.ini"), settings).expect("settings for the pooler");
        std::fs::write(folder.path().join("users.txt"), "\"postgres\" \"\"\n").expect("a list of users");
        account::own(folder.path());
        let mut pooler = PgBouncer { folder, child: None };
        pooler.resume();
        Some(pooler)
    }

    /// Starts it again after [`kill`](Self::kill).
    ///
    /// # Panics
    /// If it does not start.
    pub fn resume(&mut self) {
        let program = program("pgbouncer").unwrap_or_else(|| "/usr/sbin/pgbouncer".into());
        let child = account::command(&program)
            .arg("-q")
            .arg(self.folder.path().join("pooler.ini"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("the pooler starts"));
        let deadline = Instant::now() + Duration::from_secs(20);
        let socket = self.folder.path().join(format!(".s.PGSQL.{PORT}"));
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < deadline, "the pooler did not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _gone = child.kill();
            let _status = child.wait();
            let _socket = std::fs::remove_file(self.folder.path().join(format!(".s.PGSQL.{PORT}")));
        }
    }

    /// Where a database of the server is through this pooler.
    pub fn url(&self, database: &str) -> String {
        format!("{}?pooled=true", url(self.folder.path(), PORT, database))
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.kill();
    }
}
