//! All servers of a home, and the tools of them that an agent offers.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use annals_core::redact::Secrets;
use annals_tools::{SharedTools, Tool, ToolSource};
use futures::future;

use crate::auth::file::LoginFolder;
use crate::config::Servers;
use crate::linked;
use crate::many;
use crate::package::PackageFolder;
use crate::pins::{PinFolder, Pins};
use crate::server::{RemoteServer, ServerError};
use crate::tool;

/// The servers of a home.
pub struct ServerSet {
    servers: Vec<Arc<RemoteServer>>,
    pins: PinFolder,
    logins: LoginFolder,
    packages: PackageFolder,
    /// The tools that were offered last, and what of the pins they were made from.
    offered: Mutex<Option<(Vec<[u8; 32]>, SharedTools)>>,
}

impl std::fmt::Debug for ServerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.servers.iter().map(|server| &server.config().name);
        f.debug_list().entries(names).finish()
    }
}

/// What was accepted of a server, and how it got there.
#[derive(Debug)]
pub struct Accepted {
    /// The server's name.
    pub server: String,
    /// How many tools.
    pub tools: usize,
    /// How many were malformed, too large or too many.
    pub left_out: usize,
}

/// Why a server's tools are not offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The server did not say what it offers.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The pins cannot be read or written.
    #[error(
        "what was accepted of the MCP server `{server}` cannot be read or kept: {error}; `annals mcp inspect {server} --accept` \
         accepts what it offers now"
    )]
    Pins {
        /// The server.
        server: String,
        /// What the system said.
        error: io::Error,
    },
}

impl ServerSet {
    /// The servers of this home. None is started.
    pub fn new(servers: &Servers, home: &Path, secrets: &Secrets) -> Self {
        let folder = home.join("mcp").join("servers");
        let logins = LoginFolder::of_home(home);
        let packages = PackageFolder::of_home(home);
        let server = |config: &crate::ServerConfig| {
            let server = RemoteServer::new(config.clone(), folder.clone(), secrets.clone());
            Arc::new(server.logins(&logins).packages(packages.clone()))
        };
        ServerSet {
            servers: servers.iter().map(server).collect(),
            pins: PinFolder::of_home(home),
            logins,
            packages,
            offered: Mutex::default(),
        }
    }

    /// The servers, sorted by namespace.
    pub fn servers(&self) -> &[Arc<RemoteServer>] {
        &self.servers
    }

    /// What was accepted of a server; none if nobody has looked at it yet.
    pub fn pins(&self, server: &RemoteServer) -> Result<Option<Pins>, AcceptError> {
        let read = self.pins.read(&server.config().namespace);
        read.map_err(|error| pins_failed(server, error))
    }

    /// Accepts what a server offers now.
    pub async fn accept(&self, server: &RemoteServer) -> Result<Accepted, AcceptError> {
        let (connection, offer) = server.offer().await?;
        let pins = Pins::new(connection.implementation(), offer.tools).resources(connection.has_resources());
        let written = self.pins.write(&server.config().namespace, &pins);
        written.map_err(|error| pins_failed(server, error))?;
        Ok(Accepted {
            server: server.config().name.clone(),
            tools: pins.tools.len(),
            left_out: offer.left_out,
        })
    }

    /// Accepts what the servers offer of which nothing was accepted yet: who wrote a server into the configuration meant to
    /// use it. All at once, because each may take seconds to start.
    pub async fn accept_new(&self) -> Vec<Result<Accepted, AcceptError>> {
        let accepted = self.servers.iter().map(|server| async move {
            match self.pins(server) {
                Ok(Some(_)) => None,
                Ok(None) => Some(self.accept(server).await),
                // Something was accepted, and nobody knows what: a person has to look again.
                Err(error) => Some(Err(error)),
            }
        });
        future::join_all(accepted).await.into_iter().flatten().collect()
    }

    /// Forgets the login at a server; says whether there was one.
    pub fn forget_login(&self, namespace: &str) -> io::Result<bool> {
        self.logins.forget(namespace)
    }

    /// Where the packages of the servers are.
    pub fn packages(&self) -> &PackageFolder {
        &self.packages
    }

    /// Forgets what was accepted of a server.
    pub fn forget(&self, namespace: &str) -> io::Result<()> {
        self.pins.remove(namespace)
    }

    /// The accepted tools of all servers, or a search over them if they are many; and a sentence for each that cannot be offered.
    pub fn tools(&self) -> (Vec<Arc<dyn Tool>>, Vec<String>) {
        let mut tools = Vec::new();
        let mut readers = Vec::new();
        let mut complaints = Vec::new();
        for server in &self.servers {
            match self.pins(server) {
                Ok(None) => {}
                Ok(Some(pins)) => {
                    let (offered, told) = tool::tools(server, &pins);
                    match linked::reader(server, &pins) {
                        Ok(reader) => readers.extend(reader),
                        Err(error) => complaints.push(error.to_string()),
                    }
                    tools.extend(offered);
                    complaints.extend(told);
                }
                Err(error) => complaints.push(error.to_string()),
            }
        }
        let mut all = Vec::new();
        let found = [
            many::offered(tools, many::PROMPT_MAX_TOKENS),
            linked::offered(readers),
        ];
        for found in found {
            match found {
                Ok(offered) => all.extend(offered),
                Err(error) => complaints.push(error.to_string()),
            }
        }
        (all, complaints)
    }
}

/// What a person accepts while an agent runs is offered from its next turn on.
impl ToolSource for ServerSet {
    fn tools(&self) -> SharedTools {
        let servers = self.servers.iter();
        let stamps: Vec<_> = servers
            .map(|server| self.pins.stamp(&server.config().namespace))
            .collect();
        let mut offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, tools)) = offered.as_ref().filter(|(of, _)| *of == stamps) {
            return tools.clone();
        }
        let (tools, complaints) = ServerSet::tools(self);
        for complaint in complaints {
            tracing::warn!("{complaint}");
        }
        let tools = SharedTools::from(tools);
        *offered = Some((stamps, tools.clone()));
        tools
    }
}

fn pins_failed(server: &RemoteServer, error: io::Error) -> AcceptError {
    AcceptError::Pins {
        server: server.config().name.clone(),
        error,
    }
}
