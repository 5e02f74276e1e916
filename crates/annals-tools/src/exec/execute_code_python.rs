//! `exec_tools.execute_code_python`.

use annals_sandbox::Language;

use super::tool::ExecuteCode;

/// The tool that runs Python.
pub fn execute_code_python() -> ExecuteCode {
    ExecuteCode::new(
        Language::Python,
        "exec_tools.execute_code_python",
        "Run a Python program that produces files. `from context_tools import fetch_ctx` gives any artifact: \
         fetch_ctx(\"tc:…result\") is its text (or bytes), with .mime and .path.",
    )
}
