//! A double with a key, backends on it, and short ways to ask.

#![allow(dead_code, reason = "each test program uses some of it")]

use std::sync::Arc;
use std::time::Duration;

use annals_e2b::{E2b, E2bOptions};
use annals_opensandbox::{OpenSandbox, OpenSandboxOptions};
use annals_opensandbox_double::{Double, DoubleOptions, Wire};
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
    let options = DoubleOptions {
        wire,
        key: Some(KEY.to_owned()),
        ..DoubleOptions::default()
    };
    Double::start(options).await.expect("the double starts")
}

pub(crate) fn backend(double: &Double, change: impl FnOnce(&mut OpenSandboxOptions)) -> OpenSandbox {
    let mut options = OpenSandboxOptions {
        workspace: WORKSPACE.to_owned(),
        ..OpenSandboxOptions::default()
    };
    change(&mut options);
    let backend = OpenSandbox::new(&double.url(), Some(KEY.to_owned()), options);
    backend
        .expect("usable settings")
        .linger(Duration::from_millis(200))
}

pub(crate) fn e2b(double: &Double) -> E2b {
    let options = E2bOptions {
        workspace: WORKSPACE.to_owned(),
        sandbox_url: Some(double.sandbox_url()),
        ..E2bOptions::default()
    };
    let backend = E2b::new(&double.url(), Some(KEY.to_owned()), options);
    backend
        .expect("usable settings")
        .linger(Duration::from_millis(200))
}

/// A backend on a double, whichever wire it speaks.
pub(crate) fn backend_on(double: &Double, wire: Wire) -> Box<dyn Backend> {
    match wire {
        Wire::OpenSandbox => Box::new(backend(double, |_| {})),
        Wire::E2b => Box::new(e2b(double)),
    }
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
