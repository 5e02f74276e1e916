//! Files of the sandbox's workspace, one at a time.

use annals_sandbox::{
    ByteStream, Encoding, EntryKind, Failure, FailureKind, FileContent, FileData, FileEntries, FileEntry,
    FileWriteResult, FilesExists, FilesList, FilesRead, FilesWrite,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::guest::{self, Call};
use crate::handle::Handle;
use crate::owner;
use crate::remote::{run_file, unsupported};
use crate::run::INLINE_MAX_BYTES;

impl Handle {
    pub(crate) async fn read(&self, op: FilesRead) -> Result<FileContent, Failure> {
        let path = self.relative(&op.path)?;
        let (remote, workspace) = self.workspace().await?;
        let most = self.spec.limits.read_bytes;
        let read = remote.ask("read", [workspace, path, most.to_string()]).await;
        let (bytes, _) = read.map_err(|failure| named(failure, &op.path))?;
        let data = match op.encoding {
            Encoding::Bytes => FileData::Bytes(bytes),
            Encoding::Utf8 => FileData::Text(String::from_utf8(bytes).map_err(|_| {
                unsupported(&format!(
                    "`{}` is not UTF-8 text; read it as bytes",
                    op.path.escape_debug()
                ))
            })?),
        };
        Ok(FileContent { data })
    }

    pub(crate) async fn write(&self, op: FilesWrite) -> Result<FileWriteResult, Failure> {
        let path = self.relative(&op.path)?;
        if path == "." {
            let message = format!("path `{}` names the workspace itself", op.path.escape_debug());
            return Err(Failure::new(FailureKind::PathViolation, message));
        }
        let (remote, workspace) = self.workspace().await?;
        let id = owner::call_id();
        let bytes_written = op.data.len() as u64;
        let has_base64 = remote.facts.programs.contains_key("base64");
        let content = if op.data.len() <= INLINE_MAX_BYTES && has_base64 {
            format!("={}", BASE64.encode(&op.data))
        } else {
            remote.upload(&run_file(&id, ".in"), 0o644, &op.data).await?;
            "@".to_owned()
        };
        let mode = format!("{:o}", op.mode & 0o777);
        let call = Call::new(id, "write", [workspace, path, mode, content]);
        remote
            .ask_call(call)
            .await
            .map_err(|failure| named(failure, &op.path))?;
        Ok(FileWriteResult { bytes_written })
    }

    pub(crate) async fn list(&self, op: FilesList) -> Result<FileEntries, Failure> {
        let path = self.relative(&op.path)?;
        let (remote, workspace) = self.workspace().await?;
        let listed = remote.ask("list", [workspace, path]).await;
        let (text, id) = listed.map_err(|failure| named(failure, &op.path))?;
        let text = String::from_utf8_lossy(&text);
        let mut entries: Vec<FileEntry> = guest::records(&text, &id, 3)
            .into_iter()
            .filter_map(|record| {
                let kind = kind(u32::from_str_radix(record[1], 16).ok()?);
                Some(FileEntry {
                    name: record[2].strip_prefix("./")?.to_owned(),
                    kind,
                    size_bytes: (kind == EntryKind::File)
                        .then(|| record[0].parse().ok())
                        .flatten(),
                })
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let total = entries.len();
        entries.truncate(self.spec.limits.list_entries);
        Ok(FileEntries { entries, total })
    }

    pub(crate) async fn exists(&self, op: FilesExists) -> Result<bool, Failure> {
        let path = self.relative(&op.path)?;
        let (remote, workspace) = self.workspace().await?;
        let told = remote.ask("exists", [workspace, path]).await;
        let (told, _) = told.map_err(|failure| named(failure, &op.path))?;
        Ok(told.starts_with(b"1"))
    }

    /// The content of a regular file, as a stream.
    pub(crate) async fn open_file(&self, path: &str) -> Result<ByteStream, Failure> {
        let relative = self.relative(path)?;
        let (remote, workspace) = self.workspace().await?;
        let located = remote.ask("locate", [workspace, relative]).await;
        let (located, _) = located.map_err(|failure| named(failure, path))?;
        let located = String::from_utf8_lossy(&located).into_owned();
        let (size, physical) = located.split_once(' ').unwrap_or_default();
        let size = size
            .parse()
            .map_err(|_| unsupported("the sandbox did not tell the file's size"))?;
        Ok(remote.into_file(physical.to_owned(), size))
    }
}

/// The failure, with the path that it is about.
fn named(failure: Failure, path: &str) -> Failure {
    let message = format!("`{}`: {}", path.escape_debug(), failure.message);
    match failure.kind {
        FailureKind::SandboxClosed => failure,
        _ => Failure { message, ..failure },
    }
}

fn kind(mode: u32) -> EntryKind {
    match mode & 0o170_000 {
        0o100_000 => EntryKind::File,
        0o040_000 => EntryKind::Directory,
        0o120_000 => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}
