//! Whether a transaction pooler stands between, asked of the connection itself.
//!
//! What a session sets through a pooler stays on a server's connection that somebody else gets next, and what it listens to
//! it does not hear. An operator may forget to say that there is one, so nothing of the kind is done before this was asked.
//!
//! A server tells each connection the number of its process, for requests to cancel. A pooler has to make one up, since its
//! client has no process of its own there; so the number differs from that of the process that answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::{Ready, ready};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

use crate::fault::Fault;

/// The bytes of a request to cancel: its length, its code, the process, its secret.
const REQUEST_BYTES: usize = 16;

/// Whether a connection's statements are carried out by processes that are not its own.
pub(crate) async fn is_between(client: &Client) -> Result<bool, Fault> {
    let row = client.query_typed_one("SELECT pg_backend_pid()", &[]).await?;
    let answers: i32 = row.try_get(0)?;
    Ok(told(client).await != Some(answers))
}

/// The process that the connection was told to be its own. The driver keeps it to itself but for requests to cancel, so one
/// is written, to nobody.
async fn told(client: &Client) -> Option<i32> {
    let (own, mut other) = tokio::io::duplex(1 << 10);
    // Where the URL wants TLS, the driver asks for it first; the yes is waiting.
    other.write_all(b"S").await.ok()?;
    client.cancel_token().cancel_query_raw(own, InMemory).await.ok()?;
    let mut written = Vec::new();
    other.read_to_end(&mut written).await.ok()?;
    let request = written.last_chunk::<REQUEST_BYTES>()?;
    Some(i32::from_be_bytes([
        request[8],
        request[9],
        request[10],
        request[11],
    ]))
}

/// Stands for TLS where no bytes leave the process.
struct InMemory;

impl TlsConnect<DuplexStream> for InMemory {
    type Stream = Plain;
    type Error = io::Error;
    type Future = Ready<io::Result<Plain>>;

    fn connect(self, stream: DuplexStream) -> Self::Future {
        ready(Ok(Plain(stream)))
    }
}

struct Plain(DuplexStream);

impl TlsStream for Plain {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Plain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Plain {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
