//! One connection, and the task that drives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use annals_store::LogError;
use futures::future::poll_fn;
use tokio::sync::mpsc;
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use crate::address::Address;
use crate::fault::Fault;
use crate::schema;

/// Notifications that wait for their reader; more are dropped, since they are hints.
const HINTS_MAX: usize = 1_000;

/// A server that accepts a connection and says nothing is given up after this long.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) client: Client,
    /// Whether the server said that it did not wait for the standbys of a commit.
    is_unreplicated: Arc<AtomicBool>,
}

impl Wire {
    /// Fails if a commit since the last time this was asked may not have reached the standbys it should have: somebody ended
    /// its wait, and the server then reports success.
    pub(crate) fn check_replicated(&self) -> Result<(), Fault> {
        match self.is_unreplicated.swap(false, Ordering::SeqCst) {
            true => Err(Fault::Unreplicated),
            false => Ok(()),
        }
    }

    /// Commits something that changes nothing. The standbys get commits in their order, so when this one is where it should
    /// be, so is everything that was there before it, also what was committed by somebody who did not wait.
    pub(crate) async fn confirm(&self, flush: &str) -> Result<(), Fault> {
        let statement = format!(
            "SELECT pg_logical_emit_message(true, 'annals', ''), set_config('synchronous_commit', '{flush}', true)"
        );
        self.client.query_typed_one(&statement, &[]).await?;
        self.check_replicated()
    }
}

/// Connects to the database that appends and reads go to, and checks that it is the one this program knows.
pub(crate) async fn connect(
    address: &Address,
    known: &schema::Identity,
    within: Duration,
) -> Result<Wire, Fault> {
    let connected = async {
        let (wire, _) = open(address, &address.config).await?;
        let found = schema::identify(&wire.client, &address.name).await?;
        Ok::<_, Fault>((wire, found))
    };
    let connected = tokio::time::timeout(within.min(GREETING_MAX), connected).await;
    let (wire, found) = connected.map_err(|_| Fault::Silent)??;
    match found == *known {
        true => Ok(wire),
        false => Err(LogError::Storage {
            log: address.name.to_string(),
            detail:
                "another database answers at this address now: end this process, and look at what replaced it"
                    .to_owned(),
        }
        .into()),
    }
}

/// Connects without looking at what is there. The second part gives the notifications of the server.
pub(crate) async fn open(
    address: &Address,
    config: &Config,
) -> Result<(Wire, mpsc::Receiver<String>), Fault> {
    let opened = tokio::time::timeout(GREETING_MAX, greet(address, config)).await;
    opened.map_err(|_| Fault::Silent)?
}

async fn greet(address: &Address, config: &Config) -> Result<(Wire, mpsc::Receiver<String>), Fault> {
    let (sender, receiver) = mpsc::channel(HINTS_MAX);
    let is_unreplicated = Arc::<AtomicBool>::default();
    let heard = Heard {
        hints: sender,
        is_unreplicated: Arc::clone(&is_unreplicated),
    };
    // Unix sockets have no TLS; the driver asks only where it can be had.
    let client = match config.get_ssl_mode() {
        tokio_postgres::config::SslMode::Disable => {
            let (client, connection) = config.connect(NoTls).await?;
            drive(connection, heard);
            client
        }
        _ => {
            let (client, connection) = config.connect(address.tls.clone()).await?;
            drive(connection, heard);
            client
        }
    };
    let wire = Wire {
        client,
        is_unreplicated,
    };
    Ok((wire, receiver))
}

/// Where that goes which a server says without being asked.
struct Heard {
    hints: mpsc::Sender<String>,
    is_unreplicated: Arc<AtomicBool>,
}

/// Moves a connection's bytes until it or its client is gone. Why it broke is told to those who wait for an answer.
fn drive<S, T>(mut connection: tokio_postgres::Connection<S, T>, heard: Heard)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            match message {
                AsyncMessage::Notification(hint) => {
                    let _full = heard.hints.try_send(hint.payload().to_owned());
                }
                AsyncMessage::Notice(notice) => {
                    // Before the answer that it is about is handed on.
                    if is_of_unreplicated_commit(&notice) {
                        heard.is_unreplicated.store(true, Ordering::SeqCst);
                    }
                    tracing::warn!(code = notice.code().code(), "{}", notice.message());
                }
                _ => {}
            }
        }
    });
}

/// Whether a server says that it reports success for a commit whose standbys did not answer. Its words are in the server's
/// language, the name of its function is not.
fn is_of_unreplicated_commit(notice: &DbError) -> bool {
    notice.code().code() == "01000"
        && notice
            .routine()
            .is_none_or(|routine| routine == "SyncRepWaitForLSN")
}
