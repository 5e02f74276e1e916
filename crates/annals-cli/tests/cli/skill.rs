//! `skill list`, `skill check`, and a skill's script run in the sandbox.

use serde_json::json;

use super::annals::Annals;

fn write(annals: &Annals, path: &str, text: &str) {
    let path = annals.path().join("home/skills").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn skills_are_listed_and_checked() {
    let annals = Annals::new();
    write(
        &annals,
        "charts/SKILL.md",
        "---\nname: charts\ndescription: How to draw\n---\nDraw.\n",
    );
    let rows = annals.run(&["skill", "list", "--json"]).good().json();
    assert_eq!(
        (&rows[0]["name"], &rows[0]["path"]),
        (&json!("charts"), &json!("sk:charts"))
    );
    annals.run(&["skill", "check"]).good();
    write(&annals, "broken/SKILL.md", "no front matter");
    let ran = annals.run(&["skill", "check"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("has no front matter"), "{}", ran.stdout);
    let nowhere = annals.run(&["skill", "check", "/nowhere"]);
    assert_eq!(nowhere.code, 2);
}

#[test]
fn a_script_beside_a_skill_is_named_by_it_and_runs_in_the_sandbox() {
    let annals = Annals::new();
    write(
        &annals,
        "charts/SKILL.md",
        "---\nname: charts\ndescription: How to draw\n---\nDraw.\n",
    );
    write(&annals, "charts/scripts/draw.py", "print('drawn by the skill')\n");
    let read = annals
        .run(&["tool", "call", "c1", "react.read", r#"{"paths": ["sk:charts"]}"#])
        .good();
    assert!(
        read.stdout.contains("/skills/charts") && read.stdout.contains("scripts/draw.py"),
        "{}",
        read.stdout
    );
    let params =
        r#"{"command": "python3 /skills/charts/scripts/draw.py; echo x >> /skills/charts/scripts/draw.py"}"#;
    let ran = annals.run(&["tool", "call", "c1", "run_shell_command", params]);
    assert!(ran.stdout.contains("drawn by the skill"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("Read-only file system") || ran.stdout.contains("Permission denied"),
        "{}",
        ran.stdout
    );
}
