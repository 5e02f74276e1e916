//! `exec_tools.execute_code_bash`.

use annals_sandbox::Language;

use super::tool::ExecuteCode;

/// The tool that runs shell scripts.
pub fn execute_code_bash() -> ExecuteCode {
    ExecuteCode::new(
        Language::Bash,
        "exec_tools.execute_code_bash",
        "Run a bash script that produces files. `annals-ctx fetch PATH` prints any artifact.",
    )
}
