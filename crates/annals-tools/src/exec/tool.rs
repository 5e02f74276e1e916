//! What the exec tools have in common: all but their language.

use std::time::Duration;

use annals_core::code::Code;
use annals_core::limits;
use annals_core::sources::SourceRow;
use annals_core::turn::outcome::{Artifact, Outcome, Output, Payload};
use annals_sandbox::Language;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::contract::{Contract, ContractInvalid};
use super::produced::{self, Stamp};
use super::report::Report;
use super::run::{self, Ran};
use crate::access::Uses;
use crate::cx::ToolCx;
use crate::facet::FacetParam;
use crate::failure::ToolFailure;
use crate::serialise;
use crate::spec::{BodyParam, Effect, Family, Produces, ToolSpec};
use crate::tool::Tool;

/// The code ends by its own timeout; this bound only catches a sandbox that does not keep it.
const CALL_TIMEOUT: Duration = Duration::from_secs(limits::EXEC_TIMEOUT_MAX_SECONDS + 60);

const COMMON: &str = " It runs exactly as written, without network, in OUT_DIR (the working directory): files of \
    earlier turns are readable at their physical paths (turn_…/files/…, turn_…/attachments/…), and only this \
    turn's files folder is writable: write each file of the contract there, its path is in the variable FILES_DIR. \
    Only files named in the contract are kept.";

/// Runs code in one language.
pub struct ExecuteCode {
    spec: ToolSpec,
    language: Language,
}

#[derive(Deserialize)]
struct Args {
    code: String,
    contract: Value,
    #[serde(default = "default_timeout")]
    timeout_s: u64,
}

fn default_timeout() -> u64 {
    limits::EXEC_TIMEOUT_DEFAULT_SECONDS
}

impl ExecuteCode {
    pub(super) fn new(language: Language, name: &str, description: &str) -> Self {
        let mut spec = ToolSpec::builder(name)
            .description(format!("{description}{COMMON}"))
            .family(Family::Exec)
            .effect(Effect::Once)
            .writes(Uses::Workspace)
            .produces(Produces::Artifacts)
            .body(BodyParam::Code("code"))
            .timeout(CALL_TIMEOUT)
            .parameters(parameters());
        if language == Language::Bash {
            spec = spec.facet(FacetParam::Command("code".into()));
        }
        let spec = spec.build().expect("a built-in's declaration is valid");
        ExecuteCode { spec, language }
    }

    async fn execute(&self, cx: &ToolCx, args: Args, contract: Contract) -> Outcome {
        let before: Vec<Option<Stamp>> = contract
            .files
            .iter()
            .map(|path| produced::stamp(cx.workspace(), path))
            .collect();
        let timeout = Duration::from_secs(args.timeout_s.clamp(1, limits::EXEC_TIMEOUT_MAX_SECONDS));
        let Ran {
            error,
            stdout,
            stderr,
            notices: told,
        } = run::run(cx, self.language, &args.code, timeout).await;
        let (stdout, stderr) = (stdout.text().into_owned(), stderr.text().into_owned());
        let mut report = Report {
            error,
            stdout,
            stderr,
            ..Report::default()
        };
        let (mut artifacts, mut sources) = (Vec::new(), Vec::new());
        for (path, before) in contract.files.into_iter().zip(before) {
            match produced::take(cx, self.spec.name().as_str(), &path, before).await {
                Ok(recorded) => {
                    // What would be a notice elsewhere is a line of the report here.
                    let unhosted = recorded.notices.first().map(|notice| notice.message.clone());
                    report
                        .failed
                        .extend(unhosted.map(|reason| (path.clone(), reason)));
                    report.succeeded.push(path);
                    artifacts.push(recorded.artifact);
                    sources.extend(recorded.source);
                }
                Err(reason) => report.failed.push((path, reason)),
            }
        }
        let outcome = outcome(cx, report, artifacts, sources).await;
        let mut notices = contract.notices;
        notices.extend(told);
        Outcome { notices, ..outcome }
    }
}

fn parameters() -> Value {
    let contract = json!({
        "type": "array",
        "maxItems": limits::EXEC_CONTRACT_MAX_FILES,
        "items": {
            "type": "object",
            "properties": {
                "filename": {"type": "string", "description": "Path below this turn's files, such as `report.pdf`."},
                "description": {"type": "string", "description": "What the file is for."},
            },
            "required": ["filename", "description"],
        },
    });
    json!({
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "FIRST FIELD. The whole program."},
            "contract": {
                // Anything else is answered by the tool itself, which says more than a schema can.
                "anyOf": [contract, {}],
                "description": "SECOND FIELD. The files that the program produces.",
            },
            "prog_name": {"type": "string", "description": "THIRD FIELD. A short name for the program."},
            "timeout_s": {
                "type": "integer",
                "minimum": 1,
                "maximum": limits::EXEC_TIMEOUT_MAX_SECONDS,
                "description": "FOURTH FIELD. Timeout in seconds. Default 600."
            },
        },
        "required": ["code", "contract"],
        "additionalProperties": false,
    })
}

/// A call that does not say which files it makes is not run.
fn refused(error: &ContractInvalid) -> Outcome {
    let failure = ToolFailure::new(Code::ExecContractInvalid, error.to_string());
    Outcome {
        notices: vec![error.notice()],
        ..serialise::failed(&failure)
    }
}

async fn outcome(cx: &ToolCx, report: Report, artifacts: Vec<Artifact>, sources: Vec<SourceRow>) -> Outcome {
    let path = cx.result_path();
    let shown = report.text(limits::EXEC_STREAM_TAIL_MAX_CHARS, path.as_str());
    let mut payload = Payload::markdown(shown);
    if report.is_cut(limits::EXEC_STREAM_TAIL_MAX_CHARS) {
        let whole = report.text(usize::MAX, path.as_str());
        payload.whole = cx
            .artifacts()
            .put(whole.into_bytes())
            .await
            .ok()
            .map(|stored| stored.blob);
    }
    Outcome {
        output: Output::Payload(payload),
        artifacts,
        sources,
        error: report.status(),
        ..Outcome::default()
    }
}

#[async_trait]
impl Tool for ExecuteCode {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, cx: &ToolCx, args: Value) -> Outcome {
        let args = match crate::__private::typed::<Args>(args) {
            Ok(args) => args,
            Err(failure) => return serialise::failed(&failure),
        };
        match Contract::parse(&args.contract, cx.turn()) {
            Ok(contract) => self.execute(cx, args, contract).await,
            Err(error) => refused(&error),
        }
    }
}
