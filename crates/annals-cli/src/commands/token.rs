//! `annals token`: who may come in over HTTP. A secret is printed once; the store keeps its digest.

use std::time::Duration;

use annals::core::time::Timestamp;
use annals::store::{Breadth, Role, Roles, Token};
use annals_server::secrets;
use serde_json::{Value, json};

use crate::args::{JsonArgs, TokenCommand, TokenCreateArgs, TokenRevokeArgs};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BOLD, DIM, styled};
use crate::screen_text::ScreenText;
use crate::setup::{Needs, Setup};
use crate::shown;

const NAME_MAX_CHARS: usize = 64;

pub(crate) async fn run(command: TokenCommand, config: Config) -> Result<Ended, Failure> {
    let setup = Setup::open(config, Needs::NoModel).await?;
    match command {
        TokenCommand::Create(args) => create(args, &setup).await,
        TokenCommand::List(args) => list(&args, &setup).await,
        TokenCommand::Revoke(args) => revoke(&args, &setup).await,
    }
}

async fn create(args: TokenCreateArgs, setup: &Setup) -> Result<Ended, Failure> {
    let agent = &setup.agent;
    let now = agent.world().now();
    if annals_server::is_reserved(agent.scope()) {
        return Err(Failure::usage(format!(
            "the scope `{}` is the server's own: name another with `--scope TENANT/PROJECT/USER`",
            agent.scope()
        )));
    }
    let name = match args.name {
        Some(name) => checked_name(name)?,
        None => format!("token-{:08x}", agent.world().random() >> 32),
    };
    let roles: Roles = match args.roles.is_empty() {
        true => [Role::Use, Role::Approve].into_iter().collect(),
        false => {
            let roles = args.roles.iter().map(|role| role.parse::<Role>());
            roles.collect::<Result<_, _>>().map_err(Failure::usage)?
        }
    };
    let roles = match args.breadth.as_deref() {
        Some(word) => roles.reaching(breadth(word, roles)?),
        None => roles,
    };
    let expires = args
        .expires
        .as_deref()
        .map(|text| expiry(text, now))
        .transpose()?;
    let secret = secrets::new_token().map_err(Failure::environment)?;
    let token = Token {
        name: name.clone(),
        hash: secrets::hash_of(&secret),
        scope: agent.scope().clone(),
        roles,
        created: now,
        expires,
    };
    agent.log().add_token(token).await?;
    paint::say(format!(
        "token `{name}` for {} with the roles {roles}; it is not shown again",
        agent.scope()
    ));
    paint::print(format!("{secret}\n"))?;
    Ok(Ended::Well)
}

fn breadth(word: &str, roles: Roles) -> Result<Breadth, Failure> {
    let found = Breadth::ALL.into_iter().find(|breadth| breadth.as_str() == word);
    let Some(breadth) = found else {
        return Err(Failure::usage(format!(
            "`{word}` is no breadth: use `user`, `project` or `tenant`"
        )));
    };
    match breadth == Breadth::User || roles.has(Role::Admin) {
        true => Ok(breadth),
        false => Err(Failure::usage(
            "only the role `admin` reaches beyond its own scope: add `--role admin`",
        )),
    }
}

fn checked_name(name: String) -> Result<String, Failure> {
    let is_sound = |c: char| c.is_alphanumeric() || "-_. @".contains(c);
    match (1..=NAME_MAX_CHARS).contains(&name.chars().count()) && name.chars().all(is_sound) {
        true => Ok(name),
        false => Err(Failure::usage(format!(
            "a token's name has 1 to {NAME_MAX_CHARS} letters, digits, spaces and `-_.@`"
        ))),
    }
}

/// The time that lies this far ahead.
fn expiry(text: &str, now: Timestamp) -> Result<Timestamp, Failure> {
    let wrong = || {
        Failure::usage(format!(
            "`{text}` is no length of time: use `90d`, `12h` or `30m`"
        ))
    };
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        'd' => 24 * 60 * 60,
        'h' => 60 * 60,
        'm' => 60,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    let lasts = number
        .checked_mul(seconds)
        .filter(|lasts| *lasts > 0)
        .ok_or_else(wrong)?;
    let micros = i64::try_from(Duration::from_secs(lasts).as_micros()).map_err(|_| wrong())?;
    Ok(now.plus_micros(micros))
}

async fn list(form: &JsonArgs, setup: &Setup) -> Result<Ended, Failure> {
    let tokens = setup.agent.log().tokens().await?;
    if form.json {
        let rows: Vec<Value> = tokens.iter().map(as_json).collect();
        paint::print_json(&format!("{}\n", Value::Array(rows)))?;
    } else {
        let now = setup.agent.world().now();
        paint::print(
            tokens
                .iter()
                .map(|token| as_line(token, now))
                .collect::<ScreenText>(),
        )?;
    }
    Ok(Ended::Well)
}

fn as_json(token: &Token) -> Value {
    json!({
        "name": token.name,
        "scope": token.scope.to_string(),
        "roles": token.roles.iter().collect::<Vec<_>>(),
        "breadth": token.roles.breadth(),
        "created": token.created,
        "expires": token.expires,
    })
}

fn as_line(token: &Token, now: Timestamp) -> ScreenText {
    let until = match token.expires {
        None => "for ever".to_owned(),
        Some(_) if !token.is_valid(now) => "expired".to_owned(),
        Some(expires) => format!("until {expires}"),
    };
    shown!(
        "{}  {}  {}  {}\n",
        styled(BOLD, &token.name),
        token.scope.to_string(),
        token.roles.to_string(),
        styled(DIM, until)
    )
}

async fn revoke(args: &TokenRevokeArgs, setup: &Setup) -> Result<Ended, Failure> {
    match setup.agent.log().revoke_token(&args.name).await? {
        true => Ok(Ended::Well),
        false => Err(Failure::usage(format!(
            "there is no token `{}`: see `annals token list`",
            args.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_has_a_number_and_a_unit() {
        let now = Timestamp::from_unix_millis(0);
        let after = |text: &str| expiry(text, now).map(|time| time.unix_millis() / 1_000).ok();
        assert_eq!(after("90d"), Some(90 * 86_400));
        assert_eq!((after("12h"), after("30m")), (Some(43_200), Some(1_800)));
        for wrong in [
            "",
            "d",
            "1",
            "1y",
            "-1d",
            "0d",
            "1.5h",
            "99999999999999999d",
            "1é",
        ] {
            assert_eq!(after(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_name_is_short_and_printable() {
        assert!(checked_name("ci bot@home".to_owned()).is_ok());
        for wrong in ["", "a\nb", "a/b", &"x".repeat(65)] {
            assert!(checked_name(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
