//! What a server offers, and whether what is known of it is still so: servers tell of changes, in the newest revision to those
//! who listen, or say for how long a list holds.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, SubscriptionFilter,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::connection::{Connection, ConnectionError};
use crate::definition::{Definition, Digest};
use crate::limits;
use crate::pins::Difference;

/// What a server offers, and how much of it could not be kept.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// Its tools, in its own order.
    pub tools: Vec<Definition>,
    /// The digest of each, by name.
    pub digests: BTreeMap<String, Digest>,
    /// Tools that are malformed, too large, or beyond the bound.
    pub left_out: usize,
}

/// Changes that a server told of, counted: one that comes while a list is made counts for the next.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    told: AtomicU64,
    /// Whether the server tells of changes because it was asked to.
    is_heard: AtomicBool,
}

impl Changes {
    pub(crate) fn tell(&self) {
        self.told.fetch_add(1, Ordering::Release);
    }

    fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }
}

/// The last list, and until when it holds.
#[derive(Default)]
pub(crate) struct Listing {
    offer: Mutex<Offer>,
    /// How many lists were made, and of how many it was said what is new.
    lists: AtomicU64,
    told: AtomicU64,
    /// Held while a list is made: whoever needs one meanwhile waits for it.
    known: tokio::sync::Mutex<Known>,
}

/// When a list was made.
#[derive(Debug, Default)]
struct Known {
    /// Changes that had been told of before.
    changes: u64,
    /// From when on it has to be made again, unless changes are heard of.
    until: Option<Instant>,
}

impl Known {
    fn holds(&self, changes: &Changes) -> bool {
        let is_over = |until: Instant| until <= Instant::now();
        self.changes == changes.told()
            && (changes.is_heard.load(Ordering::Acquire) || !self.until.is_some_and(is_over))
    }
}

impl Connection {
    /// The digest of what the server offers under this name now; lists again if that may have changed. A list that fails
    /// counts as none: no call is made on the strength of an older one.
    pub(crate) async fn digest_of(&self, tool: &str) -> Result<Option<Digest>, ConnectionError> {
        let mut known = self.listing.known.lock().await;
        if !known.holds(&self.handler.changes) {
            let startup = self.patience().startup;
            let listed = tokio::time::timeout(startup, self.listed_tools()).await;
            *known = listed.unwrap_or(Err(ConnectionError::TooLong(startup)))?;
        }
        drop(known);
        let offer = self.listing.offer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(offer.digests.get(tool).cloned())
    }

    /// What the server offers, as it said last.
    pub fn offer(&self) -> Offer {
        let offer = self.listing.offer.lock();
        offer.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How what is offered differs from what was accepted, once for each list. Tools that are not wanted do not count.
    pub(crate) fn news(
        &self,
        accepted: &BTreeMap<String, Digest>,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Option<Difference> {
        let lists = self.listing.lists.load(Ordering::Acquire);
        if self.listing.told.swap(lists, Ordering::AcqRel) == lists {
            return None;
        }
        let offer = self.listing.offer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut difference = Difference::between(accepted, &offer.digests);
        for names in [
            &mut difference.added,
            &mut difference.changed,
            &mut difference.removed,
        ] {
            names.retain(|name| is_wanted(name));
        }
        (!difference.is_empty()).then_some(difference)
    }

    /// Listens for changes if the server can tell of them, and lists its tools.
    pub(crate) async fn list(&self) -> Result<(), ConnectionError> {
        if self.asks_in_rounds() {
            self.hear_changes().await;
        }
        let mut known = self.listing.known.lock().await;
        *known = self.listed_tools().await?;
        Ok(())
    }

    /// Asks to be told of changes. A server that cannot do that is asked for its list again after a while.
    async fn hear_changes(&self) {
        let info = self.running.peer_info();
        let tools = info.as_ref().and_then(|info| info.capabilities.tools.as_ref());
        if tools.is_none_or(|tools| tools.list_changed != Some(true)) {
            return;
        }
        self.handler.flow.asked();
        let wanted = SubscriptionFilter::builder().tools_list_changed().build();
        let listening = tokio::time::timeout(limits::LISTEN_TIMEOUT, self.running.listen(wanted));
        let mut heard = match listening.await {
            Ok(Ok(heard)) if heard.acknowledged().tools_list_changed == Some(true) => heard,
            _ => return,
        };
        let changes: Arc<Changes> = self.handler.changes.clone();
        changes.is_heard.store(true, Ordering::Release);
        // Ends with the session, whose end also ends the subscription.
        tokio::spawn(async move {
            while let Ok(Some(_)) = heard.next().await {
                changes.tell();
            }
            changes.is_heard.store(false, Ordering::Release);
            // What happened since is not known.
            changes.tell();
        });
    }

    /// Lists all tools.
    async fn listed_tools(&self) -> Result<Known, ConnectionError> {
        let changes = self.handler.changes.told();
        let mut offer = Offer::default();
        let mut holds_for: Option<Duration> = None;
        let has_tools = self
            .running
            .peer_info()
            .is_none_or(|info| info.capabilities.tools.is_some());
        let mut cursor = None;
        let mut seen = HashSet::new();
        for _ in 0..limits::PAGES_MAX {
            if !has_tools {
                break;
            }
            let page = self.page(cursor.take()).await?;
            offer.left_out += page.left_out;
            holds_for = match (holds_for, page.holds_for) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            for tool in page.tools {
                if offer.tools.len() < limits::TOOLS_MAX && tool.fits() {
                    offer.tools.push(tool);
                } else {
                    offer.left_out += 1;
                }
            }
            match page.next {
                None => break,
                Some(next) if !seen.insert(next.clone()) => {
                    return Err(ConnectionError::Protocol(
                        "its list of tools runs in a circle".to_owned(),
                    ));
                }
                Some(next) => cursor = Some(next),
            }
        }
        // Of tools with one name the first counts, as in the pins.
        let named = offer.tools.iter().rev();
        offer.digests = named.map(|tool| (tool.name.clone(), tool.digest())).collect();
        *self.listing.offer.lock().unwrap_or_else(PoisonError::into_inner) = offer;
        self.listing.lists.fetch_add(1, Ordering::AcqRel);
        Ok(Known {
            changes,
            until: self.asks_in_rounds().then(|| {
                let holds_for = holds_for.unwrap_or(limits::LIST_TTL_MAX);
                Instant::now() + holds_for.clamp(limits::LIST_TTL_MIN, limits::LIST_TTL_MAX)
            }),
        })
    }

    async fn page(&self, cursor: Option<String>) -> Result<Page, ConnectionError> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let handle = self.send(request).await?;
        let answer = tokio::select! {
            answer = handle.rx => answer,
            () = self.cut_off().cancelled() => return Err(self.ended().await),
        };
        match self.judged(answer).await? {
            ServerResult::ListToolsResult(page) => Ok(Page {
                tools: page.tools.iter().map(Definition::of).collect(),
                left_out: 0,
                next: page.next_cursor,
                holds_for: page.ttl_ms.map(Duration::from_millis),
            }),
            // One malformed tool must not cost the others.
            ServerResult::CustomResult(raw) => {
                let tools = raw.0.get("tools").and_then(Value::as_array);
                let tools =
                    tools.ok_or_else(|| ConnectionError::Protocol("its list of tools is none".to_owned()))?;
                let read: Vec<Definition> = tools
                    .iter()
                    .filter_map(|tool| serde_json::from_value(tool.clone()).ok())
                    .map(Definition::bounded)
                    .collect();
                let holds_for = raw.0.get("ttlMs").and_then(Value::as_u64);
                Ok(Page {
                    left_out: tools.len() - read.len(),
                    tools: read,
                    next: raw.0.get("nextCursor").and_then(Value::as_str).map(str::to_owned),
                    holds_for: holds_for.map(Duration::from_millis),
                })
            }
            _ => Err(ConnectionError::Protocol(
                "it answered another question than the one asked".to_owned(),
            )),
        }
    }
}

/// One page of a list.
struct Page {
    tools: Vec<Definition>,
    left_out: usize,
    next: Option<String>,
    /// For how long the server says that it holds.
    holds_for: Option<Duration>,
}
