//! The backend without isolation: commands run as the user who runs Annals. Never the default, and only under its name.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::local::{self, Isolated, Limited};
use crate::sandbox::{Backend, OpenError, Opening, Sandbox};

/// Processes of this machine with the rights of the user. File operations still stay in the workspace, trees still
/// die with their call, and the environment is still empty but for what is named.
#[derive(Debug, Default, Clone, Copy)]
pub struct TrustedHost;

impl TrustedHost {
    /// The backend; it holds nothing.
    pub fn new() -> Self {
        Self
    }
}

#[async_trait]
impl Backend for TrustedHost {
    fn name(&self) -> &str {
        "trusted-host"
    }

    fn isolates(&self) -> bool {
        false
    }

    async fn open(&self, opening: Opening) -> Result<Arc<dyn Sandbox>, OpenError> {
        let isolated = Isolated {
            layers: BTreeSet::new(),
            limited: Limited::No,
            read_only: Vec::new(),
            writable: Vec::new(),
            listens_on: None,
        };
        local::open(opening, isolated).await
    }
}
