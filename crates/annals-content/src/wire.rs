//! What program and helper say to each other: a JSON header with a length before it, then the bytes it announces.
//!
//! The program reads what a helper says as it reads any stranger: every length is bounded before memory is taken.

use std::io::{self, Read, Write};

use futures::TryStreamExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::limits::{HEADER_MAX_BYTES, PARTS_MAX_COUNT};
use crate::source::Source;

/// Bytes are read in pieces, so that a length that was lied about takes no memory.
const PIECE_BYTES: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
struct Header<T> {
    body: T,
    part_bytes: Vec<u64>,
}

/// Why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("a message has more than {limit_bytes} bytes")]
    TooLarge { limit_bytes: u64 },
}

fn encode(body: &impl Serialize, part_bytes: Vec<u64>) -> io::Result<Vec<u8>> {
    let header = Header { body, part_bytes };
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, &header)?;
    let length = bytes.len() - 4;
    if length > HEADER_MAX_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the header is too large",
        ));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

fn lengths(parts: &[&[u8]]) -> Vec<u64> {
    parts.iter().map(|part| part.len() as u64).collect()
}

fn header_bytes(length: [u8; 4]) -> Result<usize, WireError> {
    let length = u32::from_le_bytes(length) as usize;
    if length > HEADER_MAX_BYTES {
        return Err(WireError::TooLarge {
            limit_bytes: HEADER_MAX_BYTES as u64,
        });
    }
    Ok(length)
}

fn decode<T: DeserializeOwned>(bytes: &[u8], limit_bytes: u64) -> Result<Header<T>, WireError> {
    let header: Header<T> = serde_json::from_slice(bytes).map_err(io::Error::from)?;
    let total = header
        .part_bytes
        .iter()
        .try_fold(0_u64, |sum, part| sum.checked_add(*part));
    if header.part_bytes.len() > PARTS_MAX_COUNT || total.is_none_or(|total| total > limit_bytes) {
        return Err(WireError::TooLarge { limit_bytes });
    }
    Ok(header)
}

/// A message and the bytes that came with it.
pub(crate) type Message<T> = (T, Vec<Vec<u8>>);

/// The helper's side.
pub(crate) fn send(mut socket: impl Write, body: &impl Serialize, parts: &[&[u8]]) -> io::Result<()> {
    socket.write_all(&encode(body, lengths(parts))?)?;
    parts.iter().try_for_each(|part| socket.write_all(part))
}

/// The helper's side; `None` when the program is gone.
pub(crate) fn receive<T: DeserializeOwned>(
    mut socket: impl Read,
    limit_bytes: u64,
) -> Result<Option<Message<T>>, WireError> {
    let mut length = [0; 4];
    match socket.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut bytes = vec![0; header_bytes(length)?];
    socket.read_exact(&mut bytes)?;
    let header = decode::<T>(&bytes, limit_bytes)?;
    let mut parts = Vec::with_capacity(header.part_bytes.len());
    for part_bytes in header.part_bytes {
        let mut part = Vec::new();
        if (&mut socket).take(part_bytes).read_to_end(&mut part)? as u64 != part_bytes {
            return Ok(None);
        }
        parts.push(part);
    }
    Ok(Some((header.body, parts)))
}

/// The program's side.
pub(crate) async fn send_async(
    socket: &mut (impl AsyncWriteExt + Unpin),
    body: &impl Serialize,
    parts: &[&[u8]],
) -> io::Result<()> {
    socket.write_all(&encode(body, lengths(parts))?).await?;
    for part in parts {
        socket.write_all(part).await?;
    }
    Ok(())
}

/// Why a message was not sent.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// The other side is gone.
    Socket,
    /// What was to be sent cannot be read, or is not as long as it was said to be. The other side still waits for it.
    Source(io::Error),
}

/// The program's side: one part, piece by piece.
pub(crate) async fn send_source(
    socket: &mut (impl AsyncWriteExt + Unpin),
    body: &impl Serialize,
    source: Source<'_>,
) -> Result<(), Unsent> {
    let mut left = source.size_bytes();
    let header = encode(body, vec![left]).map_err(|_| Unsent::Socket)?;
    socket.write_all(&header).await.map_err(|_| Unsent::Socket)?;
    let changed = || Unsent::Source(io::Error::other("it changed while it was read"));
    let mut pieces = source.pieces();
    while let Some(piece) = pieces.try_next().await.map_err(Unsent::Source)? {
        left = left.checked_sub(piece.len() as u64).ok_or_else(changed)?;
        socket.write_all(&piece).await.map_err(|_| Unsent::Socket)?;
    }
    match left {
        0 => Ok(()),
        _ => Err(changed()),
    }
}

/// The program's side.
pub(crate) async fn receive_async<T: DeserializeOwned>(
    socket: &mut (impl AsyncReadExt + Unpin),
    limit_bytes: u64,
) -> Result<Message<T>, WireError> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).await?;
    let mut bytes = vec![0; header_bytes(length)?];
    socket.read_exact(&mut bytes).await?;
    let header = decode::<T>(&bytes, limit_bytes)?;
    let mut parts = Vec::with_capacity(header.part_bytes.len());
    for part_bytes in header.part_bytes {
        let wanted = usize::try_from(part_bytes).map_err(io::Error::other)?;
        let mut part = Vec::new();
        while part.len() < wanted {
            let from = part.len();
            part.resize(wanted.min(from + PIECE_BYTES), 0);
            socket.read_exact(&mut part[from..]).await?;
        }
        parts.push(part);
    }
    Ok((header.body, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_sides_speak_the_same_and_lies_about_lengths_take_no_memory() {
        let mut bytes = Vec::new();
        send(&mut bytes, &"hello", &[b"one", b""]).unwrap();
        let (body, parts): Message<String> = receive(&bytes[..], 10).unwrap().unwrap();
        assert_eq!(
            (body.as_str(), parts),
            ("hello", vec![b"one".to_vec(), Vec::new()])
        );
        let (body, _): Message<String> = receive_async(&mut &bytes[..], 10).await.unwrap();
        assert_eq!(body, "hello");
        let refused = receive_async::<String>(&mut &bytes[..], 2).await;
        assert!(matches!(refused, Err(WireError::TooLarge { limit_bytes: 2 })));

        let header =
            serde_json::to_vec(&serde_json::json!({"body": "x", "part_bytes": [u64::MAX, 2]})).unwrap();
        let mut lie = (header.len() as u32).to_le_bytes().to_vec();
        lie.extend(header);
        assert!(matches!(
            receive::<String>(&lie[..], u64::MAX),
            Err(WireError::TooLarge { .. })
        ));
        assert!(matches!(
            receive::<String>(&u32::MAX.to_le_bytes()[..], u64::MAX),
            Err(WireError::TooLarge { .. })
        ));
        assert!(receive::<String>(&b""[..], 1).unwrap().is_none());
    }
}
