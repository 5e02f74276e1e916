//! A connection whose bytes a fault changes on their way out: what no server library lets a handler do.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What happens to the next bytes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// It is reset before any of them.
    Reset,
    /// It closes after this number of bytes.
    Cut(usize),
    /// The head says that the body is longer by this than it is, and the connection closes behind it.
    Longer(usize),
    /// The head says that the body is shorter by this than it is.
    Shorter(usize),
    /// An interim answer stands before the answer.
    EarlyHint,
    /// They pass, and the connection is reset when the next request comes.
    ResetOnNext,
    /// It is over.
    Closed,
}

/// Sets what happens to a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tamper(Arc<Mutex<Option<Harm>>>);

impl Tamper {
    fn lock(&self) -> MutexGuard<'_, Option<Harm>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, harm: Harm) {
        *self.lock() = Some(harm);
    }

    fn get(&self) -> Option<Harm> {
        *self.lock()
    }
}

pub(crate) struct Line {
    stream: TcpStream,
    tamper: Tamper,
    /// Changed bytes that have not been taken yet.
    out: BytesMut,
}

impl Line {
    pub(crate) fn new(stream: TcpStream, tamper: Tamper) -> Self {
        Self {
            stream,
            tamper,
            out: BytesMut::new(),
        }
    }

    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.out))?;
            self.out.advance(written);
        }
        match self.tamper.get() {
            // Who waits for the rest has to see that none comes.
            Some(Harm::Closed) => Pin::new(&mut self.stream).poll_shutdown(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn reset(&mut self) -> io::Error {
        let _ = self.stream.set_zero_linger();
        self.tamper.set(Harm::Closed);
        io::ErrorKind::ConnectionReset.into()
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if self.tamper.get() == Some(Harm::Closed) {
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        if buffer.filled().len() > before && self.tamper.get() == Some(Harm::ResetOnNext) {
            return Poll::Ready(Err(self.reset()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_out(cx))?;
        let changed = match self.tamper.get() {
            None | Some(Harm::ResetOnNext) => return Pin::new(&mut self.stream).poll_write(cx, bytes),
            Some(Harm::Reset) => return Poll::Ready(Err(self.reset())),
            Some(Harm::Closed) => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Some(Harm::Cut(length)) => bytes[..length.min(bytes.len())].to_vec(),
            Some(Harm::Longer(by)) => with_length(bytes, |length| length + by),
            Some(Harm::Shorter(by)) => with_length(bytes, |length| length.saturating_sub(by)),
            Some(Harm::EarlyHint) => [&b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"[..], bytes].concat(),
        };
        let after = match self.tamper.get() {
            Some(Harm::Cut(_) | Harm::Longer(_)) => Some(Harm::Closed),
            _ => None,
        };
        *self.tamper.lock() = after;
        self.out.extend_from_slice(&changed);
        let _ = self.poll_out(cx);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The head with another length of its body; as it is when it names none.
fn with_length(bytes: &[u8], change: impl Fn(usize) -> usize) -> Vec<u8> {
    const NAME: &str = "content-length: ";
    let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, rest) = bytes.split_at(head_end.unwrap_or(0));
    let text = String::from_utf8_lossy(head).into_owned();
    let Some(at) = text.to_ascii_lowercase().find(NAME).map(|at| at + NAME.len()) else {
        return bytes.to_vec();
    };
    let digits: String = text[at..].chars().take_while(char::is_ascii_digit).collect();
    let length = change(digits.parse().unwrap_or(0));
    let head = format!("{}{length}{}", &text[..at], &text[at + digits.len()..]);
    [head.as_bytes(), rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_length_is_changed() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\ndate: x\r\n\r\nhello, world";
        let longer = with_length(answer, |length| length + 7);
        assert_eq!(
            longer,
            b"HTTP/1.1 200 OK\r\nContent-Length: 19\r\ndate: x\r\n\r\nhello, world"
        );
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(with_length(chunked, |length| length + 7), chunked);
    }
}
