//! The JSON of both services. Answers are read leniently: unknown fields and states are kept out of the way, because
//! servers of several versions are in use.

use std::collections::BTreeMap;

use annals_remote::Phase;
use serde::{Deserialize, Serialize};

/// Body of `POST /sandboxes`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateSandbox<'a> {
    pub(crate) image: Image<'a>,
    pub(crate) entrypoint: &'a [String],
    /// Seconds until the sandbox expires unless it is renewed; the server takes no less than 60.
    pub(crate) timeout: u64,
    pub(crate) resource_limits: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) metadata: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network_policy: Option<&'a NetworkPolicy>,
    #[serde(skip_serializing_if = "<[serde_json::Value]>::is_empty")]
    pub(crate) volumes: &'a [serde_json::Value],
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Image<'a> {
    pub(crate) uri: &'a str,
}

/// What programs in a sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkPolicy {
    /// What holds for targets that no rule names.
    #[serde(alias = "default")]
    pub default_action: NetworkAction,
    /// Rules for outgoing connections.
    #[serde(default)]
    pub egress: Vec<NetworkRule>,
}

/// Whether a connection may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkAction {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

/// One rule of a [`NetworkPolicy`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRule {
    /// Whether the target may be reached.
    pub action: NetworkAction,
    /// A host name, or a name with a wildcard such as `*.example.org`.
    pub target: String,
}

/// A sandbox as the lifecycle server describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SandboxInfo {
    pub(crate) id: String,
    pub(crate) status: SandboxStatus,
    #[serde(default)]
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) created_at: Option<String>,
}

impl SandboxInfo {
    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.as_ref()?.get(key).map(String::as_str)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SandboxStatus {
    pub(crate) state: State,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) message: Option<String>,
}

impl SandboxStatus {
    /// The state, with what the server says about it.
    pub(crate) fn told(&self) -> String {
        let said = [self.reason.as_deref(), self.message.as_deref()];
        let said: Vec<&str> = said
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
            .collect();
        match said.is_empty() {
            true => format!("{:?}", self.state),
            false => format!("{:?}: {}", self.state, said.join(", ")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum State {
    Pending,
    Running,
    Pausing,
    Paused,
    Resuming,
    Stopping,
    Terminated,
    Failed,
    #[serde(other)]
    Unknown,
}

impl From<State> for Phase {
    fn from(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Paused => Self::Paused,
            State::Stopping => Self::Ending,
            State::Terminated => Self::Ended,
            State::Failed => Self::Failed,
            State::Pending | State::Pausing | State::Resuming | State::Unknown => Self::Starting,
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SandboxPage {
    #[serde(default)]
    pub(crate) items: Vec<SandboxInfo>,
    #[serde(default)]
    pub(crate) pagination: Pagination,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Pagination {
    pub(crate) has_next_page: bool,
}

/// Where a port of a sandbox is reached, and headers that every request to it carries.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Endpoint {
    /// `host:port/path`, without a scheme.
    pub(crate) endpoint: String,
    #[serde(default)]
    pub(crate) headers: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenewExpiration {
    pub(crate) expires_at: String,
}

/// Body of `POST /command`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunCommand<'a> {
    pub(crate) command: &'a str,
    /// Milliseconds until execd kills the process group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) envs: &'a BTreeMap<String, String>,
}

/// One event of a stream of `/command` or `/code`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Event {
    /// Absent in a refusal that comes in the middle of a stream; `code` and `message` are there instead.
    #[serde(default, rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) text: Option<String>,
    #[serde(default)]
    pub(crate) error: Option<EventError>,
    #[serde(default)]
    pub(crate) results: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default)]
    pub(crate) code: Option<String>,
    #[serde(default)]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct EventError {
    #[serde(default)]
    pub(crate) ename: String,
    #[serde(default)]
    pub(crate) evalue: String,
    #[serde(default)]
    pub(crate) traceback: Option<Vec<String>>,
}

/// Metadata of an uploaded file. `mode` has the octal digits as a decimal number: 644, not 420.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct UploadMetadata<'a> {
    pub(crate) path: &'a str,
    pub(crate) mode: u32,
}

/// A permission mode as the services write it: the digits of the octal form as a decimal number.
pub(crate) fn mode_digits(mode: u32) -> u32 {
    (mode >> 6 & 7) * 100 + (mode >> 3 & 7) * 10 + (mode & 7)
}

/// Every shape in which these services refuse.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorBody {
    code: Option<String>,
    message: Option<String>,
    /// Of execd, when the access token is wrong.
    error: Option<String>,
    /// Of the lifecycle server's validation.
    detail: Option<serde_json::Value>,
}

impl ErrorBody {
    /// The stable code and one sentence, from any of the shapes; the body itself when it has none of them.
    pub(crate) fn read(body: &[u8]) -> (Option<String>, String) {
        let read: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
        let detail = read.detail.as_ref().map(validation);
        let told = read.message.or(read.error).or(detail);
        let told = told.unwrap_or_else(|| {
            String::from_utf8_lossy(&body[..body.len().min(200)])
                .trim()
                .to_owned()
        });
        (read.code, told)
    }
}

fn validation(detail: &serde_json::Value) -> String {
    let one = |item: &serde_json::Value| {
        let path = item["loc"].as_array().map(|parts| {
            let parts = parts
                .iter()
                .map(|part| part.as_str().map_or(part.to_string(), str::to_owned));
            parts.collect::<Vec<_>>().join(".")
        });
        let message = item["msg"].as_str().unwrap_or("invalid");
        path.map_or(message.to_owned(), |path| format!("{path}: {message}"))
    };
    match detail {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(items) => items.iter().map(one).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_sent_as_its_octal_digits() {
        assert_eq!([0o644, 0o755, 0o600, 0o007].map(mode_digits), [644, 755, 600, 7]);
    }

    #[test]
    fn every_shape_of_a_refusal_gives_a_code_or_a_sentence() {
        let read = |body: &str| ErrorBody::read(body.as_bytes());
        assert_eq!(
            read(r#"{"code":"INVALID_API_KEY","message":"no"}"#),
            (Some("INVALID_API_KEY".into()), "no".into())
        );
        assert_eq!(read(r#"{"error":"Unauthorized"}"#), (None, "Unauthorized".into()));
        let detail = r#"{"detail":[{"type":"missing","loc":["body","entrypoint"],"msg":"Field required"}]}"#;
        assert_eq!(read(detail), (None, "body.entrypoint: Field required".into()));
        assert_eq!(read(r#"{"detail":"Not Found"}"#), (None, "Not Found".into()));
        assert_eq!(read("Bad Gateway"), (None, "Bad Gateway".into()));
    }

    #[test]
    fn a_state_that_nobody_knows_yet_is_read() {
        let status: SandboxStatus = serde_json::from_str(r#"{"state":"Hibernating"}"#).unwrap();
        assert_eq!(status.state, State::Unknown);
        assert_eq!(Phase::from(status.state), Phase::Starting);
    }
}
