//! A program on a terminal of its own, and every byte that reached it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program that is running on a terminal.
pub(crate) struct OnTerminal {
    child: std::process::Child,
    master: File,
}

/// Opens both ends of a pseudo-terminal of 200 columns.
fn open() -> (File, OwnedFd) {
    let (mut master, mut slave) = (0, 0);
    let size = libc::winsize {
        ws_row: 50,
        ws_col: 200,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: both places for descriptors and the size outlive the call; the name and the settings are not asked for.
    let opened = unsafe {
        libc::openpty(
            &mut master,
            &mut slave,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            &size,
        )
    };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the call succeeded, so both descriptors are open and belong to nobody else.
    unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) }
}

impl OnTerminal {
    /// Starts a program with its output and its errors on one terminal. Its input is as the command says.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let (master, slave) = open();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = command
            .env("TERM", "xterm-256color")
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        // The command keeps the ends that it was given; they would keep the terminal open.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        OnTerminal { child, master }
    }

    /// Everything that reached the terminal until the program ended, and its exit code.
    pub(crate) fn finish(mut self) -> (String, i32) {
        let mut bytes = Vec::new();
        // When the last writer has closed the terminal, reading it is an error.
        let _ = self.master.read_to_end(&mut bytes);
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (String::from_utf8_lossy(&bytes).into_owned(), code)
    }
}

/// A program that somebody types to, on a terminal that is its input as well.
pub(crate) struct Typed {
    child: std::process::Child,
    master: File,
    seen: Arc<Mutex<String>>,
    /// How much of it was waited for already.
    read: usize,
}

impl Typed {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let (master, slave) = open();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let seen = Arc::new(Mutex::new(String::new()));
        let (mut reader, into) = (master.try_clone().unwrap(), seen.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut buffer) {
                into.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        });
        Typed {
            child,
            master,
            seen,
            read: 0,
        }
    }

    /// Waits until this stands on the terminal, behind what was waited for before.
    pub(crate) fn sees(&mut self, text: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let seen = self.seen.lock().unwrap().clone();
            if let Some(at) = seen[self.read..].find(text) {
                self.read += at + text.len();
                return;
            }
            assert!(
                Instant::now() < until,
                "`{text}` does not come after {:?}",
                &seen[self.read..]
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Types a line.
    pub(crate) fn types(&mut self, line: &str) {
        self.master.write_all(format!("{line}\r").as_bytes()).unwrap();
    }

    /// Its exit code, and all that was on the terminal.
    pub(crate) fn ended(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let seen = self.seen.lock().unwrap().clone();
        (code, seen)
    }
}
