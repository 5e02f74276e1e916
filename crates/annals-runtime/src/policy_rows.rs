//! The rules of many scopes: the owner's file holds for all of them, and each scope may have rules and a budget of its own,
//! kept as a row of the store, so that every node goes by the same.

use std::sync::Arc;

use annals_core::ids::Scope;
use annals_core::settings::{BudgetSettings, ScopeLimits, SpendingLimits};
use annals_policy::{Decide, KnownTool, Layer, Policy};
use annals_store::register::Hand;
use annals_store::{LogError, Owner, Register, Store};
use async_trait::async_trait;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::membership::Life;
use crate::policy::{PolicyFault, PolicyFiles, PolicySource, with_entries};
use crate::world::World;

/// Rules in files and in rows: the owner's file for everybody, the user's for the scope of this home, a row for any scope.
#[derive(Clone)]
pub struct PolicyRows {
    files: PolicyFiles,
    home: Scope,
    rows: Register,
    world: World,
    owner: Owner,
}

/// What a row may say.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RowText {
    #[serde(rename = "rule")]
    _rules: Vec<IgnoredAny>,
    budget: RowBudget,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RowBudget {
    turn: Option<SpendingLimits>,
    conversation: Option<SpendingLimits>,
    scope: Option<ScopeLimits>,
}

impl PolicyRows {
    /// The rules of these files, whose user's scope is `home`, and of the rows in this store.
    pub fn new(files: PolicyFiles, home: Scope, log: Arc<dyn Store>) -> Self {
        let world = World::default();
        PolicyRows {
            files,
            home,
            rows: Register::new(log, "policy"),
            owner: Life::alone(&world).owner,
            world,
        }
    }

    /// What the row of a scope says.
    pub async fn row(&self, scope: &Scope) -> Result<Option<String>, PolicyFault> {
        let row = self.rows.get(&scope.to_string()).await;
        row.map_err(|error| failed("read", scope, &error))
    }

    /// Puts this text, rules and budgets in TOML, into the row of a scope. One that makes no sense changes nothing.
    pub async fn set_row(&self, scope: &Scope, text: &str, tools: &[KnownTool]) -> Result<(), PolicyFault> {
        read_row(scope, text, tools)?;
        self.write(scope, |_| Ok(text.to_owned())).await
    }

    async fn write(
        &self,
        scope: &Scope,
        mut next: impl FnMut(&str) -> Result<String, PolicyFault> + Send,
    ) -> Result<(), PolicyFault> {
        let hand = Hand {
            owner: self.owner.clone(),
            now: self.world.now(),
            random: self.world.random(),
        };
        let mut refused = None;
        let next = |before: Option<&str>| {
            let before = before.unwrap_or_default();
            next(before).unwrap_or_else(|fault| {
                refused = Some(fault);
                before.to_owned()
            })
        };
        let changed = self.rows.change(&scope.to_string(), &hand, next).await;
        changed.map_err(|error| failed("written", scope, &error))?;
        refused.map_or(Ok(()), Err)
    }
}

fn place(scope: &Scope) -> String {
    format!("the row of {scope}")
}

fn failed(what: &'static str, scope: &Scope, error: &LogError) -> PolicyFault {
    PolicyFault::File {
        file: place(scope),
        what,
        reason: error.to_string(),
    }
}

fn read_row(scope: &Scope, text: &str, tools: &[KnownTool]) -> Result<(Layer, RowBudget), PolicyFault> {
    let layer = Layer::parse_within(&place(scope), text, tools)?;
    let row: RowText = toml::from_str(text).map_err(|error| PolicyFault::File {
        file: place(scope),
        what: "read",
        reason: error.message().to_owned(),
    })?;
    Ok((layer, row.budget))
}

#[async_trait]
impl PolicySource for PolicyRows {
    async fn read(&self, scope: &Scope, tools: &[KnownTool]) -> Result<Policy, PolicyFault> {
        let mut policy = self.files.load(tools)?;
        if *scope != self.home {
            // What the user of this home allows, or was asked about, is nobody else's.
            policy
                .user
                .rules
                .retain(|rule| rule.decide > Decide::Allow && rule.answers.is_none());
        }
        if let Some(text) = self.row(scope).await? {
            (policy.scope, _) = read_row(scope, &text, tools)?;
        }
        Ok(policy)
    }

    async fn remember(&self, scope: &Scope, rules: &str) -> Result<(), PolicyFault> {
        if *scope == self.home {
            return self.files.remember(scope, rules).await;
        }
        self.write(scope, |before| with_entries(&place(scope), before, rules))
            .await
    }

    async fn budget(&self, scope: &Scope, general: &BudgetSettings) -> Result<BudgetSettings, PolicyFault> {
        let Some(text) = self.row(scope).await? else {
            return Ok(general.clone());
        };
        let (_, own) = read_row(scope, &text, &[])?;
        Ok(BudgetSettings {
            turn: own.turn.unwrap_or(general.turn),
            conversation: own.conversation.unwrap_or(general.conversation),
            scope: own.scope.unwrap_or(general.scope),
        })
    }
}
