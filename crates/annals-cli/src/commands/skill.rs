//! `annals skill`: the skills that the model may read, and what is wrong with those that it may not.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::args::{JsonArgs, SkillCheckArgs, SkillCommand};
use crate::config::Config;
use crate::failure::{Ended, Failure};
use crate::paint::{self, BAD, DIM, GOOD, NAME, WARN, styled};
use crate::screen_text::ScreenText;
use crate::shown;
use crate::skills::{self, SkillFolder};

pub(crate) fn run(command: SkillCommand, config: &Config) -> Result<Ended, Failure> {
    match command {
        SkillCommand::List(args) => list(&args, &config.skills.value),
        SkillCommand::Check(args) => check(&args, &config.skills.value),
    }
}

fn list(args: &JsonArgs, folder: &Path) -> Result<Ended, Failure> {
    let found = skills::find(folder);
    let readable = || {
        found
            .iter()
            .filter_map(|found| Some((found, found.skill.as_ref().ok()?)))
    };
    if args.json {
        let row = |(found, skill): (&SkillFolder, &annals::core::skill::Skill)| {
            json!({
                "name": skill.name, "description": skill.description, "path": skill.path(),
                "folder": folder.join(&found.folder), "files": found.files,
            })
        };
        let rows: Vec<Value> = readable().map(row).collect();
        paint::print_json(&format!("{}\n", Value::Array(rows)))?;
        return Ok(Ended::Well);
    }
    let mut text = ScreenText::default();
    for (found, skill) in readable() {
        let files = match found.files.len() {
            0 => String::new(),
            files => format!("{files} files"),
        };
        text.push(shown!(
            "{}  {}  {}\n",
            styled(NAME, skill.name.as_str()),
            paint::gist(&skill.description, 90),
            styled(DIM, files)
        ));
    }
    let broken = found.iter().filter(|found| found.skill.is_err()).count();
    if broken > 0 {
        text.push(shown!(
            "{}\n",
            styled(WARN, format!("{broken} cannot be read: see `annals skill check`"))
        ));
    }
    paint::print(text)?;
    Ok(Ended::Well)
}

fn check(args: &SkillCheckArgs, folder: &Path) -> Result<Ended, Failure> {
    let folder: PathBuf = args.folder.clone().unwrap_or_else(|| folder.to_owned());
    let found = skills::find(&folder);
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "there is no `SKILL.md` below `{}`: give the folder of a skill, or of several",
            folder.display()
        )));
    }
    let mut text = ScreenText::default();
    for found in &found {
        let place = folder.join(&found.folder);
        let verdict = match &found.skill {
            Ok(_) => styled(GOOD, "good"),
            Err(_) => styled(BAD, "bad "),
        };
        text.push(shown!("{}  {}\n", verdict, place.display()));
        if let Err(error) = &found.skill {
            text.push(shown!("      {}\n", error.as_str()));
        }
        for doubt in found.doubts() {
            text.push(shown!("      {}\n", styled(WARN, doubt)));
        }
    }
    paint::print(text)?;
    Ok(match found.iter().all(|found| found.skill.is_ok()) {
        true => Ended::Well,
        false => Ended::Otherwise,
    })
}
