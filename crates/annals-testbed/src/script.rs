//! Servers that are scripts: of the tests themselves, or of a package.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// A program that serves until this is dropped.
pub struct ScriptServer {
    child: Child,
    ports: Vec<u16>,
}

impl ScriptServer {
    /// Starts a program that prints its ports in its first line, and waits for that.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let ports: Result<Vec<u16>, _> = line.split_whitespace().map(str::parse).collect();
        let ports = ports.unwrap_or_else(|_| panic!("the server printed `{line}` instead of its ports"));
        ScriptServer { child, ports }
    }

    /// Starts a program that was told its port.
    pub fn start_on(port: u16, command: &mut Command) -> Self {
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let ports = vec![port];
        ScriptServer { child, ports }
    }

    /// The ports, in the order printed.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
