//! Resource names of artifacts.

use annals_core::ids::{ConversationId, Scope, TurnId};

/// `annals:<tenant>:<project>:<user>:<conversation>:<turn>:artifact:<name>`. Only the name, which comes last, may
/// hold a colon, so the text cuts into its parts in one way.
pub fn resource_name(scope: &Scope, conversation: &ConversationId, turn: &TurnId, name: &str) -> String {
    let (tenant, project, user) = (scope.tenant(), scope.project(), scope.user());
    format!("annals:{tenant}:{project}:{user}:{conversation}:{turn}:artifact:{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_name_tells_who_owns_what() {
        let scope = Scope::parse("acme/lab/ann").unwrap();
        let (conversation, turn) = (
            ConversationId::parse("c1").unwrap(),
            TurnId::parse("turn_1").unwrap(),
        );
        let name = resource_name(&scope, &conversation, &turn, "reports/a:b.md");
        assert_eq!(name, "annals:acme:lab:ann:c1:turn_1:artifact:reports/a:b.md");
    }
}
