//! Where everything of one installation lies.

use std::path::{Path, PathBuf};

use annals_core::ids::{ConversationKey, Scope};

use crate::artifacts::{ArtifactError, ArtifactStore};
use crate::disk;
#[cfg(feature = "sqlite")]
use crate::log::LogError;
#[cfg(feature = "sqlite")]
use crate::sqlite::{SqliteLog, SqliteOptions};

/// A folder with `annals.db`, `artifacts/` and `workspace/<conversation>/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// The home at this folder. Nothing is made until something is opened.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Home { root: root.into() }
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The log's file.
    pub fn log_path(&self) -> PathBuf {
        self.root.join("annals.db")
    }

    /// The folder of hosted bytes.
    pub fn artifacts_path(&self) -> PathBuf {
        self.root.join("artifacts")
    }

    /// OUT_DIR of a conversation; may be deleted at any time.
    pub fn workspace_path(&self, key: &ConversationKey) -> PathBuf {
        workspace_folder(&self.root.join("workspace"), key)
    }

    /// Opens the log.
    #[cfg(feature = "sqlite")]
    pub fn open_log(&self, options: SqliteOptions) -> Result<SqliteLog, LogError> {
        SqliteLog::open(self.log_path(), options)
    }

    /// Opens the artifact store.
    pub fn open_artifacts(&self) -> Result<ArtifactStore, ArtifactError> {
        ArtifactStore::open(self.artifacts_path())
    }
}

/// Makes a folder of a home, private. One that may not be written keeps what it lacks to itself: reading it needs less.
pub fn make_folder(folder: &Path) -> std::io::Result<()> {
    match disk::make_folders(folder) {
        Err(error) if disk::is_read_only(&error) => Ok(()),
        made => made,
    }
}

/// OUT_DIR of a conversation below the folder of all of them: `<id>` for the one person of a machine of their own,
/// `<tenant>~<project>~<user>/<id>` for everybody else. No id and no part of a scope has a `~`, so these never meet.
pub fn workspace_folder(workspaces: &Path, key: &ConversationKey) -> PathBuf {
    let ConversationKey { scope, id } = key;
    match *scope == Scope::default() {
        true => workspaces.join(id.as_str()),
        false => workspaces
            .join(format!("{}~{}~{}", scope.tenant(), scope.project(), scope.user()))
            .join(id.as_str()),
    }
}
