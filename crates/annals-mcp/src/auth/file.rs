//! What is kept of a login, in a file of the home that nobody else can read: tokens, the client that got them, and where the
//! server said that logins are made.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{limits, private_file};

/// The folder of all logins.
#[derive(Debug, Clone)]
pub struct LoginFolder(PathBuf);

impl LoginFolder {
    /// Below this home.
    pub fn of_home(home: &Path) -> Self {
        LoginFolder(home.join("mcp").join("logins"))
    }

    pub(crate) fn file(&self, namespace: &str) -> LoginFile {
        LoginFile {
            folder: self.0.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// Forgets the login of a server; says whether there was one.
    pub fn forget(&self, namespace: &str) -> io::Result<bool> {
        private_file::remove(&self.file(namespace).path())
    }
}

/// The login of one server.
#[derive(Debug, Clone)]
pub(crate) struct LoginFile {
    folder: PathBuf,
    namespace: String,
}

/// What is kept. Not printable: it is mostly secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// The server's address. Tokens are not sent to another one that got the same name.
    pub(crate) url: String,
    /// What the server said when it refused a request without a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) challenge: Option<String>,
    /// As whom the login was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client: Option<Client>,
    /// The server refuses the token, and it could not be renewed.
    #[serde(default)]
    pub(crate) is_refused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) credentials: Option<StoredCredentials>,
}

/// A client that an authorization server knows.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    /// Of one that was registered for this login; a configured secret stays where it is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    pub(crate) redirect: String,
}

/// Tokens as they are used.
pub(crate) struct Tokens {
    pub(crate) access: String,
    pub(crate) refresh: Option<String>,
    /// In seconds since 1970.
    pub(crate) expires_at: Option<u64>,
}

impl Saved {
    pub(crate) fn of(url: &str) -> Self {
        Saved {
            url: url.to_owned(),
            challenge: None,
            client: None,
            is_refused: false,
            credentials: None,
        }
    }

    pub(crate) fn tokens(&self) -> Option<Tokens> {
        let credentials = self.credentials.as_ref()?;
        let response = serde_json::to_value(credentials.token_response.as_ref()?).ok()?;
        let text = |name: &str| response.get(name).and_then(Value::as_str).map(str::to_owned);
        let lasts = response.get("expires_in").and_then(Value::as_u64);
        Some(Tokens {
            access: text("access_token")?,
            refresh: text("refresh_token"),
            expires_at: lasts
                .zip(credentials.token_received_at)
                .map(|(lasts, received)| received.saturating_add(lasts)),
        })
    }
}

/// Nobody else renews this login while it lives.
pub(crate) struct LoginLock {
    _file: File,
}

impl LoginFile {
    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.json", self.namespace))
    }

    pub(crate) fn read(&self) -> io::Result<Option<Saved>> {
        let path = self.path();
        let bytes = private_file::read(&path)?;
        let saved = bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        // Without its words, which may quote a token.
        saved.map_err(|error: serde_json::Error| {
            io::Error::other(format!(
                "`{}` cannot be read (line {}): remove it and log in again",
                path.display(),
                error.line()
            ))
        })
    }

    pub(crate) fn write(&self, saved: &Saved) -> io::Result<()> {
        private_file::write_json(&self.path(), saved)
    }

    /// Waits for other processes: an authorization server may take the same refresh token twice for theft.
    pub(crate) async fn lock(&self) -> io::Result<LoginLock> {
        private_file::make_folder(&self.folder)?;
        let path = self.folder.join(format!("{}.lock", self.namespace));
        let mut options = OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)?;
        let locked = async {
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(TryLockError::Error(error)) => return Err(error),
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(limits::LOGIN_LOCK_PAUSE).await,
                }
            }
        };
        match tokio::time::timeout(limits::LOGIN_REQUEST_TIMEOUT, locked).await {
            Ok(locked) => locked?,
            Err(_) => {
                return Err(io::Error::other(
                    "another process renews the login and does not end",
                ));
            }
        }
        Ok(LoginLock { _file: file })
    }

    /// Changes what is kept, if there is anything.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Saved)) -> io::Result<()> {
        let Some(mut saved) = self.read()? else {
            return Ok(());
        };
        change(&mut saved);
        self.write(&saved)
    }
}

fn unkept(error: io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

/// For renewals, which run under [`LoginFile::lock`].
#[async_trait]
impl CredentialStore for LoginFile {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let saved = self.read().map_err(unkept)?;
        Ok(saved.and_then(|saved| saved.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let renewed = self.change(|saved| {
            saved.credentials = Some(credentials);
            saved.is_refused = false;
        });
        renewed.map_err(unkept)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.change(|saved| saved.credentials = None).map_err(unkept)
    }

    async fn on_refresh_token_rejected(&self, _: &StoredCredentials) -> Result<(), AuthError> {
        self.clear().await
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn saved(token: &str) -> Saved {
        let credentials = serde_json::json!({
            "client_id": "c", "token_received_at": 100,
            "token_response": {"access_token": token, "token_type": "bearer", "expires_in": 50, "refresh_token": "r"},
        });
        Saved {
            credentials: Some(serde_json::from_value(credentials).unwrap()),
            ..Saved::of("https://h/mcp")
        }
    }

    #[test]
    fn a_login_is_kept_for_its_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let folder = LoginFolder::of_home(home.path());
        let file = folder.file("srv");
        assert!(file.read().unwrap().is_none() && !folder.forget("srv").unwrap());
        file.write(&saved("secret-token")).unwrap();
        let mode = |path: &str| {
            let found = std::fs::metadata(home.path().join(path)).unwrap();
            found.permissions().mode() & 0o777
        };
        assert_eq!(mode("mcp/logins/srv.json"), 0o600);
        let tokens = file.read().unwrap().unwrap().tokens().unwrap();
        assert_eq!(
            (
                tokens.access.as_str(),
                tokens.refresh.as_deref(),
                tokens.expires_at
            ),
            ("secret-token", Some("r"), Some(150))
        );
        assert!(folder.forget("srv").unwrap());
        assert!(file.read().unwrap().is_none());
    }

    #[test]
    fn the_folder_of_logins_is_private() {
        let home = tempfile::tempdir().unwrap();
        let folder = LoginFolder::of_home(&home.path().join("home"));
        folder.file("srv").write(&saved("secret-token")).unwrap();
        let found = std::fs::metadata(home.path().join("home/mcp/logins")).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_without_its_content() {
        let home = tempfile::tempdir().unwrap();
        let file = LoginFolder::of_home(home.path()).file("srv");
        file.write(&saved("secret-token")).unwrap();
        let path = home.path().join("mcp/logins/srv.json");
        let broken = std::fs::read_to_string(&path)
            .unwrap()
            .replace("50", "\"secret\"");
        std::fs::write(&path, broken).unwrap();
        let error = file.read().err().unwrap().to_string();
        assert!(error.contains("srv.json") && !error.contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn a_login_is_renewed_by_one_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let file = LoginFolder::of_home(home.path()).file("srv");
        let first = file.lock().await.unwrap();
        let short = std::time::Duration::from_millis(120);
        assert!(tokio::time::timeout(short, file.lock()).await.is_err());
        drop(first);
        file.lock().await.unwrap();
    }
}
