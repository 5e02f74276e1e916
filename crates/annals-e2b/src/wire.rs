//! The JSON of both services. Answers are read leniently, because several servers speak this protocol.

use std::collections::BTreeMap;

use annals_remote::Phase;
use serde::{Deserialize, Serialize};

/// Body of `POST /sandboxes`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NewSandbox<'a> {
    #[serde(rename = "templateID")]
    pub(crate) template_id: &'a str,
    /// Seconds.
    pub(crate) timeout: u64,
    pub(crate) metadata: &'a BTreeMap<String, String>,
    #[serde(rename = "envVars")]
    pub(crate) env_vars: &'a BTreeMap<String, String>,
    /// Older servers hand out no access token without.
    pub(crate) secure: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allow_internet_access: Option<bool>,
}

/// A sandbox, in any of the answers that describe one.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SandboxInfo {
    #[serde(rename = "sandboxID")]
    pub(crate) sandbox_id: String,
    #[serde(default)]
    pub(crate) state: Option<String>,
    #[serde(default)]
    pub(crate) metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) started_at: Option<String>,
    #[serde(default)]
    pub(crate) envd_version: Option<String>,
    #[serde(default)]
    pub(crate) envd_access_token: Option<String>,
    #[serde(default)]
    pub(crate) domain: Option<String>,
}

impl SandboxInfo {
    /// A sandbox is running as soon as the server speaks of it, unless it says otherwise.
    pub(crate) fn phase(&self) -> Phase {
        match self.state.as_deref() {
            None | Some("running") => Phase::Running,
            Some("paused") => Phase::Paused,
            Some(_) => Phase::Starting,
        }
    }

    /// The account that envd runs things as when none is configured: old ones want to be told.
    pub(crate) fn default_user(&self) -> Option<&'static str> {
        const NAMES_ITS_OWN: (u32, u32) = (0, 4);
        let mut numbers = self.envd_version.as_deref()?.split('.').map(str::parse);
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            return None;
        };
        ((major, minor) < NAMES_ITS_OWN).then_some("user")
    }
}

/// Every shape in which these services refuse.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    /// A number in the control plane, a word in Connect.
    code: serde_json::Value,
    message: Option<String>,
}

/// The stable code and one sentence; the body itself when it is not JSON.
pub(crate) fn read_refusal(body: &[u8]) -> (Option<String>, String) {
    let read: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
    let told = read.message.unwrap_or_else(|| {
        String::from_utf8_lossy(&body[..body.len().min(200)])
            .trim()
            .to_owned()
    });
    (read.code.as_str().map(str::to_owned), told)
}

/// Body of `process.Process/Start`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Start<'a> {
    pub(crate) process: ProcessConfig<'a>,
    pub(crate) stdin: bool,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct ProcessConfig<'a> {
    pub(crate) cmd: &'a str,
    pub(crate) args: &'a [&'a str],
    pub(crate) envs: &'a BTreeMap<String, String>,
}

/// A message of the stream that `Start` answers with.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StartResponse {
    pub(crate) event: ProcessEvent,
}

/// One of these is there; a sign of life is none of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProcessEvent {
    pub(crate) start: Option<Started>,
    pub(crate) data: Option<Data>,
    pub(crate) end: Option<End>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Started {
    pub(crate) pid: u32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Data {
    /// Bytes in base64.
    pub(crate) stdout: Option<String>,
    pub(crate) stderr: Option<String>,
}

/// Zero and false are not sent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct End {
    pub(crate) exit_code: i32,
    pub(crate) error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_read_from_every_answer_that_describes_one() {
        let read = |json: &str| serde_json::from_str::<SandboxInfo>(json).unwrap();
        let made = read(r#"{"templateID":"base","sandboxID":"s","clientID":"c","envdVersion":"0.3.1"}"#);
        assert_eq!(
            (made.phase(), made.default_user()),
            (Phase::Running, Some("user"))
        );
        let shown = read(
            r#"{"sandboxID":"s","state":"paused","metadata":null,"envdVersion":"0.4.0","envdAccessToken":"t"}"#,
        );
        assert_eq!((shown.phase(), shown.default_user()), (Phase::Paused, None));
        assert_eq!(
            read(r#"{"sandboxID":"s","state":"snapshotting"}"#).phase(),
            Phase::Starting
        );
    }

    #[test]
    fn refusals_of_both_services_are_read() {
        assert_eq!(
            read_refusal(br#"{"code":404,"message":"no"}"#),
            (None, "no".to_owned())
        );
        assert_eq!(
            read_refusal(br#"{"code":"not_found","message":"no process"}"#),
            (Some("not_found".to_owned()), "no process".to_owned())
        );
        assert_eq!(read_refusal(b"Bad Gateway\n"), (None, "Bad Gateway".to_owned()));
    }
}
