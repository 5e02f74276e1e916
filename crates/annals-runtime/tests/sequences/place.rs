//! Where code runs: on this machine, or on the double of a server.

use std::sync::Arc;
use std::time::Duration;

use annals_e2b::E2bOptions;
use annals_opensandbox::{OpenSandboxOptions, ServerAddress};
use annals_opensandbox_double::{Double, DoubleOptions, Wire};
use annals_sandbox::{Backend, Local, TrustedHost};

/// Names the backend that sequences of code use; `local` unless set.
pub(crate) const VARIABLE: &str = "ANNALS_TEST_SANDBOX";

/// Where the double's sandboxes let a workspace be.
const WORKSPACE: &str = "/workspace/home";

/// A backend, with the server behind it if it has one.
pub(crate) struct Place {
    pub(crate) backend: Arc<dyn Backend>,
    _double: Option<Double>,
}

impl Place {
    /// The one that the environment names.
    pub(crate) async fn named() -> Self {
        match std::env::var(VARIABLE).as_deref() {
            Ok("opensandbox") => Self::server(Wire::OpenSandbox).await,
            Ok("e2b") => Self::server(Wire::E2b).await,
            Ok("trusted-host") => Self::here(TrustedHost::new()),
            Ok(other) => panic!("no backend `{other}`"),
            Err(_) => Self::here(Local::new()),
        }
    }

    fn here(backend: impl Backend + 'static) -> Self {
        Self {
            backend: Arc::new(backend),
            _double: None,
        }
    }

    /// A double that speaks this wire.
    pub(crate) async fn server(wire: Wire) -> Self {
        let options = DoubleOptions {
            wire,
            ..DoubleOptions::default()
        };
        let double = Double::start(options).await.unwrap();
        let linger = Duration::from_millis(500);
        let address = ServerAddress::new(double.url(), None);
        let backend = match wire {
            Wire::OpenSandbox => {
                let options = OpenSandboxOptions {
                    workspace: WORKSPACE.to_owned(),
                    ..OpenSandboxOptions::default()
                };
                annals_opensandbox::backend(address, options)
            }
            Wire::E2b => {
                let options = E2bOptions {
                    workspace: WORKSPACE.to_owned(),
                    sandbox_url: Some(double.sandbox_url()),
                    ..E2bOptions::default()
                };
                annals_e2b::backend(address, options)
            }
        };
        Self {
            backend: Arc::new(backend.unwrap().linger(linger)),
            _double: Some(double),
        }
    }
}
