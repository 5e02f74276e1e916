//! Which sandboxes of this process belong to which owner of a conversation.
//!
//! Fencing at the resource: an owner that has lost a conversation may not know it yet. When the next one opens its
//! sandbox under a larger token, those of smaller tokens end, so a late command finds no sandbox to run in.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::sandbox::OpenError;
use crate::spec::SandboxName;

static LIVING: Mutex<Option<HashMap<String, Living>>> = Mutex::new(None);

#[derive(Debug)]
struct Living {
    token: u64,
    sandboxes: Vec<(u64, CancellationToken)>,
}

/// A sandbox's place in the table; it leaves when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    conversation: String,
    number: u64,
}

impl Claim {
    /// Enters a sandbox that `closed` ends. Older owners' sandboxes are closed; an older owner is refused.
    pub(crate) fn enter(name: &SandboxName, closed: &CancellationToken) -> Result<Self, OpenError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut table = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
        let living = table
            .get_or_insert_default()
            .entry(name.conversation.clone())
            .or_insert(Living {
                token: name.token,
                sandboxes: Vec::new(),
            });
        if living.token > name.token {
            return Err(OpenError::Fenced {
                name: name.to_string(),
                newer: living.token,
            });
        }
        if living.token < name.token {
            living.sandboxes.drain(..).for_each(|(_, closed)| closed.cancel());
            living.token = name.token;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        living.sandboxes.push((number, closed.clone()));
        Ok(Self {
            conversation: name.conversation.clone(),
            number,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut table = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(table) = table.as_mut() else { return };
        let Some(living) = table.get_mut(&self.conversation) else {
            return;
        };
        living.sandboxes.retain(|(number, _)| *number != self.number);
        if living.sandboxes.is_empty() {
            table.remove(&self.conversation);
        }
    }
}
