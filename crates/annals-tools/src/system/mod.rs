//! The system tools: commands, files and code in the session's sandbox. One file each, named like the tool.

mod list_workspace_files;
mod read_workspace_file;
mod run_code;
mod run_shell_command;
mod workspace_path_exists;
mod write_workspace_file;

use std::sync::Arc;
use std::time::Duration;

use annals_core::code::Code;
use annals_core::limits;
use annals_core::turn::outcome::Outcome;
use annals_sandbox::Op;

pub use list_workspace_files::ListWorkspaceFiles;
pub use read_workspace_file::ReadWorkspaceFile;
pub use run_code::RunCode;
pub use run_shell_command::RunShellCommand;
pub use workspace_path_exists::WorkspacePathExists;
pub use write_workspace_file::WriteWorkspaceFile;

use crate::cx::ToolCx;
use crate::failure::ToolFailure;
use crate::serialise;
use crate::spec::ToolSpec;
use crate::tool::Tool;
use crate::tree::Visit;

/// All system tools.
pub fn all() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(RunShellCommand::new()),
        Arc::new(WriteWorkspaceFile::new()),
        Arc::new(ReadWorkspaceFile::new()),
        Arc::new(ListWorkspaceFiles::new()),
        Arc::new(WorkspacePathExists::new()),
        Arc::new(RunCode::new()),
    ]
}

/// Performs an operation in the session's sandbox and serialises what came back.
async fn perform(cx: &ToolCx, spec: &ToolSpec, op: Op) -> Outcome {
    let sandbox = match cx.sandbox().await {
        Ok(sandbox) => sandbox,
        Err(failure) => return serialise::answer(cx, spec, Err(failure)).await,
    };
    let visit = match Visit::begin(cx, &sandbox).await {
        Ok(visit) => visit,
        Err(failure) => return serialise::answer_op(cx, spec, Err(failure)).await,
    };
    let changes = matches!(op, Op::CommandRun(_) | Op::CodeRun(_) | Op::FilesWrite(_));
    let result = cx.dispatch_in(&*sandbox, op).await;
    let mut outcome = serialise::answer_op(cx, spec, result).await;
    if changes {
        visit.host(cx, &mut outcome).await;
    } else {
        outcome.notices.extend(visit.into_notices());
    }
    outcome
}

/// The call ends by its own timeout; this bound only catches a sandbox that does not keep it.
const CALL_TIMEOUT: Duration = Duration::from_secs(limits::EXEC_TIMEOUT_MAX_SECONDS + 60);

fn refuse(message: impl Into<String>) -> ToolFailure {
    ToolFailure::new(Code::InvalidToolArguments, message)
}
