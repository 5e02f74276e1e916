//! The file of a home that lists servers in the common form, `mcp.json`: what `annals mcp add` writes, and where a list
//! from another program can be put as it is.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::config::{ConfigError, Entry, Servers};
use crate::private_file;

const SERVERS: &str = "mcpServers";

/// The list of a home.
#[derive(Debug, Clone)]
pub struct ServerFile(PathBuf);

/// Why the list cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read or written.
    #[error("`{path}`: {error}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        error: io::Error,
    },
    /// What it says cannot be used.
    #[error("`{path}`: {error}")]
    Config {
        /// The file.
        path: String,
        /// What is wrong.
        error: ConfigError,
    },
}

impl ServerFile {
    /// Of this home.
    pub fn of_home(home: &Path) -> Self {
        ServerFile(home.join("mcp.json"))
    }

    /// The servers it lists; none if there is no such file.
    pub fn servers(&self) -> Result<Servers, FileError> {
        match self.text()? {
            None => Ok(Servers::default()),
            Some(text) => Servers::from_json(&text).map_err(|error| self.wrong(error)),
        }
    }

    /// Adds a server, or replaces the one of this name.
    pub fn insert(&self, name: &str, entry: &Entry) -> Result<(), FileError> {
        let entry = serde_json::to_value(entry).unwrap_or_else(|_| json!({}));
        self.change(|servers| drop(servers.insert(name.to_owned(), entry)))
    }

    /// Takes a server off the list; says whether it was there.
    pub fn remove(&self, name: &str) -> Result<bool, FileError> {
        let mut was_there = false;
        self.change(|servers| was_there = servers.shift_remove(name).is_some())?;
        Ok(was_there)
    }

    /// Changes the list and leaves everything else in the file alone.
    fn change(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Result<(), FileError> {
        let text = self.text()?.unwrap_or_else(|| "{}".to_owned());
        let mut file: Value =
            serde_json::from_str(&text).map_err(|error| self.wrong(ConfigError::Json(error.to_string())))?;
        let servers = file
            .as_object_mut()
            .map(|file| file.entry(SERVERS).or_insert_with(|| json!({})))
            .and_then(Value::as_object_mut);
        match servers {
            Some(servers) => change(servers),
            None => return Err(self.wrong(ConfigError::Json("it is not an object".to_owned()))),
        }
        private_file::write_json(&self.0, &file).map_err(|error| self.io(error))
    }

    fn text(&self) -> Result<Option<String>, FileError> {
        let bytes = private_file::read(&self.0).map_err(|error| self.io(error))?;
        let text = bytes.map(String::from_utf8).transpose();
        text.map_err(|error| self.io(io::Error::other(error)))
    }

    fn io(&self, error: io::Error) -> FileError {
        FileError::Io {
            path: self.0.display().to_string(),
            error,
        }
    }

    fn wrong(&self, error: ConfigError) -> FileError {
        FileError::Config {
            path: self.0.display().to_string(),
            error,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_server_comes_and_goes_and_the_rest_of_the_file_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("mcp.json");
        let file = ServerFile::of_home(home.path());
        assert!(file.servers().unwrap().is_empty());
        std::fs::write(&path, r#"{"theme": "dark"}"#).unwrap();
        let entry = Entry {
            command: Some("server".to_owned()),
            ..Entry::default()
        };
        file.insert("a", &entry).unwrap();
        assert!(file.servers().unwrap().get("a").is_some());
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(file.remove("a").unwrap());
        assert!(!file.remove("a").unwrap());
        assert!(std::fs::read_to_string(&path).unwrap().contains("dark"));
    }
}
