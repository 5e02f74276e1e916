//! `annals serve`: the HTTP API, live events and the web page, until Ctrl-C or SIGTERM.

use annals::CancellationToken;
use annals::runtime::PolicySource as _;
use annals::tools::web::egress::Opened;
use annals_server::{Options, ServeError, Server, Webhook, WebhookError, WebhookEvent};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::ServeArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::setup::{Needs, Setup};
use crate::{bucket, paint};

pub(crate) async fn run(args: ServeArgs, config: Config) -> Result<Ended, Failure> {
    let options = Options {
        listen: args.listen,
        needs_token: !args.no_token,
        public_url: args.public_url,
        offers_client_tools: args.client_tools,
        mcp_tools: args.mcp_allow,
        node: args.node,
        advertise: args.advertise,
        grace: std::time::Duration::from_secs(args.grace),
        webhooks: webhooks(&config)?,
        opened: opened(&config)?,
        ..Options::default()
    };
    tell_open_files(&options);
    for fault in bucket::faults(&config.artifacts.value).await? {
        paint::say(fault);
    }
    let lease = Some(std::time::Duration::from_secs(args.lease));
    let setup = Setup::open(Config { lease, ..config }, Needs::Model).await?;
    check_rules(&setup).await?;
    until_stopped(&setup, options, "").await
}

/// Rules that cannot be read would fail every turn, long after somebody looked at this terminal.
async fn check_rules(setup: &Setup) -> Result<(), Failure> {
    let (agent, rules) = (&setup.agent, setup.policy_rows());
    let read = rules.read(agent.scope(), &agent.known_tools()).await;
    read.map(drop).map_err(Failure::usage)
}

/// Files that the process needs beside its connections: the store's, those of tools and of what is being received.
const OTHER_FILES: u64 = 512;

/// Takes as many open files as the machine gives, and says so when that is too few for the connections of the options.
fn tell_open_files(options: &Options) {
    let connections = options.limits.connections_max as u64;
    match annals::launcher::raise_open_files() {
        Ok(files) if files < connections + OTHER_FILES => paint::say(format!(
            "at most {files} files may be open, which is too few for {connections} connections: raise it (`ulimit -Hn`)"
        )),
        Ok(_) => {}
        Err(error) => paint::say(format!("the number of open files cannot be raised: {error}")),
    }
}

/// Who is told of turns that end and of calls that wait.
fn webhooks(config: &Config) -> Result<Vec<Webhook>, Failure> {
    let webhooks = config.webhooks.iter().map(|webhook| {
        let made = Webhook::new(&webhook.url, webhook.secret.as_deref().unwrap_or_default())?;
        if webhook.events.is_empty() {
            return Ok(made);
        }
        let events = webhook.events.iter().map(|event| WebhookEvent::parse(event));
        Ok(made.only(events.collect::<Result<Vec<_>, _>>()?))
    });
    let webhooks: Result<_, WebhookError> = webhooks.collect();
    webhooks.map_err(Failure::usage)
}

/// Places of the machine's own network that may be reached.
fn opened(config: &Config) -> Result<Vec<Opened>, Failure> {
    let allowed = config.web.allow.as_ref().map(|allow| allow.value.as_str());
    Opened::parse_list(allowed.unwrap_or_default()).map_err(Failure::usage)
}

/// Serves until a signal comes. The printed address leads to this place of the page, if one is named.
pub(crate) async fn until_stopped(setup: &Setup, options: Options, place: &str) -> Result<Ended, Failure> {
    let options = Options {
        catalog: setup.catalog()?,
        mcp_servers: Some(setup.servers.clone()),
        ..options
    };
    let server = Server::bind(setup.agent.clone(), options)
        .await
        .map_err(|error| match error {
            ServeError::OpenToOthers(_)
            | ServeError::PublicUrl(_)
            | ServeError::Advertise(_)
            | ServeError::NoSuchTool(_) => Failure::usage(error),
            error => Failure::environment(error),
        })?;
    paint::print(format!("{}{place}\n", server.url()))?;
    paint::say("serving; Ctrl-C stops");
    let stop = CancellationToken::new();
    let stopping = stop_on_signals(stop.clone())?;
    let served = tokio::spawn(server.serve(stop));
    tokio::select! {
        ended = served => match ended {
            Ok(()) => Ok(Ended::Well),
            Err(error) => Err(Failure::environment(error)),
        },
        _ = stopping => Err(Failure::Interrupted),
    }
}

/// The first signal lets answers end; the second one ends at once, and the task with it.
fn stop_on_signals(stop: CancellationToken) -> Result<tokio::task::JoinHandle<()>, Failure> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminates = signal(SignalKind::terminate())?;
    Ok(tokio::spawn(async move {
        for _ in 0..2 {
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = terminates.recv() => {}
            }
            if !stop.is_cancelled() {
                paint::say("stopping; once more ends at once");
            }
            stop.cancel();
        }
    }))
}
