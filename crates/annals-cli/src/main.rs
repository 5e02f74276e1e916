//! The `annals` binary: what was typed, what it means, what comes of it.

#![forbid(unsafe_code)]

mod approval;
mod args;
mod bucket;
mod citations;
mod commands;
mod config;
mod failure;
mod form;
mod markdown;
mod output;
mod paint;
mod sandboxes;
mod screen;
mod screen_text;
mod secrets;
mod setup;
mod skill_files;
mod skills;
mod turn;

use std::process::ExitCode;

use anstream::ColorChoice;
use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use args::{Cli, ColorArg, Command, GlobalArgs};
use config::Config;
use failure::{Ended, Failure};
use screen_text::ScreenText;

fn main() -> ExitCode {
    annals::launcher::init();
    annals::launcher::give_back_freed_memory();
    let cli = Cli::parse();
    choose_colours(cli.global.color);
    start_tracing(cli.global.verbose, logs_requests(&cli));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(act(cli));
            // A blocked reader of standard input must not keep the program alive.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(Failure::environment(format!("cannot start: {error}"))),
    };
    match ended {
        Ok(ended) => ExitCode::from(ended.exit_code()),
        Err(failure) => {
            if let Failure::Usage(message) | Failure::Environment(message) = &failure {
                paint::error(message);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

async fn act(cli: Cli) -> Result<Ended, Failure> {
    commands::run(cli.command, || configuration(&cli.global)).await
}

/// A file that was named must be readable; one that nobody named is part of the home.
fn configuration(global: &GlobalArgs) -> Result<Config, Failure> {
    let config = Config::resolve(global).map_err(|error| match error.downcast_ref::<std::io::Error>() {
        Some(_) if global.config.is_none() => Failure::environment(error),
        _ => Failure::usage(error),
    })?;
    screen_text::hide(&config.secrets);
    Ok(config)
}

fn choose_colours(color: ColorArg) {
    match color {
        ColorArg::Auto => {}
        ColorArg::Always => ColorChoice::Always.write_global(),
        ColorArg::Never => ColorChoice::Never.write_global(),
    }
}

/// Lines of the log on standard error.
struct TraceLines;

impl std::io::Write for TraceLines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let line_text = ScreenText::from(String::from_utf8_lossy(line));
        std::io::stderr()
            .lock()
            .write_all(line_text.as_str().as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Without the details of logins, which name codes and tokens.
fn without_logins(filter: EnvFilter) -> EnvFilter {
    match "rmcp::transport::auth=warn".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    }
}

/// Whether requests to a server are to be logged, whatever else is.
fn logs_requests(cli: &Cli) -> bool {
    matches!(&cli.command, Command::Serve(args) if args.access_log)
}

fn start_tracing(verbose: u8, logs_requests: bool) {
    let filter = match (EnvFilter::try_from_env("ANNALS_LOG"), verbose) {
        (Ok(filter), _) => without_logins(filter),
        // What a server of others does wrong is told in the result of the call that asked it.
        (Err(_), 0) => "warn,rmcp=off".into(),
        (Err(_), 1) => without_logins("info".into()),
        (Err(_), _) => without_logins("debug".into()),
    };
    let filter = match "annals::access=info".parse() {
        Ok(requests) if logs_requests => filter.add_directive(requests),
        _ => filter,
    };
    // Only the first call can succeed, and this is it. Values in a line may be foreign, so it has no colours of its own.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| TraceLines)
        .with_ansi(false)
        .without_time()
        .try_init();
}
