//! Small entries that the server keeps for itself: a name and a short text each, in scopes that no token opens.
//!
//! An entry is a conversation without blocks, so every store keeps it, durably and for all nodes, and nothing lists it.

use std::time::Duration;

use annals_core::block::BlobDigest;
use annals_core::ids::{ConversationId, ConversationKey, Scope};
use annals_core::time::Timestamp;
use annals_store::{Cursor, LogError, NewConversation, Owner, Store};

/// Removing an entry takes no longer than this.
const REMOVE_TTL: Duration = Duration::from_secs(10);

/// The entries of one scope.
pub(crate) struct SideTable<'a> {
    log: &'a dyn Store,
    scope: Scope,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: ConversationId,
    pub(crate) value: String,
    pub(crate) created: Timestamp,
}

/// Where a part of the server, which is the tenant, keeps its entries for callers of this scope.
pub(crate) fn scope_of(tenant: &str, scope: &Scope) -> Scope {
    let digest = BlobDigest::of(scope.to_string().as_bytes()).hex();
    Scope::try_new(tenant, "side", &digest[..32]).unwrap_or_else(|_| scope.clone())
}

impl<'a> SideTable<'a> {
    pub(crate) fn new(log: &'a dyn Store, scope: Scope) -> Self {
        SideTable { log, scope }
    }

    fn key(&self, name: &ConversationId) -> ConversationKey {
        ConversationKey::new(self.scope.clone(), name.clone())
    }

    /// The text under a name.
    pub(crate) async fn get(&self, name: &ConversationId) -> Result<Option<String>, LogError> {
        match self.log.get(&self.key(name)).await {
            Ok(info) => Ok(info.title),
            Err(LogError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a text under a name. The first one holds.
    pub(crate) async fn put(
        &self,
        name: &ConversationId,
        value: String,
        now: Timestamp,
    ) -> Result<(), LogError> {
        let new = NewConversation::new(self.key(name), now).title(value);
        match self.log.create(new).await {
            Err(LogError::Exists { .. }) => Ok(()),
            made => made,
        }
    }

    /// Forgets a name. One that is not there is forgotten already.
    pub(crate) async fn remove(&self, name: &ConversationId, owner: &Owner) -> Result<(), LogError> {
        let lease = match self.log.acquire(&self.key(name), owner, REMOVE_TTL).await {
            Err(LogError::NotFound { .. }) => return Ok(()),
            lease => lease?,
        };
        self.log.delete(&lease).await
    }

    /// A page of entries, the newest first, and where the next one begins.
    pub(crate) async fn page(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<Entry>, Option<Cursor>), LogError> {
        let listing = self.log.list(&self.scope, cursor, limit).await?;
        let entries = listing.items.into_iter().map(|info| Entry {
            name: info.key.id,
            value: info.title.unwrap_or_default(),
            created: info.created,
        });
        Ok((entries.collect(), listing.next))
    }

    /// Forgets the entries that are older than `keeps` says for their names; nothing is said of others.
    pub(crate) async fn sweep(
        &self,
        owner: &Owner,
        now: Timestamp,
        keeps: impl Fn(&str) -> Option<Duration>,
    ) -> Result<usize, LogError> {
        const PAGE: usize = 500;
        let (mut cursor, mut swept) = (None, 0);
        loop {
            let (entries, next) = self.page(cursor, PAGE).await?;
            for entry in entries {
                let age = Duration::from_micros(now.micros_since(entry.created));
                if keeps(entry.name.as_str()).is_some_and(|kept| age > kept) {
                    match self.remove(&entry.name, owner).await {
                        // Another node sweeps, too.
                        Err(LogError::Held { .. }) => {}
                        removed => {
                            removed?;
                            swept += 1;
                        }
                    }
                }
            }
            match next {
                Some(next) => cursor = Some(next),
                None => return Ok(swept),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use annals_core::ids::NodeId;
    use annals_store::MemoryLog;

    use super::*;

    #[tokio::test]
    async fn the_first_text_holds_until_it_is_swept_or_removed() {
        let log = MemoryLog::default();
        let table = SideTable::new(&log, Scope::default());
        let owner = Owner::new(NodeId::parse("test").unwrap(), 1);
        let name = |text: &str| ConversationId::parse(text).unwrap();
        let at = Timestamp::from_unix_millis;
        table.put(&name("l_1"), "first".to_owned(), at(0)).await.unwrap();
        table.put(&name("l_1"), "second".to_owned(), at(1)).await.unwrap();
        table
            .put(&name("l_2"), "young".to_owned(), at(9_000))
            .await
            .unwrap();
        table.put(&name("f_1"), "kept".to_owned(), at(0)).await.unwrap();
        assert_eq!(table.get(&name("l_1")).await.unwrap().as_deref(), Some("first"));
        let keeps = |name: &str| name.starts_with("l_").then_some(Duration::from_secs(5));
        assert_eq!(table.sweep(&owner, at(10_000), keeps).await.unwrap(), 1);
        let (left, _) = table.page(None, 10).await.unwrap();
        let mut left: Vec<&str> = left.iter().map(|entry| entry.name.as_str()).collect();
        left.sort_unstable();
        assert_eq!(left, ["f_1", "l_2"]);
        table.remove(&name("f_1"), &owner).await.unwrap();
        table.remove(&name("f_1"), &owner).await.unwrap();
        assert_eq!(table.get(&name("f_1")).await.unwrap(), None);
    }
}
