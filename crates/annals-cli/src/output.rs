//! A file that a command writes: whole under its name, or not there.
//!
//! The bytes go into a file beside it that takes its place at the end; one that was given up is removed, also on
//! Ctrl-C. A device or a pipe is written as it is, because nothing can take its place.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncWriteExt as _, BufWriter};

use crate::failure::Failure;

/// A file that is being written.
pub(crate) struct OutputFile {
    writer: BufWriter<tokio::fs::File>,
    path: PathBuf,
    /// Where the bytes are until they are whole; none if they go to a device.
    part: Option<PathBuf>,
}

impl OutputFile {
    async fn create(path: &Path) -> io::Result<Self> {
        let is_special = tokio::fs::metadata(path)
            .await
            .is_ok_and(|found| !found.is_file());
        let part = (!is_special).then(|| part_of(path)).transpose()?;
        let mut options = tokio::fs::OpenOptions::new();
        options.write(true);
        let file = match &part {
            Some(part) => options.create(true).truncate(true).open(part).await?,
            None => options.open(path).await?,
        };
        Ok(OutputFile {
            writer: BufWriter::new(file),
            path: path.to_owned(),
            part,
        })
    }

    async fn finish(mut self) -> io::Result<()> {
        self.writer.flush().await?;
        if let Some(part) = &self.part {
            self.writer.get_ref().sync_all().await?;
            tokio::fs::rename(part, &self.path).await?;
            self.part = None;
        }
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // What could not be written is perhaps not there either.
            let _ = std::fs::remove_file(part);
        }
    }
}

/// A name beside the file that belongs to this process.
fn part_of(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut part = std::ffi::OsString::from(".");
    part.push(name);
    part.push(format!(".{}.part", std::process::id()));
    Ok(path.with_file_name(part))
}

/// Writes a file by this work; Ctrl-C gives it up.
pub(crate) async fn write_file<T>(
    path: &Path,
    work: impl AsyncFnOnce(&mut BufWriter<tokio::fs::File>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let cannot =
        |error: io::Error| Failure::environment(format!("cannot write `{}`: {error}", path.display()));
    let mut file = OutputFile::create(path).await.map_err(cannot)?;
    let done = tokio::select! {
        // Asked first, so that the signal is listened for before there is anything to stop.
        biased;
        Ok(()) = tokio::signal::ctrl_c() => return Err(Failure::Interrupted),
        done = work(&mut file.writer) => done.map_err(|failure| match failure {
            Failure::Environment(why) => Failure::environment(format!("cannot write `{}`: {why}", path.display())),
            other => other,
        })?,
    };
    file.finish().await.map_err(cannot)?;
    Ok(done)
}
