//! A sandbox of the double: the local sandbox of Annals, in which this program runs as execd or envd.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use annals_sandbox::{
    Backend as _, CommandRun, Local, LocalTree, Op, Opening, Sandbox, SandboxName, SandboxSpec,
};
use tokio_util::sync::CancellationToken;

/// Where the container keeps what belongs to the double, seen from inside.
const INSIDE: &str = "/workspace/.double";

/// A running service and the sandbox around it.
pub(crate) struct Container {
    _folder: tempfile::TempDir,
    pub(crate) socket: PathBuf,
    sandbox: Arc<dyn Sandbox>,
    ended: CancellationToken,
}

impl Container {
    /// Starts the service of this role with an access token; it listens a moment later.
    pub(crate) async fn start(
        id: &str,
        program: &Path,
        role: &str,
        token: &str,
        env: &std::collections::BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let folder = tempfile::Builder::new()
            .prefix("osd-")
            .tempdir()
            .map_err(|error| told(&error))?;
        let own = folder.path().join(".double");
        std::fs::create_dir(&own).map_err(|error| told(&error))?;
        let copy = own.join("opensandbox-double");
        std::fs::hard_link(program, &copy)
            .or_else(|_| std::fs::copy(program, &copy).map(drop))
            .map_err(|error| told(&error))?;
        let mut spec = SandboxSpec::new(SandboxName::new(format!("double-{}-{id}", std::process::id()), 1));
        spec.env = env.clone();
        // A container has no bounds of a single command.
        spec.limits.timeout = Duration::from_secs(7 * 24 * 3600);
        spec.limits.processes = 4096;
        spec.limits.open_files = 65_536;
        spec.limits.cpu_seconds = 24 * 3600;
        let opening = Opening::new(spec).local(LocalTree::at(folder.path()));
        let sandbox = Local::new().open(opening).await.map_err(|error| told(&error))?;
        let ended = CancellationToken::new();
        let argv = [
            &format!("{INSIDE}/opensandbox-double"),
            role,
            &format!("{INSIDE}/service.sock"),
            token,
        ];
        let run = Op::CommandRun(CommandRun::argv(argv.map(str::to_owned)));
        let (running, end) = (Arc::clone(&sandbox), ended.clone());
        tokio::spawn(async move {
            let died = running.dispatch(run, &end).await;
            if !end.is_cancelled() {
                use std::io::Write as _;
                let _ = writeln!(
                    std::io::stderr(),
                    "opensandbox-double: the service inside ended: {died:?}"
                );
            }
            end.cancel();
        });
        Ok(Self {
            socket: own.join("service.sock"),
            _folder: folder,
            sandbox,
            ended,
        })
    }

    /// Whether the service inside ended, by itself or by being killed.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Kills everything inside.
    pub(crate) async fn kill(&self) {
        self.ended.cancel();
        self.sandbox.close().await;
    }
}
