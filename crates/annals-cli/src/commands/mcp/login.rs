//! `annals mcp login`, `annals mcp logout`: the person's part of OAuth at servers behind an address.

use annals::mcp::LoginState;

use super::{described, find};
use crate::args::{McpLoginArgs, McpServerArgs};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, GOOD, NAME, WARN, styled};
use crate::screen_text::ScreenText;
use crate::setup::server_set;
use crate::shown;

pub(super) async fn login(args: McpLoginArgs, config: &Config) -> Result<Ended, Failure> {
    let set = server_set(config);
    let server = find(set.servers(), &args.name)?;
    let login = server
        .login(&args.oauth_scope)
        .await
        .map_err(Failure::environment)?;
    // Alone on its line, so that it can be taken whole, also by a program. Nothing is opened: the server chose it.
    paint::print(shown!("{}\n", login.address().as_str()))?;
    paint::say("Open this address in a browser and log in there.");
    let completed = match args.paste {
        true => {
            paint::say(format!(
                "Then paste the address that the browser was sent to; it begins with {}.",
                login.redirect()
            ));
            let line = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).map(|_| line)
            });
            let line = line.await.map_err(Failure::environment)??;
            login.completed_by(&line).await
        }
        false => {
            paint::say(format!(
                "Waiting for it to come back to {}; where it cannot reach this machine, use `--paste`.",
                login.redirect()
            ));
            login.completed().await
        }
    };
    completed.map_err(Failure::environment)?;
    let name = server.config().name.as_str();
    paint::say(shown!("{} {}", styled(GOOD, "logged in at"), styled(NAME, name)));
    if set.pins(server).map_err(Failure::environment)?.is_none() {
        set.accept(server).await.map_err(Failure::environment)?;
        let pins = set.pins(server).map_err(Failure::environment)?;
        paint::print(described(
            server.config(),
            &pins.unwrap_or_default(),
            super::ADDED_SHOWN_MAX_CHARS,
        ))?;
    }
    Ok(Ended::Well)
}

pub(super) fn logout(args: McpServerArgs, config: &Config) -> Result<Ended, Failure> {
    let set = server_set(config);
    let server = find(set.servers(), &args.name)?.config();
    let was_there = set
        .forget_login(&server.namespace)
        .map_err(Failure::environment)?;
    paint::say(match was_there {
        true => {
            "The login is forgotten here. What the server gave out is valid there until it expires or is revoked."
        }
        false => "There was no login.",
    });
    Ok(Ended::Well)
}

/// For people; with what to do, if there is something.
pub(super) fn shown_state(state: Option<LoginState>, server: &str) -> ScreenText {
    let wants = |what: &str| {
        shown!(
            "  {}",
            styled(WARN, format!("{what}: `annals mcp login {server}`"))
        )
    };
    match state {
        None => ScreenText::default(),
        Some(LoginState::LoggedIn) => shown!("  {}", styled(GOOD, "logged in")),
        Some(LoginState::Expired) => wants("login expired"),
        Some(_) => wants("login needed"),
    }
}
