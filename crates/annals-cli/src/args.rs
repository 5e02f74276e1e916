//! What was typed. What it means is in [`config`](crate::config).

mod mcp;
mod store;
mod timeline;

use std::path::PathBuf;

use annals::core::ids::NodeId;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use mcp::{
    McpAddArgs, McpCommand, McpInspectArgs, McpInspectedArgs, McpInstallArgs, McpLoginArgs, McpPromptArgs,
    McpReadArgs, McpServeArgs, McpServerArgs,
};
pub(crate) use store::{StoreArchiveArgs, StoreCommand, StoreGcArgs};
pub(crate) use timeline::{ExportArgs, ForkArgs, ImportArgs, RenderArgs, SliceArgs, TimelineCommand};

/// An agent runtime that forgets nothing: durable timelines, stable paths, sandboxed side effects.
#[derive(Debug, Parser)]
#[command(name = "annals", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Folder for the database, artifacts and working trees [env: ANNALS_HOME].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Configuration file [default: config.toml in the home].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where blocks are kept: `sqlite:FILE` or `postgres://USER@HOST/DATABASE`.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Where files are kept: `file:DIR` or `s3://BUCKET/PREFIX`.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) artifacts: Option<String>,
    /// Where side effects happen; keys of servers are in `OPEN_SANDBOX_API_KEY` and `E2B_API_KEY`.
    #[arg(
        long,
        global = true,
        value_name = "local|trusted-host|opensandbox:URL|e2b:URL"
    )]
    pub(crate) sandbox: Option<String>,
    /// The model: `script:FILE`, `openai:NAME`, `anthropic:NAME` or `ollama:NAME` [env: ANNALS_MODEL].
    #[arg(long, global = true, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Address of an OpenAI-compatible server [env: ANNALS_BASE_URL].
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The model's window in tokens, for compaction.
    #[arg(long, global = true, value_name = "N")]
    pub(crate) context_tokens: Option<u32>,
    /// Model calls that one turn may make.
    #[arg(long, global = true, value_name = "N")]
    pub(crate) max_iterations: Option<u32>,
    /// How prompts are laid out.
    #[arg(long, global = true, value_enum)]
    pub(crate) layout: Option<LayoutArg>,
    /// Which of OpenAI's protocols an `openai:` model is asked with [default: what the catalog says of the model at
    /// OpenAI itself, chat elsewhere].
    #[arg(long, global = true, value_enum)]
    pub(crate) wire: Option<WireArg>,
    /// Whose conversations: `TENANT/PROJECT/USER`.
    #[arg(long, global = true, value_name = "SCOPE")]
    pub(crate) scope: Option<String>,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
    /// Say more; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// How prompts are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArg {
    /// Messages and native tool calls.
    Chat,
    /// One user message with everything as text.
    Timeline,
}

/// Which of OpenAI's protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WireArg {
    /// Chat completions.
    Chat,
    /// Responses.
    Responses,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Watch a full turn with no key and no network: every kind of tool, a PDF, the timeline at the end.
    Demo(DemoArgs),
    /// Talk to the agent.
    Chat(ChatArgs),
    /// Run one turn and print the answer.
    Run(RunArgs),
    /// Go on with the turn that a crash or Ctrl-C left open.
    Resume(ResumeArgs),
    /// Say something to the turn that runs, in this or another process.
    Steer(SteerArgs),
    /// End the turn that runs or waits, in this or another process.
    Cancel(CancelArgs),
    /// List the calls that wait for a person, in all conversations of the scope.
    Approvals(JsonArgs),
    /// Decide about a call that waits: allow it, or deny it with `--deny`.
    Approve(ApproveArgs),
    /// List what calls wait to be told by a person, in all conversations of the scope.
    Inputs(JsonArgs),
    /// Tell a call what it waits for, or refuse with `--decline`.
    Answer(AnswerArgs),
    /// Look at the rules that allow, ask about and deny calls.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List conversations, the newest first, or delete one.
    Conversations(ConversationsArgs),
    /// Find what was said in earlier turns.
    #[command(subcommand)]
    Memory(MemoryCommand),
    /// Look at a timeline, fork it, move it.
    #[command(subcommand)]
    Timeline(TimelineCommand),
    /// Print what a logical path names, byte for byte.
    Read(ReadArgs),
    /// List tools, print their schemas, call one.
    #[command(subcommand)]
    Tool(ToolCommand),
    /// List skills, or say what is wrong with them.
    #[command(subcommand)]
    Skill(SkillCommand),
    /// Use tools of MCP servers, or be one.
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Write finished turns as OpenTelemetry spans, or send them to a collector.
    Trace(TraceArgs),
    /// Serve the HTTP API, live events and the web page; prints the URL with its token.
    Serve(ServeArgs),
    /// Make, list and revoke tokens of the HTTP API.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Say whether a turn was good.
    Feedback(FeedbackArgs),
    /// Make, change and look at the tables of a PostgreSQL store.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Show what works here: isolation, interpreters, renderers, model, stores, settings.
    Doctor(JsonArgs),
    /// Print a shell completion script.
    Completions(CompletionsArgs),
    /// Print the manual page.
    #[command(hide = true)]
    Man,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Keep the demo's data in this folder instead of a new one below the home.
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<PathBuf>,
    /// Do not wait between the pieces of the streamed answer.
    #[arg(long)]
    pub(crate) fast: bool,
    /// Open the conversation on the web page afterwards: serves it until Ctrl-C.
    #[arg(long)]
    pub(crate) serve: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    pub(crate) listen: std::net::SocketAddr,
    /// Let in everybody who reaches the address; on loopback only.
    #[arg(long)]
    pub(crate) no_token: bool,
    /// How people reach the server through a proxy, such as `https://annals.example`.
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Offer the model the tools that clients of the OpenAI-compatible API send, and hand their calls to the client.
    #[arg(long)]
    pub(crate) client_tools: bool,
    /// Let clients of `/mcp` call this tool as well, such as `exec_tools.execute_code_python`; may be given several times.
    #[arg(long, value_name = "TOOL")]
    pub(crate) mcp_allow: Vec<String>,
    /// The name of this process among those that share a store.
    #[arg(long, value_name = "NAME", value_parser = NodeId::parse)]
    pub(crate) node: Option<NodeId>,
    /// Where other nodes on the same store reach this one, if not where it listens: `http://ADDRESS:PORT`.
    #[arg(long, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// After this many seconds of silence others take up its turns.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) lease: u64,
    /// Print one line for each request on standard error: when, what, whose, how it ended; no contents and no secrets.
    #[arg(long)]
    pub(crate) access_log: bool,
    /// When it stops, answers and turns under way have this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) grace: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it: it is shown once and stored nowhere.
    Create(TokenCreateArgs),
    /// List tokens, without their secrets.
    List(JsonArgs),
    /// Revoke a token by its name.
    Revoke(TokenRevokeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// Its name, by which it is revoked [default: a new one].
    #[arg(long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// What it allows; may be given several times [default: use and approve].
    #[arg(long = "role", value_name = "use|approve|admin|metrics")]
    pub(crate) roles: Vec<String>,
    /// How far the role `admin` reaches: the user, project or tenant of its scope. Requests name another scope in the header
    /// `Annals-Scope` [default: user].
    #[arg(long, value_name = "user|project|tenant")]
    pub(crate) breadth: Option<String>,
    /// How long it opens anything, such as `90d`, `12h` or `30m` [default: for ever].
    #[arg(long, value_name = "D")]
    pub(crate) expires: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRevokeArgs {
    /// The token's name.
    #[arg(value_name = "N")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Go on with this conversation.
    #[arg(long, value_name = "C")]
    pub(crate) conversation: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do; `-` reads it from standard input.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// The conversation; a new one is made without it, and its id printed on standard error.
    #[arg(long, value_name = "C")]
    pub(crate) conversation: Option<String>,
    /// The turn's id, for scripts.
    #[arg(long, value_name = "T")]
    pub(crate) turn_id: Option<String>,
    /// A file to go with the prompt, or `mcp:SERVER/URI` for a resource of an MCP server; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) attach: Vec<String>,
    /// A JSON schema that the answer must fit; it is then printed as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// What to do about calls that a person has to allow [default: ask on a terminal, deny otherwise].
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) approvals: Option<ApprovalsArg>,
    /// Print every block as a line of JSON as soon as it is durable, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to do about calls that a person has to allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalsArg {
    /// Ask here.
    Ask,
    /// Wait until somebody decides with `annals approve`.
    Wait,
    /// Deny them, and tell the model.
    Deny,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// Print every block as a line of JSON as soon as it is durable, and nothing else.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ConversationsArgs {
    #[command(flatten)]
    pub(crate) list: JsonArgs,
    #[command(subcommand)]
    pub(crate) command: Option<ConversationsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConversationsCommand {
    /// Remove a conversation for good, with its memory and its working tree; forks keep what they share.
    Delete(ConversationArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ConversationArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Find passages of prompts, answers, notes, attachments and written files, by words and by meaning.
    Search(SearchArgs),
    /// Rebuild the index from the log, after the embedder has changed. Ctrl-C stops it; the rest is added later.
    Reindex,
}

#[derive(Debug, Args)]
pub(crate) struct SearchArgs {
    /// What to look for: a question, or words that were used.
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
    /// Only in this conversation.
    #[arg(long, value_name = "C", conflicts_with = "all")]
    pub(crate) conversation: Option<String>,
    /// In all conversations of the scope, which is the default.
    #[arg(long)]
    pub(crate) all: bool,
    /// Maximum number of passages.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) top_k: u16,
    /// Not older than this number of days.
    #[arg(long, value_name = "N", default_value_t = 365)]
    pub(crate) days: u32,
    /// Whose words; may be given several times [default: all].
    #[arg(long, value_enum, value_name = "TARGET")]
    pub(crate) target: Vec<TargetArg>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whose words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetArg {
    /// Prompts.
    User,
    /// Answers, notes and written files.
    Assistant,
    /// Files that came with a prompt.
    Attachment,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// Logical paths, such as `fi:turn_1.files/report.md`, also with `#L10-20`.
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<String>,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// List the tools.
    List(JsonArgs),
    /// Print the schema of one tool, or of all.
    Schema(SchemaArgs),
    /// Call a tool in a turn of its own and print the blocks it wrote.
    Call(CallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The tool.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The conversation; it is made if it does not exist.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// The tool.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Its parameters as a JSON object; `-` reads them from standard input.
    #[arg(value_name = "PARAMS_JSON")]
    pub(crate) params: Option<String>,
    /// The turn's id, for scripts.
    #[arg(long, value_name = "T")]
    pub(crate) turn_id: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// List the skills that the model may read.
    List(JsonArgs),
    /// Say what is wrong with skills, of the home or of a folder.
    Check(SkillCheckArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SkillCheckArgs {
    /// The folder of a skill, or of several [default: the home's].
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SteerArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// What to say; taken in after the results of the present answer.
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// Only this turn [default: all that have ended].
    #[arg(long, value_name = "T")]
    pub(crate) turn: Option<String>,
    /// The file to write [default: standard output].
    #[arg(short, long, value_name = "FILE", conflicts_with = "otlp")]
    pub(crate) output: Option<PathBuf>,
    /// Send the spans to this collector, such as `http://localhost:4318`.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// The request, as `annals approvals` lists it.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Allow calls like it in this conversation.
    #[arg(long = "conversation", group = "decision")]
    pub(crate) conversation_wide: bool,
    /// Allow calls like it from now on: writes the proposed rule into the configuration.
    #[arg(long, group = "decision")]
    pub(crate) always: bool,
    /// Deny it; the model is told and goes on.
    #[arg(long, group = "decision")]
    pub(crate) deny: bool,
    /// Deny it and end the turn.
    #[arg(long, group = "decision")]
    pub(crate) stop: bool,
    /// Words for the model, when it is denied.
    #[arg(long, value_name = "T")]
    pub(crate) note: Option<String>,
    /// Run it with these arguments instead, a JSON object.
    #[arg(long, value_name = "PARAMS_JSON", conflicts_with_all = ["deny", "stop"])]
    pub(crate) args: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// The request, as `annals inputs` lists it.
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// The answer as JSON that fits the request's schema; nothing where only consent is asked for.
    #[arg(value_name = "JSON", conflicts_with = "decline")]
    pub(crate) content: Option<String>,
    /// Refuse; the call is told and goes on.
    #[arg(long)]
    pub(crate) decline: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say which rule decides about a call, and why.
    Check(PolicyCheckArgs),
    /// Print the rules and budgets that hold for the scope alone (`--scope`).
    Show,
    /// Put rules and budgets in force that hold for the scope alone (`--scope`).
    Set(PolicySetArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicySetArgs {
    /// TOML with `[[rule]]` and `[budget.…]`; `-` reads it from standard input. An empty one takes all back.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyCheckArgs {
    /// The call: `{"tool": NAME, "params": {…}}`; `-` reads it from standard input.
    #[arg(value_name = "CALL_JSON")]
    pub(crate) call: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FeedbackArgs {
    /// The conversation.
    #[arg(value_name = "C")]
    pub(crate) conversation: String,
    /// The turn.
    #[arg(value_name = "TURN")]
    pub(crate) turn: String,
    /// Whether it was good.
    #[arg(long, value_enum)]
    pub(crate) reaction: ReactionArg,
    /// What was good or bad about it.
    #[arg(long)]
    pub(crate) text: Option<String>,
}

/// Whether a turn was good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReactionArg {
    /// It was.
    Up,
    /// It was not.
    Down,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
