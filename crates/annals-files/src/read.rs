//! Reading no more than was asked for, whatever a file's size claims.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

/// Why a file was not read.
#[derive(Debug)]
pub enum ReadError {
    /// It has more bytes than the caller takes.
    TooLarge,
    /// The disk failed.
    Io(io::Error),
}

/// All of an open file, if it has at most `max_bytes`. A sparse file of a terabyte costs nothing: its size is looked
/// at first, and what grows meanwhile is read to the bound only.
pub fn read_at_most(file: &mut File, max_bytes: u64) -> Result<Vec<u8>, ReadError> {
    let size = file.metadata().map_err(ReadError::Io)?.len();
    if size > max_bytes {
        return Err(ReadError::TooLarge);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(ReadError::Io)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ReadError::TooLarge);
    }
    Ok(bytes)
}

/// Opens a file that somebody named, if it is a regular one. Nothing waits: a pipe that nobody writes to is refused as a
/// device without end is.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path);
    let found = match &opened {
        Ok(file) => file.metadata()?.file_type(),
        // A socket cannot even be opened.
        Err(_) => match path.metadata() {
            Ok(found) => found.file_type(),
            Err(_) => return opened,
        },
    };
    let kind = match found {
        kind if kind.is_file() => return opened,
        kind if kind.is_dir() => "it is a folder",
        kind if kind.is_fifo() => "it is a pipe, not a file",
        kind if kind.is_socket() => "it is a socket, not a file",
        _ => "it is a device, not a file",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, kind))
}

/// The text of a regular file that somebody named, if it has at most `max_bytes`.
pub fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    read_text_from(open_regular(path)?, max_bytes)
}

/// All text of a stream, if it has at most `max_bytes`; of a longer one no more than that is read.
pub fn read_text_from(stream: impl Read, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    stream.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let message = format!("it has more than {max_bytes} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_never_more_than_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        std::fs::write(&file, "héllo").unwrap();
        assert_eq!(read_text(&file, 6).unwrap(), "héllo");
        assert_eq!(
            read_text(&file, 5).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        std::fs::write(&file, [0xff]).unwrap();
        assert_eq!(
            read_text(&file, 5).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );

        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for (path, said) in [
            (pipe.as_path(), "pipe"),
            (&socket, "socket"),
            (folder.path(), "folder"),
            (Path::new("/dev/zero"), "device"),
        ] {
            let error = read_text(path, 5).unwrap_err();
            assert!(error.to_string().contains(said), "{}: {error}", path.display());
        }
        let absent = read_text(&folder.path().join("absent"), 5).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        let endless = read_text_from(io::repeat(b'a'), 1_000).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
    }
}
