//! Servers that speak S3's protocol: moto, in memory and strict, and rclone, which ignores preconditions.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use annals_requirements::installed;
use tempfile::TempDir;

/// The key that the servers know.
pub const S3_KEY_ID: &str = "annals";
pub const S3_SECRET: &str = "annals-secret";

const BUCKET: &str = "bucket";

/// A running server with one empty bucket.
#[derive(Debug)]
pub struct S3Server {
    _folder: TempDir,
    child: Child,
    port: u16,
}

impl S3Server {
    /// moto: objects in memory, preconditions as Amazon documents them.
    ///
    /// # Panics
    /// If it does not start, or in CI if it is not installed.
    pub fn moto() -> Option<Self> {
        let set = installed("moto")?;
        let server = Self::start(|port, _| {
            let mut command = Command::new(set.program("moto_server"));
            command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            command
        });
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("the server listens");
        let request = format!(
            "PUT /{BUCKET} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        assert!(
            answer.starts_with("HTTP/1.1 200"),
            "the bucket was not made: {answer}"
        );
        Some(server)
    }

    /// rclone: objects as files, preconditions ignored.
    ///
    /// # Panics
    /// If it does not start, or in CI if it is not installed.
    pub fn rclone() -> Option<Self> {
        let set = installed("rclone")?;
        Some(Self::start(|port, folder| {
            std::fs::create_dir(folder.path().join(BUCKET)).expect("a folder for the bucket");
            let mut command = Command::new(set.program("rclone"));
            command.args(["serve", "s3", "--addr", &format!("127.0.0.1:{port}")]);
            command.args(["--auth-key", &format!("{S3_KEY_ID},{S3_SECRET}")]);
            command.args(["--config", "/dev/null"]).arg(folder.path());
            command
        }))
    }

    fn start(command: impl FnOnce(u16, &TempDir) -> Command) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the server");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("its number").port();
        drop(free);
        let child = command(port, &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut server = S3Server {
            _folder: folder,
            child: child.expect("the server starts"),
            port,
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().ok().flatten();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "the server did not start"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a part of its bucket, through this port.
    pub fn url(&self, port: u16, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}?region=us-east-1&endpoint=http://127.0.0.1:{port}")
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}
