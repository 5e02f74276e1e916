//! The exec tools: isolated code that promises files. One file a tool, named like it.
//!
//! Read in this order: [`contract`] (what is promised), [`context`] (what code can ask for inside), [`run`] (one call), [`report`] (what the model is told), then the tools.

mod context;
mod contract;
mod execute_code_bash;
mod execute_code_javascript;
mod execute_code_python;
mod produced;
mod report;
mod run;
mod tool;

use std::sync::Arc;

use annals_sandbox::{Language, interpreters};

pub use execute_code_bash::execute_code_bash;
pub use execute_code_javascript::execute_code_javascript;
pub use execute_code_python::execute_code_python;
pub(crate) use produced::FILE_MAX_BYTES;
pub use tool::ExecuteCode;

use crate::tool::Tool;

/// The exec tools whose interpreter is on the search path of this machine.
pub fn all() -> Vec<Arc<dyn Tool>> {
    let found = Language::ALL
        .into_iter()
        .filter(|language| interpreters::is_on_path(*language));
    found
        .map(|language| Arc::new(of(language)) as Arc<dyn Tool>)
        .collect()
}

/// The exec tool of a language, whether or not its interpreter is here.
pub fn of(language: Language) -> ExecuteCode {
    match language {
        Language::Python => execute_code_python(),
        Language::Bash => execute_code_bash(),
        Language::JavaScript => execute_code_javascript(),
    }
}
