//! Every code of a notice or an error that a model, a program or a person reads, once, with what it means.
//!
//! Tools of others may use codes of their own; what this repository writes is here, and `docs/codes.md` lists it.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal;)*) => {
        /// A stable code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])* $name,)*
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code as it is written.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Code::$name => $code,)*
                }
            }

            /// What it means, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Code::$name => concat!($($doc),*).trim_ascii(),)*
                }
            }
        }
    };
}

codes! {
    /// The arguments do not fit the tool.
    InvalidToolArguments = "invalid_tool_arguments";
    /// A required parameter is missing, or one has the wrong type.
    ToolSignatureRed = "tool_signature_red";
    /// There is no such tool, or it was not offered.
    UnknownTool = "unknown_tool";
    /// The tool is not the one that was offered or accepted.
    ToolChanged = "tool_changed";
    /// The server no longer has the tool.
    ToolGone = "tool_gone";
    /// A `ref:` names something that the model cannot see.
    ParamRefNotVisible = "param_ref_not_visible";
    /// The contract is not a list of files.
    ExecContractInvalid = "exec_contract_invalid";
    /// A rule or a hook does not allow the call.
    DeniedByPolicy = "denied_by_policy";
    /// A person refused the call.
    DeniedByPerson = "denied_by_person";
    /// Nobody decided in time.
    ApprovalExpired = "approval_expired";
    /// Nobody answered in time.
    InputExpired = "input_expired";
    /// The call asks something, and nobody can be asked.
    InputUnavailable = "input_unavailable";
    /// The call asks something and is run again with the answer; no result has this code.
    InputRequired = "input_required";
    /// The client did not perform its tool.
    ClientDeclined = "client_declined";
    /// The process ended while the call ran: its effect may or may not have happened.
    Interrupted = "interrupted";
    /// The turn was cancelled.
    Cancelled = "cancelled";
    /// It took too long and was stopped.
    Timeout = "timeout";
    /// The tool panicked or was stopped.
    ToolExecutionException = "tool_execution_exception";
    /// The tool failed and says nothing more precise.
    ToolError = "tool_error";
    /// The program ended with an error.
    ExecutionFailed = "execution_failed";
    /// The program did not make all files of its contract.
    FilesMissing = "files_missing";
    /// A file was made and has nothing in it.
    FileEmpty = "file_empty";
    /// There is no such file.
    FileNotFound = "file_not_found";
    /// A file could not be written or kept.
    WriteFailed = "write_failed";
    /// The path leaves the working tree.
    PathViolation = "path_violation";
    /// The path leads out of its folder.
    UnsafePath = "unsafe_path";
    /// The text is not a path.
    InvalidPath = "invalid_path";
    /// The operating system refused.
    OsError = "os_error";
    /// The sandbox or the tool cannot do that.
    Unsupported = "unsupported";
    /// The sandbox is gone.
    SandboxClosed = "sandbox_closed";
    /// The sandbox could not be started.
    SandboxNotAvailable = "sandbox_not_available";
    /// The agent has no sandbox.
    SandboxNotConfigured = "sandbox_not_configured";
    /// A program printed more than is taken.
    OutputTooLarge = "output_too_large";
    /// A limit of memory, processes or disk was met.
    ResourceLimit = "resource_limit";
    /// There is nothing to render.
    EmptyContent = "empty_content";
    /// No helper process could be started.
    ContentHelperMissing = "content_helper_missing";
    /// Reading or rendering met a limit of memory, time or nesting.
    ContentLimit = "content_limit";
    /// The document or what becomes of it is too large.
    DocumentTooLarge = "document_too_large";
    /// Too much is being done at once; try again.
    Busy = "busy";
    /// The content cannot be read.
    Unreadable = "unreadable";
    /// The document could not be laid out.
    RenderingFailed = "rendering_failed";
    /// There is no Chromium to print with.
    ChromiumNotAvailable = "chromium_not_available";
    /// This build lacks what the call needs.
    FeatureMissing = "feature_missing";
    /// A hunk fits no place of the file, or several.
    HunkMismatch = "hunk_mismatch";
    /// A hunk's header cannot be read.
    InvalidHunkHeader = "invalid_hunk_header";
    /// There is no file to patch.
    PatchTargetMissing = "patch_target_missing";
    /// Nothing visible has the path.
    HideNotFound = "hide_not_found";
    /// The block stands in the cached prefix.
    HideBeforeCache = "hide_before_cache";
    /// The block is too far from the end to be worth hiding.
    HideTooOld = "hide_too_old";
    /// A clarification asks nothing.
    ClarifyWithoutQuestion = "clarify_without_question";
    /// The plan has no steps, or too many.
    InvalidPlan = "invalid_plan";
    /// There is no plan to change.
    NoActivePlan = "no_active_plan";
    /// The pattern is not a regular expression.
    InvalidRegex = "invalid_regex";
    /// The search has no words.
    EmptyQuery = "empty_query";
    /// Memory could not be searched.
    MemoryNotAvailable = "memory_not_available";
    /// The agent has no memory search.
    MemoryNotConfigured = "memory_not_configured";
    /// The search provider failed.
    SearchFailed = "search_failed";
    /// No search provider is configured.
    SearchProviderNotConfigured = "search_provider_not_configured";
    /// The text is not an address.
    InvalidUrl = "invalid_url";
    /// The address is neither http nor https.
    UnsupportedScheme = "unsupported_scheme";
    /// The address is private, or has credentials or an unusual port.
    AddressRefused = "address_refused";
    /// The host has no address.
    NameNotResolved = "name_not_resolved";
    /// The page leads on and on.
    TooManyRedirects = "too_many_redirects";
    /// The server answered with an error.
    HttpStatus = "http_status";
    /// The page is too large.
    TooLarge = "too_large";
    /// The connection failed.
    NetworkError = "network_error";
    /// The MCP server could not be started or reached.
    McpServerUnavailable = "mcp_server_unavailable";
    /// The MCP server wants a login, which a person has to make.
    McpLoginNeeded = "mcp_login_needed";
    /// The MCP server ended during the call.
    McpServerDied = "mcp_server_died";
    /// The MCP server refused the call.
    McpError = "mcp_error";
    /// The MCP server asks for input, which it cannot get.
    McpInputRequired = "mcp_input_required";
    /// The MCP server broke the protocol.
    McpProtocolError = "mcp_protocol_error";
    /// A trace found no result of the call.
    NoResult = "no_result";
    /// The call ran with other arguments than the model's.
    CallEdited = "call_edited";
    /// An MCP server tried to reach a host that it was not given.
    McpHostRefused = "mcp_host_refused";
    /// What was left out of an MCP server's result.
    McpResult = "mcp_result";
    /// Some of the memory is not indexed yet.
    MemoryIncomplete = "memory_incomplete";
    /// Some of the paths name nothing.
    ReadPathsMissing = "read_paths_missing";
    /// The sandbox was lost and made again from the files that are kept.
    SandboxReplaced = "sandbox_replaced";
    /// Some files of the working tree could not be brought back.
    WorkspaceIncomplete = "workspace_incomplete";
    /// Some files of the working tree could not be kept.
    WorkspaceNotKept = "workspace_not_kept";
    /// The call could not run to its end.
    ToolCallError = "tool_call_error";
    /// The document names files that are not there.
    MissingAssets = "tool_call_error.missing_assets";
    /// The document cites sources that are not in the pool.
    MissingSources = "tool_call_warning.missing_sources";
    /// The call ended with an error, which its result tells.
    ToolResultError = "tool_result_error";
    /// The arguments are not a JSON object.
    ViolationInvalidToolArguments = "protocol_violation.invalid_tool_arguments";
    /// The tool does not exist or was not offered.
    ViolationUnknownTool = "protocol_violation.unknown_tool";
    /// A required parameter is missing, or one has the wrong type.
    ViolationToolSignatureRed = "protocol_violation.tool_signature_red";
    /// Unknown parameters were dropped.
    ViolationToolSignatureValidation = "protocol_violation.tool_signature_validation";
    /// The parameters came in another order than the tool's.
    ViolationParamOrder = "protocol_violation.param_order";
    /// A `ref:` names something that the model cannot see.
    ViolationParamRefNotVisible = "protocol_violation.param_ref_not_visible";
    /// The contract is not a list of files.
    ViolationExecContractInvalid = "protocol_violation.exec_contract_invalid";
    /// A path of another turn was rewritten into the current one.
    ViolationPathRewritten = "protocol_violation.path_rewritten";
    /// The answer had neither text nor calls.
    ViolationEmptyAnswer = "protocol_violation.empty_answer";
    /// More calls came in one answer than are taken.
    ViolationTooManyCalls = "protocol_violation.too_many_calls";
    /// A call id was used twice; the second was given another.
    ViolationDuplicateCallId = "protocol_violation.duplicate_call_id";
    /// The same call with the same result, again and again.
    ViolationLoop = "protocol_violation.loop";
    /// The answer does not fit the schema that was asked for.
    ViolationAnswerSchema = "protocol_violation.answer_schema";
}

impl Code {
    /// The code that is written so; none for codes of others.
    pub fn of(text: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// Whether it is a violation after which the call did not run.
    pub fn is_refusal(self) -> bool {
        matches!(
            self,
            Code::ViolationInvalidToolArguments
                | Code::ViolationUnknownTool
                | Code::ViolationToolSignatureRed
                | Code::ViolationParamRefNotVisible
                | Code::ViolationExecContractInvalid
                | Code::ViolationEmptyAnswer
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Code> for String {
    fn from(code: Code) -> String {
        code.as_str().to_owned()
    }
}

impl PartialEq<Code> for String {
    fn eq(&self, code: &Code) -> bool {
        self == code.as_str()
    }
}
