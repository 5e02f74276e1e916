//! A double with a key, backends on it, and short ways to ask.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::sync::Arc;
use std::time::Duration;

use annals_e2b::E2bOptions;
use annals_opensandbox::OpenSandboxOptions;
use annals_opensandbox_double::{Double, DoubleOptions, Gap, Wire};
use annals_remote::{RemoteBackend, ServerAddress, Timing};
use annals_sandbox::{
    Backend, CommandResult, CommandRun, Failure, Op, OpResult, Opening, Sandbox, SandboxName, SandboxSpec,
};
use tokio_util::sync::CancellationToken;

fn roles() {
    annals_sandbox::launcher::init();
    annals_opensandbox_double::play_in_tests();
}

annals_sandbox::helpers_in_tests!(roles);

/// Where the double's local sandbox lets a workspace be.
pub(crate) const WORKSPACE: &str = "/workspace/home";
pub(crate) const KEY: &str = "secret";

pub(crate) async fn double() -> Double {
    double_of(Wire::OpenSandbox).await
}

pub(crate) async fn double_of(wire: Wire) -> Double {
    double_with(wire, &[]).await
}

pub(crate) async fn double_with(wire: Wire, gaps: &'static [Gap]) -> Double {
    let options = DoubleOptions {
        wire,
        key: Some(KEY.to_owned()),
        gaps,
        ..DoubleOptions::default()
    };
    Double::start(options).await.expect("the double starts")
}

/// What backends of either wire have in common.
pub(crate) struct Common {
    pub(crate) namespace: Option<String>,
    pub(crate) timeout_seconds: u64,
    pub(crate) linger: Duration,
    pub(crate) timing: Timing,
}

/// A backend on a double, whichever wire it speaks.
pub(crate) fn backend_on(double: &Double) -> RemoteBackend {
    backend_with(double, |_| {})
}

pub(crate) fn backend_with(double: &Double, change: impl FnOnce(&mut Common)) -> RemoteBackend {
    let mut common = Common {
        namespace: None,
        timeout_seconds: 300,
        linger: Duration::from_millis(200),
        timing: Timing::default(),
    };
    change(&mut common);
    let (linger, timing) = (common.linger, common.timing);
    match double.wire() {
        Wire::OpenSandbox => {
            let options = OpenSandboxOptions {
                namespace: common.namespace,
                timeout_seconds: common.timeout_seconds,
                ..OpenSandboxOptions::default()
            };
            opensandbox(double, timing, options).linger(linger)
        }
        Wire::E2b => {
            let options = E2bOptions {
                workspace: WORKSPACE.to_owned(),
                sandbox_url: Some(double.sandbox_url()),
                namespace: common.namespace,
                timeout_seconds: common.timeout_seconds,
                ..E2bOptions::default()
            };
            let address = ServerAddress::new(double.url(), Some(KEY.to_owned())).timing(timing);
            annals_e2b::backend(address, options)
                .expect("usable settings")
                .linger(linger)
        }
    }
}

fn opensandbox(double: &Double, timing: Timing, options: OpenSandboxOptions) -> RemoteBackend {
    let address = ServerAddress::new(double.url(), Some(KEY.to_owned())).timing(timing);
    let options = OpenSandboxOptions {
        workspace: WORKSPACE.to_owned(),
        ..options
    };
    annals_opensandbox::backend(address, options).expect("usable settings")
}

/// A backend on OpenSandbox with options that only it has.
pub(crate) fn backend(double: &Double, change: impl FnOnce(&mut OpenSandboxOptions)) -> RemoteBackend {
    let mut options = OpenSandboxOptions::default();
    change(&mut options);
    opensandbox(double, Timing::default(), options).linger(Duration::from_millis(200))
}

/// Each test once on OpenSandbox and once on E2B.
#[macro_export]
macro_rules! on_both_wires {
    ($($name:ident),+ $(,)?) => {
        mod opensandbox {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(annals_opensandbox_double::Wire::OpenSandbox).await;
            })+
        }
        mod e2b {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(annals_opensandbox_double::Wire::E2b).await;
            })+
        }
    };
}

pub(crate) fn opening(conversation: &str, token: u64) -> Opening {
    Opening::new(SandboxSpec::new(SandboxName::new(conversation, token)))
}

pub(crate) async fn open(backend: &dyn Backend, conversation: &str) -> Arc<dyn Sandbox> {
    backend
        .open(opening(conversation, 1))
        .await
        .expect("the sandbox opens")
}

pub(crate) async fn command(sandbox: &dyn Sandbox, op: CommandRun) -> Result<CommandResult, Failure> {
    match sandbox
        .dispatch(Op::CommandRun(op), &CancellationToken::new())
        .await?
    {
        OpResult::Command(result) => Ok(result),
        other => panic!("a command returned {other:?}"),
    }
}

pub(crate) async fn shell(sandbox: &dyn Sandbox, line: impl Into<String>) -> Result<CommandResult, Failure> {
    command(sandbox, CommandRun::shell(line)).await
}

/// What a line prints, which must end well.
pub(crate) async fn printed(sandbox: &dyn Sandbox, line: &str) -> String {
    let result = shell(sandbox, line).await.expect("the command runs");
    assert_eq!(result.exit_code, 0, "{line}: {}", result.stderr);
    result.stdout.text().into_owned()
}
