//! Reading no more than was asked for, whatever a file's size claims.

use std::fs::File;
use std::io::{self, Read};

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
