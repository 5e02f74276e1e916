//! What the model is told before everything else. It never changes while an agent lives: a clock or a mode in here would
//! cost the provider's cache at every request.

use annals_core::limits;
use annals_core::view::cut;
use annals_tools::skills::Skills;

const GENERAL: &str = "\
You work through tool calls and answer the person when you are done. An answer without tool calls ends the turn.

Timeline. Everything that happens is kept. Every prompt, result and file has a logical path that stays valid in all \
later turns: `fi:<turn>.files/<name>` and `fi:<turn>.user.attachments/<name>` for files, `tc:<turn>.<call>.result` for \
results, `ar:<turn>.user.prompt` and `ar:<turn>.assistant.completion` for what was said, `so:sources_pool[n]` for \
sources, `sk:<name>` for skills. Read any of them again with react.read, also when they are marked HIDDEN, TRUNCATED or \
covered by a summary. Do not guess contents that you can read.

Files. Tools that write take a plain relative path such as `report.md`; it becomes a file of the current turn. In \
executed code and in documents use the physical path, `<turn>/files/<name>` or `<turn>/attachments/<name>`, relative \
to the working directory. To change a file use react.patch; to replace it use react.write.

Sources. Cite with [[S:n]], [[S:1,3]] or [[S:2-4]], only SIDs of the sources pool.

Plans. For work of several steps make a plan with react.plan. Beside later calls acknowledge steps in your text: \
`✓ [n]` done, `✗ [n] … — why` failed, `→ [n]` begun.

Context. Hide a large result with react.hide as soon as you no longer need it; it stays readable. Keep text beside \
calls to a sentence. A failed call tells you why: change something before you repeat it. A result `interrupted` means \
that its effect may or may not have happened: look first.";

/// The system message: what the agent is for, how to work, which skills there are.
pub(crate) fn system(purpose: Option<&str>, skills: &dyn Skills) -> String {
    let mut text = match purpose {
        Some(purpose) => format!("{}\n\n{GENERAL}", purpose.trim()),
        None => GENERAL.to_owned(),
    };
    let all: Vec<_> = skills
        .names()
        .iter()
        .filter_map(|name| skills.get(name))
        .collect();
    if !all.is_empty() {
        text.push_str("\n\nSkills. Read one with react.read before work it is about:");
        let mut left = limits::SKILL_DESCRIPTIONS_MAX_CHARS;
        for skill in all.iter().take(limits::SKILLS_NAMED_MAX_COUNT) {
            text.push_str(&format!("\n- sk:{}", skill.name));
            let description = described(&skill.description);
            let length = description.chars().count();
            if length <= left {
                left -= length;
                text.push_str(&format!(": {description}"));
            }
        }
        let unnamed = all.len().saturating_sub(limits::SKILLS_NAMED_MAX_COUNT);
        if unnamed > 0 {
            text.push_str(&format!("\n- and {unnamed} more that are not listed here"));
        }
    }
    text
}

/// A description on one line and within its cap: a stranger wrote it, and every request pays for it.
fn described(description: &str) -> String {
    let words: Vec<&str> = description.split_whitespace().collect();
    cut::brief(&words.join(" "), limits::SKILL_DESCRIPTION_MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use annals_core::ids::SkillName;
    use annals_core::skill::Skill;

    use super::*;

    fn skills(count: usize, description: &str) -> BTreeMap<SkillName, Skill> {
        let skill = |n: usize| {
            let text = format!("---\nname: skill-{n}\ndescription: {description}\n---\nbody");
            let skill = Skill::parse(&text, None).unwrap();
            (skill.name.clone(), skill)
        };
        (0..count).map(skill).collect()
    }

    #[test]
    fn a_long_description_is_cut_and_says_by_how_much() {
        let text = system(None, &skills(1, &"word ".repeat(1_000)));
        assert!(text.ends_with("… [3975 more characters]"), "{text}");
    }

    #[test]
    fn many_skills_are_named_then_counted() {
        let text = system(None, &skills(1_000, &"x".repeat(1_000)));
        assert_eq!(text.matches("\n- sk:").count(), limits::SKILLS_NAMED_MAX_COUNT);
        assert!(text.len() < GENERAL.len() + 2 * limits::SKILL_DESCRIPTIONS_MAX_CHARS);
        assert!(text.ends_with("- and 800 more that are not listed here"));
    }
}
