//! One connection, and the task that drives it.

use std::time::Duration;

use annals_store::LogError;
use futures::future::poll_fn;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use crate::address::Address;
use crate::fault::Fault;
use crate::schema;

/// Notifications that wait for their reader; more are dropped, since they are hints.
const HINTS_MAX: usize = 1_000;

/// A server that accepts a connection and says nothing is given up after this long.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// Connects to the database that appends and reads go to, and checks that it is the one this program knows.
pub(crate) async fn connect(
    address: &Address,
    known: &schema::Identity,
    within: Duration,
) -> Result<Client, Fault> {
    let connected = async {
        let (client, _) = open(address, &address.config).await?;
        let found = schema::identify(&client, &address.name).await?;
        Ok::<_, Fault>((client, found))
    };
    let connected = tokio::time::timeout(within.min(GREETING_MAX), connected).await;
    let (client, found) = connected.map_err(|_| Fault::Silent)??;
    match found == *known {
        true => Ok(client),
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
) -> Result<(Client, mpsc::Receiver<String>), Fault> {
    let opened = tokio::time::timeout(GREETING_MAX, greet(address, config)).await;
    opened.map_err(|_| Fault::Silent)?
}

async fn greet(address: &Address, config: &Config) -> Result<(Client, mpsc::Receiver<String>), Fault> {
    let (sender, receiver) = mpsc::channel(HINTS_MAX);
    // Unix sockets have no TLS; the driver asks only where it can be had.
    let client = match config.get_ssl_mode() {
        tokio_postgres::config::SslMode::Disable => {
            let (client, connection) = config.connect(NoTls).await?;
            drive(connection, sender);
            client
        }
        _ => {
            let (client, connection) = config.connect(address.tls.clone()).await?;
            drive(connection, sender);
            client
        }
    };
    Ok((client, receiver))
}

/// Moves a connection's bytes until it or its client is gone. Why it broke is told to those who wait for an answer.
fn drive<S, T>(mut connection: tokio_postgres::Connection<S, T>, hints: mpsc::Sender<String>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            match message {
                AsyncMessage::Notification(hint) => {
                    let _full = hints.try_send(hint.payload().to_owned());
                }
                AsyncMessage::Notice(notice) => {
                    tracing::warn!(code = notice.code().code(), "{}", notice.message());
                }
                _ => {}
            }
        }
    });
}
