//! The program as the service inside a sandbox.

use std::path::PathBuf;

use axum::Router;
use tokio::net::UnixListener;

use crate::{e2b, execd};

/// Makes a test program play the service when a double starts it so: to be called before `main`, behind the launcher's own
/// `init` (see `annals_sandbox::helpers_in_tests`). Returns at once in any other process.
pub fn play_in_tests() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, socket, token] = arguments.as_slice() else {
        return;
    };
    let router: fn(String) -> Router = match role.as_str() {
        execd::ROLE => execd::router,
        e2b::envd::ROLE => e2b::envd::router,
        _ => return,
    };
    // SAFETY: no other thread runs yet, and ignoring a signal installs no code. Before `main` nothing has done it.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let served = runtime.and_then(|runtime| runtime.block_on(serve(socket.into(), router(token.clone()))));
    std::process::exit(i32::from(served.is_err()));
}

/// Serves on a socket until the process is killed.
async fn serve(socket: PathBuf, router: Router) -> std::io::Result<()> {
    axum::serve(UnixListener::bind(socket)?, router).await
}
