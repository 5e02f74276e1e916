//! `annals mcp install`: packages of servers that `npx` and `uvx` would fetch at each start.

use annals::mcp::install::{Scripts, install as install_package};
use annals::mcp::package::{InstalledPackage, Package, Registry};
use annals::mcp::{RemoteServer, ServerSet};
use serde_json::{Value, json};

use super::find;
use crate::args::McpInstallArgs;
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, DIM, GOOD, NAME, styled};
use crate::setup::server_set;
use crate::shown;

pub(super) async fn install(args: McpInstallArgs, config: &Config) -> Result<Ended, Failure> {
    let set = server_set(config);
    let server = find(set.servers(), &args.name)?;
    let Some(package) = server.package() else {
        return Err(Failure::usage(format!(
            "the MCP server `{}` is no package that `npx` or `uvx` fetches: nothing has to be installed",
            server.config().name
        )));
    };
    let before = installed(&set, server, package);
    let now = fetched(&set, server, package, scripts(args.install_scripts)).await?;
    if let Some(before) = before.filter(|before| before.version != now.version) {
        paint::say(shown!("{}", styled(DIM, format!("it was {}", before.version))));
    }
    paint::say(shown!(
        "{}",
        styled(
            DIM,
            format!(
                "what it offers now is compared with what was accepted by `annals mcp inspect {}`",
                server.config().name
            )
        )
    ));
    Ok(Ended::Well)
}

/// Who adds a server that is a package wants it installed.
pub(super) async fn at_adding(
    set: &ServerSet,
    server: &RemoteServer,
    with_scripts: bool,
) -> Result<(), Failure> {
    match server.package() {
        Some(package) => fetched(set, server, package, scripts(with_scripts))
            .await
            .map(drop),
        None if with_scripts => Err(Failure::usage(
            "`--install-scripts` is for packages that `npx` or `uvx` fetches: leave it out",
        )),
        None => Ok(()),
    }
}

fn scripts(with_scripts: bool) -> Scripts {
    match with_scripts {
        true => Scripts::Run,
        false => Scripts::Refused,
    }
}

async fn fetched(
    set: &ServerSet,
    server: &RemoteServer,
    package: &Package,
    scripts: Scripts,
) -> Result<InstalledPackage, Failure> {
    let told = format!(
        "installing {} from {} …",
        package.specs.join(" "),
        from(package.registry)
    );
    paint::say(shown!("{}", styled(DIM, told)));
    let on_line = |line: &str| paint::say(shown!("  {}", styled(DIM, line.to_owned())));
    let namespace = &server.config().namespace;
    let installed = install_package(set.packages(), namespace, package, scripts, &on_line).await;
    let installed = installed.map_err(Failure::environment)?;
    paint::say(shown!(
        "{} {} {}",
        styled(GOOD, "installed"),
        styled(NAME, installed.name.as_str()),
        installed.version.as_str()
    ));
    Ok(installed)
}

fn from(registry: Registry) -> &'static str {
    match registry {
        Registry::Npm => "npm",
        Registry::Pypi => "PyPI",
    }
}

fn installed(set: &ServerSet, server: &RemoteServer, package: &Package) -> Option<InstalledPackage> {
    let found = set.packages().installed(&server.config().namespace).ok()?;
    found.filter(|found| found.is(package))
}

/// What of it is installed, behind how it is reached.
pub(super) fn shown(set: &ServerSet, server: &RemoteServer) -> String {
    match server.package().map(|package| installed(set, server, package)) {
        None => String::new(),
        Some(Some(installed)) => format!(", installed: {} {}", installed.name, installed.version),
        Some(None) => format!(
            ", not installed: `annals mcp install {}` does",
            server.config().name
        ),
    }
}

pub(super) fn shown_json(set: &ServerSet, server: &RemoteServer) -> Value {
    let Some(package) = server.package() else {
        return Value::Null;
    };
    let installed = installed(set, server, package);
    json!({
        "registry": package.registry,
        "spec": package.spec(),
        "name": installed.as_ref().map(|installed| &installed.name),
        "version": installed.as_ref().map(|installed| &installed.version),
    })
}
