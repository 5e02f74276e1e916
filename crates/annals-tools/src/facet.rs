//! What the rules of a policy look at in a call: files, commands and hosts, read from its arguments as the tool declares.

use std::borrow::Cow;
use std::collections::BTreeSet;

use annals_core::ids::TurnId;
use annals_core::path::rewrite;
use annals_policy::{Call, Command, Reach};
use serde_json::Value;

use crate::spec::ToolSpec;

/// A parameter that the rules of a policy look at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FacetParam {
    /// A line or script for a shell, or a list of words that no shell reads.
    Command(Cow<'static, str>),
    /// A script in the language that another parameter names; of a shell's, the commands are looked at.
    Script {
        /// The script.
        code: Cow<'static, str>,
        /// Its language.
        language: Cow<'static, str>,
    },
    /// A path or several.
    Path(Cow<'static, str>),
    /// An address or several; the facet is their host, as the tools that fetch it see it.
    #[cfg(feature = "web")]
    Url(Cow<'static, str>),
}

impl FacetParam {
    pub(crate) fn is_command(&self) -> bool {
        matches!(self, FacetParam::Command(_) | FacetParam::Script { .. })
    }

    pub(crate) fn is_path(&self) -> bool {
        matches!(self, FacetParam::Path(_))
    }

    pub(crate) fn is_host(&self) -> bool {
        match self {
            FacetParam::Command(_) | FacetParam::Script { .. } | FacetParam::Path(_) => false,
            #[cfg(feature = "web")]
            FacetParam::Url(_) => true,
        }
    }

    /// Adds what it finds in the arguments to the call.
    fn look(&self, args: &Value, call: &mut Call) {
        match self {
            FacetParam::Command(param) => call.command = args.get(&**param).and_then(command),
            FacetParam::Script { code, language } => {
                let is_shell = matches!(
                    args.get(&**language).and_then(Value::as_str),
                    Some("bash" | "sh" | "shell")
                );
                call.command = args.get(&**code).filter(|_| is_shell).and_then(command);
            }
            FacetParam::Path(param) => call.paths.extend(texts(args.get(&**param))),
            #[cfg(feature = "web")]
            FacetParam::Url(param) => call
                .hosts
                .extend(texts(args.get(&**param)).iter().map(|url| host(url))),
        }
    }
}

/// What the rules look at in a call of this tool.
pub fn call_of(spec: &ToolSpec, turn: &TurnId, args: &Value, is_isolated: bool) -> Call {
    let mut effects: BTreeSet<Reach> = spec.reach().into_iter().collect();
    if effects.contains(&Reach::Exec) && !is_isolated {
        // A program that nothing isolates can do anything.
        effects.insert(Reach::External);
    }
    let mut call = Call {
        tool: spec.name().to_string(),
        effects,
        ..Call::default()
    };
    for (param, is_of_turn) in spec.file_params() {
        let paths = texts(args.get(param)).into_iter().map(|path| match is_of_turn {
            true => written_path(turn, &path),
            false => path,
        });
        call.paths.extend(paths);
    }
    for facet in spec.facets() {
        facet.look(args, &mut call);
    }
    call
}

/// The file of this turn that such a path means to a tool that writes.
fn written_path(turn: &TurnId, path: &str) -> String {
    match rewrite::target(path, turn) {
        Ok(target) => target.logical(turn).to_string(),
        Err(_) => path.to_owned(),
    }
}

fn texts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(items)) => items
            .iter()
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

fn command(value: &Value) -> Option<Command> {
    match value {
        Value::String(text) => Some(Command::line(text)),
        Value::Array(_) => Some(Command::argv(&texts(Some(value)))),
        _ => None,
    }
}

/// The host of an address, in lower case. What cannot be read is kept whole, so that no allow rule matches it.
#[cfg(feature = "web")]
fn host(url: &str) -> String {
    let host = url::Url::parse(url.trim())
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned));
    let host = host.unwrap_or_else(|| url.to_owned());
    host.trim_end_matches('.').to_lowercase()
}
