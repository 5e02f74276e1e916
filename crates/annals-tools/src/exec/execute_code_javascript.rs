//! `exec_tools.execute_code_javascript`.

use annals_sandbox::Language;

use super::tool::ExecuteCode;

/// The tool that runs JavaScript.
pub fn execute_code_javascript() -> ExecuteCode {
    ExecuteCode::new(
        Language::JavaScript,
        "exec_tools.execute_code_javascript",
        "Run a JavaScript program (Node, CommonJS) that produces files. `const { fetchCtx } = \
         require(\"context_tools\")` gives any artifact: `(await fetchCtx(path)).text`, or `.bytes`.",
    )
}
