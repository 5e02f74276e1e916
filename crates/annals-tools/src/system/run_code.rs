//! `run_code`: a piece of code in its interpreter, in the sandbox.

use std::time::Duration;

use annals_core::code::Code;
use annals_core::limits;
use annals_core::turn::outcome::Outcome;
use annals_policy::Reach;
use annals_sandbox::{CodeRun, Language, Op};
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
pub struct RunCode {
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Args {
    code: String,
    language: String,
    timeout_s: Option<u64>,
}

impl RunCode {
    /// `run_code`.
    pub fn new() -> Self {
        let spec = ToolSpec::builder("run_code")
            .description(
                "Run code in the sandbox and return what it printed. To produce files for the user, use \
                 exec_tools.execute_code_python and its like.",
            )
            .timeout(super::CALL_TIMEOUT)
            .writes(Uses::Workspace)
            .reaches([Reach::Exec, Reach::Write])
            .facet(FacetParam::Script {
                code: "code".into(),
                language: "language".into(),
            })
            .parameters(json!({
                "type": "object",
                "properties": {
                    "code": {"type": "string", "description": "FIRST FIELD. Runs exactly as written."},
                    "language": {"type": "string", "description": "SECOND FIELD. python, bash or javascript."},
                    "timeout_s": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": limits::EXEC_TIMEOUT_MAX_SECONDS,
                        "description": "Timeout in seconds. Default 120."
                    },
                },
                "required": ["code", "language"],
                "additionalProperties": false,
            }))
            .build()
            .expect("a built-in's declaration is valid");
        RunCode { spec }
    }
}

impl Default for RunCode {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for RunCode {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        match crate::__private::typed::<Args>(args).and_then(code) {
            Ok(run) => super::perform(cx, &self.spec, Op::CodeRun(run)).await,
            Err(failure) => serialise::answer(cx, &self.spec, Err(failure)).await,
        }
    }
}

fn code(args: Args) -> Result<CodeRun, ToolFailure> {
    let language: Language = args
        .language
        .parse()
        .map_err(|error: annals_sandbox::UnknownLanguage| {
            ToolFailure::new(Code::Unsupported, error.to_string())
        })?;
    let mut run = CodeRun::new(language, args.code);
    run.timeout = args.timeout_s.map(Duration::from_secs);
    Ok(run)
}
