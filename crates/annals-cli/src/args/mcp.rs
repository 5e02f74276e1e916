//! What was typed behind `annals mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::JsonArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add a server, show what it offers and accept that.
    Add(McpAddArgs),
    /// Install the package of a server that `npx` or `uvx` would fetch, or the newest version of it.
    Install(McpInstallArgs),
    /// List the servers and how many of their tools were accepted.
    List(JsonArgs),
    /// Start a server and compare what it offers with what was accepted.
    Inspect(McpInspectArgs),
    /// List what can be read from a server.
    Resources(McpInspectedArgs),
    /// Read a resource of a server to standard output.
    Read(McpReadArgs),
    /// List the prompts of a server.
    Prompts(McpInspectedArgs),
    /// Print a prompt of a server, filled in.
    Prompt(McpPromptArgs),
    /// Log in at a server that wants it: prints the address for a browser and waits until it comes back.
    Login(McpLoginArgs),
    /// Forget the login at a server.
    Logout(McpServerArgs),
    /// Take a server off the list, with what was accepted of it and the login there.
    Remove(McpServerArgs),
    /// Be an MCP server on standard input and output: ask, wait, read, search memory, timelines.
    Serve(McpServeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct McpAddArgs {
    /// A name for it; its tools are `NAME.tool`.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The address of a server that speaks streamable HTTP.
    #[arg(value_name = "URL", conflicts_with_all = ["url", "command"])]
    pub(crate) address: Option<String>,
    /// The same as an option.
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub(crate) url: Option<String>,
    /// The token for the address; `secret:NAME` names a secret of the configuration.
    #[arg(long, value_name = "TOKEN", conflicts_with = "command")]
    pub(crate) bearer: Option<String>,
    /// The client that the authorization server knows, for logins; without it one is registered.
    #[arg(long, value_name = "ID", conflicts_with = "command")]
    pub(crate) client_id: Option<String>,
    /// Its secret; `secret:NAME` names a secret of the configuration.
    #[arg(long, value_name = "SECRET", requires = "client_id")]
    pub(crate) client_secret: Option<String>,
    /// What logins ask for instead of what the server says; may be given several times.
    #[arg(long, value_name = "SCOPE", conflicts_with = "command")]
    pub(crate) oauth_scope: Vec<String>,
    /// The port of this machine to which the browser comes back; any that is free if none is given.
    #[arg(long, value_name = "PORT", conflicts_with = "command")]
    pub(crate) redirect_port: Option<u16>,
    /// A variable for the program; `NAME=secret:S` names a secret of the configuration. May be given several times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// A path that the program may read; may be given several times.
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// A path that the program may change; may be given several times.
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// A host that the program may reach, such as `api.example.com` or `*.example.org:443`; may be given several times.
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "trust_host")]
    pub(crate) host: Vec<String>,
    /// Run the program as a process of yours instead of in a sandbox, with your files and your network.
    #[arg(long)]
    pub(crate) trust_host: bool,
    /// Let a package run its own scripts while it is installed, as a process of yours.
    #[arg(long, requires = "command")]
    pub(crate) install_scripts: bool,
    /// The program and its arguments, after `--`; of `npx` and `uvx` the package is installed once.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct McpInstallArgs {
    /// The server.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Let the package run its own scripts meanwhile, as a process of yours.
    #[arg(long)]
    pub(crate) install_scripts: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpLoginArgs {
    /// The server.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Ask for this beside what was granted; may be given several times.
    #[arg(long, value_name = "SCOPE")]
    pub(crate) oauth_scope: Vec<String>,
    /// Read the address that the browser was sent to from standard input instead of waiting for it here.
    #[arg(long)]
    pub(crate) paste: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpInspectArgs {
    /// The server.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Accept what it offers now.
    #[arg(long)]
    pub(crate) accept: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpInspectedArgs {
    /// The server.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpReadArgs {
    /// The server.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The resource, as `annals mcp resources` lists it.
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
}

#[derive(Debug, Args)]
pub(crate) struct McpPromptArgs {
    /// The server.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The prompt, as `annals mcp prompts` lists it.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,
    /// What it is told.
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct McpServeArgs {
    /// Let clients call this tool as well, such as `exec_tools.execute_code_python`; may be given several times.
    #[arg(long, value_name = "TOOL")]
    pub(crate) allow: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct McpServerArgs {
    /// The server.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
