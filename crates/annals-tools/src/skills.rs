//! Where `sk:` paths lead: skills by name. The runtime brings them; tools only ask.

use annals_core::ids::SkillName;
use annals_core::skill::Skill;

/// Skills by name.
///
/// Rules: `get` answers from memory (it is called inside a turn); the same name gives the same skill as long as
/// nobody changes the files; `names` is sorted.
pub trait Skills: Send + Sync {
    /// The skill with this name.
    fn get(&self, name: &SkillName) -> Option<Skill>;

    /// All names.
    fn names(&self) -> Vec<SkillName>;
}

/// No skills at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSkills;

impl Skills for NoSkills {
    fn get(&self, _name: &SkillName) -> Option<Skill> {
        None
    }

    fn names(&self) -> Vec<SkillName> {
        Vec::new()
    }
}

/// Skills that were read before.
impl Skills for std::collections::BTreeMap<SkillName, Skill> {
    fn get(&self, name: &SkillName) -> Option<Skill> {
        std::collections::BTreeMap::get(self, name).cloned()
    }

    fn names(&self) -> Vec<SkillName> {
        self.keys().cloned().collect()
    }
}
