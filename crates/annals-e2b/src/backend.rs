//! The backend `e2b`.

use std::sync::Arc;

use annals_remote::{Dialect, RemoteBackend, Server, ServerAddress, SettingsError};

use crate::control::Control;
use crate::settings::{E2bOptions, Settings};
use crate::wire::read_refusal;

const DIALECT: Dialect = Dialect {
    name: "e2b",
    example: "e2b:https://api.e2b.app",
    key_header: "x-api-key",
    key_variable: "E2B_API_KEY",
    read_refusal,
};

/// Sandboxes on a server that speaks E2B's protocol. Nothing is asked of it yet.
pub fn backend(address: ServerAddress, options: E2bOptions) -> Result<RemoteBackend, SettingsError> {
    let server = Server::parse(address, &DIALECT)?;
    let settings = Settings::parse(server.url(), options)?;
    let fleet = settings.fleet.clone().timing(*server.http().timing());
    let control = Arc::new(Control::new(settings, server));
    Ok(RemoteBackend::new(DIALECT, control, fleet))
}
