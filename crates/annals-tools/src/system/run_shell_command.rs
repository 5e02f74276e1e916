//! `run_shell_command`: one line for the shell, in the sandbox.

use std::time::Duration;

use annals_core::limits;
use annals_core::turn::outcome::Outcome;
use annals_policy::Reach;
use annals_sandbox::{CommandRun, Op};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::Uses;
use crate::cx::ToolCx;
use crate::facet::FacetParam;
use crate::failure::ToolFailure;
use crate::serialise;
use crate::spec::ToolSpec;
use crate::tool::Tool;

/// The tool.
pub struct RunShellCommand {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    command: String,
    cwd: Option<String>,
    timeout_s: Option<u64>,
}

impl RunShellCommand {
    /// `run_shell_command`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("run_shell_command")
            .description(
                "Run one shell command line in the sandbox; the workspace is the working directory. Everything it \
                 starts ends with it. For scripts of several lines use run_code.",
            )
            .timeout(super::CALL_TIMEOUT)
            .writes(Uses::Workspace)
            .reaches([Reach::Exec, Reach::Write])
            .facet(FacetParam::Command("command".into()))
            .parameters(json!({
                "type": "object",
                "properties": {
                    "command": {
                        "type": "string",
                        "maxLength": limits::SHELL_COMMAND_MAX_CHARS,
                        "description": "One line."
                    },
                    "cwd": {"type": "string", "description": "Directory to start in, relative to the workspace."},
                    "timeout_s": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": limits::EXEC_TIMEOUT_MAX_SECONDS,
                        "description": "Timeout in seconds. Default 120."
                    },
                },
                "required": ["command"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        RunShellCommand { spec }
    }
}

impl Default for RunShellCommand {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for RunShellCommand {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let run = match crate::__private::typed::<Args>(args).and_then(command) {
            Ok(run) => run,
            Err(failure) => return serialise::answer(cx, &self.spec, Err(failure)).await,
        };
        super::perform(cx, &self.spec, Op::CommandRun(run)).await
    }
}

/// The guards that hold whatever the backend does.
fn command(args: Args) -> Result<CommandRun, ToolFailure> {
    let line = args.command.trim_end_matches(['\r', '\n']);
    if line.trim().is_empty() {
        return Err(super::refuse("the command is empty: give one line for the shell"));
    }
    if line.contains(['\n', '\r']) {
        return Err(super::refuse(
            "the command has several lines: join them with `&&` or `;`, or run a script with run_code",
        ));
    }
    let chars = line.chars().count();
    if chars > limits::SHELL_COMMAND_MAX_CHARS {
        return Err(super::refuse(format!(
            "the command has {chars} characters, more than {}: write a script with write_workspace_file and run that",
            limits::SHELL_COMMAND_MAX_CHARS
        )));
    }
    if line.contains('\0') {
        return Err(super::refuse("the command contains a NUL character: remove it"));
    }
    let mut run = CommandRun::shell(line);
    run.cwd = args.cwd;
    run.timeout = args.timeout_s.map(Duration::from_secs);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded(command_line: &str) -> Result<CommandRun, String> {
        let args = Args {
            command: command_line.to_owned(),
            cwd: None,
            timeout_s: None,
        };
        command(args).map_err(|failure| format!("{}: {}", failure.kind, failure.message))
    }

    #[test]
    fn only_one_short_line_reaches_the_shell() {
        assert!(guarded("echo hi").is_ok());
        assert!(guarded("echo hi\n").is_ok(), "a line end is not a second line");
        assert!(guarded(&"x".repeat(2_048)).is_ok());
        for (line, said) in [
            ("a\nb", "several lines"),
            ("a\rb", "several lines"),
            ("  \n", "is empty"),
            (&"x".repeat(2_049), "2049 characters"),
            ("echo \0", "NUL"),
        ] {
            let error = guarded(line).unwrap_err();
            assert!(
                error.starts_with("invalid_tool_arguments: ") && error.contains(said),
                "{error}"
            );
        }
    }
}
