//! `annals mcp`: servers whose tools the agent may use, and what of them was accepted.

mod install;
mod login;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use annals::mcp::config::{Entry, OauthEntry, Transport};
use annals::mcp::connection::Connection;
use annals::mcp::file::ServerFile;
use annals::mcp::resources::{Content, PromptArgument};
use annals::mcp::serve::{AnnalsServer, stdio};
use annals::mcp::set::AcceptError;
use annals::mcp::{
    Definition, Difference, LoginState, Pins, RemoteServer, ServerConfig, ServerError, Servers, limits, name,
    text as clean,
};
use annals::runtime::{Attachment, RunError};
use serde_json::{Value, json};

use crate::args::{
    JsonArgs, McpAddArgs, McpCommand, McpInspectArgs, McpInspectedArgs, McpPromptArgs, McpReadArgs,
    McpServeArgs, McpServerArgs,
};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BAD, DIM, GOOD, NAME, WARN, styled};
use crate::screen_text::ScreenText;
use crate::setup::{Needs, Setup, server_set};
use crate::shown;

/// What `add` shows of each description: enough to see what a tool is for.
const ADDED_SHOWN_MAX_CHARS: usize = 400;
/// A server that takes longer to answer is named while it is waited for.
const SLOW: Duration = Duration::from_secs(1);
/// For turns that are about to end when the client leaves.
const LAST_WAIT: Duration = Duration::from_secs(5);

pub(crate) async fn run(command: McpCommand, config: Config) -> Result<Ended, Failure> {
    match command {
        McpCommand::Add(args) => add(args, config).await,
        McpCommand::Install(args) => install::install(args, &config).await,
        McpCommand::List(args) => list(args, &config),
        McpCommand::Inspect(args) => inspect(args, &config).await,
        McpCommand::Resources(args) => resources(args, &config).await,
        McpCommand::Read(args) => read(args, &config).await,
        McpCommand::Prompts(args) => prompts(args, &config).await,
        McpCommand::Prompt(args) => prompt(args, &config).await,
        McpCommand::Login(args) => login::login(args, &config).await,
        McpCommand::Logout(args) => login::logout(args, &config),
        McpCommand::Remove(args) => remove(args, &config),
        McpCommand::Serve(args) => serve(args, config).await,
    }
}

async fn add(args: McpAddArgs, mut config: Config) -> Result<Ended, Failure> {
    let entry = entry(&args)?;
    if config.mcp.get(&args.name).is_some() {
        return Err(Failure::usage(format!(
            "there is an MCP server `{name}` already: `annals mcp remove {name}` first, or choose another name",
            name = args.name
        )));
    }
    let namespace = name::namespace(&args.name);
    let list = json!({"mcpServers": {&args.name: &entry}}).to_string();
    let added = Servers::from_json(&list).map_err(Failure::usage)?;
    config.mcp = config.mcp.clone().and(added).map_err(Failure::usage)?;
    let set = server_set(&config);
    let server = find(set.servers(), namespace.as_deref().unwrap_or(&args.name))?;
    // It has to answer before it is written down: a list of servers that never worked helps nobody.
    let accepted = async {
        install::at_adding(&set, server, args.install_scripts).await?;
        Ok::<_, Failure>(told_if_slow(server, set.accept(server)).await)
    };
    let accepted = accepted.await;
    if !matches!(
        accepted,
        Ok(Ok(_) | Err(AcceptError::Server(ServerError::Login { .. })))
    ) {
        set.packages()
            .forget(&server.config().namespace)
            .map_err(Failure::environment)?;
    }
    let accepted = accepted?;
    let wants_login = match &accepted {
        Err(AcceptError::Server(error @ ServerError::Login { .. })) => Some(error.to_string()),
        Err(AcceptError::Server(error)) => return Err(unmet(error)),
        Err(error) => return Err(Failure::environment(error)),
        Ok(_) => None,
    };
    let file = ServerFile::of_home(&config.home.value);
    file.insert(&args.name, &entry).map_err(Failure::environment)?;
    if let Some(error) = wants_login {
        paint::say(shown!("{} {}", styled(WARN, "added, not usable yet:"), error));
        return Ok(Ended::Well);
    }
    let left_out = accepted.map(|accepted| accepted.left_out).unwrap_or_default();
    let pins = set
        .pins(server)
        .map_err(Failure::environment)?
        .unwrap_or_default();
    let mut text = described(server.config(), &pins, ADDED_SHOWN_MAX_CHARS);
    if left_out > 0 {
        text.push(shown!(
            "{}\n",
            styled(WARN, format!("{left_out} more cannot be offered"))
        ));
    }
    paint::print(text)?;
    Ok(Ended::Well)
}

/// Says after a moment whom it waits for: a program that is no MCP server never answers.
async fn told_if_slow<T>(server: &RemoteServer, answer: impl Future<Output = T>) -> T {
    let mut answer = std::pin::pin!(answer);
    if let Ok(answer) = tokio::time::timeout(SLOW, &mut answer).await {
        return answer;
    }
    let words = format!("waiting for `{}` to answer …", server.config().name);
    paint::say(shown!("{}", styled(DIM, words)));
    answer.await
}

/// Why a server could not be asked. A command that ends tries nothing again.
fn unmet(error: &ServerError) -> Failure {
    match error {
        ServerError::Unavailable { server, reason, .. } => {
            Failure::environment(format!("the MCP server `{server}` did not start: {reason}"))
        }
        error => Failure::environment(error),
    }
}

fn entry(args: &McpAddArgs) -> Result<Entry, Failure> {
    if args.command.is_empty() && args.url.is_none() && args.address.is_none() {
        return Err(Failure::usage(format!(
            "how is `{name}` reached? Give its address (`annals mcp add {name} https://…`) or its program behind `--` (`annals mcp \
             add {name} -- npx -y PACKAGE`)",
            name = args.name
        )));
    }
    let mut env = BTreeMap::new();
    for variable in &args.env {
        let Some((name, value)) = variable.split_once('=') else {
            return Err(Failure::usage(format!(
                "`--env {variable}` has no value: give `NAME=VALUE`"
            )));
        };
        env.insert(name.to_owned(), value.to_owned());
    }
    let mut command = args.command.iter().cloned();
    let oauth = OauthEntry {
        client_id: args.client_id.clone(),
        client_secret: args.client_secret.clone(),
        scopes: args.oauth_scope.clone(),
        redirect_port: args.redirect_port,
        hosts: Vec::new(),
    };
    Ok(Entry {
        command: command.next(),
        args: command.collect(),
        env,
        url: args.url.clone().or_else(|| args.address.clone()),
        bearer: args.bearer.clone(),
        oauth: (oauth != OauthEntry::default()).then_some(oauth),
        read: args.read.clone(),
        write: args.write.clone(),
        hosts: args.host.clone(),
        trust: args.trust_host.then(|| "host".to_owned()),
        ..Entry::default()
    })
}

fn find<'s>(servers: &'s [Arc<RemoteServer>], name: &str) -> Result<&'s Arc<RemoteServer>, Failure> {
    let found = servers
        .iter()
        .find(|server| server.config().name == name || server.config().namespace == name);
    found.ok_or_else(|| Failure::usage(format!("there is no MCP server `{name}`: see `annals mcp list`")))
}

fn list(args: JsonArgs, config: &Config) -> Result<Ended, Failure> {
    let set = server_set(config);
    let mut rows = Vec::new();
    let mut text = ScreenText::default();
    for server in set.servers() {
        let pins = set.pins(server);
        let accepted = pins
            .as_ref()
            .map(|pins| pins.as_ref().map(|pins| pins.tools.len()));
        let unchecked = pins.as_ref().ok().and_then(Option::as_ref).map_or(0, unchecked);
        let login = server.login_state().map_err(Failure::environment)?;
        let config = server.config();
        rows.push(json!({
            "name": config.name,
            "namespace": config.namespace,
            "reached_by": reached_by(config),
            "package": install::shown_json(&set, server),
            "tools": accepted.as_ref().ok(),
            "unchecked": unchecked,
            "login": login.map(LoginState::as_str),
        }));
        let tools = match accepted {
            Ok(Some(tools)) if unchecked > 0 => {
                format!("{tools} tools, {unchecked} with an output schema that cannot be used")
            }
            Ok(Some(tools)) => format!("{tools} tools"),
            Ok(None) => "not looked at yet".to_owned(),
            Err(error) => error.to_string(),
        };
        text.push(shown!(
            "{}  {}{}  {}\n",
            styled(NAME, config.name.as_str()),
            tools,
            login::shown_state(login, &config.name),
            styled(
                DIM,
                format!("{}{}", reached_by(config), install::shown(&set, server))
            )
        ));
    }
    match args.json {
        true => paint::print_json(&format!("{}\n", Value::Array(rows)))?,
        false => paint::print(text)?,
    }
    Ok(Ended::Well)
}

/// Tools whose structured answers cannot be checked against what the server promised.
fn unchecked(pins: &Pins) -> usize {
    let tools = pins.tools.iter();
    tools.filter(|tool| tool.output_schema_fault().is_some()).count()
}

fn reached_by(config: &ServerConfig) -> String {
    match &config.transport {
        Transport::Stdio(program) if program.on_host => format!("{} (on the host)", program.argv.join(" ")),
        Transport::Stdio(program) => {
            let hosts: Vec<&str> = program.hosts.iter().collect();
            let reaches = match hosts.is_empty() {
                true => "no network".to_owned(),
                false => format!("reaches {}", hosts.join(", ")),
            };
            format!("{} (sandboxed, {reaches})", program.argv.join(" "))
        }
        Transport::Http(endpoint) => endpoint.url.clone(),
    }
}

async fn inspect(args: McpInspectArgs, config: &Config) -> Result<Ended, Failure> {
    let set = server_set(config);
    let server = find(set.servers(), &args.name)?;
    let offer = told_if_slow(server, server.offer()).await;
    let (connection, offer) = offer.map_err(|error| unmet(&error))?;
    // What cannot be read can only be accepted anew, by whoever looks now.
    let pins = set.pins(server).unwrap_or_else(|error| {
        tracing::warn!("{error}");
        None
    });
    let difference = pins.as_ref().map(|pins| pins.compare(&offer.digests));
    let offered = Pins::new(connection.implementation(), offer.tools).resources(connection.has_resources());
    let faults = offered.tools.iter().filter_map(|tool| {
        let fault = tool.output_schema_fault()?;
        Some((tool.name.clone(), Value::String(fault)))
    });
    let faults: serde_json::Map<String, Value> = faults.collect();
    let kept_from = connection.kept_from();
    if args.json {
        let report = json!({
            "server": server.config().name,
            "implementation": offered.implementation,
            "protocol": connection.protocol(),
            "tools": offered.tools,
            "has_resources": offered.has_resources,
            "left_out": offer.left_out,
            "output_schema_faults": faults,
            "refused_hosts": kept_from,
            "added": difference.as_ref().map(|difference| &difference.added),
            "changed": difference.as_ref().map(|difference| &difference.changed),
            "removed": difference.as_ref().map(|difference| &difference.removed),
        });
        paint::print_json(&format!("{report}\n"))?;
    } else {
        let mut text = described(server.config(), &offered, limits::DESCRIPTION_MAX_CHARS);
        text.push(compared(
            pins.as_ref(),
            &offered,
            difference.as_ref(),
            &server.config().name,
        ));
        for refusal in kept_from {
            text.push(shown!("{} {}\n", styled(WARN, "refused"), refusal));
        }
        paint::print(text)?;
    }
    if args.accept {
        set.accept(server).await.map_err(Failure::environment)?;
    }
    Ok(Ended::Well)
}

/// The server and its tools, in its own words, as far as the model reads them or `max_chars` go.
fn described(config: &ServerConfig, offered: &Pins, max_chars: usize) -> ScreenText {
    let mut text = shown!(
        "{}  {}  {}\n",
        styled(NAME, config.name.as_str()),
        offered.implementation.as_str(),
        styled(DIM, reached_by(config))
    );
    let names = name::tool_names(
        Some(&config.namespace),
        offered.tools.iter().map(|tool| tool.name.as_str()),
    );
    for tool in &offered.tools {
        let ours = names
            .get(tool.name.as_str())
            .map(ToString::to_string)
            .unwrap_or_default();
        let real = match ours.strip_prefix(&format!("{}.", config.namespace)) == Some(&*tool.name) {
            true => String::new(),
            false => format!("  (`{}`)", clean::one_line(&tool.name, 128)),
        };
        text.push(shown!("  {}{}\n", styled(NAME, ours), styled(DIM, real)));
        let words = tool.description.as_deref().unwrap_or_default();
        for line in clean::clean_and_cut(words.trim(), max_chars).lines() {
            text.push(shown!("      {}\n", line));
        }
        if let Some(fault) = tool.output_schema_fault() {
            let words = format!("its output schema cannot be used, answers are not checked: {fault}");
            text.push(shown!("      {}\n", styled(WARN, words)));
        }
    }
    text
}

/// What differs from what was accepted, with both wordings of what changed.
fn compared(
    pins: Option<&Pins>,
    offered: &Pins,
    difference: Option<&Difference>,
    server: &str,
) -> ScreenText {
    let (Some(pins), Some(difference)) = (pins, difference) else {
        return shown!(
            "{}\n",
            styled(WARN, "nothing of it was accepted yet: `--accept` does")
        );
    };
    if difference.is_empty() {
        return shown!("{}\n", styled(GOOD, "all of it is as it was accepted"));
    }
    let mut text = ScreenText::default();
    for name in &difference.added {
        text.push(shown!("{} {}\n", styled(GOOD, "new"), name.as_str()));
    }
    for name in &difference.removed {
        text.push(shown!("{} {}\n", styled(BAD, "gone"), name.as_str()));
    }
    for name in &difference.changed {
        text.push(shown!("{} {}\n", styled(WARN, "changed"), name.as_str()));
        for (label, side) in [("accepted", pins), ("offered", offered)] {
            let tool = side.tools.iter().find(|tool| tool.name == *name);
            text.push(shown!("  {}  {}\n", styled(DIM, label), definition(tool)));
        }
    }
    text.push(shown!(
        "{}\n",
        styled(
            DIM,
            format!("`annals mcp inspect {server} --accept` accepts what it offers now")
        )
    ));
    text
}

fn definition(tool: Option<&Definition>) -> String {
    tool.and_then(|tool| serde_json::to_string(tool).ok())
        .unwrap_or_default()
}

/// A session with a server of the configuration.
async fn connected(name: &str, config: &Config) -> Result<Arc<Connection>, Failure> {
    let set = server_set(config);
    let server = find(set.servers(), name)?;
    let connection = told_if_slow(server, server.connection()).await;
    connection.map_err(|error| unmet(&error))
}

async fn resources(args: McpInspectedArgs, config: &Config) -> Result<Ended, Failure> {
    let connection = connected(&args.name, config).await?;
    let resources = connection.resources().await.map_err(Failure::environment)?;
    if args.json {
        paint::print_json(&format!("{}\n", json!({ "items": resources })))?;
        return Ok(Ended::Well);
    }
    for resource in resources {
        let about = [resource.mime_type, resource.description];
        let about = about.into_iter().flatten().collect::<Vec<_>>().join(", ");
        paint::print(shown!(
            "{}  {}  {}\n",
            styled(NAME, resource.uri),
            resource.name,
            styled(DIM, paint::gist(&about, 90))
        ))?;
    }
    Ok(Ended::Well)
}

async fn read(args: McpReadArgs, config: &Config) -> Result<Ended, Failure> {
    for content in resource(&args.name, &args.uri, config).await? {
        paint::print_content(&content.bytes)?;
    }
    Ok(Ended::Well)
}

/// What a resource of a server consists of.
async fn resource(server: &str, uri: &str, config: &Config) -> Result<Vec<Content>, Failure> {
    let connection = connected(server, config).await?;
    connection.read_resource(uri).await.map_err(Failure::environment)
}

/// What goes with a prompt: a file, or `mcp:SERVER/URI`.
pub(crate) async fn attachments(named: &str, config: &Config) -> Result<Vec<Attachment>, Failure> {
    let Some(named) = named.strip_prefix("mcp:") else {
        let file = Attachment::from_file(std::path::Path::new(named));
        return Ok(vec![file.map_err(Failure::usage)?]);
    };
    let Some((server, uri)) = named.split_once('/') else {
        return Err(Failure::usage(format!(
            "`mcp:{named}` names no resource: give `mcp:SERVER/URI`, as `annals mcp resources SERVER` lists them"
        )));
    };
    let contents = resource(server, uri, config).await?.into_iter();
    Ok(contents
        .map(|content| Attachment::new(content.file_name, content.bytes))
        .collect())
}

async fn prompts(args: McpInspectedArgs, config: &Config) -> Result<Ended, Failure> {
    let connection = connected(&args.name, config).await?;
    let prompts = connection.prompts().await.map_err(Failure::environment)?;
    if args.json {
        paint::print_json(&format!("{}\n", json!({ "items": prompts })))?;
        return Ok(Ended::Well);
    }
    for prompt in prompts {
        let argument = |argument: &PromptArgument| match argument.is_required {
            true => format!("{}=…", argument.name),
            false => format!("[{}=…]", argument.name),
        };
        let arguments: Vec<String> = prompt.arguments.iter().map(argument).collect();
        paint::print(shown!(
            "{}  {}  {}\n",
            styled(NAME, prompt.name),
            arguments.join(" "),
            styled(
                DIM,
                paint::gist(prompt.description.as_deref().unwrap_or_default(), 90)
            )
        ))?;
    }
    Ok(Ended::Well)
}

async fn prompt(args: McpPromptArgs, config: &Config) -> Result<Ended, Failure> {
    let mut arguments = serde_json::Map::new();
    for argument in &args.arguments {
        let Some((name, value)) = argument.split_once('=') else {
            return Err(Failure::usage(format!(
                "`{argument}` has no value: give `KEY=VALUE`"
            )));
        };
        arguments.insert(name.to_owned(), value.into());
    }
    let connection = connected(&args.name, config).await?;
    let words = connection.prompt(&args.prompt, arguments).await;
    paint::print_content(format!("{}\n", words.map_err(Failure::environment)?).as_bytes())?;
    Ok(Ended::Well)
}

/// Until the client closes standard input.
async fn serve(args: McpServeArgs, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::Model).await?;
    let server = AnnalsServer::new(setup.agent.clone()).allow(&args.allow);
    let server = server.map_err(RunError::NoSuchTool)?;
    stdio(server).await?;
    // What runs is durable and can be gone on with; a client that left does not wait for it.
    let _ = tokio::time::timeout(LAST_WAIT, setup.agent.runtime().settled()).await;
    Ok(Ended::Well)
}

fn remove(args: McpServerArgs, config: &Config) -> Result<Ended, Failure> {
    let file = ServerFile::of_home(&config.home.value);
    let set = server_set(config);
    let server = find(set.servers(), &args.name)?.config();
    if !file.remove(&server.name).map_err(Failure::environment)? {
        return Err(Failure::usage(format!(
            "the MCP server `{}` is in `{}`: remove it there",
            server.name,
            config.config_file.value.display()
        )));
    }
    set.forget(&server.namespace).map_err(Failure::environment)?;
    set.forget_login(&server.namespace)
        .map_err(Failure::environment)?;
    set.packages()
        .forget(&server.namespace)
        .map_err(Failure::environment)?;
    Ok(Ended::Well)
}
