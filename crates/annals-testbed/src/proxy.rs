//! A proxy that breaks connections in the ways that networks do.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often what holds something up is asked whether it still does.
const LOOK: Duration = Duration::from_millis(5);

/// What lies behind a proxy.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// A unix socket.
    Unix(PathBuf),
    /// A port of this machine.
    Port(u16),
}

/// Requests whose answers are lost: each n-th that contains a text.
#[derive(Clone, Debug)]
struct Swallow {
    text: Vec<u8>,
    every: u64,
}

#[derive(Debug, Default)]
struct Faults {
    swallow: Mutex<Option<Swallow>>,
    rewrite: Mutex<Option<(Vec<u8>, Vec<u8>)>>,
    rewritten: AtomicU64,
    matched: AtomicU64,
    swallowed: AtomicU64,
    requests: AtomicU64,
    is_black_hole: AtomicBool,
    /// Requests with this text do not come through.
    hold: Mutex<Option<Vec<u8>>>,
    held: AtomicU64,
    held_and_answered: AtomicU64,
    /// By how much everything is late, in milliseconds.
    delay_millis: AtomicU64,
}

/// A port of this machine whose connections go to a server, until they are broken.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    faults: Arc<Faults>,
    /// A new number resets every connection that was made under an older one.
    generation: watch::Sender<u64>,
    accepting: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy before a server.
    ///
    /// # Panics
    /// If no port can be had.
    pub async fn start(upstream: Upstream) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let (generation, _) = watch::channel(0);
        let faults = Arc::<Faults>::default();
        let (shared, resets) = (Arc::clone(&faults), generation.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (upstream, faults, resets) = (upstream.clone(), Arc::clone(&shared), resets.subscribe());
                tokio::spawn(async move {
                    // A connection that breaks is what this is for.
                    let _broken = carry(client, upstream, faults, resets).await;
                });
            }
        });
        FaultProxy {
            port,
            faults,
            generation,
            accepting,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on, loses the answer to each n-th request that contains a text, and resets its connection: the server did
    /// what it was asked, and nobody hears of it.
    pub fn swallow(&self, text: &str, every: u64) {
        let swallow = Swallow {
            text: text.as_bytes().to_vec(),
            every,
        };
        *self.faults.swallow.lock().unwrap_or_else(PoisonError::into_inner) = Some(swallow);
    }

    /// Loses no more answers.
    pub fn swallow_nothing(&self) {
        *self.faults.swallow.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// From now on, replaces a text of a request by another: so a test that must notice a missing condition of a statement
    /// sees that statement without it.
    ///
    /// # Panics
    /// If the other text is longer; a shorter one is filled with spaces, since requests say how long they are.
    pub fn rewrite(&self, from: &str, to: &str) {
        assert!(to.len() <= from.len(), "a request does not grow");
        let to = format!("{to:width$}", width = from.len());
        let rewrite = (from.as_bytes().to_vec(), to.into_bytes());
        *self.faults.rewrite.lock().unwrap_or_else(PoisonError::into_inner) = Some(rewrite);
    }

    /// How often a text was replaced.
    pub fn rewritten(&self) -> u64 {
        self.faults.rewritten.load(Ordering::SeqCst)
    }

    /// How many answers were lost.
    pub fn swallowed(&self) -> u64 {
        self.faults.swallowed.load(Ordering::SeqCst)
    }

    /// How often a client has sent something and waited for an answer.
    pub fn requests(&self) -> u64 {
        self.faults.requests.load(Ordering::SeqCst)
    }

    /// Resets every connection; new ones work.
    pub fn reset(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// From now on, holds up requests that contain a text, each with everything behind it on its connection. Others come
    /// through.
    pub fn hold(&self, text: &str) {
        *self.faults.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.as_bytes().to_vec());
    }

    /// Lets through what was held up.
    pub fn let_go(&self) {
        *self.faults.hold.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// How many requests were held up.
    pub fn held(&self) -> u64 {
        self.faults.held.load(Ordering::SeqCst)
    }

    /// How many of them have come through and were answered.
    pub fn held_and_answered(&self) -> u64 {
        self.faults.held_and_answered.load(Ordering::SeqCst)
    }

    /// From now on, everything that comes through is late by this much; by nothing, if that is zero.
    pub fn delay(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.faults.delay_millis.store(millis, Ordering::SeqCst);
    }

    /// Whether connections stay open while nothing comes through.
    pub fn black_hole(&self, is_black_hole: bool) {
        self.faults.is_black_hole.store(is_black_hole, Ordering::SeqCst);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.reset();
    }
}

async fn carry(
    client: TcpStream,
    upstream: Upstream,
    faults: Arc<Faults>,
    mut resets: watch::Receiver<u64>,
) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    resets.mark_unchanged();
    let carried = async {
        match upstream {
            Upstream::Unix(path) => join(client, UnixStream::connect(path).await?, &faults).await,
            Upstream::Port(port) => {
                let server = TcpStream::connect(("127.0.0.1", port)).await?;
                server.set_nodelay(true)?;
                join(client, server, &faults).await
            }
        }
    };
    tokio::select! {
        ended = carried => ended,
        _ = resets.changed() => Ok(()),
    }
}

/// Carries bytes both ways until one side ends or an answer is to be lost.
async fn join(
    client: TcpStream,
    server: impl AsyncRead + AsyncWrite + Unpin,
    faults: &Faults,
) -> std::io::Result<()> {
    const BUFFER_BYTES: usize = 64 << 10;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let (mut asked, mut answered) = (vec![0; BUFFER_BYTES], vec![0; BUFFER_BYTES]);
    let (mut loses_answer, mut is_asking, mut was_held) = (false, false, false);
    loop {
        tokio::select! {
            read = from_client.read(&mut asked) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                if !is_asking {
                    faults.requests.fetch_add(1, Ordering::SeqCst);
                }
                is_asking = true;
                loses_answer |= faults.is_to_be_swallowed(&asked[..read]);
                faults.rewrite(&mut asked[..read]);
                was_held |= faults.wait_while_held(&asked[..read]).await;
                faults.wait_out_black_hole().await;
                faults.be_late().await;
                to_server.write_all(&asked[..read]).await?;
            }
            read = from_server.read(&mut answered) => {
                let read = read?;
                if read == 0 {
                    return Ok(());
                }
                is_asking = false;
                if std::mem::take(&mut was_held) {
                    faults.held_and_answered.fetch_add(1, Ordering::SeqCst);
                }
                if loses_answer {
                    faults.swallowed.fetch_add(1, Ordering::SeqCst);
                    return Ok(());
                }
                faults.wait_out_black_hole().await;
                faults.be_late().await;
                to_client.write_all(&answered[..read]).await?;
            }
        }
    }
}

impl Faults {
    fn is_to_be_swallowed(&self, asked: &[u8]) -> bool {
        let swallow = self.swallow.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Swallow { text, every }) = &*swallow else {
            return false;
        };
        asked.windows(text.len()).any(|window| window == text)
            && (self.matched.fetch_add(1, Ordering::SeqCst) + 1).is_multiple_of(*every)
    }

    fn rewrite(&self, asked: &mut [u8]) {
        let rewrite = self.rewrite.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((from, to)) = &*rewrite else { return };
        while let Some(at) = asked.windows(from.len()).position(|window| window == from) {
            asked[at..at + to.len()].copy_from_slice(to);
            self.rewritten.fetch_add(1, Ordering::SeqCst);
        }
    }

    async fn wait_out_black_hole(&self) {
        while self.is_black_hole.load(Ordering::SeqCst) {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn is_to_be_held(&self, asked: &[u8]) -> bool {
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
        hold.as_ref()
            .is_some_and(|text| asked.windows(text.len()).any(|window| window == text))
    }

    /// Whether it was held up.
    async fn wait_while_held(&self, asked: &[u8]) -> bool {
        if !self.is_to_be_held(asked) {
            return false;
        }
        self.held.fetch_add(1, Ordering::SeqCst);
        while self.is_to_be_held(asked) {
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    async fn be_late(&self) {
        let millis = self.delay_millis.load(Ordering::SeqCst);
        if millis > 0 {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }
}
